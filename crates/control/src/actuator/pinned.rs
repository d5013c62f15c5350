//! Tasks that may run on some CPUs only: those must not be taken from them.

use crate::{Error, Result};
use sidelane_topology::CpuList;
use std::fs;
use std::path::Path;

/// A task that would have nowhere to run.
#[derive(Debug, PartialEq, Eq)]
pub struct Pinned {
    /// Its thread id and name.
    pub task: String,
    /// Where it may run.
    pub cpus: CpuList,
}

/// Tasks below a root's `/proc` that may run on none of the CPUs `left`, kernel threads aside (the
/// kernel moves those). The affinity of such a task would be lost for good.
///
/// # Errors
/// `/proc` cannot be read.
pub fn tasks_without(root: &Path, left: &CpuList) -> Result<Vec<Pinned>> {
    let proc = root.join("proc");
    let entries = fs::read_dir(&proc).map_err(|e| Error::io("read", &proc, e))?;
    let mut found = Vec::new();
    for process in entries.flatten() {
        let is_process = process
            .file_name()
            .to_str()
            .is_some_and(|name| name.parse::<u32>().is_ok());
        // gone meanwhile
        let Ok(tasks) = fs::read_dir(process.path().join("task")) else {
            continue;
        };
        if is_process {
            let statuses = tasks
                .flatten()
                .filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
            found.extend(statuses.filter_map(|status| pinned(&status, left)));
        }
    }
    Ok(found)
}

/// What `/proc/PID/task/TID/status` says of it.
fn pinned(status: &str, left: &CpuList) -> Option<Pinned> {
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.strip_prefix(':')?.trim())
    };
    const KTHREADD: &str = "2";
    let id = value("Pid")?;
    if id == KTHREADD || value("PPid")? == KTHREADD {
        return None;
    }
    let cpus: CpuList = value("Cpus_allowed_list")?.parse().ok()?;
    let fits = cpus.iter().any(|cpu| left.contains(cpu));
    (!fits && !cpus.is_empty()).then(|| Pinned {
        task: format!("{id} ({})", value("Name").unwrap_or("?")),
        cpus,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(id: u32, parent: u32, cpus: &str) -> String {
        format!("Name:\tworker\nPid:\t{id}\nPPid:\t{parent}\nCpus_allowed_list:\t{cpus}\n")
    }

    #[test]
    fn only_tasks_that_would_have_nowhere_to_run() {
        let left: CpuList = "0-1".parse().unwrap();
        assert_eq!(pinned(&status(7, 1, "0-3"), &left), None);
        assert_eq!(pinned(&status(7, 1, "1,3"), &left), None);
        assert_eq!(pinned(&status(7, 2, "3"), &left), None, "a kernel thread");
        let found = pinned(&status(7, 1, "2-3"), &left).unwrap();
        assert_eq!(found.task, "7 (worker)");
        assert_eq!(found.cpus, CpuList::from([2, 3]));
    }

    #[test]
    fn all_threads_of_all_processes_are_looked_at() {
        let root = tempfile::tempdir().unwrap();
        for (process, thread, cpus) in [(7, 7, "0-3"), (7, 8, "3"), (9, 9, "2")] {
            let folder = root.path().join(format!("proc/{process}/task/{thread}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("status"), status(thread, 1, cpus)).unwrap();
        }
        fs::create_dir_all(root.path().join("proc/sys/task/1")).unwrap();
        let left: CpuList = "0-1".parse().unwrap();
        let mut found = tasks_without(root.path(), &left).unwrap();
        found.sort_by_key(|pinned| pinned.task.clone());
        let tasks: Vec<&str> = found.iter().map(|pinned| pinned.task.as_str()).collect();
        assert_eq!(tasks, ["8 (worker)", "9 (worker)"]);
        assert!(tasks_without(&root.path().join("nowhere"), &left).is_err());
    }
}
