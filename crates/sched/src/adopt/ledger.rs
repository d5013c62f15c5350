//! What adopted tasks had, in a file that outlives this process.
//!
//! A line is appended before a task's policy is changed. The file is in memory, as policies are: gone with the next boot.

use super::policy::{EXT, Had, IDLE, Stat, Tid};
use crate::Error;
use nix::fcntl::{Flock, FlockArg};
use serde::Serialize;
use sidelane_kernel::public_folder;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Where the ledger is kept.
pub(crate) const PATH: &str = "/run/sidelane/adopted";
/// What differs from boot to boot, below the root folder.
pub(crate) const BOOT: &str = "proc/sys/kernel/random/boot_id";
/// So many lines more than twice what lived when it was last written anew, and it is written anew.
const SPARE: usize = 4096;
const TITLE: &str = "sidelane-adopted 1";

/// What is known of a task that was adopted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// When it was made, in clock ticks since boot.
    pub start: u64,
    /// What it had before; of a task that chose its policy itself: `SCHED_EXT`.
    pub had: Had,
    /// It is with the kernel's scheduler for a while.
    pub lent: bool,
}

impl Entry {
    /// Is the task of this number still the one that it is about?
    fn lives(&self, tid: Tid) -> bool {
        Stat::of(tid).is_some_and(|stat| stat.start == self.start)
    }

    /// Has the task what it had, with this policy? So it is where not all could be given back.
    pub fn is_given_back(&self, policy: u32) -> bool {
        policy == self.had.policy && !self.is_left() && !(self.lent && policy == IDLE)
    }

    /// Is the task to be left alone?
    pub fn is_left(&self) -> bool {
        self.had.policy == EXT
    }
}

/// Threads that a scheduler of batch alone has at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Adopted {
    /// With the scheduler.
    pub adopted: usize,
    /// With the kernel's, for a while: others kept them from all their lanes.
    pub lent: usize,
}

impl Adopted {
    fn of(entries: &Entries) -> Adopted {
        let threads = entries.values().filter(|entry| !entry.is_left());
        let (lent, adopted): (Vec<&Entry>, Vec<&Entry>) = threads.partition(|entry| entry.lent);
        Adopted {
            adopted: adopted.len(),
            lent: lent.len(),
        }
    }
}

/// The ledger, held by one process at a time.
#[derive(Debug)]
pub(crate) struct Ledger {
    path: PathBuf,
    file: Option<File>,
    entries: Entries,
    lines: usize,
    /// Entries when the file was last written anew. Those of tasks that have ended since are still there.
    lived: usize,
    _lock: Flock<File>,
}

impl Ledger {
    /// Takes it, with what an earlier process of this boot left there.
    pub fn hold(path: &Path) -> Result<Ledger, Error> {
        if let Some(folder) = path.parent() {
            public_folder(folder).map_err(error("create", folder))?;
        }
        let lock = lock(path)?;
        let mut ledger = Ledger {
            path: path.to_owned(),
            file: None,
            entries: Entries::new(),
            lines: 0,
            lived: 0,
            _lock: lock,
        };
        match fs::read_to_string(path) {
            Ok(text) => ledger.read(&text)?,
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(error("read", path)(e)),
        }
        Ok(ledger)
    }

    fn read(&mut self, text: &str) -> Result<(), Error> {
        let said = said(text, &boot()).ok_or_else(|| Error::Ledger {
            path: self.path.clone(),
            problem: "read it: this is no ledger of adopted tasks; remove it".to_owned(),
        })?;
        (self.entries, self.lines) = said;
        Ok(())
    }

    /// What is known of the task of this number that was made then.
    pub fn get(&self, tid: Tid, start: u64) -> Option<Entry> {
        let entry = self.entries.get(&tid).copied();
        entry.filter(|entry| entry.start == start)
    }

