//! Runs copies of a user's command on some lanes of a core at once and tells how fast they get on.
//!
//! Every lane runs one copy after the other until it has measured long enough; lanes that have go on
//! with further copies until all have, so that the density stays. Those last copies are killed.

use super::error::{Error, Result};
use super::lane;
use super::spin::{Pace, mean};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often the request to stop is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// A command and how it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// Program and arguments; not empty.
    pub argv: Vec<OsString>,
    /// Whether its standard output is shown, on standard error; else it is thrown away.
    pub show_output: bool,
}

/// What the lanes of a run have in common.
struct Together<'a> {
    command: &'a Measured,
    duration: Duration,
    start: Barrier,
    done: AtomicUsize,
    /// No copy may start any more.
    over: AtomicBool,
    /// The copy that runs now, by lane.
    copies: Vec<Mutex<Option<Child>>>,
}

impl Measured {
    /// The command as one line.
    pub fn line(&self) -> String {
        let words: Vec<_> = self
            .argv
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }

    fn name(&self) -> String {
        let program = self.argv.first().map(|word| word.to_string_lossy());
        program.unwrap_or_default().into_owned()
    }

    /// Runs copies on each of these lanes for at least so long: the mean of the lanes' copies a
    /// second. Leaves no copy behind, however it ends.
    pub(super) fn run(&self, cpus: &[u32], duration: Duration, stop: &AtomicBool) -> Result<Pace> {
        let together = Together {
            command: self,
            duration,
            start: Barrier::new(cpus.len()),
            done: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            copies: cpus.iter().map(|_| Mutex::new(None)).collect(),
        };
        let paces: Vec<Result<Pace>> = thread::scope(|scope| {
            let threads: Vec<_> = (together.copies.iter().zip(cpus))
                .map(|(copy, &cpu)| {
                    let together = &together;
                    scope.spawn(move || together.lane(copy, cpu))
                })
                .collect();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                if stop.load(Ordering::Relaxed) {
                    together.end();
                }
                thread::sleep(LOOK);
            }
            let lost = |_| {
                Err(Error::Settings(
                    "a thread of the measurement panicked".into(),
                ))
            };
            let joined = threads.into_iter().map(|thread| thread.join());
            joined.map(|pace| pace.unwrap_or_else(lost)).collect()
        });
        mean(cause_first(paces))
    }
}

/// What made a run end early goes before the lanes that were ended by it.
fn cause_first(mut paces: Vec<Result<Pace>>) -> Vec<Result<Pace>> {
    paces.sort_by_key(|pace| match pace {
        Err(Error::Interrupted) => 1,
        Err(_) => 0,
        Ok(_) => 2,
    });
    paces
}

impl Together<'_> {
    /// Runs copies on a lane until all lanes have measured.
    fn lane(&self, slot: &Mutex<Option<Child>>, cpu: u32) -> Result<Pace> {
        let pinned = lane::pin(cpu);
        self.start.wait();
        let result = pinned.and_then(|()| self.measure(slot));
        if result.is_err() {
            self.end();
        }
        result
    }

    fn measure(&self, slot: &Mutex<Option<Child>>) -> Result<Pace> {
        let begin = Instant::now();
        let (mut copies, mut pace) = (0_u32, None);
        while let Some(ended) = self.one_copy(slot)? {
            copies += 1;
            let elapsed = ended - begin;
            if pace.is_none() && elapsed >= self.duration {
                pace = Some(Pace {
                    speed: f64::from(copies) / elapsed.as_secs_f64().max(1e-9),
                    lane_share: 1.0,
                });
                if self.done.fetch_add(1, Ordering::SeqCst) + 1 == self.copies.len() {
                    self.end();
                }
            }
        }
        pace.ok_or(Error::Interrupted)
    }

    /// Runs a copy to its end and says when that was; nothing if it did not start or was killed.
    fn one_copy(&self, slot: &Mutex<Option<Child>>) -> Result<Option<Instant>> {
        let Some(pid) = self.start(slot)? else {
            return Ok(None);
        };
        // It is reaped under the lock only, so nobody kills a process that took its number.
        let waited = loop {
            match waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Err(nix::errno::Errno::EINTR) => {}
                other => break other,
            }
        };
        let ended = Instant::now();
        let status = reap(slot)?;
        waited.map_err(|error| Error::system("wait for the command", error))?;
        match status {
            _ if self.over.load(Ordering::SeqCst) => Ok(None),
            Some(status) if !status.success() => Err(Error::Failed {
                command: self.command.name(),
                status,
            }),
            _ => Ok(Some(ended)),
        }
    }

    /// Starts a copy on the calling thread's lane, in a process group of its own.
    fn start(&self, slot: &Mutex<Option<Child>>) -> Result<Option<Pid>> {
        let mut slot = lock(slot);
        if self.over.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let (program, arguments) = (self.command.argv.split_first())
            .ok_or_else(|| Error::Settings("no command was given".into()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .process_group(0);
        match self.command.show_output {
            true => command.stdout(std::io::stderr()),
            false => command.stdout(Stdio::null()),
        };
        let child = command.spawn().map_err(|cause| Error::Start {
            command: self.command.name(),
            cause,
        })?;
        let pid = group_of(&child);
        *slot = Some(child);
        Ok(Some(pid))
    }

    /// Kills all copies; none starts any more.
    fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
        for slot in &self.copies {
            if let Some(child) = lock(slot).as_ref() {
                kill(child);
            }
        }
    }
}

