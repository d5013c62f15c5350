//! What a cgroup says of itself: its label, extended attributes of its folder. Rules `label:WORD` of the scheduler compare the
//! word. They go with the cgroup. And what the agent of a Kubernetes node tells of itself ([`node`]).

pub mod node;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the extended attribute that has the word.
pub const ATTRIBUTE: &str = "user.sidelane.class";
/// Of the one that has the objective.
pub const OBJECTIVE: &str = "user.sidelane.objective";

/// The label of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// What rules compare: critical, normal, batch or another word.
    pub word: String,
    /// The latency that few jobs of the cgroup's critical tasks may exceed, such as "p99 < 20 ms", as it is written there.
    pub objective: Option<String>,
}

impl Label {
    /// One without an objective.
    pub fn new(word: &str) -> Label {
        Label {
            word: word.to_owned(),
            objective: None,
        }
    }
}

impl fmt::Display for Label {
    /// The word, and the objective if there is one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.word)?;
        match &self.objective {
            Some(objective) => write!(f, ", {objective}"),
            None => Ok(()),
        }
    }
}

/// Where the unified (v2) cgroup hierarchy is mounted, from `proc/self/mounts` below `root`; none: it is not.
///
/// # Errors
/// That file cannot be read.
pub fn mount_point(root: &Path) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string(root.join("proc/self/mounts"))?;
    Ok(mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at.replace("\\040", " ")))
    }))
}

/// The folder of the cgroup at `path`, which begins with `/`.
pub fn folder(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// The label of the cgroup at `path` below `mount`; none without a word, or if the cgroup is gone.
pub fn label(mount: &Path, path: &str) -> Option<Label> {
    let folder = folder(mount, path);
    let text = |attribute| {
        let value = xattr::get(&folder, attribute).ok()??;
        Some(String::from_utf8_lossy(&value).trim().to_owned())
    };
    Some(Label {
        word: text(ATTRIBUTE)?,
        objective: text(OBJECTIVE),
    })
}

/// Gives a cgroup this label, or takes its label away, if it has one.
///
/// # Errors
/// No such cgroup, no right to write it, or a kernel before 5.7, whose cgroups have no such attributes.
pub fn set_label(mount: &Path, path: &str, label: Option<&Label>) -> io::Result<()> {
    let folder = folder(mount, path);
    let set = |attribute, text: Option<&String>| match text {
        Some(text) => xattr::set(&folder, attribute, text.as_bytes()),
        None => xattr::remove(&folder, attribute).or_else(|error| match error.raw_os_error() {
            Some(libc::ENODATA) => Ok(()),
            _ => Err(error),
        }),
    };
    // the objective first: without a word it is none
    set(OBJECTIVE, label.and_then(|label| label.objective.as_ref()))?;
    set(ATTRIBUTE, label.map(|label| &label.word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_mount_is_found_among_others() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\nc2 /sys/fs/cgroup/my\\040own cgroup2 rw 0 0\n";
        fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        assert_eq!(
            mount_point(root.path()).unwrap(),
            Some("/sys/fs/cgroup/my own".into())
        );
    }
}
