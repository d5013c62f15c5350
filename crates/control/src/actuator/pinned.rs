//! Tasks that may run on some CPUs only: those must not be taken from them.

use crate::{Error, Result};
use sidelane_topology::{CpuList, printable};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The kernel's task that all its others are children of.
const KTHREADD: &[u8] = b"2";

/// A task that would have nowhere to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its thread id and name, printable.
    pub task: String,
    /// Where it may run.
    pub cpus: CpuList,
}

/// Refuses a `/proc` that does not show all tasks: one that is not seen may be pinned. Kernels show
/// `kthreadd` in their first PID namespace; where it is missing, others are, too.
///
/// # Errors
/// Tasks are hidden (`hidepid`), or outside this PID namespace.
pub fn check_all_visible(root: &Path) -> Result<()> {
    let proc = root.join("proc");
    if fs::symlink_metadata(proc.join("self")).is_err() {
        return Ok(()); // files, not a kernel's /proc
    }
    let kthreadd = fs::read(proc.join("2/status")).unwrap_or_default();
    match value(&kthreadd, b"PPid") {
        Some(b"0") => Ok(()),
        _ => Err(Error::TasksHidden { proc }),
    }
}

/// Tasks below a root's `/proc` that may run on none of the CPUs `left`, kernel threads aside (the
/// kernel moves those). The affinity of such a task would be lost for good.
///
/// # Errors
/// `/proc`, or one of its tasks, cannot be read: what is not known may be pinned.
pub fn tasks_without(root: &Path, left: &CpuList) -> Result<Vec<Pinned>> {
    let proc = root.join("proc");
    let mut found = Vec::new();
    for process in entries(&proc)?.iter().filter(|path| is_number(path)) {
        for task in entries(&process.join("task"))? {
            let path = task.join("status");
            let Some(status) = unless_gone(&path, fs::read(&path))? else {
                continue;
            };
            found.extend(pinned(&status, left).map_err(|problem| Error::TaskUnknown {
                path: path.clone(),
                problem,
            })?);
        }
    }
    Ok(found)
}

/// What is in a folder; nothing if it is gone, as a task's is when it ends. `/proc` itself has to be there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = || -> std::io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.path()))
            .collect()
    };
    match folder.ends_with("proc") {
        true => read().map_err(|e| Error::io("read", folder, e)),
        false => Ok(unless_gone(folder, read())?.unwrap_or_default()),
    }
}

/// None if the task has ended meanwhile.
fn unless_gone<T>(path: &Path, read: std::io::Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(e) if e.kind() == ErrorKind::NotFound || is_no_process(&e) => Ok(None),
        Err(e) => Err(Error::TaskUnknown {
            path: path.to_owned(),
            problem: e.to_string(),
        }),
    }
}

fn is_no_process(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(nix::errno::Errno::ESRCH as i32)
}

fn is_number(path: &Path) -> bool {
    let name = path
        .file_name()
        .map_or(&[][..], |name| name.as_encoded_bytes());
    !name.is_empty() && name.iter().all(u8::is_ascii_digit)
}

/// The value of a line `Key:\tvalue`; a name may hold any bytes but the end of a line.
fn value<'a>(status: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let mut lines = status.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(b":"))?;
    Some(value.trim_ascii())
}

