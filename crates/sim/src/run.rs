//! Runs the configurations of a scenario, in parallel, one replication a thread.

use crate::Result;
use crate::control::Controller;
use crate::engine::{CoreTotals, LaneTotals};
use crate::machine::Machine;
use crate::record::Record;
use crate::results::Replication;
use crate::scenario::{Configuration, Scenario};
use crate::scheduler::Counters;
use crate::show::TaskLabel;
use crate::simulation::Simulation;
use crate::workload::{Driver, Workload};
use rayon::prelude::*;

/// What came out of a configuration.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name.
    pub configuration: String,
    /// The machine as it was at the start.
    pub machine: Machine,
    /// Its replications, in order.
    pub replications: Vec<Replication>,
}

/// One replication, step by step.
#[derive(Debug, Clone)]
pub struct Traced {
    /// What came out.
    pub replication: Replication,
    /// All steps, from the beginning.
    pub records: Vec<Record>,
    /// What each task is called, by its number.
    pub tasks: Vec<TaskLabel>,
    /// The machine.
    pub machine: Machine,
}

/// Runs all replications of all configurations. The same scenario gives the same results, however
/// many threads there are. `progress` is told of each replication that has ended.
///
/// # Errors
/// The first error, in the order of configurations and replications.
pub fn run(scenario: &Scenario, progress: &(dyn Fn() + Sync)) -> Result<Vec<Outcome>> {
    outcomes(scenario, &mut replicate_all(&[scenario], progress))
}

/// The replications of each of the scenarios, by configuration, in order. All of them wait in one queue, so that
/// all threads have something to do until the last one.
pub(crate) fn replicate_all<'a>(
    scenarios: &[&'a Scenario],
    progress: &(dyn Fn() + Sync),
) -> impl Iterator<Item = Result<Replication>> + use<> {
    let jobs = |scenario: &'a Scenario| {
        let configurations = scenario.configurations.iter();
        configurations.flat_map(move |configuration| {
            (0..replications(scenario)).map(move |n| (scenario, configuration, n))
        })
    };
    let jobs: Vec<(&Scenario, &Configuration, u32)> =
        scenarios.iter().copied().flat_map(jobs).collect();
    let results = jobs.par_iter().with_max_len(1);
    let results = results.map(|&(scenario, configuration, n)| {
        let result = replicate(scenario, configuration, n, false);
        progress();
        result.map(|traced| traced.replication)
    });
    results.collect::<Vec<_>>().into_iter()
}

/// What came out of a scenario, whose replications are the next of `results`.
pub(crate) fn outcomes(
    scenario: &Scenario,
    results: &mut impl Iterator<Item = Result<Replication>>,
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for configuration in &scenario.configurations {
        let own = results.by_ref().take(replications(scenario) as usize);
        outcomes.push(Outcome {
            configuration: configuration.name.clone(),
            machine: scenario.machine_of(configuration),
            replications: own.collect::<Result<_>>()?,
        });
    }
    Ok(outcomes)
}

fn replications(scenario: &Scenario) -> u32 {
    scenario.run.replications.max(1)
}

/// Runs the first replication of a configuration and keeps all its steps.
///
/// # Errors
/// As [`run`].
pub fn trace(scenario: &Scenario, configuration: &Configuration) -> Result<Traced> {
    replicate(scenario, configuration, 0, true)
}

fn replicate(
    scenario: &Scenario,
    configuration: &Configuration,
    replication: u32,
    keep_records: bool,
) -> Result<Traced> {
    let mut running = Running::begin(scenario, configuration, replication, keep_records)?;
    running.advance(scenario.run.warmup_ns)?;
    running.reset();
    let before = Totals::of(&running.sim);
    running.advance(scenario.run.end_ns())?;
    let Running {
        mut sim,
        driver,
        controller,
    } = running;
    let tasks = driver.labels();
    let workloads = driver.finish(&mut sim);
    let totals = Totals::of(&sim).since(&before);
    Ok(Traced {
        records: sim.take_records(),
        tasks,
        replication: Replication {
            length_ns: scenario.run.length_ns,
            capacity: sim.machine().capacity(),
            workloads,
            cores: totals.cores,
            lanes: totals.lanes,
            counters: totals.counters,
            switches: totals.switches,
            cache_moves: totals.cache_moves,
            levels: controller.map(|controller| controller.finish(sim.now_ns())),
        },
        machine: sim.machine().clone(),
    })
}

/// A replication under way.
pub(crate) struct Running {
    pub sim: Simulation,
    driver: Driver,
    controller: Option<Controller>,
}

impl Running {
    /// A replication at time 0.
    pub fn begin(
        scenario: &Scenario,
        configuration: &Configuration,
        replication: u32,
        keep_records: bool,
    ) -> Result<Running> {
        let machine = scenario.machine_of(configuration);
        let workloads: Vec<(usize, &Workload)> = configuration
            .workloads
            .iter()
            .filter_map(|&index| Some((index, scenario.workloads.get(index)?)))
            .collect();
        let mut sim = Simulation::new(machine, &configuration.scheduler)?;
        if keep_records {
            sim.keep_records();
        }
        let seed = [scenario.run.seed, u64::from(replication)];
        let driver = Driver::new(&mut sim, &workloads, &seed)?;
        let control = configuration.control.as_ref();
        let controller = control
            .map(|control| Controller::new(&sim, control, &configuration.scheduler))
            .transpose()?;
        Ok(Running {
            sim,
            driver,
            controller,
        })
    }

    /// Goes on until a time, ns; what sets the SMT level does so in between.
    pub fn advance(&mut self, until_ns: u64) -> Result<()> {
        if let Some(controller) = &mut self.controller {
            while controller.next_ns() <= until_ns {
                self.driver.run(&mut self.sim, controller.next_ns())?;
                controller.act(&mut self.sim)?;
            }
        }
        self.driver.run(&mut self.sim, until_ns)
    }

    /// Forgets what was measured so far.
    fn reset(&mut self) {
        self.driver.reset(&mut self.sim);
        if let Some(controller) = &mut self.controller {
            controller.reset(self.sim.now_ns());
        }
    }
}

impl Scenario {
    /// The machine as a configuration has it.
    pub(crate) fn machine_of(&self, configuration: &Configuration) -> Machine {
        match configuration.smt {
            Some(lanes) => self.machine.with_lanes(lanes),
            None => self.machine.clone(),
        }
    }
}

/// All totals of a simulation at a moment.
struct Totals {
    cores: Vec<CoreTotals>,
    lanes: Vec<(u32, LaneTotals)>,
    counters: Counters,
    switches: u64,
    cache_moves: u64,
}

impl Totals {
    fn of(sim: &Simulation) -> Totals {
        let cpus = sim.machine().cores.iter().flat_map(|core| &core.lanes);
        Totals {
            cores: sim.core_totals().to_vec(),
            lanes: cpus.map(|&cpu| (cpu, sim.lane_totals(cpu))).collect(),
            counters: sim.counters(),
            switches: sim.event_counts().switches,
            cache_moves: sim.event_counts().cache_moves,
        }
    }

    fn since(&self, earlier: &Totals) -> Totals {
        let cores = self.cores.iter().zip(&earlier.cores);
        let lanes = self.lanes.iter().zip(&earlier.lanes);
        Totals {
            cores: cores.map(|(now, then)| now.since(then)).collect(),
            lanes: lanes
                .map(|((cpu, now), (_, then))| (*cpu, now.since(then)))
                .collect(),
            counters: self.counters.since(&earlier.counters),
            switches: self.switches - earlier.switches,
            cache_moves: self.cache_moves - earlier.cache_moves,
        }
    }
}
