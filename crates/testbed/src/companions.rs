//! Threads of this process that make the host CPUs better lanes while a machine runs.

use crate::error::{During, Result};
use crate::threads;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How many turns a keeper spins between two looks at whether to stop.
const TURNS: u32 = 10_000;

/// Threads that end when this is dropped.
pub struct Companions {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Companions {
    /// None yet.
    pub fn none() -> Companions {
        Companions {
            stop: Arc::new(AtomicBool::new(false)),
            threads: Vec::new(),
        }
    }

    /// Keeps each CPU awake with a spinner of the idle class. A CPU that falls idle comes back
    /// slowly: on a virtual machine through a nested halt, on any by a ramp of its clock.
    pub fn keep_awake(&mut self, cpus: &[usize]) -> Result<()> {
        for cpu in cpus {
            self.start("keep-awake", *cpu, threads::idle_class, |stop| {
                while !stop.load(Ordering::Relaxed) {
                    (0..TURNS).for_each(|_| spin_loop());
                }
            })?;
        }
        Ok(())
    }

    /// Makes the host's scheduler choose anew on each CPU every `period`, by a real-time thread
    /// that does nothing but wake. Between two threads that only compute, the host otherwise
    /// chooses on its tick, 1 to 10 ms apart.
    pub fn metronome(&mut self, cpus: &[usize], period: Duration) -> Result<()> {
        for cpu in cpus {
            let real_time = || threads::real_time(0);
            self.start("metronome", *cpu, real_time, move |stop| {
                let mut next = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    next = (next + period).max(Instant::now());
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
            })?;
        }
        Ok(())
    }

    /// Starts a thread on a CPU, in a class; fails where that does.
    pub(crate) fn start(
        &mut self,
        name: &str,
        cpu: usize,
        class: impl FnOnce() -> Result<()> + Send + 'static,
        body: impl FnOnce(&AtomicBool) + Send + 'static,
    ) -> Result<()> {
        let stop = self.stop.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("{name}-{cpu}"))
            .spawn(move || {
                let ready = threads::pin(0, cpu).and_then(|()| class());
                let go = ready.is_ok();
                // The starter waits for this, so that it is received.
                let _ = tell.send(ready);
                if go {
                    body(&stop);
                }
            })
            .during(|| format!("start the thread {name}"))?;
        self.threads.push(thread);
        // A thread that said nothing failed in no way that it could tell.
        told.recv().unwrap_or(Ok(()))
    }
}

impl Drop for Companions {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// This process's threads with a name that begins so: scheduling policy and CPUs allowed of
    /// each.
    fn threads(name: &str) -> Vec<(String, String)> {
        let tasks = fs::read_dir("/proc/self/task").unwrap();
        let of = |path: std::path::PathBuf| {
            let status = fs::read_to_string(path.join("status")).ok()?;
            let stat = fs::read_to_string(path.join("stat")).ok()?;
            let field = |key: &str| {
                let line = status.lines().find(|l| l.starts_with(key))?;
                Some(line.split_whitespace().nth(1)?.to_string())
            };
            let policy = stat.rsplit_once(") ")?.1.split(' ').nth(38)?.to_string();
            field("Name:")?
                .starts_with(name)
                .then(|| Some((policy, field("Cpus_allowed_list:")?)))?
        };
        tasks
            .flatten()
            .filter_map(|entry| of(entry.path()))
            .collect()
    }

    #[test]
    fn keepers_are_idle_class_on_their_cpu_and_end_with_their_owner() {
        let cpus = crate::host::allowed_cpus().unwrap();
        let mut companions = Companions::none();
        companions.keep_awake(&cpus).unwrap();
        let mut found = threads("keep-awake");
        found.sort();
        let idle = libc::SCHED_IDLE.to_string();
        let want: Vec<_> = cpus
            .iter()
            .map(|cpu| (idle.clone(), cpu.to_string()))
            .collect();
        assert_eq!(found, want);
        drop(companions);
        // A thread that was joined is listed until the kernel has cleared it away.
        let deadline = Instant::now() + Duration::from_secs(10);
        while !threads("keep-awake").is_empty() {
            assert!(Instant::now() < deadline, "the keepers go on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
