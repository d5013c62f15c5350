//! A trial on the live machine: the kernel's default, SMT level 1 and Sidelane take turns, and what a service
//! and batch did meanwhile is compared.
//!
//! Each slot begins from the kernel's default and ends there, so that whatever ends a trial leaves the machine as
//! it was: the scheduler goes with its thread, or with the process, and the SMT level stands in the state file of
//! the control daemon, by which it is restored, after a crash by `sidelane control --restore`.

mod report;
mod slot;

pub use report::{Figure, Recommendation, Report, SetupFigures};
pub use slot::Slot;

use crate::Result;
use crate::daemon::nothing_to_do;
use crate::service::{self, Service, check_by_cgroup};
use crate::state::StateFile;
use serde::Serialize;
use sidelane_sched::Rule;
use sidelane_smt::service::NoSmt;
use sidelane_topology::Topology;
use sidelane_topology::reserved::Reserved;
use slot::Bench;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What takes turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setup {
    /// The kernel's scheduler, all lanes.
    Default,
    /// The kernel's scheduler, one lane of each core.
    SmtOff,
    /// Sidelane, all lanes.
    Sidelane,
}

impl Setup {
    /// All, in the order in which they are shown.
    pub const ALL: [Setup; 3] = [Setup::Default, Setup::SmtOff, Setup::Sidelane];

    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Setup::Default => "kernel default",
            Setup::SmtOff => "SMT level 1",
            Setup::Sidelane => "Sidelane",
        }
    }
}

/// The orders of rounds, one after the other: each setup comes first, second and last equally often. The very
/// first slot is the default's, for the guard compares with it.
const ORDERS: [[Setup; 3]; 6] = {
    use Setup::{Default as D, Sidelane as S, SmtOff as O};
    [
        [D, O, S],
        [S, O, D],
        [O, D, S],
        [S, D, O],
        [D, S, O],
        [O, S, D],
    ]
};

/// What to try.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The service: critical under Sidelane.
    pub service: Service,
    /// Batch under Sidelane; counted under all.
    pub batch: Vec<Rule>,
    /// Length of a slot.
    pub slot: Duration,
    /// No round begins that would end after this.
    pub length: Duration,
    /// What takes turns, as [`Setup::ALL`] or without one of these; the default is always there.
    pub setups: Vec<Setup>,
    /// The trial ends if a 99th percentile is so many times worse than the default's.
    pub guard: Option<f64>,
    /// A shell command that runs in each slot and prints latencies, ms, one a line.
    pub latency_command: Option<String>,
    /// Speeds of a lane when 1, 2, ... lanes of its core run, for Sidelane.
    pub thread_perf: Option<Vec<f64>>,
    /// Where the SMT level that was found is kept meanwhile.
    pub state: PathBuf,
}

/// What happens, for whoever tells the operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// What an earlier run had left behind was restored.
    Restored,
    /// It has begun.
    Started {
        /// So many rounds fit.
        rounds: usize,
        /// So many slots has each.
        slots: usize,
        /// Their length.
        slot: Duration,
    },
    /// A slot has ended.
    Measured(Slot),
    /// Something that works less well than it could.
    Warning(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Restored => f.write_str("restored what an earlier run had left behind"),
            Event::Started {
                rounds,
                slots,
                slot,
            } => write!(
                f,
                "about {rounds} rounds of {slots} slots of {} s; Ctrl-C ends it and leaves the machine as it was",
                slot.as_secs_f64()
            ),
            Event::Measured(slot) => write!(f, "{slot}"),
            Event::Warning(message) => write!(f, "warning: {message}"),
        }
    }
}

/// How it ended. As JSON the first is a [`NoSmt`], the others a [`Report`] each, with the guard's reason in
/// `guarded`; one that was interrupted has fewer slots.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// There is nothing to try on this machine.
    NoSmt(NoSmt),
    /// All rounds.
    Ended(Report),
    /// Those before it was asked to stop.
    Interrupted(Report),
    /// The guard ended it.
    Guarded {
        /// What was worse, and than what.
        #[serde(rename = "guarded")]
        why: String,
        /// What was measured before.
        #[serde(flatten)]
        report: Report,
    },
}

