//! Which cgroups exist, their `cpu.max`, and their labels ([`sidelane_label`]).

pub use sidelane_label::{Label, folder, label, mount_point, set_label};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// `cpu.max` of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Its path below the cgroup root.
    pub cgroup: String,
    /// Time on lanes in each period.
    pub quota_ns: u64,
    /// Length of a period.
    pub period_ns: u64,
}

impl Quota {
    /// From the text of `cpu.max`, such as "50000 100000"; none: it sets no limit.
    pub fn parse(cgroup: &str, text: &str) -> Option<Quota> {
        let mut words = text.split_whitespace();
        let mut us = || words.next()?.parse::<u64>().ok()?.checked_mul(1_000);
        Some(Quota {
            cgroup: cgroup.to_owned(),
            quota_ns: us()?.max(1), // 0 is no limit
            period_ns: us()?,
        })
    }

    /// How many lanes it allows on the mean: quota ÷ period.
    pub fn lanes(&self) -> Option<f64> {
        (self.period_ns > 0).then(|| self.quota_ns as f64 / self.period_ns as f64)
    }
}

/// Ids and paths (from the cgroup root, `/` first) of all cgroups below `mount`.
/// A cgroup that vanishes meanwhile is left out.
pub fn list(mount: &Path) -> HashMap<u64, String> {
    let mut found = HashMap::new();
    let mut pending = vec![mount.to_owned()];
    while let Some(folder) = pending.pop() {
        let Ok(metadata) = fs::metadata(&folder) else {
            continue;
        };
        if let Ok(below) = folder.strip_prefix(mount) {
            // on 64-bit kernels the inode number is the cgroup's id
            found.insert(metadata.ino(), format!("/{}", below.to_string_lossy()));
        }
        let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
        pending.extend(
            entries
                .filter(|e| e.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|e| e.path()),
        );
    }
    found
}

/// Of these paths those that are below no other of them, ascending.
pub fn topmost(paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut paths: Vec<String> = paths.collect();
    paths.sort();
    let mut top: Vec<String> = Vec::new();
    for path in paths {
        if !top.iter().any(|top| Path::new(&path).starts_with(top)) {
            top.push(path);
        }
    }
    top
}

/// The `cpu.max` of the cgroup at `path` below `mount`, if it sets a limit.
pub fn quota(mount: &Path, path: &str) -> Option<Quota> {
    let file = folder(mount, path).join("cpu.max");
    Quota::parse(path, &fs::read_to_string(file).ok()?)
}

/// The limits that the `cpu.max` of these cgroups below `mount` set, ascending by path.
pub fn quotas<'a>(mount: &Path, paths: impl Iterator<Item = &'a String>) -> Vec<Quota> {
    let mut paths: Vec<&String> = paths.collect();
    paths.sort();
    let quotas = paths.into_iter().filter_map(|path| quota(mount, path));
    quotas.collect()
}

/// The labels of the cgroups at these paths, of those that have one.
pub fn labels<'a>(mount: &Path, paths: impl Iterator<Item = &'a String>) -> HashMap<String, Label> {
    let labelled = |path: &String| Some((path.clone(), label(mount, path)?));
    paths.filter_map(labelled).collect()
}

/// Tells that a label may have changed.
pub struct LabelChanges(Inotify);

impl LabelChanges {
    /// Of no cgroup yet.
    ///
    /// # Errors
    /// The kernel has no inotify instance left.
    pub fn begin() -> io::Result<LabelChanges> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Ok(LabelChanges(Inotify::init(flags)?))
    }

    /// Also of these cgroups; what is watched already stays so, and what is gone is forgotten.
    ///
    /// # Errors
    /// The kernel has no watch left (fs.inotify.max_user_watches).
    pub fn watch<'a>(
        &self,
        mount: &Path,
        paths: impl Iterator<Item = &'a String>,
    ) -> io::Result<()> {
        for path in paths {
            match self
                .0
                .add_watch(&folder(mount, path), AddWatchFlags::IN_ATTRIB)
            {
                Ok(_) | Err(nix::Error::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Were there some since the last time?
    pub fn any(&self) -> bool {
        let mut any = false;
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_label::ATTRIBUTE;

    #[test]
    fn a_quota_allows_lanes() {
        let quota = |text| Quota::parse("/a", text);
        assert_eq!(quota("150000 100000\n").unwrap().lanes(), Some(1.5));
        assert_eq!(quota("5 0").unwrap().lanes(), None);
        for none in ["max 100000\n", "", "5", "a b"] {
            assert_eq!(quota(none), None, "{none:?}");
        }
    }

    #[test]
    fn cgroups_are_listed_with_their_paths() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/cgroup.procs"), "").unwrap();
        let mut paths: Vec<_> = list(root.path()).into_values().collect();
        paths.sort();
        assert_eq!(paths, ["/", "/a", "/a/b"]);
    }

    #[test]
    fn labels_are_set_seen_and_taken_away() {
        let mount = tempfile::tempdir().unwrap();
        let mount = mount.path();
        if xattr::set(mount, ATTRIBUTE, b"x").is_err() {
            eprintln!("no extended attributes where temporary files are: nothing tested");
            return;
        }
        xattr::remove(mount, ATTRIBUTE).unwrap();
        fs::create_dir_all(mount.join("a/b")).unwrap();
        let paths = ["/", "/a", "/a/b", "/gone"].map(str::to_owned);
        let changes = LabelChanges::begin().unwrap();
        changes.watch(mount, paths.iter()).unwrap();
        assert!(!changes.any() && labels(mount, paths.iter()).is_empty());
        let [batch, mut critical] = ["batch", "critical"].map(Label::new);
        set_label(mount, "/a", Some(&critical)).unwrap();
        assert!(changes.any() && !changes.any());
        critical.objective = Some("p99 < 20 ms".to_owned());
        set_label(mount, "/a", Some(&critical)).unwrap();
        assert!(changes.any());
        set_label(mount, "/", Some(&batch)).unwrap();
        let known = labels(mount, paths.iter());
        assert_eq!(known.len(), 2);
        assert_eq!(label(mount, "/a"), Some(critical));
        set_label(mount, "/a", Some(&batch)).unwrap(); // the objective goes with the word that had it
        assert_eq!(label(mount, "/a").as_ref(), Some(&batch));
        for _ in 0..2 {
            set_label(mount, "/a", None).unwrap(); // also without one
        }
        assert_eq!(label(mount, "/a"), None);
        assert!(set_label(mount, "/gone", Some(&batch)).is_err());
        assert!(set_label(mount, "/gone", None).is_err());
    }
}
