//! Records intervals of the collector in a file.

use crate::Error;
use crate::collector::{Settings, online, wall_ms};
use crate::watch::{Listener, Wanted, tell};
use sidelane_smt::recording::{Frame, Header, Writer};
use sidelane_smt::snapshot::{Interval, Rates};
use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether the end has come.
const POLL: Duration = Duration::from_millis(20);

/// What to record.
#[derive(Clone, Debug)]
pub struct Plan {
    /// By what work is counted.
    pub settings: Settings,
    /// Length of an interval.
    pub interval: Duration,
    /// How long; nothing: until stopped or the command ends.
    pub length: Option<Duration>,
    /// A program and its arguments, to run meanwhile.
    pub command: Option<Vec<String>>,
    /// The version of the program, for the header.
    pub program: String,
}

/// How it went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// Intervals in the file.
    pub intervals: u64,
    /// Times the collector was started anew, and why.
    pub restarts: Vec<String>,
    /// Exit status of the command; none without one, or if a signal ended it.
    pub status: Option<i32>,
    /// By what work was counted at the end; none without an interval.
    pub rates: Option<Rates>,
    /// What the collector said of its figures; each a sentence.
    pub messages: Vec<String>,
}

/// Records until the plan's end, the command's, or `stop`. A command that still runs then is asked to
/// end by SIGTERM. A file of this name is replaced once the collector and the command run.
///
/// # Errors
/// The collector cannot be started, the command neither, or the file cannot be written.
pub fn record(plan: &Plan, file: &Path, stop: &AtomicBool) -> Result<Recorded, Error> {
    let mut recorder = Recorder {
        plan,
        stop,
        file,
        begun: None,
        recorded: Recorded::default(),
    };
    tell(&plan.settings, &mut recorder)?;
    let mut recorded = recorder.recorded;
    if let Some((writer, running)) = recorder.begun {
        recorded.status = running.end();
        writer.finish(recorded.status).map_err(writing)?;
    }
    Ok(recorded)
}

fn writing(error: sidelane_smt::recording::Error) -> Error {
    Error::Metrics(format!("cannot write the recording: {error}"))
}

/// A file that is not changed before it is to be replaced.
struct Replaceable<'a> {
    path: &'a Path,
    file: File,
    /// There was none.
    new: bool,
}

impl<'a> Replaceable<'a> {
    fn open(path: &'a Path) -> Result<Replaceable<'a>, Error> {
        let new = !path.exists();
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).open(path);
        let failed = |e| Error::Metrics(format!("cannot write {}: {e}", path.display()));
        Ok(Replaceable {
            path,
            file: file.map_err(failed)?,
            new,
        })
    }

    fn replace(self) -> std::io::Result<File> {
        // pipes and devices have no length
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        Ok(self.file)
    }

    /// Leaves things as they were.
    fn leave(self) {
        if self.new {
            let _ = std::fs::remove_file(self.path); // an empty file that stays does no harm
        }
    }
}

/// Writes what it is told.
struct Recorder<'a> {
    plan: &'a Plan,
    stop: &'a AtomicBool,
    file: &'a Path,
    /// Once the first collector has begun.
    begun: Option<(Writer<File>, Running)>,
    recorded: Recorded,
}

impl Recorder<'_> {
    /// Starts the command, when all of it is seen, and the file, when nothing else can fail.
    fn begin(&self) -> Result<(Writer<File>, Running), Error> {
        let file = Replaceable::open(self.file)?;
        let running = match Running::start(self.plan) {
            Ok(running) => running,
            Err(error) => {
                file.leave();
                return Err(error);
            }
        };
        let file = file.replace().map_err(|e| writing(e.into()));
        let writer = file.and_then(|f| Writer::new(f, header(self.plan)).map_err(writing));
        match writer {
            Ok(writer) => Ok((writer, running)),
            Err(error) => {
                running.end();
                Err(error)
            }
        }
    }

    fn write(&mut self, frame: &Frame) -> Result<(), Error> {
        match &mut self.begun {
            Some((writer, _)) => writer.write(frame).map_err(writing),
            None => Ok(()),
        }
    }
}

