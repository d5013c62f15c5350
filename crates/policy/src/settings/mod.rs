//! The scheduler's settings: one type, one table of them, one reader.
//!
//! A file of this folder holds the settings of a mechanism, or of two that belong together: their types with
//! their defaults, and their rows. [`rows`] are all of them. From these follow how files are read ([`read`]) and what the documentation and
//! the example say ([`document`]).

mod budget;
pub mod document;
mod order;
mod read;
mod retention;
mod row;
mod scope;
mod spread;
mod symbiosis;

pub use budget::{Borrow, Budget, UseCounters};
pub use order::{Dispatching, JobOrder};
pub use read::{BUDGET_KEYS, NEEDS_SPEEDS, SHAPE, budget_of, keys, read};
pub use retention::{Pairing, Retention};
pub use row::{Change, Kind, Needs, Place, Row, check_speeds};
pub use scope::{SLO_NEEDS_ALL, Scope, no_effect};
pub use spread::{Polarization, StealBarriers};
pub use symbiosis::Symbiosis;

use crate::{LANES_MAX, intf};
use std::collections::BTreeSet;

/// How the scheduler behaves: the table `[scheduler]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which tasks it has.
    pub scope: Scope,
    /// Slice of critical work, ns, and without [`Dispatching::Fair`] of normal work. By default the minor slice of the z/VM source
    /// with SMT.
    pub slice_ns: u64,
    /// Slice of normal work with [`Dispatching::Fair`], ns. By default about the base slice of the kernel's default scheduler.
    pub fair_slice_ns: u64,
    /// Slice of batch work, ns: batch leaves at once for any other work, so a longer one costs no latency and
    /// saves switches among batch.
    pub batch_slice_ns: u64,
    /// Normal work that has waited this long behind critical work is due, the next on its lane, ns.
    pub normal_bound_ns: u64,
    /// The same for batch work, behind any other and on closed cores, ns.
    pub starvation_bound_ns: u64,
    /// What a task gets when it is due, and a kernel thread of one lane when it wakes, ns.
    pub overdue_slice_ns: u64,
    /// A task that sleeps for less than a slice, of which it has used less than half, goes on with it.
    pub keep_slice: bool,
    /// Which of the critical jobs that wait comes first.
    pub job_order: JobOrder,
    /// Critical jobs move to better cores that fall free.
    pub promote: bool,
    /// Younger jobs do not, ns: the move would cost more than it gains.
    pub promote_after_ns: u64,
    /// Lanes of a core that critical and normal work may keep busy; 0: all.
    pub smt_level: u32,
    /// Lanes of a core that batch may use, the last ones; 0: all.
    pub batch_lanes: u32,
    /// The lane of a batch task that naps is held for it while critical work runs on its core.
    pub hold_naps: bool,
    /// `[n - 1]`: speed of a lane when n lanes of its core run; empty: not known.
    pub thread_perf: Vec<f64>,
    /// How long batch may run beside critical work of rules without a budget of their own.
    pub budget: Budget,
    /// Whether counters of instructions and cycles are used.
    pub counters: UseCounters,
    /// Lanes are held idle for normal tasks that are soon back from sleep.
    pub retain: bool,
    /// For how long, and how that changes.
    pub retention: Retention,
    /// I/O-bound and other normal tasks have lanes of their own; with retention only.
    pub pair: bool,
    /// How often that is looked at, and which cores swap tasks.
    pub pairing: Pairing,
    /// Computation of normal class shares cores with what it bears best.
    pub symbiotic: bool,
    /// By which model.
    pub symbiosis: Symbiosis,
    /// Which cores normal and batch work uses.
    pub polarization: Polarization,
    /// What a task that wakes does where other work of its class runs.
    pub dispatching: Dispatching,
    /// Normal work that waits goes on on its lane of the core if it can.
    pub keep_lane: bool,
    /// Threads of a program that are normal work share cores.
    pub gather: bool,
    /// A waker that is about to sleep is followed to its lane if it runs for less than this each time, ns; 0: none is.
    pub follow_waker_ns: u64,
    /// Shortest vector that another core may steal from.
    pub steal_min_queued: StealBarriers,
    /// After so long without work, times the distance, a lane steals across a barrier that is lower by one,
    /// ns; 0: barriers stay as they are.
    pub steal_patience_ns: u64,
    /// `cpu.weight` of cgroups counts among normal work where one of them is not the usual.
    pub cgroup_weights: bool,
    /// `cpu.max` of cgroups holds, for time on lanes.
    pub cgroup_quotas: bool,
    /// Promotions and evictions write lines into the kernel's trace.
    pub trace: bool,
}

