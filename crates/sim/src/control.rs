//! What sets the SMT level of a simulated machine while it runs: as a daemon would, it looks every few
//! seconds how busy the lanes were, and asks a [`Governor`] which level to have.

use crate::machine::{Interference, Machine};
use crate::simulation::{Kind, Simulation};
use crate::{Error, Result};
use sidelane_model as model;
use sidelane_model::{
    Governor, GovernorConfig, LaneOrder, Load, Model, Normalization, Options, ThreadPerf,
    Utilization, load, normalized_utilization,
};

/// How the SMT level is set.
///
/// Under Sidelane it is the scheduler's setting; otherwise the lanes above the level are taken
/// offline, those that have most lanes of their core before them.
#[derive(Debug, Clone, PartialEq)]
pub struct Control {
    /// Between two decisions, ns; above 0.
    pub interval_ns: u64,
    /// How it decides.
    pub governor: GovernorConfig,
    /// How the load is measured.
    pub measure: Measure,
}

/// How the normalised utilisation is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// From how long each lane was busy, as the kernel counts it; the mean of the lanes at each place of
    /// their core, as the source.
    Lanes(LaneOrder),
    /// From how long each lane was busy: the load at which the model expects that.
    Model,
    /// From how long how many lanes of a core were busy at once.
    Counted,
}

impl Measure {
    /// What a daemon does with a model unless it is told otherwise. No lane is preferred here.
    pub fn of(model: Model) -> Measure {
        match Normalization::of(model, LaneOrder::Independent) {
            Normalization::Lanes(order) | Normalization::Averaged(order) => Measure::Lanes(order),
            Normalization::Model => Measure::Model,
        }
    }
}

/// The levels that a machine had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LevelTotals {
    /// `[n - 1]`: time at level n, ns.
    pub time_ns: Vec<u64>,
    /// How often it changed.
    pub changes: u64,
}

impl Control {
    /// At the highest level of a machine. `by_setting`: the level is the scheduler's, and SMT stays on.
    pub(crate) fn governor(&self, machine: &Machine, by_setting: bool) -> Result<Governor> {
        let wrong = |reason: &str| Err(Error::BadMachine(reason.into()));
        let Interference::ThreadPerf(speeds) = &machine.interference else {
            return wrong("the model needs thread_perf, not a table of kinds");
        };
        let lanes = lanes(machine);
        let there = || {
            machine
                .cores
                .iter()
                .zip(&lanes)
                .filter(|(_, l)| !l.is_empty())
        };
        let width = |(core, lanes): (&crate::Core, &Vec<u32>)| (core.tier_capacity, lanes.len());
        let Some(first) = there().map(width).next() else {
            return wrong("no lane is online");
        };
        if there().map(width).any(|other| other != first) {
            return wrong("the model needs cores of one speed with as many lanes each");
        }
        let speeds = speeds.iter().take(first.1).copied().collect();
        ThreadPerf::new(speeds)
            .and_then(|speeds| model::Machine::new(there().count() as u32, speeds))
            .map(|machine| {
                if by_setting {
                    machine.with_smt_on()
                } else {
                    machine
                }
            })
            .and_then(|machine| Governor::new(machine, self.governor, first.1))
            .map_err(refused)
    }
}

fn refused(error: model::Error) -> Error {
    Error::BadMachine(error.to_string())
}

/// The lanes of each core that are online.
fn lanes(machine: &Machine) -> Vec<Vec<u32>> {
    let cores = machine.cores.iter();
    cores.map(|core| machine.online_lanes(core)).collect()
}

/// A control at work.
pub(crate) struct Controller {
    measure: Measure,
    interval_ns: u64,
    options: Options,
    governor: Governor,
    /// Whether the scheduler has a setting for it.
    by_setting: bool,
    /// By core, those that were online at the start.
    lanes: Vec<Vec<u32>>,
    /// When it decides next, ns.
    next_ns: u64,
    /// What the counters were at the last decision.
    last: Counted,
    levels: LevelTotals,
    /// Until when the levels are accounted, ns.
    accounted_ns: u64,
}

/// What is counted of a machine, ns.
struct Counted {
    /// Busy time of each lane, by core.
    lanes: Vec<Vec<u64>>,
    /// Core time with so many busy lanes.
    densities: Vec<u64>,
}

impl Controller {
    pub fn new(sim: &Simulation, control: &Control, kind: &Kind) -> Result<Controller> {
        // with batch alone there is no such setting: lanes go offline
        let by_setting = matches!(kind, Kind::Sidelane(it) if !it.settings.only_batch());
        let governor = control.governor(sim.machine(), by_setting)?;
        let lanes = lanes(sim.machine());
        Ok(Controller {
            measure: control.measure,
            interval_ns: control.interval_ns.max(1),
            options: control.governor.options,
            by_setting,
            next_ns: sim.now_ns().saturating_add(control.interval_ns.max(1)),
            last: Counted::of(sim, &lanes, governor.level()),
            levels: LevelTotals {
                time_ns: vec![0; governor.level()],
                changes: 0,
            },
            accounted_ns: sim.now_ns(),
            governor,
            lanes,
        })
    }