impl Listener for Recorder<'_> {
    type Error = Error;

    fn begun(&mut self, instead: Option<&str>) -> Result<(), Error> {
        if self.begun.is_none() {
            self.begun = Some(self.begin()?);
        }
        if let Some(reason) = instead {
            self.write(&Frame::Restarted(reason.to_owned()))?;
            self.recorded.restarts.push(reason.to_owned());
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<Wanted, Error> {
        let Some((_, running)) = &mut self.begun else {
            return Ok(Wanted::Nothing);
        };
        Ok(match running.wait(self.plan.interval, self.stop) {
            true => Wanted::Last,
            false => Wanted::More,
        })
    }

    fn take(&mut self, interval: Interval) -> Result<(), Error> {
        self.recorded.rates = Some(interval.rates.clone());
        for message in &interval.notes.messages {
            if !self.recorded.messages.contains(message) {
                self.recorded.messages.push(message.clone());
            }
        }
        self.write(&Frame::Interval(interval))?;
        self.recorded.intervals += 1;
        Ok(())
    }
}

fn header(plan: &Plan) -> Header {
    let read = |path: &str| std::fs::read_to_string(path).map(|text| text.trim().to_owned());
    let lanes = online(std::path::Path::new("/"));
    Header {
        program: plan.program.clone(),
        kernel: read("/proc/sys/kernel/osrelease").unwrap_or_default(),
        scheduler: read("/sys/kernel/sched_ext/root/ops").ok(),
        lanes: lanes.map_or(0, |lanes| lanes.len() as u32),
        wall_ms: wall_ms(),
        interval_ms: plan.interval.as_millis() as u64,
        command: plan.command.clone(),
    }
}

/// The time and the command that bound the recording.
struct Running {
    child: Option<Child>,
    end: Option<Instant>,
    next: Instant,
    /// Its status once it has ended; within, none if a signal ended it.
    status: Option<Option<i32>>,
}

impl Running {
    fn start(plan: &Plan) -> Result<Running, Error> {
        let mut child = None;
        if let Some([program, args @ ..]) = plan.command.as_deref() {
            let spawned = Command::new(program).args(args).spawn();
            let failed = |e| Error::Metrics(format!("cannot start {program}: {e}"));
            child = Some(spawned.map_err(failed)?);
        }
        let now = Instant::now();
        Ok(Running {
            child,
            end: plan.length.and_then(|length| now.checked_add(length)),
            next: now,
            status: None,
        })
    }

    /// Waits for the end of the interval; true at the end of all.
    fn wait(&mut self, interval: Duration, stop: &AtomicBool) -> bool {
        // an interval that took too long does not shorten those that follow
        self.next = (self.next + interval).max(Instant::now());
        loop {
            let now = Instant::now();
            let ended = self.end.is_some_and(|end| now >= end) || self.child_ended();
            if ended || stop.load(Ordering::Relaxed) {
                return true;
            }
            let until = self.end.map_or(self.next, |end| end.min(self.next));
            match until.checked_duration_since(now) {
                Some(left) if !left.is_zero() => std::thread::sleep(left.min(POLL)),
                _ => return self.end.is_some_and(|end| now >= end),
            }
        }
    }

    fn child_ended(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && let Ok(Some(status)) = child.try_wait()
        {
            self.status = Some(status.code());
        }
        self.status.is_some()
    }

    /// Ends the command if it still runs; its exit status.
    fn end(mut self) -> Option<i32> {
        if !self.child_ended()
            && let Some(child) = &mut self.child
        {
            let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
            // it may end at this very moment
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            self.status = child.wait().ok().map(|status| status.code());
        }
        self.status.flatten()
    }
}
