//! Slices, bounds, promotion, lanes and cgroups: settings that stand in `[scheduler]` itself.

use super::row::{Change, Kind, Row, live, word};
use super::{Polarization, Settings, StealBarriers, speeds};
use crate::file::Limits;
use crate::words;

/// The row that may stand for others.
pub(super) const DISPATCHING: &str = "dispatching";

const SLICE: Limits = Limits::from(0.1, 1000.0);

/// Slices of normal work by which a task may be ahead of others, or behind.
const LAG_SLICES: u64 = 4;

words! {
    /// What a normal task that wakes does where other normal work runs, `dispatching` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum Dispatching {
        /// It takes the lane if it is behind in virtual time.
        #[default]
        Fair = "fair",
        /// It waits for the end of slices.
        Slices = "slices",
        /// The same. In a file it stands for all else that z/VM requires or does with SMT, too: [`Settings::of_zvm`].
        Zvm = "zvm",
    }
}

impl Settings {
    fn is_fair(&self) -> bool {
        self.dispatching == Dispatching::Fair
    }

    /// Slice of normal work, ns.
    pub fn normal_slice_ns(&self) -> u64 {
        match self.is_fair() {
            true => self.fair_slice_ns,
            false => self.slice_ns,
        }
    }

    /// How far normal tasks of a core get ahead of each other, or behind, ns of virtual time.
    pub fn normal_lag_ns(&self) -> u64 {
        match self.is_fair() {
            true => LAG_SLICES * self.fair_slice_ns,
            false => self.slice_ns,
        }
    }

    /// Sets what goes with z/VM's dispatching: thread affinity, reshuffle, time slice early, vertical polarization, steal barriers
    /// within the chip and their severity. The source gives no values of barriers and severity: these are assumptions.
    pub(super) fn of_zvm(&mut self) {
        self.keep_lane = true;
        self.gather = true;
        self.keep_slice = true;
        self.polarization = Polarization::Vertical;
        self.steal_min_queued = StealBarriers {
            cache: 1,
            node: 2,
            remote: 3,
        };
        self.steal_patience_ns = 1_000_000;
    }
}