/// What `/proc/PID/task/TID/status` says of it, or what is wrong with that.
fn pinned(status: &[u8], left: &CpuList) -> std::result::Result<Option<Pinned>, String> {
    let field = |key: &str| {
        let found = value(status, key.as_bytes());
        found.ok_or_else(|| format!("it has no line \"{key}\""))
    };
    let id = field("Pid")?;
    if id == KTHREADD || field("PPid")? == KTHREADD {
        return Ok(None);
    }
    let cpus = String::from_utf8_lossy(field("Cpus_allowed_list")?);
    let cpus: CpuList = cpus.parse().map_err(|e| format!("{e}"))?;
    let fits = cpus.iter().any(|cpu| left.contains(cpu));
    let name = value(status, b"Name").unwrap_or(b"?");
    Ok((!fits && !cpus.is_empty()).then(|| Pinned {
        task: format!("{} ({})", printable(id), printable(name)),
        cpus,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: u32, parent: u32, cpus: &str) -> String {
        format!("Name:\tworker\nPid:\t{id}\nPPid:\t{parent}\nCpus_allowed_list:\t{cpus}\n")
    }

    /// A `/proc` with files of tasks.
    fn proc(tasks: &[(u32, u32, &[u8])]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (process, thread, status) in tasks {
            let folder = root.path().join(format!("proc/{process}/task/{thread}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("status"), status).unwrap();
        }
        root
    }

    fn left() -> CpuList {
        "0-1".parse().unwrap()
    }

    #[test]
    fn only_tasks_that_would_have_nowhere_to_run() {
        let found =
            |id, parent, cpus| pinned(status(id, parent, cpus).as_bytes(), &left()).unwrap();
        assert_eq!(found(7, 1, "0-3"), None);
        assert_eq!(found(7, 1, "1,3"), None);
        assert_eq!(found(7, 2, "3"), None, "a kernel thread");
        let found = found(7, 1, "2-3").unwrap();
        assert_eq!(found.task, "7 (worker)");
        assert_eq!(found.cpus, CpuList::from([2, 3]));
    }

    #[test]
    fn all_threads_of_all_processes_are_looked_at() {
        let of = |id, cpus| status(id, 1, cpus).into_bytes();
        let root = proc(&[
            (7, 7, &of(7, "0-3")),
            (7, 8, &of(8, "3")),
            (9, 9, &of(9, "2")),
        ]);
        fs::create_dir_all(root.path().join("proc/sys/task/1")).unwrap();
        fs::create_dir_all(root.path().join("proc/10")).unwrap(); // it has ended
        let mut found = tasks_without(root.path(), &left()).unwrap();
        found.sort_by_key(|pinned| pinned.task.clone());
        let tasks: Vec<&str> = found.iter().map(|pinned| pinned.task.as_str()).collect();
        assert_eq!(tasks, ["8 (worker)", "9 (worker)"]);
        assert!(tasks_without(&root.path().join("nowhere"), &left()).is_err());
    }

    #[test]
    fn names_are_any_bytes_and_are_printed_without_harm() {
        let status = b"Name:\tx\x1b[2J\xff\nPid:\t7\nPPid:\t1\nCpus_allowed_list:\t5\n";
        let root = proc(&[(7, 7, status)]);
        let found = tasks_without(root.path(), &left()).unwrap();
        assert_eq!(found[0].task, r"7 (x\x1b[2J\xff)");
    }

    #[test]
    fn a_task_that_cannot_be_told_is_not_taken_as_free() {
        for (text, problem) in [
            ("", "no line \"Pid\""),
            ("Name:\tx\nPid:\t7\nPPid:\t1\n", "Cpus_allowed_list"),
            (&status(7, 1, "all"), "\"all\""),
        ] {
            let root = proc(&[(7, 7, text.as_bytes())]);
            let error = tasks_without(root.path(), &left()).unwrap_err().to_string();
            let names = error.contains("proc/7/task/7/status") && error.contains(problem);
            assert!(names, "{error}");
        }
        let root = proc(&[]);
        fs::create_dir_all(root.path().join("proc/7/task/7/status")).unwrap();
        assert!(tasks_without(root.path(), &left()).is_err(), "a folder");
    }

    #[test]
    fn a_proc_that_hides_tasks_is_refused() {
        let root = proc(&[]);
        let proc = root.path().join("proc");
        fs::create_dir_all(proc.join("7")).unwrap();
        assert!(check_all_visible(root.path()).is_ok(), "files");
        std::os::unix::fs::symlink("7", proc.join("self")).unwrap();
        let error = check_all_visible(root.path()).unwrap_err().to_string();
        assert!(error.contains("hidepid"), "{error}");
        fs::create_dir_all(proc.join("2")).unwrap();
        for (parent, visible) in [(1, false), (0, true)] {
            fs::write(proc.join("2/status"), status(2, parent, "0-3")).unwrap();
            assert_eq!(check_all_visible(root.path()).is_ok(), visible);
        }
    }
}
