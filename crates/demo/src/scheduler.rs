//! Sidelane's scheduler as a child process: `sidelane run`, attached for one configuration. Or lanes bound
//! by `sidelane lanes`, with the kernel's scheduler.

use crate::error::{During, Error, Result};
use crate::sys::Guarded;
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long attaching and detaching may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// What is started: its name, and the word in the line that tells that it has begun.
type Service = (&'static str, &'static str);
const RUN: Service = ("sidelane run", "attached");
const LANES: Service = ("sidelane lanes", "serving:");

/// An attached scheduler, or bound lanes; as before when this value goes.
pub struct Scheduler {
    service: Service,
    process: Guarded,
    /// What it writes on standard error, by lines; ends when the process does.
    lines: Receiver<String>,
    said: Vec<String>,
}

impl Scheduler {
    /// Attaches it, with class rules for the two cgroups given by path.
    pub fn attach(sidelane: &Path, critical: &str, batch: &str) -> Result<Scheduler> {
        Scheduler::attach_calibrated(sidelane, critical, batch, &[], &[])
    }

    /// The same with other flags; it is told the speeds of lanes, as after `sidelane calibrate`. None: not known.
    pub fn attach_calibrated(
        sidelane: &Path,
        critical: &str,
        batch: &str,
        thread_perf: &[f64],
        flags: &[&str],
    ) -> Result<Scheduler> {
        let rules = [format!("cgroup:{critical}"), format!("cgroup:{batch}")];
        let mut arguments = vec!["run", "--critical", &rules[0], "--batch", &rules[1]];
        arguments.extend(flags);
        let speeds: Vec<String> = thread_perf.iter().map(f64::to_string).collect();
        let speeds = speeds.join(",");
        if !thread_perf.is_empty() {
            arguments.extend(["--thread-perf", &speeds]);
        }
        Scheduler::start(RUN, sidelane, &arguments, PATIENCE)
    }

    /// Binds the two cgroups to lanes of their own.
    pub fn bind_lanes(sidelane: &Path, critical: &str, batch: &str) -> Result<Scheduler> {
        let arguments = ["lanes", "--critical", critical, "--batch", batch];
        Scheduler::start(LANES, sidelane, &arguments, PATIENCE)
    }

    /// Attaches it with a configuration, the text of its file.
    pub fn attach_configured(sidelane: &Path, configuration: &str) -> Result<Scheduler> {
        // It is read before the scheduler says that it is attached; then the file may go.
        let mut file = tempfile::NamedTempFile::new().during(|| "a configuration".into())?;
        std::io::Write::write_all(&mut file, configuration.as_bytes())
            .during(|| file.path().display().to_string())?;
        let arguments = [OsStr::new("run"), "--config".as_ref(), file.path().as_ref()];
        Scheduler::start(RUN, sidelane, &arguments, PATIENCE)
    }

    fn start<S: AsRef<OsStr>>(
        service: Service,
        program: &Path,
        arguments: &[S],
        patience: Duration,
    ) -> Result<Scheduler> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut process = Guarded::spawn(&mut command, service.0)?;
        let stderr = process
            .stderr
            .take()
            .ok_or_else(|| failed(service, "has no standard error", &[]))?;
        let mut scheduler = Scheduler {
            service,
            process,
            lines: read_lines(stderr)?,
            said: Vec::new(),
        };
        scheduler.await_begun(patience)?;
        Ok(scheduler)
    }

    fn await_begun(&mut self, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    let begun = line.contains(self.service.1);
                    self.said.push(line);
                    if begun {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(self.failed("ended instead of beginning"));
                }
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = patience.as_secs_f64();
                    return Err(self.failed(&format!("has not begun within {seconds} s")));
                }
            }
        }
    }

    /// The process, which holds the scheduler's programs.
    pub fn pid(&self) -> nix::unistd::Pid {
        self.process.pid()
    }

    /// Changes its settings with `sidelane tune`.
    pub fn tune(&self, sidelane: &Path, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new(sidelane);
        command.arg("tune").args(arguments).stdin(Stdio::null());
        let output = command.output().during(|| "sidelane tune".into())?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::Process {
                who: "sidelane tune",
                reason: String::from_utf8_lossy(&output.stderr).into_owned(),
            }),
        }
    }

    /// Fails if the scheduler has ended by itself.
    pub fn check(&mut self) -> Result<()> {
        let ended = self.process.ended_within(Duration::ZERO)?;
        self.said.extend(self.lines.try_iter());
        if ended {
            Err(self.failed("ended during the run"))
        } else {
            Ok(())
        }
    }

    /// Detaches it and waits until it has gone.
    pub fn detach(mut self) -> Result<()> {
        self.check()?;
        self.process.signal(Signal::SIGTERM)?;
        if self.process.ended_within(PATIENCE)? {
            return Ok(());
        }
        self.said.extend(self.lines.try_iter());
        Err(self.failed("did not end after SIGTERM"))
    }

    fn failed(&self, reason: &str) -> Error {
        failed(self.service, reason, &self.said)
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // In order if possible; else the guard kills it, and the kernel detaches the scheduler.
        if self.process.signal(Signal::SIGTERM).is_ok() {
            let _ = self.process.ended_within(Duration::from_secs(2));
        }
    }
}

fn failed(service: Service, reason: &str, said: &[String]) -> Error {
    let reason = if said.is_empty() {
        format!("{reason}; it said nothing")
    } else {
        format!("{reason}; it said:\n{}", said.join("\n"))
    };
    Error::Process {
        who: service.0,
        reason,
    }
}

/// Reads lines in a thread of its own, so that the process never waits for its reader.
fn read_lines(from: impl Read + Send + 'static) -> Result<Receiver<String>> {
    let (sender, lines) = channel();
    let read = move || {
        for line in BufReader::new(from).lines().map_while(|line| line.ok()) {
            if sender.send(line).is_err() {
                break;
            }
        }
    };
    let thread = std::thread::Builder::new().name("scheduler-log".into());
    thread.spawn(read).during(|| "starting a thread".into())?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pretend(script: &str) -> Result<Scheduler> {
        Scheduler::start(
            RUN,
            Path::new("/bin/sh"),
            &["-c", script],
            Duration::from_millis(500),
        )
    }

    #[test]
    fn it_is_attached_when_it_says_so_and_detaches_on_a_signal() {
        let mut scheduler =
            pretend("echo loading >&2; echo attached: 2 cores >&2; sleep 100 & wait").unwrap();
        assert_eq!(scheduler.said, ["loading", "attached: 2 cores"]);
        scheduler.check().unwrap();
        scheduler.detach().unwrap();
    }

    #[test]
    fn what_it_said_is_in_the_error() {
        let error = pretend("echo no BTF here >&2; exit 3")
            .err()
            .unwrap()
            .to_string();
        assert!(
            error.contains("ended instead") && error.contains("no BTF here"),
            "{error}"
        );
        let error = pretend("exec sleep 100").err().unwrap().to_string();
        assert!(
            error.contains("within 0.5 s") && error.contains("nothing"),
            "{error}"
        );
    }

    #[test]
    fn an_ejected_scheduler_is_noticed() {
        let mut scheduler = pretend("echo attached >&2; echo watchdog >&2; exit 1").unwrap();
        scheduler
            .process
            .ended_within(Duration::from_secs(5))
            .unwrap();
        let error = scheduler.check().unwrap_err().to_string();
        assert!(error.contains("ended during"), "{error}");
        assert!(scheduler.detach().is_err());
    }
}
