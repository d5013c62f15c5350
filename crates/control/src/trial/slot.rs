//! One slot: a setup is made, measured, and taken away.

use super::{Event, Limit, Plan, Setup};
use crate::actuator::{Actuator, Sysfs};
use crate::service::{POLL, members};
use crate::state::{RestoredAtEnd, StateFile};
use crate::{Error, Result};
use serde::Serialize;
use sidelane_collect::collector::Place;
use sidelane_collect::service::ServiceWatch;
use sidelane_sched::Requests;
use sidelane_sched::status::Record;
use sidelane_smt::service::{Group, Seen, Waits};
use sidelane_topology::Topology;
use sidelane_topology::reserved::Reserved;
use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// How long what waits for a lane has to get used to a setup before it counts.
const SETTLE: Duration = Duration::from_secs(1);
/// How often the guard looks.
const LOOK: Duration = Duration::from_secs(1);
/// The latency command may take so many times the slot's length.
const PATIENCE: u32 = 2;

/// What was measured in a slot. Rates are by the time of the slot.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Slot {
    /// Under what.
    pub setup: Setup,
    /// From 0.
    pub round: usize,
    /// Length.
    pub seconds: f64,
    /// Lanes that the service used on the mean.
    pub service_lanes: f64,
    /// Of its run time, the share beside others.
    pub beside_share: Option<f64>,
    /// Its instructions, in billions a second of its run time; none where the machine counts none.
    pub service_speed: Option<f64>,
    /// Its waits for a lane.
    pub waits: u64,
    /// Their median, ms.
    pub wait_p50_ms: Option<f64>,
    /// Their 99th percentile, ms.
    pub wait_p99_ms: Option<f64>,
    /// Numbers that the latency command printed.
    pub latencies: usize,
    /// Their median, ms.
    pub latency_p50_ms: Option<f64>,
    /// Their 99th percentile, ms.
    pub latency_p99_ms: Option<f64>,
    /// Lanes that batch used on the mean.
    pub batch_lanes: f64,
    /// Batch's instructions, in billions a second.
    pub batch_work: Option<f64>,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::new(Setup::Default, 0, &Seen::default(), &[])
    }
}

/// Instructions in a billion.
const BILLION: f64 = 1e9;

impl Slot {
    fn new(setup: Setup, round: usize, seen: &Seen, latencies_ms: &[f64]) -> Slot {
        let waits = Waits::of(&seen.service);
        let seconds = seen.elapsed_ns as f64 / 1e9;
        let lanes = |group: &Group| group.run_ns() as f64 / 1e9 / seconds.max(f64::MIN_POSITIVE);
        // instructions are known of runs that have ended: the others are taken to be alike
        let speed = |group: &Group| {
            let all = group.works?.all;
            (all.ns > 0).then(|| all.instructions as f64 / all.ns as f64)
        };
        let mut ascending = latencies_ms.to_vec();
        ascending.sort_by(f64::total_cmp);
        let at = |q| sidelane_smt::latency::quantile(&ascending, q);
        let batch_lanes = lanes(&seen.batch);
        Slot {
            setup,
            round,
            seconds,
            service_lanes: lanes(&seen.service),
            beside_share: seen.service.beside_share(),
            service_speed: speed(&seen.service),
            waits: waits.count,
            wait_p50_ms: waits.p50_ms,
            wait_p99_ms: waits.p99_ms,
            latencies: ascending.len(),
            latency_p50_ms: at(sidelane_smt::latency::Quantile::P50),
            latency_p99_ms: at(sidelane_smt::latency::Quantile::P99),
            batch_lanes,
            batch_work: speed(&seen.batch).map(|rate| rate * 1e9 * batch_lanes / BILLION),
        }
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |value: Option<f64>| value.map_or("-".to_owned(), |ms| format!("{ms:.3} ms"));
        write!(
            f,
            "round {}, {}: wait p99 {}",
            self.round + 1,
            self.setup.name(),
            ms(self.wait_p99_ms)
        )?;
        if self.latencies > 0 {
            write!(f, ", latency p99 {}", ms(self.latency_p99_ms))?;
        }
        write!(f, ", batch {:.2} lanes", self.batch_lanes)
    }
}

/// What slots need.
pub(super) struct Bench<'a> {
    pub(super) plan: &'a Plan,
    pub(super) stop: &'a AtomicBool,
    pub(super) state: StateFile,
    pub(super) topology: Topology,
    pub(super) reserved: Reserved,
}

