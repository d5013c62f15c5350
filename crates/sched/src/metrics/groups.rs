//! Cgroups over the readings: their paths, and what was told of each.

use super::failed;
use super::reading::{Cgroups, entries, not_back};
use crate::bpf::metrics::MetricsSkel;
use crate::bpf::metrics_intf as intf;
use crate::{Error, cgroups};
use libbpf_rs::{ErrorKind, MapCore};
use sidelane_smt::snapshot::CgroupTotals;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

/// Removed cgroups by id, with the path of each; empty if it is not known.
pub(super) type Removed = BTreeMap<u64, String>;

/// With so many removed cgroups in the kernel's table a reading makes room.
pub(super) const CROWD: u64 = intf::metrics_limits_METRICS_CGROUPS_MAX as u64 / 4;

/// The cgroups of the kernel's table that were removed and not forgotten yet.
pub(super) fn removed(skel: &MetricsSkel<'_>) -> Result<Removed, Error> {
    let entries = entries::<u64, intf::metrics_removed>(&skel.maps.metrics_removed)?;
    let path = |removed: &intf::metrics_removed| {
        let bytes = removed.path.iter().map(|&c| c as u8);
        let bytes: Vec<u8> = bytes.take_while(|&c| c != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let entries = entries.into_iter();
    Ok(entries.map(|(id, gone)| (id, path(&gone))).collect())
}

/// Makes room in the kernel's tables: what they held of these cgroups has been read.
pub(super) fn forget(skel: &MetricsSkel<'_>, removed: &Removed) -> Result<(), Error> {
    let drop_from =
        |map: &dyn Fn(&[u8]) -> libbpf_rs::Result<()>, id: u64| match map(&id.to_ne_bytes()) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("forget what")(error)),
            _ => Ok(()),
        };
    for id in removed.keys() {
        drop_from(&|key| skel.maps.metrics_cgroups.delete(key), *id)?;
        drop_from(&|key| skel.maps.metrics_removed.delete(key), *id)?;
    }
    Ok(())
}

/// What is known of the cgroups in the kernel's table: what was told once does not go back.
#[derive(Default)]
pub(super) struct CgroupTable {
    mount: Option<PathBuf>,
    /// By id; empty if it is not known.
    paths: HashMap<u64, String>,
    told: Cgroups,
}

impl CgroupTable {
    /// Of the hierarchy mounted there.
    pub(super) fn new(mount: Option<PathBuf>) -> CgroupTable {
        CgroupTable {
            mount,
            ..CgroupTable::default()
        }
    }

    /// The totals now, with paths where known. Those that were removed are told for the last time.
    pub(super) fn update(&mut self, now: Cgroups, removed: &Removed) -> Vec<CgroupTotals> {
        self.look_for_paths(&now, removed);
        for (id, mut usage) in now {
            let told = self.told.entry(id).or_default();
            not_back(&mut usage, told);
            *told = usage;
        }
        let told = self.told.iter().filter(|(_, usage)| !usage.is_empty());
        let totals = told.map(|(id, usage)| CgroupTotals {
            id: *id,
            path: self.paths.get(id).filter(|path| !path.is_empty()).cloned(),
            usage: usage.clone(),
        });
        let totals = totals.collect();
        self.told.retain(|id, _| !removed.contains_key(id));
        totals
    }

    fn look_for_paths(&mut self, groups: &Cgroups, removed: &Removed) {
        self.paths.retain(|id, _| groups.contains_key(id));
        for (id, path) in removed {
            let known = self.paths.entry(*id).or_default();
            if known.is_empty() {
                known.clone_from(path);
            }
        }
        let unknown = |id: &u64| *id != 0 && !self.paths.contains_key(id);
        if !groups.keys().any(unknown) {
            return;
        }
        let found = self.mount.as_deref().map(cgroups::list);
        let mut found = found.unwrap_or_default();
        for id in groups.keys() {
            let path = self.paths.entry(*id);
            path.or_insert_with(|| found.remove(id).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_smt::snapshot::Usage;

    fn usage(raw_ns: u64) -> Usage {
        Usage {
            raw_ns,
            ..Usage::default()
        }
    }

    #[test]
    fn what_was_told_of_a_cgroup_does_not_go_back() {
        let mut table = CgroupTable::default();
        table.paths.insert(7, "/a".to_owned());
        for (now, told) in [(10, 10), (8, 10), (12, 12)] {
            let now = Cgroups::from([(7, usage(now)), (0, Usage::default())]);
            let groups = table.update(now, &Removed::new());
            assert_eq!(groups.len(), 1);
            assert_eq!(groups[0].usage.raw_ns, told);
            assert_eq!(groups[0].path.as_deref(), Some("/a"));
        }
    }

    #[test]
    fn a_removed_cgroup_is_told_once_more_and_forgotten() {
        let mut table = CgroupTable::default();
        let living = Cgroups::from([(1, usage(5))]);
        for id in 2..5_000 {
            let mut now = living.clone();
            now.insert(id, usage(id));
            let groups = table.update(now, &Removed::from([(id, format!("/{id}"))]));
            assert_eq!(groups.len(), 2);
            assert_eq!(groups[1].path, Some(format!("/{id}")));
            assert_eq!(groups[1].usage.raw_ns, id);
            assert_eq!(table.update(living.clone(), &Removed::new()).len(), 1);
            assert!(table.paths.len() <= 2 && table.told.len() == 1);
        }
    }

    #[test]
    fn paths_come_from_the_mount_and_stay_once_the_folder_is_gone() {
        use std::os::unix::fs::MetadataExt;
        let mount = tempfile::tempdir().unwrap();
        let folder = mount.path().join("a");
        std::fs::create_dir(&folder).unwrap();
        let id = std::fs::metadata(&folder).unwrap().ino();
        let mut table = CgroupTable::new(Some(mount.path().to_owned()));
        for removed in [Removed::new(), Removed::from([(id, String::new())])] {
            let groups = table.update(Cgroups::from([(id, usage(3))]), &removed);
            assert_eq!(groups[0].path.as_deref(), Some("/a"));
            std::fs::remove_dir(&folder).unwrap_or_default();
        }
    }
}
