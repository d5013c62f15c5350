//! `sidelane run --restore`: gives tasks back what they had, where a scheduler of batch alone was killed before it did. That takes
//! milliseconds, or seconds where ever more of them come; so it runs beside the agent.

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// It looks for tasks for 20 s at most, and takes a last look; after this it is killed.
const LONGEST: Duration = Duration::from_secs(25);

/// The program as a child that is asked to end when the agent does, however that ends.
pub(crate) fn child(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    // SAFETY: between fork and exec this makes one system call, and takes no lock and no memory
    unsafe {
        // killed with SIGKILL, the agent could not end it, and the next agent would not know it
        command.pre_exec(|| set_pdeathsig(Signal::SIGTERM).map_err(io::Error::from));
    }
    command
}

/// It, or that it has to run.
#[derive(Debug)]
pub(crate) struct Restore {
    program: OsString,
    owed: bool,
    child: Option<(Child, Instant)>,
    /// What the last one said: the same is not told again.
    said: String,
}

impl Restore {
    pub fn new(program: OsString, owed: bool) -> Restore {
        Restore {
            program,
            owed,
            child: None,
            said: String::new(),
        }
    }

    /// A scheduler may have left something.
    pub fn owe(&mut self) {
        self.owed = true;
    }

    /// When it is killed, if it runs.
    pub fn ends_at(&self) -> Option<Instant> {
        self.child.as_ref().map(|(_, since)| *since + LONGEST)
    }

    /// Starts it where it is owed, or looks how it ended; whether it runs.
    pub fn keep(&mut self, now: Instant, news: &mut Vec<String>) -> bool {
        let said = match self.child {
            Some(_) => self.ended(now),
            None if std::mem::take(&mut self.owed) => self.start(now),
            None => None,
        };
        if let Some(said) = said.filter(|said| *said != self.said) {
            news.push(said.clone());
            self.said = said;
        }
        self.child.is_some()
    }

    /// What keeps it from starting.
    fn start(&mut self, now: Instant) -> Option<String> {
        let mut command = child(&self.program);
        command.args(["run", "--restore"]).stderr(Stdio::piped());
        match command.spawn() {
            Ok(child) => {
                self.child = Some((child, now));
                None
            }
            Err(error) => Some(failed(&error.to_string())),
        }
    }

    fn ended(&mut self, now: Instant) -> Option<String> {
        let (child, since) = self.child.as_mut()?;
        if let Ok(None) = child.try_wait() {
            if now < *since + LONGEST {
                return None;
            }
            let _ = child.kill();
        }
        let (child, _) = self.child.take()?;
        Some(match child.wait_with_output() {
            Ok(output) => said(&output),
            Err(error) => failed(&error.to_string()),
        })
    }
}

fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.trim();
    match output.status.success() {
        true => text.strip_prefix("sidelane: ").unwrap_or(text).to_owned(),
        false => failed(&format!("{}: {text}", output.status)),
    }
}

fn failed(why: &str) -> String {
    format!("batch tasks may not have what they had: 'sidelane run --restore': {why}")
}
