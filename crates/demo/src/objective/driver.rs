//! The measuring part, and how it is reached.

use super::plan::STEP;
use super::sampler::Sampler;
use super::{Finding, Message, ObjectivePlan, Run, Setup, Steps};
use crate::arrivals::{self, Arrival};
use crate::batch::Batch;
use crate::compute::{ComputeServer, Outcome};
use crate::driver;
use crate::error::Result;
use crate::experiment::{Measure, Observer};
use crate::machine::{Cgroups, Machine};
use crate::reference;
use crate::scheduler::Scheduler;
use sidelane_smt::latency::{Spread, Summary};
use sidelane_topology::Topology;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CGROUP_PARENT: &str = "sidelane-objective";
/// Pause after each change of the setup.
const SETTLE: Duration = Duration::from_millis(500);
/// What tells the requests of settling from those that are measured.
const SETTLE_SEED: u64 = 1 << 32;

impl Measure for ObjectivePlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let mut driver = Driver::set_up(self, sidelane, stop, machine)?;
        for (setup, repetitions) in self.order() {
            observer.progress(&format!("{setup}: repetitions {repetitions:?}"));
            let runs = driver.runs(setup, repetitions, observer)?;
            if setup == Setup::Alone && driver.alone_p99_ns == 0 {
                driver.alone_p99_ns = median_p99_ns(&runs);
                observer.message(Message::Run(Finding::Alone(driver.alone_p99_ns)))?;
            }
            for run in runs {
                observer.message(Message::Run(Finding::Run(run)))?;
            }
        }
        if self.step_ms > 0 {
            observer.progress("load steps");
            observer.message(Message::Speed(driver.calibrate()?))?;
            observer.message(Message::Run(Finding::Steps(driver.steps()?)))?;
        }
        observer.message(Message::Done)
    }
}