impl Outcome {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Outcome::NoSmt(none) => none.text(),
            Outcome::Ended(report)
            | Outcome::Interrupted(report)
            | Outcome::Guarded { report, .. } => report.text(),
        }
    }
}

/// Tries, until the plan's end or `stop`.
///
/// # Errors
/// Before anything is changed: a rule that finds nothing, a scheduler that is attached, no privilege. Later: what a
/// slot needs fails. The machine is then as it was, too, unless the error says otherwise.
pub fn run(plan: &Plan, stop: &AtomicBool, on_event: &mut dyn FnMut(Event)) -> Result<Outcome> {
    let root = Path::new("/");
    let restored = crate::restore(root, &plan.state)?;
    if restored {
        on_event(Event::Restored);
    }
    let topology = Topology::read(root)?;
    let reserved = Reserved::read(root);
    if let Some(why) = nothing_to_do(&topology, &reserved.cpus()) {
        let none = NoSmt::new(&plan.service.name, why);
        return Ok(Outcome::NoSmt(none));
    }
    check(plan)?;
    service::check_found(&plan.service, &plan.batch, root)?;
    let bench = Bench {
        plan,
        stop,
        state: StateFile::hold(root, &plan.state)?,
        topology,
        reserved,
    };
    rounds(plan, &bench, stop, on_event)
}

/// What would fail later.
fn check(plan: &Plan) -> Result<()> {
    plan.batch.iter().try_for_each(check_by_cgroup)?;
    plan.config().map(drop)?;
    Ok(sidelane_sched::check_machine()?)
}

fn rounds(
    plan: &Plan,
    bench: &Bench<'_>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    let (length, slot) = (plan.length, plan.slot);
    let fit = length.as_secs_f64() / (slot.as_secs_f64() * plan.setups.len() as f64);
    on_event(Event::Started {
        rounds: (fit as usize).max(1),
        slots: plan.setups.len(),
        slot,
    });
    let begun = Instant::now();
    let mut slots: Vec<Slot> = Vec::new();
    let report = |slots: &[Slot]| Report::new(plan, slots);
    for (round, order) in (0..).zip(ORDERS.iter().cycle()) {
        // switching takes time, too: as long as the rounds before did
        let next = begun
            .elapsed()
            .mul_f64((round + 1) as f64 / round.max(1) as f64);
        if round > 0 && next > plan.length {
            break;
        }
        for &setup in order.iter().filter(|setup| plan.setups.contains(setup)) {
            let limit = Limit::of(plan, setup, &slots);
            let measured = bench.measure(setup, round, &limit, on_event)?;
            // one that was cut short tells less than the others
            if stop.load(Ordering::Relaxed) {
                return Ok(Outcome::Interrupted(report(&slots)));
            }
            on_event(Event::Measured(measured.clone()));
            slots.push(measured.clone());
            if let Some(why) = limit.broken_by(&measured) {
                let report = report(&slots);
                return Ok(Outcome::Guarded { why, report });
            }
        }
    }
    Ok(Outcome::Ended(report(&slots)))
}

/// A wait that is shorter harms nobody, however many times the default's it is.
const HARMLESS_MS: f64 = 1.0;
/// Of fewer waits the 99th percentile is hardly more than the longest.
const WAITS_LEAST: u64 = 100;

/// What a slot's 99th percentiles may not exceed, ms; none: anything goes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Limit {
    wait_ms: Option<f64>,
    latency_ms: Option<f64>,
}

impl Limit {
    fn of(plan: &Plan, setup: Setup, slots: &[Slot]) -> Limit {
        let Some(times) = plan.guard.filter(|_| setup != Setup::Default) else {
            return Limit::default();
        };
        let usual = |figure: fn(&Slot) -> Option<f64>| {
            let defaults = slots.iter().filter(|slot| slot.setup == Setup::Default);
            let values: Vec<f64> = defaults.filter_map(figure).collect();
            report::median(&values).map(|ms| ms * times)
        };
        Limit {
            wait_ms: usual(|slot| slot.wait_p99_ms).map(|ms| ms.max(HARMLESS_MS)),
            latency_ms: usual(|slot| slot.latency_p99_ms),
        }
    }

