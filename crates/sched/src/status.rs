//! Whether the scheduler is attached, since when and by which process, and how the last one ended, and why.
//!
//! The kernel says whether, the process that attaches it keeps the rest in two files below `/run/sidelane`, which go with
//! the next boot. Anybody may read them.

use crate::adopt::started;
use crate::loader::Event;
use crate::{Error, ExitReason, Scope};
use chrono::{DateTime, Local, SecondsFormat};
use serde::{Deserialize, Serialize};
use sidelane_kernel::{attached, public_folder};
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;

/// The folder of the two files, below the root folder.
const FOLDER: &str = "run/sidelane";
/// What the process says that has the scheduler attached.
const ATTACHED: &str = "attached";
/// What the last one said when it ended.
const LAST_EXIT: &str = "last-exit";
/// What the kernel knew when it ejected it.
const DUMP: &str = "ejected.txt";
const KERNEL: &str = "sys/kernel/sched_ext";

/// What the process says that attached the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// The process.
    pub pid: u32,
    /// When it was made, in clock ticks since boot: another one may have its number later.
    start_ticks: u64,
    /// How it was called.
    pub command: String,
    /// When this attachment began: RFC 3339, local time.
    pub since: String,
    /// How often the process has attached the scheduler: again after CPU hotplug and for another configuration.
    pub times: u32,
    /// Cores that are scheduled.
    pub cores: usize,
    /// Online lanes of those.
    pub lanes: usize,
    /// Class rules in force.
    pub rules: usize,
}

/// How a process that attached the scheduler ended, or one that tried to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was asked to.
    Stopped,
    /// The kernel ejected the scheduler.
    Ejected,
    /// Something else went wrong: it could not begin, or not go on.
    Failed,
    /// It was gone without a word: killed.
    Killed,
    /// Whether it has ended cannot be seen.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Stopped => "stopped",
            Outcome::Ejected => "ejected",
            Outcome::Failed => "failed",
            Outcome::Killed => "killed",
            Outcome::Unknown => "not known",
        })
    }
}

/// The end of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastExit {
    /// How.
    pub outcome: Outcome,
    /// When, RFC 3339, local time; none: that is not known.
    pub time: Option<String>,
    /// The process.
    pub pid: u32,
    /// How it was called.
    pub command: String,
    /// The process's exit code; none: it was killed, or goes on, as that of a trial.
    pub exit_code: Option<u8>,
    /// The kernel's `enum scx_exit_kind`, where the kernel detached the scheduler.
    pub kind: Option<i32>,
    /// Why, in a sentence.
    pub reason: String,
    /// The file with what the kernel knew of CPUs and tasks when it ejected the scheduler; none: it said nothing.
    #[serde(default)]
    pub dump: Option<PathBuf>,
}

impl LastExit {
    fn of(ended: &Result<ExitReason, Error>, exit_code: Option<u8>) -> LastExit {
        let (outcome, kind, reason) = match ended {
            Ok(reason) => (Outcome::Stopped, Some(reason.kind), reason.to_string()),
            Err(Error::Ejected(reason)) => {
                (Outcome::Ejected, Some(reason.kind), reason.to_string())
            }
            Err(error) => (Outcome::Failed, None, error.to_string()),
        };
        LastExit {
            outcome,
            time: Some(now()),
            pid: process::id(),
            command: command(),
            exit_code,
            kind,
            reason,
            dump: None,
        }
    }

    /// Of a process that left no word of its end.
    fn without_a_word(attachment: &Attachment, life: Life) -> LastExit {
        let Attachment { pid, since, .. } = attachment;
        let (outcome, reason) = match life {
            Life::Unseen => (
                Outcome::Unknown,
                format!("process {pid} was attached since {since}; {UNSEEN}"),
            ),
            Life::Lives | Life::Gone => (
                Outcome::Killed,
                format!("the process that was attached since {since} is gone without a word"),
            ),
        };
        LastExit {
            outcome,
            time: None,
            pid: attachment.pid,
            command: attachment.command.clone(),
            exit_code: None,
            kind: None,
            reason,
            dump: None,
        }
    }
}

/// What a process that attaches the scheduler tells of itself, for [`look`].
#[derive(Debug)]
pub struct Record {
    root: PathBuf,
    folder: PathBuf,
    times: u32,
}

impl Record {
    /// Of this process, below a root folder.
    pub fn new(root: &Path) -> Record {
        Record {
            root: root.to_owned(),
            folder: root.join(FOLDER),
            times: 0,
        }
    }