    /// All numbers.
    pub fn tids(&self) -> impl Iterator<Item = Tid> {
        self.entries.keys().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes what is to be known from now on.
    pub fn put(&mut self, tid: Tid, entry: Entry) -> Result<(), Error> {
        self.append(&line(tid, &entry))?;
        self.entries.insert(tid, entry);
        Ok(())
    }

    /// There is nothing more to know of a task.
    pub fn remove(&mut self, tid: Tid) -> Result<(), Error> {
        if self.entries.remove(&tid).is_some() {
            self.append(&format!("- {tid}\n"))?;
        }
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), Error> {
        if self.file.is_none() || self.lines > 2 * self.lived + SPARE {
            self.compact()?;
        }
        self.lines += 1;
        match &mut self.file {
            // in one go: what is killed between two leaves no half
            Some(file) => {
                let written = file.write_all(line.as_bytes());
                if written.is_err() {
                    self.file = None; // half a line may stand there: the next one is written anew with all
                }
                written.map_err(error("write", &self.path))
            }
            None => Ok(()),
        }
    }

    /// Writes the file anew, without tasks that have ended.
    fn compact(&mut self) -> Result<(), Error> {
        self.entries.retain(|tid, entry| entry.lives(*tid));
        let mut text = format!("{TITLE} {}\n", boot());
        text.extend(self.entries.iter().map(|(tid, entry)| line(*tid, entry)));
        let new = self.path.with_extension("new");
        fs::write(&new, text).map_err(error("write", &new))?;
        fs::rename(&new, &self.path).map_err(error("replace", &self.path))?;
        let file = OpenOptions::new().append(true).open(&self.path);
        self.file = Some(file.map_err(error("open", &self.path))?);
        self.lived = self.entries.len();
        self.lines = self.lived;
        Ok(())
    }

    /// Everything is as it was: the file goes.
    pub fn clear(&mut self) -> Result<(), Error> {
        (self.entries, self.file) = (Entries::new(), None);
        (self.lines, self.lived) = (0, 0);
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(error("remove", &self.path)(e)),
            _ => Ok(()),
        }
    }
}

fn error(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::Ledger {
        path: path.to_owned(),
        problem: format!("{verb} it: {e}"),
    }
}

fn lock(path: &Path) -> Result<Flock<File>, Error> {
    let path = path.with_extension("lock");
    let file = File::create(&path).map_err(error("create", &path))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(held) => Ok(held),
        Err((_, nix::Error::EWOULDBLOCK)) => Err(Error::LedgerHeld { path }),
        Err((_, e)) => Err(error("lock", &path)(e.into())),
    }
}

/// The boot that the first line names: what stands below is about that one.
fn boot() -> String {
    fs::read_to_string(format!("/{BOOT}")).map_or(String::new(), |boot| boot.trim().to_owned())
}

/// The living threads of the ledger of this machine, whoever holds it; none: it cannot be read.
pub(crate) fn adopted() -> Option<Adopted> {
    let text = match fs::read_to_string(PATH) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Some(Adopted::default()),
        text => text.ok()?,
    };
    let (mut entries, _) = said(&text, &boot())?;
    entries.retain(|tid, entry| entry.lives(*tid));
    Some(Adopted::of(&entries))
}

type Entries = HashMap<Tid, Entry>;

/// What a ledger says of tasks of this boot, and in how many lines; none: it is no ledger.
fn said(text: &str, boot: &str) -> Option<(Entries, usize)> {
    let (mut entries, mut lines) = (Entries::new(), 0);
    let Some((first, rest)) = text.split_once('\n') else {
        return Some((entries, lines)); // killed before the first line was whole: nothing was changed
    };
    if first.strip_prefix(TITLE)?.trim() != boot {
        return Some((entries, lines));
    }
    // one that has no end was not written whole: what it was for did not happen
    let whole = rest.split_inclusive('\n').filter(|l| l.ends_with('\n'));
    for line in whole {
        lines += 1;
        match parse(line.trim_end()) {
            Some((tid, Some(entry))) => drop(entries.insert(tid, entry)),
            Some((tid, None)) => drop(entries.remove(&tid)),
            None => {}
        }
    }
    Some((entries, lines))
}

/// How many threads a ledger has, and how many of these are lent; none: it is no ledger.
pub(crate) fn count(text: &str, boot: &str) -> Option<Adopted> {
    let (entries, _) = said(text, boot)?;
    Some(Adopted::of(&entries))
}

fn line(tid: Tid, entry: &Entry) -> String {
    let Entry { start, had, lent } = entry;
    let lent = u32::from(*lent);
    format!("+ {tid} {start} {} {} {lent}\n", had.policy, had.nice)
}

