//! How long a lane is held for a task that is expected back (`retain.bpf.h`), and which normal tasks share a core by that: how
//! often it is looked at, and when cores swap tasks (`pair.bpf.h`, `adjust.bpf.h`).

use super::row::{Change, Kind, Needs, Row};
use super::{Settings, share};
use crate::file::{Limits, MS, Result, Section};

/// The time-out of retention, and how it is searched (`timeout.bpf.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The time-out to begin with, ns.
    pub start_ns: u64,
    /// It is never shorter; at least what two switches take.
    pub min_ns: u64,
    /// Nor longer.
    pub max_ns: u64,
    /// For so long one is tried at a time; 0: it never changes.
    pub period_ns: u64,
    /// What switching to another task and back costs, caches that miss included, as time of a lane alone on
    /// its core: beside work that would make room at once, a hold saves no more. 0: as counters show it.
    pub switches_ns: u64,
    /// While lanes are held the machine enters no idle state that takes longer to leave, ns; 0: any.
    pub idle_exit_ns: u64,
    /// With pairing: the I/O lane is held from other I/O-bound tasks, too, as in the source.
    pub exclusive: bool,
}

impl Default for Retention {
    /// Start and period as in the source's published code.
    fn default() -> Retention {
        Retention {
            start_ns: 3_000_000,
            min_ns: 200_000,
            max_ns: 10_000_000,
            period_ns: 40_000_000,
            switches_ns: 0,
            idle_exit_ns: 20_000,
            exclusive: false,
        }
    }
}

/// How normal tasks are paired (vSMT-IO, 4.3.1 and 4.4). The source has no figures for either.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// How often is decided which tasks are I/O-bound and which cores swap, ns.
    pub period_ns: u64,
    /// Cores swap tasks if the retention rates of their own deviate by less, 0 to 1 (standard deviation of
    /// shares of time); 0: none does.
    pub uniform: f64,
}

impl Default for Pairing {
    fn default() -> Pairing {
        Pairing {
            period_ns: 1_000_000_000,
            uniform: 0.1,
        }
    }
}

const RETAIN: Needs = Needs {
    what: "retain = true",
    is_met: |settings| settings.retain,
};

const PAIR: Needs = Needs {
    what: "pair = true",
    is_met: |settings| settings.pair,
};