    /// Tells that the scheduler is attached now; other events change nothing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&mut self, event: &Event) -> io::Result<()> {
        let &Event::Attached {
            cores,
            lanes,
            rules,
        } = event
        else {
            return Ok(());
        };
        if let (0, Some(before)) = (self.times, read::<Attachment>(&self.folder, ATTACHED)) {
            self.write(LAST_EXIT, &LastExit::without_a_word(&before, Life::Gone))?;
        }
        self.times += 1;
        let attachment = Attachment {
            pid: process::id(),
            start_ticks: started(&self.root, process::id()).unwrap_or(0),
            command: command(),
            since: now(),
            times: self.times,
            cores,
            lanes,
            rules,
        };
        self.write(ATTACHED, &attachment)
    }

    /// Tells how it ended, and the process with that code unless it goes on. What another process has attached
    /// stays; then the end of this one is no news.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn end(self, ended: &Result<ExitReason, Error>, exit_code: Option<u8>) -> io::Result<()> {
        let other = read::<Attachment>(&self.folder, ATTACHED);
        let other = other.map(|other| Life::of(&self.root, &other));
        if self.times == 0 && other.is_some_and(|life| life != Life::Gone) {
            return Ok(());
        }
        let mut last = LastExit::of(ended, exit_code);
        last.dump = self.keep_dump(ended)?;
        self.write(LAST_EXIT, &last)?;
        match fs::remove_file(self.folder.join(ATTACHED)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Writes down what the kernel said when it ejected the scheduler: the file, as the machine calls it.
    fn keep_dump(&self, ended: &Result<ExitReason, Error>) -> io::Result<Option<PathBuf>> {
        match ended {
            Err(Error::Ejected(reason)) if !reason.dump.is_empty() => {
                self.put(DUMP, &reason.dump)?;
                Ok(Some(Path::new("/").join(FOLDER).join(DUMP)))
            }
            _ => Ok(None),
        }
    }

    fn write(&self, name: &str, what: &impl Serialize) -> io::Result<()> {
        self.put(name, &(serde_json::to_string_pretty(what)? + "\n"))
    }

    /// In one go: a reader meanwhile sees the one or the other.
    fn put(&self, name: &str, text: &str) -> io::Result<()> {
        public_folder(&self.folder)?;
        let new = self.folder.join(format!("{name}.new"));
        fs::write(&new, text)?;
        fs::set_permissions(&new, Permissions::from_mode(0o644))?; // anybody may read it, whatever the umask
        fs::rename(&new, self.folder.join(name))
    }
}

/// What is there of a file that can be understood.
fn read<T: for<'a> Deserialize<'a>>(folder: &Path, name: &str) -> Option<T> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Whether the process that says so is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Lives,
    Gone,
    /// `/proc` does not show it, and would not.
    Unseen,
}

/// Why a process is [`Life::Unseen`].
const UNSEEN: &str = "whether it still runs cannot be seen: /proc is missing or hides processes (hidepid); ask as root";

impl Life {
    fn of(root: &Path, attachment: &Attachment) -> Life {
        match started(root, attachment.pid) {
            Some(ticks) if ticks == attachment.start_ticks => Life::Lives,
            Some(_) => Life::Gone,
            // the first process is always there: a user that does not see it sees none of others
            None if started(root, 1).is_some() => Life::Gone,
            None => Life::Unseen,
        }
    }
}

fn now() -> String {
    Local::now().to_rfc3339_opts(SecondsFormat::Secs, false)
}

/// How this process was called.
fn command() -> String {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// What the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Sidelane schedules.
    Attached,
    /// The kernel's default scheduler has all tasks.
    NotAttached,
    /// Another sched_ext scheduler is attached.
    OtherScheduler,
    /// This kernel has no sched_ext.
    NoSchedExt,
}

/// What `sidelane status` tells.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// What the kernel says.
    pub state: State,
    /// Name of the sched_ext scheduler that is attached, as the kernel gives it.
    pub scheduler: Option<String>,
    /// Which tasks it has.
    pub scope: Option<Scope>,
    /// Who has attached it; none if that is not known.
    pub attachment: Option<Attachment>,
    /// How long that is, s.
    pub attached_for_s: Option<u64>,
    /// How the one before ended; none if none has since boot.
    pub last_exit: Option<LastExit>,
    /// What limits this; each a sentence.
    pub notes: Vec<String>,
}