/// Takes a copy's status, and with it whatever is left of its process group.
fn reap(slot: &Mutex<Option<Child>>) -> Result<Option<ExitStatus>> {
    let Some(mut child) = lock(slot).take() else {
        return Ok(None);
    };
    kill(&child);
    let status = child.wait();
    Ok(Some(status.map_err(|error| {
        Error::system("wait for the command", error)
    })?))
}

/// Kills a copy's process group. The copy is not reaped yet, so the number is its own.
fn kill(child: &Child) {
    // Fails only if nothing is left of the group.
    let _ = killpg(group_of(child), Signal::SIGKILL);
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap_or(i32::MAX))
}

fn lock(slot: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> Measured {
        Measured {
            argv: words.iter().map(OsString::from).collect(),
            show_output: false,
        }
    }

    fn lane() -> u32 {
        lane::allowed().unwrap().first().unwrap()
    }

    #[test]
    fn copies_are_counted_by_their_time() {
        let go = AtomicBool::new(false);
        let sleep = command(&["sleep", "0.05"]);
        let alone = sleep
            .run(&[lane()], Duration::from_millis(90), &go)
            .unwrap();
        assert!((8.0..20.5).contains(&alone.speed), "{alone:?}");
        let long = sleep.run(&[lane(); 3], Duration::ZERO, &go).unwrap();
        assert!((5.0..20.5).contains(&long.speed), "{long:?}");
    }

    #[test]
    fn failure_is_told_and_nothing_stays() {
        let go = AtomicBool::new(false);
        let run = |words: &[&str]| command(words).run(&[lane(); 2], Duration::ZERO, &go);
        let error = run(&["sh", "-c", "sleep 0.02; exit 3"]).unwrap_err();
        assert!(
            error.to_string().contains("sh failed: exit status: 3"),
            "{error}"
        );
        let error = run(&["/no/such/program"]).unwrap_err();
        assert!(
            error.is_input() && error.to_string().contains("cannot start /no/such"),
            "{error}"
        );
    }

    #[test]
    fn a_stop_kills_the_whole_group() {
        let marker = format!("{}.125", 4000 + std::process::id() % 1000);
        let argv = ["sh", "-c", &format!("sleep {marker} & wait")];
        let stop = AtomicBool::new(false);
        let result = thread::scope(|scope| {
            let run = scope.spawn(|| command(&argv).run(&[lane(); 2], Duration::ZERO, &stop));
            thread::sleep(Duration::from_millis(150));
            stop.store(true, Ordering::Relaxed);
            run.join().unwrap()
        });
        assert!(matches!(result, Err(Error::Interrupted)), "{result:?}");
        thread::sleep(Duration::from_millis(50));
        let command_lines = std::fs::read_dir("/proc").unwrap().flatten();
        let alive = command_lines
            .filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok())
            .find(|line| line.contains(&marker));
        assert_eq!(alive, None);
    }
}
