//! Cgroup rules: which cgroups exist, and which rules match each.

use crate::rules::{ClassRule, Matcher, matches_cgroup};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Mask of the rules (bit = index) that match the cgroup at `path`, which begins
/// with `/`, or one of its ancestors.
pub(crate) fn rule_mask(rules: &[ClassRule], path: &str) -> u64 {
    rules
        .iter()
        .enumerate()
        .filter(|(_, entry)| matches_cgroup(&entry.rule.matcher, path))
        .fold(0, |mask, (bit, _)| mask | (1 << bit))
}

/// Does any rule look at cgroups?
pub(crate) fn needed(rules: &[ClassRule]) -> bool {
    rules
        .iter()
        .any(|r| matches!(r.rule.matcher, Matcher::Cgroup(_) | Matcher::Unit(_)))
}

/// Where the unified (v2) cgroup hierarchy is mounted, from `proc/self/mounts`
/// below `root`.
pub(crate) fn mount_point(root: &Path) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string(root.join("proc/self/mounts"))?;
    Ok(mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at.replace("\\040", " ")))
    }))
}

/// Ids and paths (from the cgroup root, `/` first) of all cgroups below `mount`.
/// A cgroup that vanishes meanwhile is left out.
pub(crate) fn list(mount: &Path) -> HashMap<u64, String> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Class;

    fn rules(texts: &[&str]) -> Vec<ClassRule> {
        let rule = |t: &&str| ClassRule {
            class: Class::Batch,
            rule: t.parse().unwrap(),
            budget: None,
        };
        texts.iter().map(rule).collect()
    }

    #[test]
    fn the_mask_has_a_bit_for_each_rule_that_matches() {
        let rules = rules(&["cgroup:/a", "user:root", "unit:b.service", "cgroup:/**"]);
        assert_eq!(rule_mask(&rules, "/a/b.service"), 0b1101);
        assert_eq!(rule_mask(&rules, "/c"), 0b1000);
        assert!(needed(&rules));
        assert!(!needed(&rules[1..2]));
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