/// A task, and its entry; none: it has one no longer.
fn parse(line: &str) -> Option<(Tid, Option<Entry>)> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["-", tid] => Some((tid.parse().ok()?, None)),
        ["+", tid, start, policy, nice, lent] => {
            let entry = Entry {
                start: start.parse().ok()?,
                had: Had {
                    policy: policy.parse().ok()?,
                    nice: nice.parse().ok()?,
                },
                lent: lent == "1",
            };
            Some((tid.parse().ok()?, Some(entry)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(start: u64, nice: i32) -> Entry {
        Entry {
            start,
            had: Had { policy: 3, nice },
            lent: false,
        }
    }

    fn own() -> (Tid, u64) {
        let tid = std::process::id();
        (tid, Stat::of(tid).unwrap().start)
    }

    #[test]
    fn what_was_written_is_there_after_a_crash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run/adopted");
        let mut ledger = Ledger::hold(&path).unwrap();
        assert!(ledger.is_empty() && !path.exists());
        ledger.put(5, entry(70, -3)).unwrap();
        ledger.put(6, entry(80, 0)).unwrap();
        let lent = Entry {
            lent: true,
            ..entry(80, 0)
        };
        ledger.put(6, lent).unwrap();
        ledger.put(7, entry(90, 0)).unwrap();
        ledger.remove(7).unwrap();
        drop(ledger);
        let mut ledger = Ledger::hold(&path).unwrap();
        assert_eq!(ledger.get(5, 70), Some(entry(70, -3)));
        assert_eq!(ledger.get(5, 71), None, "another task of that number");
        assert_eq!((ledger.get(6, 80), ledger.get(7, 90)), (Some(lent), None));
        ledger.clear().unwrap();
        assert!(!path.exists());
        ledger.clear().unwrap();
    }

    #[test]
    fn a_line_without_an_end_and_nonsense_are_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        let boot = boot();
        let text =
            format!("{TITLE} {boot}\n+ 1 2 0 0 0\nwhat\n+ 3 x 0 0 0\n+ 4 5 0 0 0\n- 1\n+ 6 7 0 0");
        fs::write(&path, &text).unwrap();
        let ledger = Ledger::hold(&path).unwrap();
        assert_eq!(ledger.tids().collect::<Vec<_>>(), [4]);
        assert_eq!(count(&text, "another"), Some(Adopted::default()));
        let of = |adopted, lent| Some(Adopted { adopted, lent });
        assert_eq!(count(&text, &boot), of(1, 0));
        let more = format!("{text} 0\n+ 5 5 0 0 1\n+ 7 5 {EXT} 0 0\n");
        assert_eq!(count(&more, &boot), of(2, 1));
        assert_eq!(count("something", &boot), of(0, 0));
        assert_eq!(count("something\n", &boot), None);
    }

    #[test]
    fn after_another_boot_nothing_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        fs::write(&path, format!("{TITLE} another\n+ 1 2 0 0 0\n")).unwrap();
        assert!(Ledger::hold(&path).unwrap().is_empty());
    }

    #[test]
    fn another_file_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        fs::write(&path, "something\nelse\n").unwrap();
        let error = Ledger::hold(&path).unwrap_err().to_string();
        assert!(error.contains("no ledger") && path.exists(), "{error}");
    }

    #[test]
    fn what_was_given_back_is_told_from_what_is_adopted_or_left() {
        let of = |policy, lent, now| {
            let had = Had { policy, nice: 0 };
            let start = 1;
            Entry { start, had, lent }.is_given_back(now)
        };
        assert!(of(3, false, 3) && of(IDLE, false, IDLE) && of(3, true, 3));
        assert!(!of(3, false, EXT) && !of(EXT, false, EXT) && !of(IDLE, true, IDLE));
    }

    #[test]
    fn one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        let _ledger = Ledger::hold(&path).unwrap();
        let error = Ledger::hold(&path).unwrap_err();
        assert!(matches!(error, Error::LedgerHeld { .. }), "{error}");
    }

    #[test]
    fn it_does_not_grow_with_tasks_that_have_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("adopted");
        let mut ledger = Ledger::hold(&path).unwrap();
        let (tid, start) = own();
        ledger.put(tid, entry(start, 5)).unwrap();
        // numbers that come again, and such that no task has
        let numbers: [fn(u32) -> Tid; 2] = [|other| 1 + other % 7, |other| (1 << 30) + other];
        for number in numbers {
            for other in 0..3 * SPARE as u32 {
                let made = u64::MAX - u64::from(other);
                ledger.put(number(other), entry(made, 0)).unwrap();
            }
            let lines = fs::read_to_string(&path).unwrap().lines().count();
            assert!(lines <= SPARE + 100, "{lines}");
            assert!(ledger.entries.len() <= SPARE + 100);
        }
        drop(ledger);
        let ledger = Ledger::hold(&path).unwrap();
        assert_eq!(ledger.get(tid, start), Some(entry(start, 5)));
    }
}