    /// Why a slot is worse than allowed, if it is.
    fn broken_by(&self, slot: &Slot) -> Option<String> {
        let over = |what: &str, ms: Option<f64>, limit: Option<f64>| {
            let (ms, limit) = ms.zip(limit).filter(|(ms, limit)| ms > limit)?;
            let setup = slot.setup.name();
            Some(format!(
                "under {setup} the 99th percentile of {what} was {ms:.3} ms, the guard allows {limit:.3} ms"
            ))
        };
        let enough = slot.waits >= WAITS_LEAST;
        over("waits", slot.wait_p99_ms.filter(|_| enough), self.wait_ms)
            .or_else(|| over("latencies", slot.latency_p99_ms, self.latency_ms))
    }
}

impl Plan {
    /// What Sidelane is told.
    fn config(&self) -> Result<sidelane_sched::Config> {
        use sidelane_sched::{Class, ClassRule, Config};
        let mut config = Config::default();
        config.rules.push(self.service.critical());
        let batch = self.batch.iter().cloned();
        config
            .rules
            .extend(batch.map(|rule| ClassRule::new(Class::Batch, rule)));
        if let Some(thread_perf) = &self.thread_perf {
            config.set_thread_perf("--thread-perf", thread_perf.clone())?;
        }
        config.check_whole()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_favour_no_setup() {
        for place in 0..3 {
            for setup in Setup::ALL {
                let times = ORDERS.iter().filter(|order| order[place] == setup);
                assert_eq!(times.count(), 2, "{setup:?} at {place}");
            }
        }
        assert_eq!(ORDERS[0][0], Setup::Default);
        // also if one of them is left out
        for left_out in [Setup::SmtOff, Setup::Sidelane] {
            let first = |order: &&[Setup; 3]| {
                order.iter().find(|setup| **setup != left_out) == Some(&Setup::Default)
            };
            assert_eq!(ORDERS.iter().filter(first).count(), 3, "{left_out:?}");
        }
    }

    fn plan(guard: Option<f64>) -> Plan {
        Plan {
            service: Service::parse("a.service").unwrap(),
            batch: Vec::new(),
            slot: Duration::from_secs(1),
            length: Duration::from_secs(9),
            setups: Setup::ALL.to_vec(),
            guard,
            latency_command: None,
            thread_perf: None,
            state: PathBuf::new(),
        }
    }

    #[test]
    fn the_guard_compares_with_the_default() {
        let slot = |setup, wait_p99_ms| Slot {
            setup,
            waits: 1000,
            wait_p99_ms: Some(wait_p99_ms),
            ..Slot::default()
        };
        let slots = [2.0, 3.0, 9.0].map(|ms| slot(Setup::Default, ms));
        let limit = Limit::of(&plan(Some(2.0)), Setup::Sidelane, &slots);
        assert_eq!(limit.broken_by(&slot(Setup::Sidelane, 5.9)), None);
        let why = limit.broken_by(&slot(Setup::Sidelane, 6.1)).unwrap();
        assert!(
            why.contains("6.100 ms") && why.contains("6.000 ms"),
            "{why}"
        );
        let few = Slot {
            waits: 7,
            ..slot(Setup::Sidelane, 99.0)
        };
        assert_eq!(limit.broken_by(&few), None);
        // what is short anyway
        let limit = Limit::of(
            &plan(Some(2.0)),
            Setup::SmtOff,
            &[slot(Setup::Default, 0.01)],
        );
        assert_eq!(limit.broken_by(&slot(Setup::SmtOff, 0.9)), None);
        let none = Limit::of(&plan(None), Setup::Sidelane, &slots);
        assert_eq!(none.broken_by(&slot(Setup::Sidelane, 1e9)), None);
    }
}
