//! How work spreads over cores (`polarize.bpf.h`), and when a lane takes work from another core (`vector.bpf.h`).

use super::row::{Change, Kind, Row, live, word};
use crate::file::Limits;
use crate::words;

words! {
    /// Which cores normal and batch work uses, `polarization` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum Polarization {
        /// All of them.
        #[default]
        Horizontal = "horizontal",
        /// As few as it needs; the others sleep.
        Vertical = "vertical",
    }
}

impl Polarization {
    /// As the scheduler reads it.
    pub fn native(self) -> u32 {
        u32::from(self == Polarization::Vertical)
    }

    /// What the scheduler reads.
    pub fn of_native(vertical: u32) -> Polarization {
        match vertical {
            0 => Polarization::Horizontal,
            _ => Polarization::Vertical,
        }
    }
}

/// Steal barriers: how long the far vector has to be, by distance; each at least 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StealBarriers {
    /// Of a core below the same last-level cache.
    pub cache: u32,
    /// Of another cache of the same package and NUMA node.
    pub node: u32,
    /// Of another package or NUMA node.
    pub remote: u32,
}

impl Default for StealBarriers {
    fn default() -> Self {
        StealBarriers {
            cache: 1,
            node: 1,
            remote: 2,
        }
    }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "polarization",
        kind: word!(Polarization, polarization),
        change: live!(vertical, |settings| settings.polarization.native()),
        needs: None,
        says: "which cores normal and batch work uses: all, or with `\"vertical\"` as few as it needs",
        more: "",
    },
    Row {
        name: "steal_min_queued.cache",
        kind: Kind::Whole(1, u32::MAX, |settings| &mut settings.steal_min_queued.cache),
        change: Change::Fixed(|settings, to| {
            to.steal_min_queued[1] = settings.steal_min_queued.cache
        }),
        needs: None,
        says: "tasks that must wait on a core of the same last-level cache before one is taken",
        more: "",
    },
    Row {
        name: "steal_min_queued.node",
        kind: Kind::Whole(1, u32::MAX, |settings| &mut settings.steal_min_queued.node),
        change: Change::Fixed(|settings, to| {
            to.steal_min_queued[2] = settings.steal_min_queued.node
        }),
        needs: None,
        says: "the same on a core of another cache of the package and NUMA node",
        more: "",
    },
    Row {
        name: "steal_min_queued.remote",
        kind: Kind::Whole(1, u32::MAX, |settings| {
            &mut settings.steal_min_queued.remote
        }),
        change: Change::Fixed(|settings, to| {
            to.steal_min_queued[3] = settings.steal_min_queued.remote
        }),
        needs: None,
        says: "the same on a core that is further away",
        more: "",
    },
    Row {
        name: "steal_patience_ms",
        kind: Kind::Time(Limits::from(0.0, 1000.0), |settings| {
            &mut settings.steal_patience_ns
        }),
        change: Change::Fixed(|settings, to| to.steal_patience_ns = settings.steal_patience_ns),
        needs: None,
        says: "a lane that has idled for so long, times the distance (cache 1, node 2, further 3), steals from a vector \
               shorter by one than `steal_min_queued` says, and so on. 0: barriers stay as they are",
        more: "one of a core that has an idle lane of its own has to be longer by one",
    },
];
