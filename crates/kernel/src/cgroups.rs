//! Which cgroups exist, and their `cpu.max`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Where the unified (v2) cgroup hierarchy is mounted, from `proc/self/mounts`
/// below `root`.
pub fn mount_point(root: &Path) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string(root.join("proc/self/mounts"))?;
    Ok(mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at.replace("\\040", " ")))
    }))
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

/// The `cpu.max` of the cgroup at `path` below `mount`, if it sets a limit.
pub fn quota(mount: &Path, path: &str) -> Option<Quota> {
    let file = mount.join(path.trim_start_matches('/')).join("cpu.max");
    Quota::parse(path, &fs::read_to_string(file).ok()?)
}

/// The limits that the `cpu.max` of these cgroups below `mount` set, ascending by path.
pub fn quotas<'a>(mount: &Path, paths: impl Iterator<Item = &'a String>) -> Vec<Quota> {
    let mut paths: Vec<&String> = paths.collect();
    paths.sort();
    let quotas = paths.into_iter().filter_map(|path| quota(mount, path));
    quotas.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
