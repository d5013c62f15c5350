//! The scheduler as a child: `sidelane run` runs while the node enforces, and what ends it decides when it is tried again.

use crate::Mode;
use crate::restore::{self, Restore};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// Before it is tried again first; each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// At most so long. A scheduler that held as long begins anew.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// It detaches within milliseconds, but may take 22 s to give batch tasks back what they had; after this it is killed. Less than
/// `terminationGracePeriodSeconds` of the chart.
const PATIENCE: Duration = Duration::from_secs(25);

/// Exit codes of `sidelane run`, as its help has them.
mod code {
    pub const CANNOT: i32 = 3;
    pub const BAD_INPUT: i32 = 4;
    pub const EJECTED_BY_HAND: i32 = 6;
}

/// Why it does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// It is tried again then.
    Until(Instant),
    /// Until the configuration or the mode changes.
    ForNow,
}

/// Whether Sidelane is attached, as a condition of the node says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// `True`, `False` or `Unknown`.
    pub status: &'static str,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// What `sidelane status` says, while this is what the node wants.
pub fn attached(program: &OsStr, mode: Mode) -> Attached {
    let (status, reason, message) = match ask::<Status>(program, &["status"]) {
        Ok(said) => said.condition(mode),
        Err(fault) => ("Unknown", "NoAnswer", fault),
    };
    Attached {
        status,
        reason,
        message,
    }
}

/// Lanes of a core, as `sidelane topology` counts them.
///
/// # Errors
/// What keeps it from saying so.
pub fn lanes_per_core(program: &OsStr) -> Result<u64, String> {
    #[derive(Deserialize)]
    struct Topology {
        lanes_per_core_max: u64,
    }
    ask::<Topology>(program, &["topology"]).map(|said| said.lanes_per_core_max)
}