impl Bench<'_> {
    /// Measures a slot; the machine is as before, also if that fails.
    pub(super) fn measure(
        &self,
        setup: Setup,
        round: usize,
        limit: &Limit,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Slot> {
        match setup {
            Setup::Default => self.watch(setup, round, limit, &|| false),
            Setup::SmtOff => {
                self.with_level_1(on_event, || self.watch(setup, round, limit, &|| false))
            }
            Setup::Sidelane => {
                self.with_sidelane(on_event, |ended| self.watch(setup, round, limit, ended))
            }
        }
    }

    fn with_level_1(
        &self,
        on_event: &mut dyn FnMut(Event),
        measure: impl FnOnce() -> Result<Slot>,
    ) -> Result<Slot> {
        let mut kernel = Sysfs::new(Path::new("/"), &self.topology, &self.reserved)?;
        if let Some(found) = kernel.found() {
            self.state.save(&found)?;
        }
        // also if something panics on the way
        let found = RestoredAtEnd(&self.state);
        let measured = kernel.set(1).and_then(|says| {
            says.into_iter()
                .for_each(|says| on_event(Event::Warning(says)));
            measure()
        });
        // without success that is worse than what `measured` says
        found.end()?;
        measured
    }

    /// `measure` is told whether the scheduler has ended by itself.
    fn with_sidelane(
        &self,
        on_event: &mut dyn FnMut(Event),
        measure: impl FnOnce(&dyn Fn() -> bool) -> Result<Slot>,
    ) -> Result<Slot> {
        let config = self.plan.config()?;
        let (sender, events) = channel();
        let (detach, never) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let requests = Requests {
                stop: &detach,
                reload: &never,
            };
            let attached = scope.spawn(move || {
                let read = &mut || Ok(config.clone());
                // for 'sidelane status', which can do without
                let mut record = Record::new(Path::new("/"));
                let ended = sidelane_sched::run(read, &requests, &mut |event| {
                    let _ = record.note(&event);
                    tell(&sender, event);
                });
                let _ = record.end(&ended, None);
                ended
            });
            // the thread is waited for at the end of the scope, whatever happens here
            let end = SetAtEnd(&detach);
            let measured = match self.await_attached(&events) {
                true => measure(&|| attached.is_finished()),
                false => Ok(Slot::default()), // what the thread says counts
            };
            drop(end);
            let ended = attached.join();
            for event in events.try_iter() {
                if let sidelane_sched::Event::Degraded(what) = event {
                    on_event(Event::Warning(what));
                }
            }
            match ended {
                Ok(Ok(_)) => measured,
                Ok(Err(error)) => Err(error.into()),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Waits until the scheduler is attached. False: it has ended instead, or the trial is to.
    fn await_attached(&self, events: &std::sync::mpsc::Receiver<sidelane_sched::Event>) -> bool {
        loop {
            match events.recv_timeout(POLL) {
                Ok(sidelane_sched::Event::Attached { .. }) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Ok(_) | Err(RecvTimeoutError::Timeout) => {
                    if self.stop.load(Ordering::Relaxed) {
                        return false;
                    }
                }
            }
        }
    }

    /// Watches for the length of a slot; `ended`: the setup is no more.
    fn watch(
        &self,
        setup: Setup,
        round: usize,
        limit: &Limit,
        ended: &dyn Fn() -> bool,
    ) -> Result<Slot> {
        std::thread::sleep(SETTLE);
        let mut place = Place::default();
        let members = members(&self.plan.service, &self.plan.batch, Path::new("/"))?;
        let mut watch = ServiceWatch::start(&members, &mut place)?;
        let mut latency = match &self.plan.latency_command {
            Some(command) => Some(Latency::start(command, self.plan.slot)?),
            None => None,
        };
        let begun = Instant::now();
        let (mut looked, mut broken) = (begun, false);
        loop {
            let over = begun.elapsed() >= self.plan.slot;
            let runs = latency.as_mut().is_some_and(Latency::runs);
            let late = begun.elapsed() >= self.plan.slot * PATIENCE;
            if (over && !runs) || late || ended() || self.stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(POLL);
            if looked.elapsed() >= LOOK && limit.wait_ms.is_some() {
                looked = Instant::now();
                let so_far = Slot::new(setup, round, &watch.totals()?, &[]);
                broken = limit.broken_by(&so_far).is_some();
                if broken {
                    break;
                }
            }
        }
        let seen = watch.totals()?;
        let latencies = match latency {
            // the guard has its reason: what the command could not say yet does not count
            Some(latency) if broken => latency.end(self.stop).unwrap_or_default(),
            Some(latency) => latency.end(self.stop)?,
            None => Vec::new(),
        };
        Ok(Slot::new(setup, round, &seen, &latencies))
    }
}

/// The trial may have ended already.
fn tell(sender: &Sender<sidelane_sched::Event>, event: sidelane_sched::Event) {
    let _ = sender.send(event);
}

/// Sets a flag when it goes.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The command that measures latencies, in a process group of its own.
struct Latency {
    command: String,
    child: Child,
    printed: Receiver<std::io::Result<String>>,
}

/// What a command may print, bytes: more is no list of latencies.
const PRINTED_MAX: u64 = 16 << 20;
/// How long the rest of what it printed is waited for once it was killed: a program that it left behind may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(1);

impl Latency {
    fn start(command: &str, slot: Duration) -> Result<Latency> {
        let failed = |e: std::io::Error| Error::LatencyCommand {
            command: command.to_owned(),
            problem: format!("cannot be started: {e}"),
        };
        let mut child = Command::new("sh")
            .args(["-c", command])
            .env("SIDELANE_SLOT_SECONDS", slot.as_secs_f64().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut stdout = child.stdout.take();
        let (sender, printed) = channel();
        // what nobody reads would stop it
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = match &mut stdout {
                Some(stdout) => stdout.take(PRINTED_MAX).read_to_end(&mut bytes),
                None => Ok(0),
            };
            let text = read.map(|_| String::from_utf8_lossy(&bytes).into_owned());
            let _ = sender.send(text);
        });
        Ok(Latency {
            command: command.to_owned(),
            child,
            printed,
        })
    }

    /// Programs that it has left behind would disturb the next slot; mostly there are none.
    fn kill(&self) {
        let group = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
    }

    fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it if it still runs; what it printed. Nothing is wrong with nothing if the trial is to stop.
    fn end(mut self, stop: &AtomicBool) -> Result<Vec<f64>> {
        let cut_short = self.runs();
        self.kill();
        let status = self.child.wait();
        let failed = |problem: String| Error::LatencyCommand {
            command: self.command.clone(),
            problem,
        };
        let printed = self.printed.recv_timeout(LAST_WORDS);
        let printed = printed
            .map_err(|_| failed("left a program behind that keeps its output open".to_owned()))?;
        let printed = printed.map_err(|e| failed(format!("cannot be read: {e}")))?;
        let numbers = numbers(&printed).map_err(&failed)?;
        match status {
            _ if stop.load(Ordering::Relaxed) => Ok(numbers),
            Ok(status) if !status.success() && !cut_short => {
                Err(failed(format!("ended with {status}")))
            }
            Err(error) => Err(failed(error.to_string())),
            Ok(_) if numbers.is_empty() => {
                Err(failed("printed no number within twice the slot".to_owned()))
            }
            Ok(_) => Ok(numbers),
        }
    }
}

impl Drop for Latency {
    fn drop(&mut self) {
        if self.runs() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// One a line, ms; empty lines are none.
fn numbers(printed: &str) -> std::result::Result<Vec<f64>, String> {
    let lines = printed
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let number = |line: &str| match line.parse::<f64>() {
        Ok(ms) if ms.is_finite() && ms >= 0.0 => Ok(ms),
        _ => Err(format!(
            "printed '{}', expected a number of ms",
            sidelane_topology::printable(line.as_bytes())
        )),
    };
    lines.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str) -> Result<Vec<f64>> {
        let mut latency = Latency::start(command, Duration::from_secs(3))?;
        while latency.runs() {
            std::thread::sleep(Duration::from_millis(5));
        }
        latency.end(&AtomicBool::new(false))
    }

    #[test]
    fn latencies_are_what_the_command_prints() {
        let printed = run("echo 1.5; echo; echo $SIDELANE_SLOT_SECONDS").unwrap();
        assert_eq!(printed, [1.5, 3.0]);
        for (command, part) in [
            ("echo 1; exit 3", "exit status: 3"),
            ("true", "no number"),
            ("echo x", "'x'"),
            ("echo -1", "'-1'"),
            (
                // what has a session of its own says so before the command ends
                "f=$(mktemp -u); mkfifo $f; setsid sh -c \"echo 1; echo >$f; sleep 5\" & read _ <$f; rm $f",
                "left a program behind",
            ),
        ] {
            let error = run(command).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(command), "{error}");
        }
    }

    #[test]
    fn a_command_that_never_ends_is_ended_with_all_that_it_started() {
        let latency = Latency::start("echo 2; sleep 1000 & sleep 1000", Duration::from_secs(1));
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(
            latency.unwrap().end(&AtomicBool::new(false)).unwrap(),
            [2.0]
        );
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