/// Looks below a root folder; needs no privilege.
pub fn look(root: &Path) -> Status {
    let kernel = root.join(KERNEL);
    let text = |file: &str| {
        let text = fs::read_to_string(kernel.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let scheduler = text("root/ops").filter(|_| text("state").as_deref() != Some("disabled"));
    let state = match &scheduler {
        Some(name) if attached::is_ours(name) => State::Attached,
        Some(_) => State::OtherScheduler,
        None if kernel.is_dir() => State::NotAttached,
        None => State::NoSchedExt,
    };
    let folder = root.join(FOLDER);
    let said = read::<Attachment>(&folder, ATTACHED).map(|said| (Life::of(root, &said), said));
    let mut notes = Vec::new();
    let (attachment, ended) = match said {
        Some((Life::Lives, said)) => (Some(said).filter(|_| state == State::Attached), None),
        Some((Life::Unseen, said)) if state == State::Attached => {
            notes.push(format!(
                "process {} says that it is attached; {UNSEEN}",
                said.pid
            ));
            (Some(said), None)
        }
        Some((life, said)) => (None, Some(LastExit::without_a_word(&said, life))),
        None => (None, None),
    };
    Status {
        state,
        scope: scheduler.as_ref().map(|_| match text("switch_all") {
            Some(all) if all == "0" => Scope::Batch,
            _ => Scope::All,
        }),
        scheduler,
        attached_for_s: attachment.as_ref().and_then(|said| since_s(&said.since)),
        attachment,
        last_exit: ended.or_else(|| read(&folder, LAST_EXIT)),
        notes,
    }
}

/// Seconds from then to now.
fn since_s(then: &str) -> Option<u64> {
    let then = DateTime::parse_from_rfc3339(then).ok()?;
    let passed = Local::now().signed_duration_since(then);
    passed.num_seconds().try_into().ok()
}

/// `2 h 5 min`: the two largest units.
fn length(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days} d {} h", hours % 24),
        () if hours > 0 => format!("{hours} h {} min", minutes % 60),
        () if minutes > 0 => format!("{minutes} min {} s", seconds % 60),
        () => format!("{seconds} s"),
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.scheduler.as_deref().unwrap_or_default();
        match self.state {
            State::Attached => {
                let tasks = match self.scope {
                    Some(Scope::Batch) => "batch alone",
                    _ => "all tasks",
                };
                writeln!(f, "attached   {name}: {tasks}")?;
            }
            State::NotAttached => {
                writeln!(f, "attached   no: the kernel's default scheduler runs")?
            }
            State::OtherScheduler => {
                writeln!(f, "attached   no: the sched_ext scheduler '{name}' is")?
            }
            State::NoSchedExt => writeln!(f, "attached   no: this kernel has no sched_ext")?,
        }
        match &self.attachment {
            Some(said) => {
                write!(f, "since      {}", said.since)?;
                match self.attached_for_s {
                    Some(seconds) => writeln!(f, " ({})", length(seconds))?,
                    None => writeln!(f)?,
                }
                writeln!(f, "process    {}: {}", said.pid, said.command)?;
                let Attachment {
                    cores,
                    lanes,
                    rules,
                    times,
                    ..
                } = said;
                writeln!(
                    f,
                    "schedules  {cores} cores, {lanes} lanes, {rules} class rules"
                )?;
                if *times > 1 {
                    writeln!(f, "attached {times} times by this process")?;
                }
            }
            None if self.state == State::Attached => {
                writeln!(
                    f,
                    "since      not known: its process left no word in /run/sidelane"
                )?;
            }
            None => {}
        }
        match &self.last_exit {
            None => writeln!(f, "last exit  none since boot")?,
            Some(exit) => {
                let time = exit.time.as_deref().unwrap_or("at a time not known");
                write!(f, "last exit  {time}: {}", exit.outcome)?;
                match exit.exit_code {
                    Some(code) => writeln!(f, ", exit code {code}")?,
                    None => writeln!(f)?,
                }
                writeln!(f, "           {}", exit.reason)?;
                if let Some(dump) = &exit.dump {
                    writeln!(f, "           what the kernel saw: {}", dump.display())?;
                }
                writeln!(f, "           process {}: {}", exit.pid, exit.command)?;
            }
        }
        let mut notes = self.notes.iter();
        notes.try_for_each(|note| writeln!(f, "note       {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with this scheduler, if any.
    fn machine(ops: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let kernel = root.path().join(KERNEL);
        fs::create_dir_all(kernel.join("root")).unwrap();
        for pid in [1, process::id()] {
            let folder = root.path().join(format!("proc/{pid}"));
            fs::create_dir_all(&folder).unwrap();
            fs::copy(format!("/proc/{pid}/stat"), folder.join("stat")).unwrap();
        }
        let state = ops.map_or("disabled", |_| "enabled");
        fs::write(kernel.join("state"), format!("{state}\n")).unwrap();
        fs::write(kernel.join("switch_all"), "1\n").unwrap();
        if let Some(ops) = ops {
            fs::write(kernel.join("root/ops"), format!("{ops}\n")).unwrap();
        }
        root
    }

    const ATTACHED_NOW: Event = Event::Attached {
        cores: 2,
        lanes: 4,
        rules: 3,
    };

    #[test]
    fn what_the_kernel_says_decides() {
        let state = |root: &Path| look(root).state;
        assert_eq!(
            state(tempfile::tempdir().unwrap().path()),
            State::NoSchedExt
        );
        assert_eq!(state(machine(None).path()), State::NotAttached);
        let other = look(machine(Some("rusty_1.0")).path());
        assert_eq!(other.state, State::OtherScheduler);
        assert!(other.to_string().contains("'rusty_1.0'"), "{other}");
        let own = look(machine(Some("sidelane_0.1")).path());
        assert_eq!(
            (own.state, own.attachment.is_none()),
            (State::Attached, true)
        );
        assert!(own.to_string().contains("not known"), "{own}");
    }

    #[test]
    fn a_process_is_known_while_it_is_attached_and_its_end_afterwards() {
        let root = machine(Some("sidelane_0.1"));
        let mut record = Record::new(root.path());
        for _ in 0..2 {
            record.note(&ATTACHED_NOW).unwrap();
            record.note(&Event::Unchanged).unwrap();
        }
        let now = look(root.path());
        let said = now.attachment.as_ref().unwrap();
        assert_eq!((said.pid, said.times, said.lanes), (process::id(), 2, 4));
        assert!(now.attached_for_s.unwrap() < 60 && now.last_exit.is_none());
        // a loader that is refused meanwhile is no news
        let refused = Err(Error::NoBatch {
            origin: String::new(),
        });
        Record::new(root.path()).end(&refused, Some(1)).unwrap();
        assert!(look(root.path()).last_exit.is_none());

        let stall = ExitReason {
            kind: 1026,
            code: 0,
            reason: "stalled".into(),
            message: String::new(),
            dump: "CPU states".into(),
        };
        record.end(&Err(Error::Ejected(stall)), Some(1)).unwrap();
        let exit = look(root.path()).last_exit.unwrap();
        assert_eq!((exit.outcome, exit.exit_code), (Outcome::Ejected, Some(1)));
        assert!(exit.reason.contains("watchdog"), "{exit:?}");
        let dump = root
            .path()
            .join(exit.dump.unwrap().strip_prefix("/").unwrap());
        assert_eq!(fs::read_to_string(dump).unwrap(), "CPU states");
        assert!(look(root.path()).attachment.is_none());
    }

    #[test]
    fn who_is_gone_without_a_word_was_killed() {
        let root = machine(None);
        let mut record = Record::new(root.path());
        record.note(&ATTACHED_NOW).unwrap();
        let file = root.path().join(FOLDER).join(ATTACHED);
        let mut said: Attachment = read(file.parent().unwrap(), ATTACHED).unwrap();
        said.start_ticks += 1; // another process has its number now
        fs::write(&file, serde_json::to_string(&said).unwrap()).unwrap();
        assert_eq!(
            look(root.path()).last_exit.unwrap().outcome,
            Outcome::Killed
        );
        // the next one keeps that
        Record::new(root.path()).note(&ATTACHED_NOW).unwrap();
        assert_eq!(
            look(root.path()).last_exit.unwrap().outcome,
            Outcome::Killed
        );
    }

    #[test]
    fn of_a_process_that_cannot_be_seen_nothing_is_made_up() {
        for ops in [Some("sidelane_0.1"), None] {
            let root = machine(ops);
            Record::new(root.path()).note(&ATTACHED_NOW).unwrap();
            // hidepid: of others there is nothing; a captured tree without proc/ has less
            fs::remove_dir_all(root.path().join("proc/1")).unwrap();
            fs::remove_dir_all(root.path().join(format!("proc/{}", process::id()))).unwrap();
            let now = look(root.path());
            let text = now.to_string();
            assert!(
                text.contains("cannot be seen") && !text.contains("killed"),
                "{text}"
            );
            match ops {
                Some(_) => assert!(
                    now.attachment.is_some() && now.last_exit.is_none(),
                    "{text}"
                ),
                None => assert_eq!(now.last_exit.unwrap().outcome, Outcome::Unknown),
            }
            // a loader that is refused meanwhile is no news here either
            let refused = Err(Error::NoBatch {
                origin: String::new(),
            });
            Record::new(root.path()).end(&refused, Some(1)).unwrap();
            assert!(!root.path().join(FOLDER).join(LAST_EXIT).exists());
        }
    }

    #[test]
    fn lengths_are_read_at_a_glance() {
        let lengths = [59, 60, 7500, 90_000].map(length);
        assert_eq!(lengths, ["59 s", "1 min 0 s", "2 h 5 min", "1 d 1 h"]);
    }
}