    /// When it decides next, ns.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Decides, and sets the level.
    ///
    /// # Errors
    /// If the machine cannot have it, or the scheduler broke a rule.
    pub fn act(&mut self, sim: &mut Simulation) -> Result<()> {
        self.next_ns = sim.now_ns().saturating_add(self.interval_ns);
        self.account(sim.now_ns());
        sim.account();
        let now = Counted::of(sim, &self.lanes, self.levels.time_ns.len());
        let load = self.load(&now)?;
        self.last = now;
        let decision = self.governor.decide(load);
        if !decision.changed() {
            return Ok(());
        }
        self.levels.changes += 1;
        self.set(sim, decision.level)
    }

    fn set(&self, sim: &mut Simulation, level: usize) -> Result<()> {
        if self.by_setting {
            return sim.set_smt_level(level as u32);
        }
        let of = |range: fn(&[u32], usize) -> &[u32]| -> Vec<u32> {
            let cores = self.lanes.iter();
            cores
                .flat_map(|lanes| range(lanes, level))
                .copied()
                .collect()
        };
        let below = of(|lanes, level| &lanes[..level.min(lanes.len())]);
        let above = of(|lanes, level| &lanes[level.min(lanes.len())..]);
        sim.set_online(&below, true)?;
        sim.set_online(&above, false)
    }

    /// Of the interval that ends now.
    fn load(&self, now: &Counted) -> Result<Load> {
        let (machine, level) = (self.governor.machine(), self.governor.level());
        let core_ns = f64::from(machine.cores()) * self.interval_ns as f64;
        match self.measure {
            Measure::Lanes(order) => {
                let lanes = self.busy_ns_by_place(now).into_iter();
                let lanes: Vec<f64> = lanes.map(|ns| (ns as f64 / core_ns).min(1.0)).collect();
                normalized_utilization(machine, level, &lanes, order).map(Load::from)
            }
            Measure::Model => {
                let cores = self.busy_shares(now);
                load(machine, &cores, level, Normalization::Model, self.options)
                    .map(|load| load.unwrap_or(Load::NONE))
            }
            Measure::Counted => {
                let densities = now.densities.iter().zip(&self.last.densities);
                let share = |(now, last): (&u64, &u64)| ((now - last) as f64 / core_ns).min(1.0);
                let work = |(n, both)| machine.core_rate(level, n) * share(both);
                Utilization::new(densities.enumerate().map(work).sum()).map(Load::from)
            }
        }
        .map_err(refused)
    }

    /// Since the last decision, of the lanes at each place of their core.
    fn busy_ns_by_place(&self, now: &Counted) -> Vec<u64> {
        let widest = now.lanes.iter().map(Vec::len).max().unwrap_or(0);
        let of = |counted: &Counted, place: usize| -> u64 {
            let lanes = counted.lanes.iter();
            lanes.filter_map(|core| core.get(place)).sum()
        };
        let since = |place| of(now, place) - of(&self.last, place);
        (0..widest).map(since).collect()
    }

    /// Since the last decision, of each lane, by core.
    fn busy_shares(&self, now: &Counted) -> Vec<Vec<f64>> {
        let share =
            |(now, last): (&u64, &u64)| ((now - last) as f64 / self.interval_ns as f64).min(1.0);
        let cores = now.lanes.iter().zip(&self.last.lanes);
        cores
            .map(|(now, last)| now.iter().zip(last).map(share).collect())
            .collect()
    }

    /// Forgets the levels so far.
    pub fn reset(&mut self, now_ns: u64) {
        self.account(now_ns);
        self.levels.time_ns.fill(0);
        self.levels.changes = 0;
    }

    /// The levels since the last reset.
    pub fn finish(mut self, now_ns: u64) -> LevelTotals {
        self.account(now_ns);
        self.levels
    }

    fn account(&mut self, now_ns: u64) {
        let level = self.governor.level();
        self.levels.time_ns[level - 1] += now_ns - self.accounted_ns;
        self.accounted_ns = now_ns;
    }
}

impl Counted {
    fn of(sim: &Simulation, lanes: &[Vec<u32>], widest: usize) -> Counted {
        let busy_ns = |cpu: &u32| sim.lane_totals(*cpu).busy_ns();
        let of_core = |lanes: &Vec<u32>| lanes.iter().map(busy_ns).collect();
        let density = |n: usize| {
            let cores = sim.core_totals().iter();
            cores.filter_map(|core| core.density_ns.get(n)).sum()
        };
        Counted {
            lanes: lanes.iter().map(of_core).collect(),
            densities: (0..=widest).map(density).collect(),
        }
    }
}