impl Default for Settings {
    fn default() -> Self {
        const MS: u64 = 1_000_000;
        Settings {
            scope: Scope::default(),
            slice_ns: 10 * MS,
            fair_slice_ns: 3 * MS,
            batch_slice_ns: 50 * MS,
            normal_bound_ns: 20 * MS,
            starvation_bound_ns: 1000 * MS,
            overdue_slice_ns: MS,
            keep_slice: false,
            job_order: JobOrder::default(),
            promote: true,
            promote_after_ns: MS / 2,
            smt_level: 0,
            batch_lanes: 0,
            hold_naps: true,
            thread_perf: Vec::new(),
            budget: Budget::default(),
            counters: UseCounters::default(),
            retain: false,
            retention: Retention::default(),
            pair: false,
            pairing: Pairing::default(),
            symbiotic: false,
            symbiosis: Symbiosis::default(),
            polarization: Polarization::default(),
            dispatching: Dispatching::default(),
            keep_lane: false,
            gather: false,
            follow_waker_ns: 15_000,
            steal_min_queued: StealBarriers::default(),
            steal_patience_ns: 0,
            cgroup_weights: true,
            cgroup_quotas: true,
            trace: false,
        }
    }
}

/// All settings, in the order of the documentation.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    const TABLES: [&[Row]; 6] = [
        scope::ROWS,
        order::ROWS,
        budget::ROWS,
        retention::ROWS,
        symbiosis::ROWS,
        spread::ROWS,
    ];
    TABLES.into_iter().flatten()
}

/// Where those that may be changed while the scheduler runs are kept, each place once.
pub fn live_places() -> BTreeSet<Place> {
    let place = |row: &Row| match row.change {
        Change::Live(place, _) => Some(place),
        Change::Fixed(_) | Change::Found => None,
    };
    rows().filter_map(place).collect()
}

/// Speeds of a lane as the scheduler reads them; beyond those given, the last.
pub fn speeds(thread_perf: &[f64]) -> [u32; LANES_MAX] {
    let one = f64::from(intf::SPEED_ONE);
    let Some(last) = thread_perf.last() else {
        return [0; LANES_MAX]; // not known
    };
    std::array::from_fn(|i| {
        let speed = thread_perf.get(i).unwrap_or(last);
        (speed * one).clamp(1.0, one) as u32
    })
}

/// A share, or a coefficient, as the scheduler reads it.
fn share(value: f64) -> u32 {
    (value * f64::from(intf::SPEED_ONE)) as u32
}

impl Settings {
    /// Lanes of a core that batch may use, of cores with at most `widest`; 0: all but the first of each.
    pub fn lanes_for_batch(&self, widest: u32) -> u32 {
        match self.batch_lanes {
            0 if !self.only_batch() => widest,
            lanes => lanes,
        }
    }

    /// Those that stay, as the scheduler reads them, on a machine with so many lanes a core at most, but for what
    /// is found there: numbers of rules and pools, and counters that could be opened.
    pub fn fixed(&self, widest: u32) -> intf::fixed_settings {
        let mut fixed = intf::fixed_settings::default();
        fixed.steal_min_queued[intf::distance_DISTANCE_CORE as usize] = 1;
        for row in rows() {
            if let Change::Fixed(fill) = row.change {
                fill(self, &mut fixed);
            }
        }
        fixed.batch_lanes = self.lanes_for_batch(widest);
        fixed
    }

    /// Those that may be changed while it is attached, on a machine with so many lanes a core at most, but for the
    /// cores, which are found there.
    pub fn live(&self, widest: u32) -> intf::live_settings {
        let mut live = intf::live_settings::default();
        for row in rows() {
            if let Change::Live(_, fill) = row.change {
                fill(self, &mut live);
            }
        }
        if live.smt_level == 0 {
            live.smt_level = widest;
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_beyond_those_given_are_the_last() {
        let speeds = speeds(&[1.0, 0.5]);
        assert_eq!((speeds[0], speeds[1], speeds[63]), (1024, 512, 512));
    }

    #[test]
    fn a_speed_that_is_given_is_known() {
        assert_eq!(speeds(&[]), [0; LANES_MAX]);
        let slow = speeds(&[0.5, 1e-9]);
        assert_eq!((slow[0], slow[1]), (512, 1));
    }

    #[test]
    fn shares_are_in_parts_of_one() {
        let fixed = Settings::default().fixed(2);
        assert_eq!(fixed.symbiosis, [1429, 881, 283, 1470, 931]);
        assert_eq!(fixed.pair_uniform, 102);
    }

    #[test]
    fn nought_is_all_lanes() {
        let settings = Settings::default();
        assert_eq!(
            (settings.live(4).smt_level, settings.fixed(4).batch_lanes),
            (4, 4)
        );
    }
}