const TIMEOUT: Limits = Limits::from(0.05, 100.0);

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "retain",
        kind: Kind::Switch(|settings| &mut settings.retain),
        change: Change::Fixed(|settings, to| to.retain = settings.retain.into()),
        needs: None,
        says: "lanes are held idle for normal tasks that are mostly soon back from sleep",
        more: "for `dispatching = \"slices\"`: otherwise what wakes does not wait for slices, and held lanes only cost; \
               [scheduler-io.md](scheduler-io.md)",
    },
    Row {
        name: "retention.start_ms",
        kind: Kind::Time(TIMEOUT, |settings| &mut settings.retention.start_ns),
        change: Change::Fixed(|settings, to| to.retain_start_ns = settings.retention.start_ns),
        needs: Some(RETAIN),
        says: "for how long a lane is held, to begin with; from `min_ms` to `max_ms`",
        more: "",
    },
    Row {
        name: "retention.min_ms",
        kind: Kind::Time(TIMEOUT, |settings| &mut settings.retention.min_ns),
        change: Change::Fixed(|settings, to| to.retain_min_ns = settings.retention.min_ns),
        needs: Some(RETAIN),
        says: "the shortest time for which a lane is held",
        more: "",
    },
    Row {
        name: "retention.max_ms",
        kind: Kind::Time(TIMEOUT, |settings| &mut settings.retention.max_ns),
        change: Change::Fixed(|settings, to| to.retain_max_ns = settings.retention.max_ns),
        needs: Some(RETAIN),
        says: "the longest time for which a lane is held",
        more: "",
    },
    Row {
        name: "retention.period_ms",
        kind: Kind::Time(Limits::from(20.0, 10_000.0).or_zero(), |settings| {
            &mut settings.retention.period_ns
        }),
        change: Change::Fixed(|settings, to| to.retain_period_ns = settings.retention.period_ns),
        needs: Some(RETAIN),
        says: "so long a time-out is tried at a time, the best one so far and another in turns; 0: that of the start stays",
        more: "the cores of a last-level cache try together. What computes is judged by instructions where there are counters, \
               else by lane time and `thread_perf`",
    },
    Row {
        name: "retention.idle_exit_ms",
        kind: Kind::Time(Limits::from(0.001, 10.0).or_zero(), |settings| {
            &mut settings.retention.idle_exit_ns
        }),
        change: Change::Found,
        needs: Some(RETAIN),
        says: "while lanes are held, the machine enters no idle state that takes longer to leave; 0: any",
        more: "the kernel's PM QoS, for all lanes; where it has none that is said. The simulator has no idle states",
    },
    Row {
        name: "retention.switches_ms",
        kind: Kind::Time(Limits::from(0.0, 100.0), |settings| {
            &mut settings.retention.switches_ns
        }),
        change: Change::Fixed(|settings, to| {
            to.retain_switches_ns = settings.retention.switches_ns
        }),
        needs: Some(PAIR),
        says: "what switching to other work and back costs, as time of a lane alone on its core; 0: as counters of instructions \
               show it",
        more: "a hold that keeps computation waiting lasts no longer than that pays. Without counters 0 is taken for 0.05",
    },
    Row {
        name: "retention.exclusive",
        kind: Kind::Switch(|settings| &mut settings.retention.exclusive),
        change: Change::Fixed(|settings, to| {
            to.retain_exclusive = settings.retention.exclusive.into()
        }),
        needs: Some(PAIR),
        says: "the I/O lane is held from other I/O-bound tasks, too, as the source does",
        more: "fewer switches, but what waits for a device waits for the lane, too \
               ([experiments-vsmt.md](experiments-vsmt.md))",
    },
    Row {
        name: "pair",
        kind: Kind::Switch(|settings| &mut settings.pair),
        change: Change::Fixed(|settings, to| to.pair = settings.pair.into()),
        needs: Some(RETAIN),
        says: "I/O-bound and other normal tasks have lanes of their own on each core",
        more: "they are told apart by how long lanes are held for them ([scheduler-io.md](scheduler-io.md))",
    },
    Row {
        name: "pairing.period_ms",
        kind: Kind::Time(Limits::from(20.0, 10_000.0), |settings| {
            &mut settings.pairing.period_ns
        }),
        change: Change::Fixed(|settings, to| to.pair_period_ns = settings.pairing.period_ns),
        needs: Some(PAIR),
        says: "so often it is looked which tasks are I/O-bound, and which cores swap tasks",
        more: "",
    },
    Row {
        name: "pairing.uniform",
        kind: Kind::Number(Limits::from(0.0, 1.0), |settings| {
            &mut settings.pairing.uniform
        }),
        change: Change::Fixed(|settings, to| to.pair_uniform = share(settings.pairing.uniform)),
        needs: Some(PAIR),
        says: "cores swap tasks if the retention rates (shares of time) of their own have a smaller standard deviation; 0: \
               none does",
        more: "",
    },
];

impl Settings {
    /// Is it of use for retention to count what tasks do: to try time-outs, or to see what switches cost?
    pub fn retains_by_counters(&self) -> bool {
        let measures = self.pair && self.retention.switches_ns == 0;
        self.retain && (measures || self.retention.period_ns > 0)
    }
}

/// The time-outs are in order.
pub(super) fn check(section: &Section, settings: &Settings) -> Result<()> {
    let Retention {
        start_ns,
        min_ns,
        max_ns,
        ..
    } = settings.retention;
    if !settings.retain || (min_ns <= start_ns && start_ns <= max_ns) {
        return Ok(());
    }
    let [min, start, max] = [min_ns, start_ns, max_ns].map(|ns| ns as f64 / MS);
    let problem =
        format!("retention: expected min_ms <= start_ms <= max_ms, not {min}, {start} and {max}");
    Err(match section.get("retention") {
        Some(value) => value.error(problem),
        None => section.error(problem),
    })
}
