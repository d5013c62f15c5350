//! Cgroup rules: which cgroups exist, and which rules match each.

use crate::pool_table::Quota;
use crate::rules::{ClassRule, Matcher, matches_cgroup};
use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The first of the rules that match the cgroup at `path`, which begins with `/`, or one of its
/// ancestors, as the scheduler counts: 1 for the first; 0: none.
pub(crate) fn first_rule(rules: &[ClassRule], path: &str) -> u32 {
    let mut rules = rules.iter();
    let first = rules.position(|entry| matches_cgroup(&entry.rule.matcher, path));
    first.map_or(0, |index| index as u32 + 1)
}

/// Does any rule look at cgroups?
pub(crate) fn needed(rules: &[ClassRule]) -> bool {
    rules
        .iter()
        .any(|r| matches!(r.rule.matcher, Matcher::Cgroup(_) | Matcher::Unit { .. }))
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

/// What the scheduler is to know of a cgroup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its `cpu.weight`; none without the cpu controller, or if nobody asks.
    pub weight: Option<u32>,
    /// The nearest cgroup that has one: it, or an ancestor; 0: none.
    pub group: u64,
    /// If it has one: the nearest ancestor that has one; 0: none.
    pub parent: u64,
}

/// The facts of cgroups by their paths; `weight` tells that of a path.
pub(crate) fn facts(
    cgroups: &HashMap<u64, String>,
    weight: impl Fn(&str) -> Option<u32>,
) -> HashMap<u64, Facts> {
    let by_path: HashMap<&str, (u64, Option<u32>)> = cgroups
        .iter()
        .map(|(&id, path)| (path.as_str(), (id, weight(path))))
        .collect();
    let weighted = |path: &&str| {
        by_path
            .get(path)
            .is_some_and(|(_, weight)| weight.is_some())
    };
    let id_of = |path: &str| by_path.get(path).map_or(0, |(id, _)| *id);
    let facts = |(&id, path): (&u64, &String)| {
        let mut nearest = up(path).filter(weighted).map(id_of);
        let group = nearest.next().unwrap_or(0);
        let facts = Facts {
            weight: by_path.get(path.as_str()).and_then(|(_, weight)| *weight),
            group,
            parent: if group == id {
                nearest.next().unwrap_or(0)
            } else {
                0
            },
        };
        (id, facts)
    };
    cgroups.iter().map(facts).collect()
}

/// A path, and those of the cgroups around it, up to the root.
pub(crate) fn up(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |at| match at.rfind('/') {
        Some(0) if at.len() > 1 => Some("/"),
        Some(slash) if slash > 0 => Some(&at[..slash]),
        _ => None,
    })
}

/// The `cpu.weight` of the cgroup at `path` below `mount`.
pub(crate) fn weight(mount: &Path, path: &str) -> Option<u32> {
    let file = mount.join(path.trim_start_matches('/')).join("cpu.weight");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The `cpu.max` of the cgroup at `path` below `mount`, if it sets a limit.
pub(crate) fn quota(mount: &Path, path: &str) -> Option<Quota> {
    let file = mount.join(path.trim_start_matches('/')).join("cpu.max");
    Quota::parse(path, &fs::read_to_string(file).ok()?)
}

/// The limits that the `cpu.max` of these cgroups below `mount` set, ascending by path.
pub(crate) fn quotas<'a>(mount: &Path, paths: impl Iterator<Item = &'a String>) -> Vec<Quota> {
    let mut paths: Vec<&String> = paths.collect();
    paths.sort();
    let quotas = paths.into_iter().filter_map(|path| quota(mount, path));
    quotas.collect()
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
    fn the_first_rule_that_matches_is_found_wherever_it_stands() {
        let mut texts = vec!["user:root"; 100];
        texts.extend(["cgroup:/a", "unit:b.service", "cgroup:/**"]);
        let rules = rules(&texts);
        let first = |path| first_rule(&rules, path);
        assert_eq!(
            [first("/a/x"), first("/b.service"), first("/c")],
            [101, 102, 103]
        );
        assert_eq!(first_rule(&rules[..101], "/c"), 0);
        assert!(needed(&rules));
        assert!(!needed(&rules[..100]));
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
    fn cgroups_without_a_weight_are_part_of_those_around_them() {
        let paths = ["/", "/a", "/a/b", "/a/b/c", "/d"].map(str::to_owned);
        let cgroups: HashMap<u64, String> = (1..).zip(paths).collect();
        let weight = |path: &str| ["/a", "/a/b/c"].contains(&path).then_some(200);
        let facts = facts(&cgroups, weight);
        let of = |id| (facts[&id].weight, facts[&id].group, facts[&id].parent);
        assert_eq!(of(1), (None, 0, 0));
        assert_eq!(of(2), (Some(200), 2, 0));
        assert_eq!(of(3), (None, 2, 0));
        assert_eq!(of(4), (Some(200), 4, 2));
        assert_eq!(of(5), (None, 0, 0));
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
