//! How large the scheduler's tables are: as large as what there is when it is loaded.

use crate::bpf::{OpenBpfMaps, intf};
use crate::cgroups;
use crate::error::load_error;
use crate::labelled;
use crate::layout::Layout;
use crate::{Config, Error};
use std::path::Path;

/// Least room for cgroups, and for those with a `cpu.max`: so that a few new ones are no reason to load again.
const CGROUPS_MIN: usize = 65536;
const QUOTAS_MIN: usize = 256;
/// Least room for objectives of labels, where labels say what is critical.
const OBJECTIVES_MIN: usize = 16;

/// What the kernel may say of CPUs and tasks when it ejects the scheduler: as much as it keeps (`SCX_EXIT_DUMP_DFL_LEN`).
pub(super) const DUMP_BYTES: u32 = 32 * 1024;

/// For how much there is room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rooms {
    /// For cgroups; 1 where nothing looks at them: a table has an entry at least.
    pub cgroups: usize,
    /// For cgroups with a `cpu.max`; 0: there are none, or they do not hold.
    pub quotas: usize,
    /// For objectives of labels; 0: no label makes a cgroup critical.
    pub objectives: usize,
    /// Whether weights of cgroups count: some are not the usual.
    pub weights: bool,
}

impl Rooms {
    /// For the cgroups that there are now.
    pub fn now(config: &Config) -> Rooms {
        if !config.looks_at_cgroups() {
            return Rooms::of(None, 0, None, false);
        }
        let labelled = labelled::counts(config);
        let Ok(Some(mount)) = cgroups::mount_point(Path::new("/")) else {
            return Rooms::of(Some(0), 0, None, false);
        };
        let found = cgroups::list(&mount);
        let quotas = match config.holds_quotas() {
            true => cgroups::quotas(&mount, found.values()).len(),
            false => 0,
        };
        let weights = config.holds_weights() && cgroups::weighed(&mount, found.values()) > 0;
        let objectives = || {
            let labels = cgroups::labels(&mount, found.values());
            let said = labelled::said(
                &config.rules,
                found.iter().map(|(&id, path)| (id, path)),
                &labels,
            );
            said.objectives.len()
        };
        Rooms::of(
            Some(found.len()),
            quotas,
            labelled.then(objectives),
            weights,
        )
    }

    /// For so many cgroups (none: nobody looks at them), limits and objectives of labels (none: these do not count), and as many
    /// more. Without a limit there is no room for any: what nobody has costs nothing.
    fn of(
        cgroups: Option<usize>,
        quotas: usize,
        objectives: Option<usize>,
        weights: bool,
    ) -> Rooms {
        Rooms {
            cgroups: cgroups.map_or(1, |found| (2 * found).max(CGROUPS_MIN)),
            quotas: match quotas {
                0 => 0,
                found => (2 * found).max(QUOTAS_MIN),
            },
            objectives: objectives
                .map_or(0, |found| (2 * found).clamp(OBJECTIVES_MIN, labelled::MOST)),
            weights,
        }
    }
}

/// Sizes the tables before they are made.
pub(super) fn tables(
    maps: &mut OpenBpfMaps,
    fixed: &intf::fixed_settings,
    layout: &Layout,
    cgroup_room: usize,
) -> Result<(), Error> {
    let (lanes, cores) = (layout.lanes.len() as u32, layout.cores.len() as u32);
    let pools = fixed.nr_pools.max(1);
    let weighed = match fixed.cgroup_weights {
        0 => 1,
        _ => cgroup_room as u32,
    };
    let sizes = [
        maps.lanes.set_max_entries(lanes),
        maps.cores.set_max_entries(cores),
        maps.core_timers.set_max_entries(intf::timers(cores)),
        (maps.core_lanes).set_max_entries(layout.core_lanes.len() as u32),
        maps.lane_signals.set_max_entries(lanes),
        maps.lane_counts.set_max_entries(lanes),
        maps.rules.set_max_entries((fixed.nr_budgets - 1).max(1)),
        maps.sidelane_slo.set_max_entries(fixed.nr_budgets),
        maps.sidelane_ipc.set_max_entries(fixed.nr_budgets),
        maps.sidelane_limits.set_max_entries(pools),
        maps.sidelane_pools.set_max_entries(pools),
        maps.sidelane_paths.set_max_entries(pools),
        maps.cgroups_known.set_max_entries(cgroup_room as u32),
        maps.cgroup_demands.set_max_entries(weighed),
        maps.data_uei_dump.set_value_size(DUMP_BYTES),
    ];
    let sized: Result<(), _> = sizes.into_iter().collect();
    sized.map_err(load_error("size the tables of"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_twice_as_many_as_there_are() {
        let of = |cgroups, quotas| {
            let rooms = Rooms::of(Some(cgroups), quotas, None, false);
            (rooms.cgroups, rooms.quotas)
        };
        assert_eq!(of(10, 5), (CGROUPS_MIN, QUOTAS_MIN));
        assert_eq!(of(100_000, 700), (200_000, 1400));
        assert_eq!(of(10, 0), (CGROUPS_MIN, 0));
        let objectives = |found| Rooms::of(Some(10), 0, found, false).objectives;
        assert_eq!(
            [None, Some(0), Some(100), Some(5000)].map(objectives),
            [0, OBJECTIVES_MIN, 200, labelled::MOST]
        );
    }

    #[test]
    fn what_is_off_takes_no_room() {
        let mut config = Config::default();
        (
            config.scheduler.cgroup_weights,
            config.scheduler.cgroup_quotas,
        ) = (false, false);
        assert_eq!(Rooms::now(&config), Rooms::of(None, 0, None, false));
    }
}