words! {
    /// Which of the critical jobs that wait comes first, `job_order` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum JobOrder {
        /// The oldest.
        Age = "age",
        /// Of those that programs mark with deadlines, the one whose deadline comes first.
        #[default]
        Deadline = "deadline",
    }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "slice_ms",
        kind: Kind::Time(SLICE, |settings| &mut settings.slice_ns),
        change: Change::Fixed(|settings, to| to.slice_ns[0] = settings.slice_ns),
        needs: None,
        says: "slice of critical work, and without `dispatching = \"fair\"` of normal work",
        more: "without that, normal work that wakes beside other waits for its end, so a shorter one answers sooner",
    },
    Row {
        name: "fair_slice_ms",
        kind: Kind::Time(SLICE, |settings| &mut settings.fair_slice_ns),
        change: Change::Fixed(|settings, to| {
            to.slice_ns[1] = settings.normal_slice_ns();
            to.lag_ns = settings.normal_lag_ns();
        }),
        needs: Some(super::row::Needs {
            what: "dispatching = \"fair\"",
            is_met: Settings::is_fair,
        }),
        says: "slice of normal work: after it, or at the tick that follows, the task makes room for what has had less",
        more: "a task saves up four slices at most by sleeping, and what wakes takes the lane from what is two ahead",
    },
    Row {
        name: "batch_slice_ms",
        kind: Kind::Time(SLICE, |settings| &mut settings.batch_slice_ns),
        change: Change::Fixed(|settings, to| to.slice_ns[2] = settings.batch_slice_ns),
        needs: None,
        says: "slice of batch work",
        more: "batch leaves at once for any other work: a longer one costs only other batch its turn. Batch of a pool has \
               those of normal work",
    },
    Row {
        name: "normal_bound_ms",
        kind: Kind::Time(Limits::from(1.0, 10_000.0), |settings| {
            &mut settings.normal_bound_ns
        }),
        change: Change::Fixed(|settings, to| to.starvation_bound_ns[1] = settings.normal_bound_ns),
        needs: None,
        says: "normal work that has waited this long behind critical work is due",
        more: "it gets its turn, one after the other of those that use the same lane, with a third of that; \
               [how long that takes at most](scheduler-batch.md#starvation)",
    },
    Row {
        name: "starvation_bound_ms",
        kind: Kind::Time(Limits::from(10.0, 10_000.0), |settings| {
            &mut settings.starvation_bound_ns
        }),
        change: Change::Fixed(|settings, to| {
            to.starvation_bound_ns[0] = settings.starvation_bound_ns;
            to.starvation_bound_ns[2] = settings.starvation_bound_ns;
        }),
        needs: None,
        says: "batch work that has waited this long behind any other, or on closed cores, is due",
        more: "of critical jobs that programs mark the oldest is served first; beyond this they take turns",
    },
    Row {
        name: "overdue_slice_ms",
        kind: Kind::Time(Limits::from(0.1, 100.0), |settings| {
            &mut settings.overdue_slice_ns
        }),
        change: Change::Fixed(|settings, to| to.overdue_slice_ns = settings.overdue_slice_ns),
        needs: None,
        says: "what a task gets when it is due, and a kernel thread of one lane when it wakes; in practice at least a tick",
        more: "",
    },
    Row {
        name: DISPATCHING,
        kind: word!(Dispatching, dispatching),
        change: Change::Fixed(|settings, to| {
            to.wakes_preempt = settings.is_fair().into();
        }),
        needs: None,
        says: "normal work that wakes takes the lane from normal work that has come two slices further in virtual time. With \
               `\"slices\"` it waits until that sleeps or its slice is over. `\"zvm\"`: the same, with other defaults of other settings",
        more: "which these are stands in [scheduler-io.md](scheduler-io.md#zvms-dispatching)",
    },
    Row {
        name: "keep_lane",
        kind: Kind::Switch(|settings| &mut settings.keep_lane),
        change: Change::Fixed(|settings, to| to.keep_lane = settings.keep_lane.into()),
        needs: None,
        says: "of normal work that waits on its core a lane takes what ran there last, if that is ahead of the first by a slice at most (with `dispatching = \"fair\"` by four)",
        more: "a lane has a TLB of its own (z/VM's thread affinity)",
    },
    Row {
        name: "gather",
        kind: Kind::Switch(|settings| &mut settings.gather),
        change: Change::Fixed(|settings, to| to.gather = settings.gather.into()),
        needs: None,
        says: "a normal thread that wakes goes to the core of its program's threads beside which it was started, if a lane idles there",
        more: "as many threads as a core has lanes, in the order in which they were started, are a set (what z/VM's reshuffle tends to)",
    },
    Row {
        name: "follow_waker_ms",
        kind: Kind::Time(Limits::from(0.0, 1.0), |settings| {
            &mut settings.follow_waker_ns
        }),
        change: Change::Fixed(|settings, to| to.follow_waker_ns = settings.follow_waker_ns),
        needs: None,
        says: "a normal task that runs only for a moment each time is next on the lane of a waker that is about to sleep and runs \
               for less than this each time; 0: it is placed like any other",
        more: "it should be what it takes to wake an idle lane: an interrupt, a way out of the idle state (by Linux's tables 10 µs \
               from C1E of Skylake servers, 2 µs of some later ones), a switch. Unless it is 0, with `dispatching = \"fair\"` tasks that \
               answer each other while no lane is free keep one, too",
    },
    Row {
        name: "keep_slice",
        kind: Kind::Switch(|settings| &mut settings.keep_slice),
        change: Change::Fixed(|settings, to| to.keep_slice = settings.keep_slice.into()),
        needs: None,
        says: "a task that sleeps for less than a slice, of which it has used less than half, wakes with the rest of it",
        more: "one that has used half or more wakes with a whole slice (z/VM's time slice early). `false`: each wake-up \
               brings a whole slice",
    },
    Row {
        name: "job_order",
        kind: word!(JobOrder, job_order),
        change: Change::Fixed(|settings, to| {
            to.by_deadline = (settings.job_order == JobOrder::Deadline).into();
        }),
        needs: None,
        says: "which of the critical jobs that wait comes first: of those that programs mark with deadlines the one whose deadline \
               comes first, or with `\"age\"` the oldest, as of all others",
        more: "jobs beyond their deadline yield in either case; [runtime.md](runtime.md)",
    },
    Row {
        name: "promote",
        kind: Kind::Switch(|settings| &mut settings.promote),
        change: Change::Fixed(|settings, to| to.promote = settings.promote.into()),
        needs: None,
        says: "a critical job that shares its core with another, or runs on a slower one, moves to a core that falls free, \
               the oldest first",
        more: "",
    },
    Row {
        name: "promote_after_ms",
        kind: Kind::Time(Limits::from(0.0, 1000.0), |settings| {
            &mut settings.promote_after_ns
        }),
        change: Change::Fixed(|settings, to| to.promote_after_ns = settings.promote_after_ns),
        needs: Some(super::row::Needs {
            what: "promote = true",
            is_met: |settings| settings.promote,
        }),
        says: "younger jobs stay: most are done soon, and a move costs caches",
        more: "",
    },
    Row {
        name: "smt_level",
        kind: Kind::Whole(0, u32::MAX, |settings| &mut settings.smt_level),
        change: live!(smt_level, |settings| settings.smt_level),
        needs: None,
        says: "lanes of a core that critical and normal work may keep busy, batch beside; 0: all",
        more: "`sidelane control` changes it",
    },
    Row {
        name: "batch_lanes",
        kind: Kind::Whole(0, u32::MAX, |settings| &mut settings.batch_lanes),
        change: Change::Fixed(|settings, to| to.batch_lanes = settings.batch_lanes),
        needs: None,
        says: "lanes of a core that batch may use, the last ones. 0: all, with `scope = \"batch\"` all but the first",
        more: "where two lanes do no more than one, 1 leaves the first one idle for others, and the kernel's scheduler finds it there \
               ([scheduler-batch.md](scheduler-batch.md))",
    },
    Row {
        name: "hold_naps",
        kind: Kind::Switch(|settings| &mut settings.hold_naps),
        change: Change::Fixed(|settings, to| {
            to.hold_naps = (settings.hold_naps && !settings.only_batch()).into();
        }),
        needs: None,
        says: "the lane of a batch task that naps by itself stays idle while critical work runs on its core",
        more: "for programs that use the [runtime library](runtime.md) where naps are on a futex. `false`: others may run there meanwhile",
    },
    Row {
        name: "thread_perf",
        kind: Kind::Speeds(|settings| &mut settings.thread_perf),
        change: live!(thread_perf, |settings| speeds(&settings.thread_perf)),
        needs: None,
        says: "speed of a lane when 1, 2, ... lanes of its core run",
        more: "needed with `dynamic`, and where cores are not equally fast to compare a shared fast lane with a slow core. Relative to a core with SMT off: the first is below 1 where SMT costs something though siblings idle",
    },
    Row {
        name: "cgroup_weights",
        kind: Kind::Switch(|settings| &mut settings.cgroup_weights),
        change: Change::Found,
        needs: None,
        says: "`cpu.weight` of cgroups counts among normal work where one of them is not 100",
        more: "how, and what does not count, stands under Weights and limits of cgroups in configuration.md",
    },
    Row {
        name: "cgroup_quotas",
        kind: Kind::Switch(|settings| &mut settings.cgroup_quotas),
        change: Change::Found,
        needs: None,
        says: "`cpu.max` of cgroups holds where one of them is a limit, critical work included",
        more: "how, and what does not count, stands under Weights and limits of cgroups in configuration.md",
    },
    Row {
        name: "trace",
        kind: Kind::Switch(|settings| &mut settings.trace),
        change: Change::Fixed(|settings, to| to.trace = settings.trace.into()),
        needs: None,
        says: "promotions and evictions write lines into the kernel's trace",
        more: "[operations.md](operations.md)",
    },
];
