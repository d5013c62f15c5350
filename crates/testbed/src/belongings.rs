//! What a machine has on the host, and its removal: by this process at the end, or by the reaper
//! when this process was killed.
//!
//! The reaper is a child in a session of its own that holds one end of a pipe. It is told what
//! there is before it comes to be. When the pipe closes without the all-clear, it removes
//! everything.

use crate::error::{During, Error, Result};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, BufRead, ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// How long removal waits for a killed process to leave its cgroups.
const PATIENCE: Duration = Duration::from_secs(10);

/// All that must not be left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Belongings {
    /// QEMU.
    pub process: Option<Process>,
    /// Cgroups, each after those inside it.
    pub cgroups: Vec<PathBuf>,
    /// Files to write last: what was switched on in other cgroups, with the text that switches it
    /// off.
    pub restore: Vec<(PathBuf, String)>,
    /// Folders.
    pub folders: Vec<PathBuf>,
}

/// A process that cannot be mistaken for a later one with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    /// When it started, in the kernel's ticks since boot.
    start: u64,
}

impl Process {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Process> {
        let pid = i32::try_from(pid).ok()?;
        start_of(pid).map(|start| Process { pid, start })
    }

    fn alive(&self) -> bool {
        start_of(self.pid) == Some(self.start)
    }

    fn kill(&self) {
        if self.alive() {
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}

/// Field 22 of `/proc/PID/stat`; none for a process that is gone or only waits to be collected.
fn start_of(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let state = fields.first()?;
    (*state != "Z" && *state != "X").then(|| fields.get(19)?.parse().ok())?
}

impl Belongings {
    /// Removes everything; what is gone already is no error. Gives what could not be removed.
    pub fn remove(&self) -> Vec<String> {
        let mut left = Vec::new();
        if let Some(process) = &self.process {
            process.kill();
            if !patiently(|| !process.alive()) {
                left.push(format!("process {}", process.pid));
            }
        }
        for path in &self.cgroups {
            // The last thread of a killed process leaves a moment after it.
            if !patiently(|| gone(fs::remove_dir(path))) {
                left.push(path.display().to_string());
            }
        }
        for (path, text) in &self.restore {
            // Fails while somebody else uses it by now, and then it must stay.
            let _ = fs::write(path, text);
        }
        for path in &self.folders {
            if !gone(fs::remove_dir_all(path)) {
                left.push(path.display().to_string());
            }
        }
        left
    }
}

fn gone(removed: io::Result<()>) -> bool {
    removed.map_or_else(|error| error.kind() == ErrorKind::NotFound, |()| true)
}

fn patiently(mut done: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while !done() {
        if start.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

/// The belongings and the reaper that knows them.
pub struct Keeper {
    belongings: Belongings,
    reaper: Child,
    pipe: Option<ChildStdin>,
}

impl Keeper {
    /// Starts the reaper, which is `sidelane testbed reaper`.
    pub fn start(sidelane: &Path) -> Result<Keeper> {
        let mut command = Command::new(sidelane);
        command.args(["testbed", "reaper"]);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let own_session = || nix::unistd::setsid().map(|_| ()).map_err(io::Error::from);
        // SAFETY: setsid is async-signal-safe.
        unsafe { command.pre_exec(own_session) };
        let mut reaper = command
            .spawn()
            .during(|| format!("start {}", sidelane.display()))?;
        let pipe = reaper.stdin.take();
        Ok(Keeper {
            belongings: Belongings::default(),
            reaper,
            pipe,
        })
    }

    /// Changes what belongs to the machine; call it before the thing exists where that can be.
    pub fn note(&mut self, change: impl FnOnce(&mut Belongings)) -> Result<()> {
        change(&mut self.belongings);
        self.tell().map_err(|source| Error::Io {
            what: "tell the reaper".into(),
            source,
        })
    }

    fn tell(&mut self) -> io::Result<()> {
        let mut line = serde_json::to_vec(&self.belongings)?;
        line.push(b'\n');
        match &mut self.pipe {
            Some(pipe) => pipe.write_all(&line),
            None => Ok(()),
        }
    }

    /// Removes everything and dismisses the reaper. Gives what could not be removed.
    pub fn remove(&mut self) -> Vec<String> {
        let left = self.belongings.remove();
        self.belongings = Belongings::default();
        let _ = self.tell();
        self.pipe = None;
        let _ = self.reaper.wait();
        left
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Runs the reaper: remembers what it is told and removes it when the other side is gone.
pub fn reap() -> io::Result<()> {
    let mut all = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
        .into_iter()
        .for_each(|s| all.add(s));
    all.thread_block()?;
    let mut last = Belongings::default();
    for line in io::stdin().lock().lines() {
        // A line cut short by the other side's end is no news.
        if let Ok(belongings) = serde_json::from_str(&line?) {
            last = belongings;
        }
    }
    last.remove();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_removed_and_what_is_gone_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        let tree = folder.path().join("tree");
        fs::create_dir_all(&inner).unwrap();
        fs::create_dir_all(tree.join("x")).unwrap();
        fs::write(tree.join("x/file"), "1").unwrap();
        let switch = folder.path().join("switch");
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let belongings = Belongings {
            process: Process::of(child.id()),
            cgroups: vec![inner, outer.clone()],
            restore: vec![(switch.clone(), "-cpu".into())],
            folders: vec![tree.clone()],
        };
        let text = serde_json::to_string(&belongings).unwrap();
        assert_eq!(
            serde_json::from_str::<Belongings>(&text).unwrap(),
            belongings
        );
        let collect = std::thread::spawn(move || child.wait().unwrap());
        assert!(belongings.remove().is_empty());
        assert!(!collect.join().unwrap().success());
        assert!(!outer.exists() && !tree.exists());
        assert_eq!(fs::read_to_string(switch).unwrap(), "-cpu");
        assert!(belongings.remove().is_empty());
    }

    #[test]
    fn another_process_with_the_same_number_is_spared() {
        let me = Process::of(std::process::id()).unwrap();
        let earlier = Process {
            start: me.start - 1,
            ..me
        };
        assert!(me.alive() && !earlier.alive());
        earlier.kill();
    }
}