/// The document that a subcommand prints.
pub(crate) fn ask<T: DeserializeOwned>(program: &OsStr, what: &[&str]) -> Result<T, String> {
    let told = |fault: &dyn fmt::Display| format!("sidelane {}: {fault}", what[0]);
    let mut command = Command::new(program);
    command
        .args(what)
        .args(["--format", "json"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    let output = command.output().map_err(|error| told(&error))?;
    serde_json::from_slice(&output.stdout).map_err(|error| told(&error))
}

/// Of the document of `sidelane status`.
#[derive(Debug, Deserialize)]
struct Status {
    state: String,
    scheduler: Option<String>,
    attachment: Option<Attachment>,
    last_exit: Option<LastExit>,
}

#[derive(Debug, Deserialize)]
struct Attachment {
    since: String,
    command: String,
}

#[derive(Debug, Deserialize)]
struct LastExit {
    reason: String,
    time: Option<String>,
}

impl Status {
    fn condition(self, mode: Mode) -> (&'static str, &'static str, String) {
        let last = || match &self.last_exit {
            Some(LastExit {
                reason,
                time: Some(time),
            }) => format!("the last one ended at {time}: {reason}"),
            Some(LastExit { reason, .. }) => format!("the last one ended: {reason}"),
            None => "none has run since boot".to_owned(),
        };
        match self.state.as_str() {
            "attached" => {
                let who = self.attachment.as_ref();
                let who =
                    who.map(|who| format!("'{}' is attached since {}", who.command, who.since));
                (
                    "True",
                    "Attached",
                    who.unwrap_or_else(|| "Sidelane is attached".to_owned()),
                )
            }
            "not_attached" if mode == Mode::Observe => (
                "False",
                "Observing",
                "the kernel's own scheduler runs, as the mode says".to_owned(),
            ),
            "not_attached" => (
                "False",
                "NotAttached",
                format!("the kernel's own scheduler runs; {}", last()),
            ),
            "other_scheduler" => {
                let other = self.scheduler.as_deref().unwrap_or("another scheduler");
                ("False", "OtherScheduler", format!("{other} is attached"))
            }
            "no_sched_ext" => (
                "False",
                "NoSchedExt",
                "this kernel has no sched_ext".to_owned(),
            ),
            other => (
                "Unknown",
                "NoAnswer",
                format!("'sidelane status' says {other}"),
            ),
        }
    }
}

/// `sidelane run`, or what keeps it from running.
#[derive(Debug)]
pub struct Scheduler {
    program: OsString,
    config: PathBuf,
    /// What the file held when it was last read by the scheduler.
    config_text: Option<Vec<u8>>,
    child: Option<(Child, Instant)>,
    pause: Option<Pause>,
    next_pause: Duration,
    patience: Duration,
    restore: Restore,
}

impl Scheduler {
    /// One that does not run yet: the program `sidelane`, its configuration file, and whether one before may have left
    /// something on the machine.
    pub fn new(program: OsString, config: PathBuf, before: bool) -> Scheduler {
        Scheduler {
            restore: Restore::new(program.clone(), before),
            program,
            config,
            config_text: None,
            child: None,
            pause: None,
            next_pause: FIRST_PAUSE,
            patience: PATIENCE,
        }
    }

    /// Whether it runs, as far as is known.
    pub fn runs(&self) -> bool {
        self.child.is_some()
    }

    /// When there is something to do without any news.
    pub fn due(&self) -> Option<Instant> {
        // first: until that has ended nothing is started
        self.restore.ends_at().or(match self.pause {
            Some(Pause::Until(then)) => Some(then),
            _ => None,
        })
    }

    /// Starts it, ends it or lets it read its configuration again, as is needed; what there is to say of that.
    pub fn keep(&mut self, wanted: bool, now: Instant) -> Vec<String> {
        let mut news = Vec::new();
        self.reap(now, &mut news);
        if !wanted {
            self.pause = None;
            self.next_pause = FIRST_PAUSE;
            news.extend(self.stop());
        }
        // also where none is wanted any more: it was wanted before
        let restores = self.child.is_none() && self.restore.keep(now, &mut news);
        if !wanted || restores {
            return news;
        }
        let text = fs::read(&self.config).ok();
        let changed = self.config_text != text;
        self.config_text = text;
        if let Some((child, _)) = &self.child {
            if changed {
                signal(child, Signal::SIGHUP);
                news.push(format!(
                    "{} has changed: the scheduler reads it",
                    self.config.display()
                ));
            }
            return news;
        }
        let waits = match self.pause {
            Some(Pause::Until(then)) => now < then,
            Some(Pause::ForNow) => true,
            None => false,
        };
        if changed || !waits {
            self.start(now, &mut news);
        }
        news
    }

    fn start(&mut self, now: Instant, news: &mut Vec<String>) {
        let mut command = restore::child(&self.program);
        command.arg("run").arg("--config").arg(&self.config);
        match command.spawn() {
            Ok(child) => {
                self.pause = None;
                self.child = Some((child, now));
            }
            Err(error) => {
                let program = self.program.to_string_lossy();
                news.push(format!("{program} does not start: {error}"));
                self.wait(now, LONGEST_PAUSE);
            }
        }
    }

    fn wait(&mut self, now: Instant, pause: Duration) {
        self.pause = Some(Pause::Until(now + pause));
        self.next_pause = (pause * 2).min(LONGEST_PAUSE);
    }

    /// Looks whether it has ended.
    fn reap(&mut self, now: Instant, news: &mut Vec<String>) {
        let Some((child, since)) = &mut self.child else {
            return;
        };
        let Ok(Some(status)) = child.try_wait() else {
            return;
        };
        if now.duration_since(*since) >= LONGEST_PAUSE {
            self.next_pause = FIRST_PAUSE;
        }
        self.child = None;
        self.owe_after(status);
        match status.code() {
            Some(code::BAD_INPUT | code::EJECTED_BY_HAND) => self.pause = Some(Pause::ForNow),
            Some(code::CANNOT) => self.wait(now, LONGEST_PAUSE),
            _ => self.wait(now, self.next_pause),
        }
        news.push(self.ended(status, now));
    }

    fn ended(&self, status: ExitStatus, now: Instant) -> String {
        let then = match self.pause {
            Some(Pause::Until(then)) => format!("again in {} s", (then - now).as_secs()),
            _ => "again when its configuration or the mode changes".to_owned(),
        };
        format!("the scheduler has ended: {status}; {then}")
    }

    /// One that ended well has given back what it took, others may have not.
    fn owe_after(&mut self, status: ExitStatus) {
        if !status.success() {
            self.restore.owe();
        }
    }

    /// Waits until what a scheduler has left is given back.
    pub fn finish(&mut self) -> Vec<String> {
        let mut news = Vec::new();
        while self.child.is_none() && self.restore.keep(Instant::now(), &mut news) {
            sleep(Duration::from_millis(10));
        }
        news
    }

    /// Ends it.
    fn stop(&mut self) -> Option<String> {
        let (mut child, _) = self.child.take()?;
        signal(&child, Signal::SIGTERM);
        let begin = Instant::now();
        while begin.elapsed() < self.patience {
            if let Ok(Some(status)) = child.try_wait() {
                self.owe_after(status);
                return Some(format!("the scheduler was stopped: {status}"));
            }
            sleep(Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
        self.restore.owe();
        Some("the scheduler did not stop and was killed".to_owned())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.stop();
    }
}

fn signal(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // it has not been waited for, so the number is its own
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::SigHandler;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    /// A program in place of `sidelane`, which notes its starts and hangups, and ends as the file `code` says. What it restores
    /// waits while there is a file `more`, and fails where there is one `refused`. With `deaf` it does not hear that it is to end.
    const PROGRAM: &str = "#!/bin/sh
cd \"$(dirname \"$0\")\"
if [ \"$*\" = 'run --restore' ]; then
    echo restore >>log
    while [ -e more ]; do sleep 0.01; done
    [ -e refused ] && { echo 'error: no' >&2; exit 1; }
    echo 'sidelane: batch: 1 task' >&2
    exit 0
fi
trap 'echo hangup >>log' HUP
trap 'echo stop >>log; [ -e deaf ] || exit 0' TERM
echo \"$*\" >>log
while ! [ -e code ]; do sleep 0.01; done
exit \"$(cat code)\"
";

    struct Bed {
        /// Ended before its folder goes.
        scheduler: Scheduler,
        folder: tempfile::TempDir,
        begin: Instant,
    }

    impl Bed {
        fn new() -> Bed {
            Bed::after(false)
        }

        /// One where a scheduler before may have left something.
        fn after(before: bool) -> Bed {
            // a shell cannot trap what was ignored when it began, as below nohup
            // SAFETY: the default action, no handler
            unsafe { nix::sys::signal::signal(Signal::SIGHUP, SigHandler::SigDfl) }.unwrap();
            let folder = tempfile::tempdir().unwrap();
            let program = folder.path().join("sidelane");
            fs::write(&program, PROGRAM).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let config = folder.path().join("config");
            fs::write(&config, "1").unwrap();
            let scheduler = Scheduler::new(program.into(), config, before);
            Bed {
                folder,
                scheduler,
                begin: Instant::now(),
            }
        }

        fn path(&self) -> &Path {
            self.folder.path()
        }

        /// What is said, so many seconds after the beginning.
        fn keep(&mut self, wanted: bool, second: u64) -> Vec<String> {
            self.scheduler
                .keep(wanted, self.begin + Duration::from_secs(second))
        }

        /// Waits for lines of the log.
        fn log(&self, wanted: &[&str]) {
            let begin = Instant::now();
            loop {
                let log = fs::read_to_string(self.path().join("log")).unwrap_or_default();
                let lines: Vec<&str> = log
                    .lines()
                    .map(|line| line.split(' ').next().unwrap())
                    .collect();
                if lines == wanted {
                    return;
                }
                assert!(
                    begin.elapsed() < Duration::from_secs(20),
                    "{lines:?}, not {wanted:?}"
                );
                sleep(Duration::from_millis(10));
            }
        }

        /// Makes a file, or takes it away.
        fn put(&self, name: &str, there: bool) {
            let path = self.path().join(name);
            match there {
                true => fs::write(path, "").unwrap(),
                false => fs::remove_file(path).unwrap(),
            }
        }

        /// Waits until nothing is restored any more; what is said meanwhile.
        fn restored(&mut self) -> Vec<String> {
            self.scheduler.finish()
        }

        /// Lets it end with this code, and waits until that is seen.
        fn end(&mut self, code: u8, second: u64) -> String {
            fs::write(self.path().join("code"), code.to_string()).unwrap();
            let begin = Instant::now();
            let news = loop {
                let news = self.keep(true, second);
                if !self.scheduler.runs() {
                    break news;
                }
                assert!(begin.elapsed() < Duration::from_secs(20));
                sleep(Duration::from_millis(10));
            };
            self.put("code", false);
            self.restored();
            news.join("\n")
        }
    }

    #[test]
    fn the_condition_is_what_status_says() {
        let of = |document: &str, mode| {
            let status: Status = serde_json::from_str(document).unwrap();
            let (status, reason, message) = status.condition(mode);
            format!("{status} {reason}: {message}")
        };
        let ended = r#"{"state": "not_attached", "last_exit": {"reason": "killed", "time": null}}"#;
        let attached =
            r#"{"state": "attached", "attachment": {"since": "T", "command": "sidelane run"}}"#;
        assert_eq!(
            of(ended, Mode::Enforce),
            "False NotAttached: the kernel's own scheduler runs; the last one ended: killed"
        );
        assert!(of(ended, Mode::Observe).starts_with("False Observing: "));
        let said = of(attached, Mode::Observe);
        assert_eq!(said, "True Attached: 'sidelane run' is attached since T");
        let other = of(
            r#"{"state": "other_scheduler", "scheduler": "lavd"}"#,
            Mode::Enforce,
        );
        assert_eq!(other, "False OtherScheduler: lavd is attached");
        let none = attached_of_no_program();
        assert_eq!((none.status, none.reason), ("Unknown", "NoAnswer"));
    }

    fn attached_of_no_program() -> Attached {
        attached(OsStr::new("/nowhere/sidelane"), Mode::Enforce)
    }

    #[test]
    fn it_runs_while_it_is_wanted() {
        let mut bed = Bed::new();
        assert!(bed.keep(false, 0).is_empty() && !bed.scheduler.runs());
        bed.keep(true, 0);
        bed.log(&["run"]);
        assert!(bed.keep(true, 1).is_empty());
        let news = bed.keep(false, 2);
        assert_eq!(news, ["the scheduler was stopped: exit status: 0"]);
        bed.log(&["run", "stop"]);
        bed.keep(true, 3);
        bed.log(&["run", "stop", "run"]);
    }

    #[test]
    fn another_configuration_is_read() {
        let mut bed = Bed::new();
        bed.keep(true, 0);
        bed.log(&["run"]);
        fs::write(bed.path().join("config"), "2").unwrap();
        assert!(bed.keep(true, 1)[0].ends_with("has changed: the scheduler reads it"));
        bed.log(&["run", "hangup"]);
        assert!(bed.keep(true, 2).is_empty());
    }

    #[test]
    fn after_a_failure_it_is_tried_again_ever_later() {
        let mut bed = Bed::new();
        bed.keep(true, 0);
        bed.log(&["run"]);
        assert!(bed.end(1, 5).ends_with("exit status: 1; again in 10 s"));
        bed.keep(true, 14);
        assert!(!bed.scheduler.runs());
        assert_eq!(
            bed.scheduler.due(),
            Some(bed.begin + Duration::from_secs(15))
        );
        bed.keep(true, 15);
        bed.log(&["run", "restore", "run"]);
        assert!(bed.end(1, 20).ends_with("again in 20 s"));
        bed.keep(true, 40);
        bed.log(&["run", "restore", "run", "restore", "run"]);
        // it has held for long
        assert!(bed.end(1, 2000).ends_with("again in 10 s"));
    }

    #[test]
    fn what_only_somebody_can_mend_is_waited_for() {
        let mut bed = Bed::new();
        bed.keep(true, 0);
        bed.log(&["run"]);
        assert!(
            bed.end(4, 1)
                .ends_with("again when its configuration or the mode changes")
        );
        bed.keep(true, 10_000);
        assert!(!bed.scheduler.runs() && bed.scheduler.due().is_none());
        fs::write(bed.path().join("config"), "2").unwrap();
        bed.keep(true, 10_001);
        bed.log(&["run", "restore", "run"]);
        assert!(bed.end(6, 10_002).ends_with("the mode changes"));
        bed.keep(false, 10_003);
        bed.keep(true, 10_004);
        bed.log(&["run", "restore", "run", "restore", "run"]);
        assert!(bed.end(3, 10_005).ends_with("again in 600 s"));
    }

    #[test]
    fn what_one_before_left_is_given_back_first() {
        for wanted in [true, false] {
            let mut bed = Bed::after(true);
            bed.put("more", true);
            bed.keep(wanted, 0);
            bed.log(&["restore"]);
            bed.keep(wanted, 1);
            assert!(!bed.scheduler.runs(), "two at once");
            bed.put("more", false);
            assert_eq!(bed.restored(), ["batch: 1 task"]);
            bed.keep(wanted, 2);
            bed.log(if wanted {
                &["restore", "run"]
            } else {
                &["restore"]
            });
        }
    }

    #[test]
    fn what_a_killed_one_left_is_given_back() {
        let mut bed = Bed::new();
        bed.keep(true, 0);
        bed.log(&["run"]);
        signal(&bed.scheduler.child.as_ref().unwrap().0, Signal::SIGKILL);
        let begin = Instant::now();
        while bed.scheduler.runs() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            bed.keep(true, 1);
        }
        assert_eq!(bed.restored(), ["batch: 1 task"]);
        bed.keep(true, 11);
        bed.log(&["run", "restore", "run"]);
        // by the agent itself, and observing
        bed.put("deaf", true);
        bed.scheduler.patience = Duration::from_secs(1);
        let killed = "the scheduler did not stop and was killed";
        assert_eq!(bed.keep(false, 12), [killed]);
        assert!(bed.restored().is_empty(), "it was said before");
        bed.log(&["run", "restore", "run", "stop", "restore"]);
        bed.keep(false, 13);
        assert!(bed.restored().is_empty());
        bed.log(&["run", "restore", "run", "stop", "restore"]);
    }

    #[test]
    fn what_cannot_be_given_back_is_said_once() {
        let mut bed = Bed::after(true);
        bed.put("refused", true);
        bed.keep(true, 0);
        let said = bed.restored().join("");
        assert!(said.ends_with("exit status: 1: error: no"), "{said}");
        bed.keep(true, 1);
        bed.log(&["restore", "run"]);
        fs::write(bed.path().join("code"), "1").unwrap();
        let begin = Instant::now();
        while bed.scheduler.runs() {
            assert!(begin.elapsed() < Duration::from_secs(20));
            bed.keep(true, 2);
        }
        assert!(bed.restored().is_empty());
        bed.log(&["restore", "run", "restore"]);
    }

    #[test]
    fn what_takes_too_long_to_give_back_is_killed() {
        let mut bed = Bed::after(true);
        bed.put("more", true);
        bed.keep(true, 0);
        bed.log(&["restore"]);
        let due = bed.scheduler.due().unwrap() - bed.begin;
        assert!(bed.keep(true, due.as_secs() - 1).is_empty());
        let said = bed.keep(true, due.as_secs()).join("");
        assert!(said.contains("signal: 9"), "{said}");
        bed.log(&["restore", "run"]);
        bed.put("more", false);
    }
}