/// Everything that is alive while measuring; processes before cgroups.
struct Driver<'a> {
    plan: &'a ObjectivePlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    machine: Machine,
    units_per_core_s: f64,
    alone_p99_ns: u64,
    compute: ComputeServer,
    batch: Batch,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a ObjectivePlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        machine: Machine,
    ) -> Result<Driver<'a>> {
        let cgroups = Cgroups::enter(CGROUP_PARENT)?;
        let compute = ComputeServer::start(sidelane, machine.lane_count())?;
        cgroups.add("critical", compute.pid())?;
        let batch = Batch::start(machine.lane_count(), plan.seed)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            machine,
            units_per_core_s: 0.0,
            alone_p99_ns: 0,
            compute,
            batch,
            cgroups,
        })
    }

    /// Finds the speed of a core, from which demands are made; units of work a second. It is taken before
    /// each repetition, so that demands and the load stay what they are while the machine's speed drifts. Batch
    /// is stopped afterwards.
    fn calibrate(&mut self) -> Result<f64> {
        self.batch.stop()?;
        self.units_per_core_s = reference::steady_compute_speed(&self.machine)?;
        Ok(self.units_per_core_s)
    }

    fn objective_ns(&self, factor: f64) -> u64 {
        (self.alone_p99_ns as f64 * factor) as u64
    }

    /// Lets batch run if the setup has any.
    fn resume(&self, setup: Setup) -> Result<()> {
        match setup {
            Setup::Alone => Ok(()),
            _ => self.batch.resume(self.machine.lane_count()),
        }
    }

    /// Attaches what a setup needs.
    fn begin(&self, setup: Setup) -> Result<Option<Scheduler>> {
        let Setup::Objective(factor) = setup else {
            return Ok(None);
        };
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let objective = self.objective(factor);
        let text = format!(
            "[scheduler]\nborrow = \"slo\"\nobjective = \"{objective}\"\n\n\
             [[rule]]\nmatch = \"cgroup:{critical}\"\nclass = \"critical\"\n\n\
             [[rule]]\nmatch = \"cgroup:{batch}\"\nclass = \"batch\"\n"
        );
        Scheduler::attach_configured(&self.sidelane, &text).map(Some)
    }

    /// An objective as the configuration has it.
    fn objective(&self, factor: f64) -> String {
        format!("p99 < {:.3} ms", self.objective_ns(factor) as f64 / 1e6)
    }

    /// Has the scheduler do what a setup needs from now on; the budget that an objective has found stays.
    fn switch(&self, scheduler: &Scheduler, setup: Setup) -> Result<()> {
        match setup {
            Setup::Alone => Ok(()),
            Setup::BorrowIdle => scheduler.tune(&self.sidelane, &["--borrow", "borrow-idle"]),
            Setup::Objective(factor) => {
                let objective = self.objective(factor);
                let arguments = ["--borrow", "slo", "--objective", &objective];
                scheduler.tune(&self.sidelane, &arguments)
            }
        }
    }

    fn end(&self, scheduler: Option<Scheduler>) -> Result<()> {
        self.batch.stop()?;
        scheduler.map_or(Ok(()), Scheduler::detach)
    }

    /// Sets the machine up once, lets it settle under load if that takes time, and measures.
    fn runs(
        &mut self,
        setup: Setup,
        repetitions: Range<u32>,
        observer: &mut dyn Observer<Message>,
    ) -> Result<Vec<Run>> {
        let scheduler = self.begin(setup)?;
        std::thread::sleep(SETTLE);
        if matches!(setup, Setup::Objective(_)) {
            observer.message(Message::Speed(self.calibrate()?))?;
            self.resume(setup)?;
            self.settle()?;
        }
        let mut runs = Vec::new();
        for repetition in repetitions {
            observer.message(Message::Speed(self.calibrate()?))?;
            self.resume(setup)?;
            for turn in ObjectivePlan::runs(setup, repetition) {
                if let Some(scheduler) = &scheduler {
                    self.switch(scheduler, turn)?;
                    std::thread::sleep(SETTLE);
                }
                runs.push(self.run(turn, setup, repetition)?);
            }
        }
        self.end(scheduler)?;
        Ok(runs)
    }

    /// Load that is not measured.
    fn settle(&mut self) -> Result<()> {
        let seed = self.plan.seed + SETTLE_SEED;
        let schedule = self.schedule(self.plan.load, self.plan.settle_ms, seed);
        self.serve(&schedule).map(drop)
    }

    /// Measures one of the setups that take turns with `block`'s.
    fn run(&mut self, setup: Setup, block: Setup, repetition: u32) -> Result<Run> {
        let seed = self.plan.seed + u64::from(repetition);
        let schedule = self.schedule(self.plan.load, self.plan.run_ms, seed);
        let (before, start) = (self.batch.work_done()?, Instant::now());
        let mut outcome = self.serve(&schedule)?;
        let (after, elapsed) = (self.batch.work_done()?, start.elapsed());
        Ok(Run {
            setup,
            repetition,
            turn: match block {
                Setup::Objective(factor) => Some(factor),
                Setup::Alone | Setup::BorrowIdle => None,
            },
            units_per_core_s: self.units_per_core_s,
            latency: Summary::of(&mut outcome.latency_ns),
            batch_bytes_per_s: (after - before) as f64 / elapsed.as_secs_f64(),
        })
    }

    /// Sends the requests of a schedule.
    fn serve(&mut self, schedule: &[Arrival]) -> Result<Outcome> {
        let stop = self.stop;
        let keep_on = move || !stop.load(Ordering::Relaxed);
        let mean_units = self.units_per_core_s * self.plan.mean_demand_ms / 1000.0;
        self.compute.run(schedule, mean_units, &keep_on)
    }

    fn schedule(&self, load: f64, run_ms: u64, seed: u64) -> Vec<Arrival> {
        let cores = self.machine.cores.len() as f64;
        let rate_per_s = load * cores / (self.plan.mean_demand_ms / 1000.0);
        arrivals::schedule(rate_per_s, run_ms * 1_000_000, seed)
    }

    /// Steps the load up and down.
    fn steps(&mut self) -> Result<Steps> {
        let plan = self.plan;
        let factor = plan.step_factor();
        let loads: Vec<(u64, f64)> = [1.0, STEP, 1.0]
            .iter()
            .zip(0..)
            .map(|(step, number)| (number * plan.step_ms, step * plan.load))
            .collect();
        let part = |(begin_ms, load): &(u64, f64)| {
            let part = self.schedule(*load, plan.step_ms, plan.seed + begin_ms);
            let begin_ns = begin_ms * 1_000_000;
            part.into_iter().map(move |arrival| Arrival {
                at_ns: arrival.at_ns + begin_ns,
                ..arrival
            })
        };
        let schedule: Vec<Arrival> = loads.iter().flat_map(part).collect();
        let setup = Setup::Objective(factor);
        let scheduler = self.begin(setup)?;
        std::thread::sleep(SETTLE);
        self.resume(setup)?;
        self.settle()?;
        let sampler = Sampler::start(&self.sidelane, &self.batch)?;
        let outcome = self.serve(&schedule)?;
        let samples = sampler.end()?;
        self.end(scheduler)?;
        let requests = schedule.iter().zip(&outcome.latency_ns);
        Ok(Steps {
            objective_ns: self.objective_ns(factor),
            loads,
            requests: requests
                .map(|(arrival, latency_ns)| (arrival.at_ns, *latency_ns))
                .collect(),
            samples,
        })
    }
}

fn median_p99_ns(runs: &[Run]) -> u64 {
    let p99_ns: Vec<f64> = runs.iter().map(|run| run.latency.p99_ns as f64).collect();
    Spread::of(&p99_ns).map_or(0, |spread| spread.median as u64)
}
