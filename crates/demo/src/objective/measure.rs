//! The measuring part.

use super::results::{self, Document};
use super::{Finding, Found, ObjectivePlan, STEP, Sample, Setup, Steps, draw, median_ns};
use crate::arguments::{between, demands_ms, within, within_ms};
use crate::arrivals::Phase;
use crate::batch::{self, Batch, bytes_read_by};
use crate::compute::ComputeServer;
use crate::error::{During, Error, Result};
use crate::experiment::{Experiment, Requests, Site, Turn, turns};
use crate::figures::Facts;
use crate::machine::Cgroups;
use crate::scheduler::Scheduler;
use crate::sys::{Guarded, find_program};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use sidelane_smt::latency::Summary;
use std::io::{BufRead, BufReader};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pause after each change of the setup.
const SETTLE: Duration = Duration::from_millis(500);
/// What tells the requests of settling from those that are measured.
const SETTLE_SEED: u64 = 1 << 32;

/// What is alive while measuring.
pub struct Rig {
    /// Attached for a block.
    scheduler: Option<Scheduler>,
    block: Option<Setup>,
    /// Of the repetitions from which the objectives are made.
    alone_p99_ns: Vec<f64>,
    /// Speed of a core, taken before each turn.
    units_per_core_s: f64,
    compute: ComputeServer,
    batch: Batch,
    cgroups: Cgroups,
}

impl Experiment for ObjectivePlan {
    const COMMAND: &'static [&'static str] = &["demo", "objective"];
    type Setup = Setup;
    type Finding = Finding;
    type Rig = Rig;
    type Document = Document;

    fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// All setups, in the order of the report.
    fn setups(&self, _lanes: usize) -> Vec<Setup> {
        let objectives = self.factors.iter().copied().map(Setup::Objective);
        [Setup::Alone, Setup::BorrowIdle]
            .into_iter()
            .chain(objectives)
            .collect()
    }

    /// What is measured, one after the other: the server alone, each objective, the server alone. An objective
    /// has all its repetitions together, as it takes time to settle.
    fn turns(&self, _lanes: usize) -> Vec<Turn<Setup>> {
        let first = self.first_alone();
        let objectives = self.factors.iter().map(|factor| Setup::Objective(*factor));
        let mut blocks = turns(&[Setup::Alone], 0..first);
        blocks.extend(objectives.flat_map(|setup| turns(&[setup], 0..self.repetitions)));
        blocks.extend(turns(&[Setup::Alone], first..self.repetitions));
        blocks
    }

    fn validate(&self) -> Result<()> {
        if self.factors.is_empty() || !self.factors.is_sorted_by(|a, b| a < b) {
            let problem = "--factors: give one or more, in rising order";
            return Err(Error::BadPlan(problem.into()));
        }
        for factor in &self.factors {
            within(
                "--factors",
                *factor,
                (Bound::Excluded(1.0), Bound::Included(100.0)),
            )?;
        }
        // it is stepped up
        within("--load", self.load, between(0.0, 1.0 / STEP))?;
        within("--mean-ms", self.mean_demand_ms, demands_ms())?;
        within_ms("--seconds", self.run_ms, 100)?;
        within_ms("--settle", self.settle_ms, 0)?;
        within_ms("--step-seconds", self.step_ms, 0)
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let runs = self.run_count() as u64;
        let steps = u64::from(self.step_ms > 0);
        let settles = self.settle_ms * (self.factors.len() as u64 + steps);
        let all_ms = runs * self.run_ms + settles + 3 * self.step_ms;
        // an objective's block, and both of the server alone, begin and end
        let blocks = self.factors.len() as f64 + 2.0;
        all_ms as f64 / 1000.0 + 1.5 * runs as f64 + 5.0 * blocks
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        Ok(vec![find_program("gzip").ok_or(batch::MISSING)?])
    }

    fn set_up(&self, site: &mut Site<'_, Finding>) -> Result<Rig> {
        let cgroups = site.cgroups()?;
        let compute = site.critical_server(&cgroups)?;
        let batch = Batch::start(site.machine.lane_count(), self.seed)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        Ok(Rig {
            scheduler: None,
            block: None,
            alone_p99_ns: Vec::new(),
            units_per_core_s: 0.0,
            compute,
            batch,
            cgroups,
        })
    }

    /// Speed is taken before each turn, so that demands and the load stay what they are while the machine's speed
    /// drifts.
    fn measure(
        &self,
        rig: &mut Rig,
        turn: Turn<Setup>,
        site: &mut Site<'_, Finding>,
    ) -> Result<()> {
        if rig.block != Some(turn.setup) {
            rig.begin(self, turn.setup, site)?;
        }
        rig.calibrate(site)?;
        rig.resume(turn.setup, site)?;
        for run in ObjectivePlan::runs(turn) {
            if let Some(scheduler) = &rig.scheduler {
                rig.switch(scheduler, run.setup, site)?;
                site.sleep(SETTLE)?;
            }
            let (before, start) = (rig.batch.work_done()?, Instant::now());
            let seed = self.seed + u64::from(run.repetition);
            let latency = rig.serve(self, self.run_ms, seed, site)?;
            let (after, elapsed) = (rig.batch.work_done()?, start.elapsed());
            if run.setup == Setup::Alone && run.repetition < self.first_alone() {
                rig.alone_p99_ns.push(latency.p99_ns as f64);
            }
            site.found(Finding::Run(run.run(Found {
                turn: match turn.setup {
                    Setup::Objective(factor) => Some(factor),
                    Setup::Alone | Setup::BorrowIdle => None,
                },
                units_per_core_s: rig.units_per_core_s,
                latency,
                batch_bytes_per_s: (after - before) as f64 / elapsed.as_secs_f64(),
            })))?;
        }
        Ok(())
    }

    fn finish(&self, rig: &mut Rig, site: &mut Site<'_, Finding>) -> Result<()> {
        rig.end()?;
        if self.step_ms == 0 {
            return Ok(());
        }
        site.progress("load steps");
        let steps = rig.steps(self, site)?;
        rig.end()?;
        site.found(Finding::Steps(steps))
    }

    fn document(&self, facts: Facts, findings: Vec<Finding>) -> Result<Document> {
        results::document(self, facts, findings)
    }

    fn render(document: &Document) -> String {
        results::render(document)
    }

    fn drawing(&self, document: &Document) -> Option<(&Path, String)> {
        Some((&self.svg, draw(document)?))
    }
}

impl Rig {
    /// Stops batch and takes the speed of a core.
    fn calibrate(&mut self, site: &mut Site<'_, Finding>) -> Result<()> {
        self.batch.stop()?;
        self.units_per_core_s = site.speed()?;
        Ok(())
    }

    fn objective_ns(&self, factor: f64) -> u64 {
        (median_ns(&self.alone_p99_ns) as f64 * factor) as u64
    }

    /// An objective as the configuration has it.
    fn objective(&self, factor: f64) -> String {
        format!("p99 < {:.3} ms", self.objective_ns(factor) as f64 / 1e6)
    }

    /// Lets batch run if the setup has any.
    fn resume(&self, setup: Setup, site: &Site<'_, Finding>) -> Result<()> {
        match setup {
            Setup::Alone => Ok(()),
            _ => self.batch.resume(site.machine.lane_count()),
        }
    }

    /// Sets the machine up for a block, and lets it settle under load if that takes time.
    fn begin(
        &mut self,
        plan: &ObjectivePlan,
        setup: Setup,
        site: &mut Site<'_, Finding>,
    ) -> Result<()> {
        self.end()?;
        self.block = Some(setup);
        let Setup::Objective(factor) = setup else {
            return site.sleep(SETTLE);
        };
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let objective = self.objective(factor);
        let text = format!(
            "[scheduler]\nborrow = \"slo\"\nobjective = \"{objective}\"\n\n\
             [[rule]]\nmatch = \"cgroup:{critical}\"\nclass = \"critical\"\n\n\
             [[rule]]\nmatch = \"cgroup:{batch}\"\nclass = \"batch\"\n"
        );
        self.scheduler = Some(Scheduler::attach_configured(site.sidelane, &text)?);
        site.sleep(SETTLE)?;
        self.calibrate(site)?;
        self.resume(setup, site)?;
        let seed = plan.seed + SETTLE_SEED;
        self.serve(plan, plan.settle_ms, seed, site).map(drop)
    }

    /// Has the scheduler do what a setup needs from now on; the budget that an objective has found stays.
    fn switch(&self, scheduler: &Scheduler, setup: Setup, site: &Site<'_, Finding>) -> Result<()> {
        match setup {
            Setup::Alone => Ok(()),
            Setup::BorrowIdle => scheduler.tune(site.sidelane, &["--borrow", "borrow-idle"]),
            Setup::Objective(factor) => {
                let objective = self.objective(factor);
                let arguments = ["--borrow", "slo", "--objective", &objective];
                scheduler.tune(site.sidelane, &arguments)
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        self.block = None;
        self.batch.stop()?;
        self.scheduler.take().map_or(Ok(()), Scheduler::detach)
    }

    /// Sends the requests of a time at the plan's load.
    fn serve(
        &mut self,
        plan: &ObjectivePlan,
        run_ms: u64,
        seed: u64,
        site: &Site<'_, Finding>,
    ) -> Result<Summary> {
        let load = plan.load;
        let requests = self.requests(plan, &[Phase { load, run_ms, seed }], site);
        let mut outcome = requests.send(&mut self.compute, site.stop)?;
        Ok(Summary::of(&mut outcome.latency_ns))
    }

    fn requests(
        &self,
        plan: &ObjectivePlan,
        phases: &[Phase],
        site: &Site<'_, Finding>,
    ) -> Requests {
        Requests::new(
            &site.machine,
            self.units_per_core_s,
            plan.mean_demand_ms,
            phases,
        )
    }

    /// Steps the load up and down.
    fn steps(&mut self, plan: &ObjectivePlan, site: &mut Site<'_, Finding>) -> Result<Steps> {
        let factor = plan.step_factor();
        self.begin(plan, Setup::Objective(factor), site)?;
        let step = |(number, times): (u64, f64)| Phase {
            load: times * plan.load,
            run_ms: plan.step_ms,
            seed: plan.seed + number * plan.step_ms,
        };
        let phases: Vec<Phase> = (0..).zip([1.0, STEP, 1.0]).map(step).collect();
        let requests = self.requests(plan, &phases, site);
        let sampler = Sampler::start(site.sidelane, &self.batch)?;
        let outcome = requests.send(&mut self.compute, site.stop)?;
        let samples = sampler.end()?;
        let latencies = requests.schedule.iter().zip(outcome.latency_ns);
        let loads = (0..)
            .zip(phases)
            .map(|(number, phase)| (number * plan.step_ms, phase.load));
        Ok(Steps {
            objective_ns: self.objective_ns(factor),
            loads: loads.collect(),
            requests: latencies.map(|(arrival, ns)| (arrival.at_ns, ns)).collect(),
            samples,
        })
    }
}

/// Between two samples, s.
const INTERVAL_S: f64 = 0.5;
/// How long `sidelane stat` may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Samples until it is told to end.
struct Sampler {
    process: Guarded,
    thread: JoinHandle<Result<Vec<Sample>>>,
}

impl Sampler {
    /// Starts to look: each line of `sidelane stat` is a moment.
    fn start(sidelane: &Path, batch: &Batch) -> Result<Sampler> {
        let interval = INTERVAL_S.to_string();
        let mut command = Command::new(sidelane);
        // a collector of SMT metrics would take its time just as the measurement begins
        command
            .args(["stat", &interval, "--format", "json", "--no-smt"])
            .stdout(Stdio::piped());
        let mut process = Guarded::spawn(&mut command, "sidelane stat")?;
        let stdout = process.stdout.take().ok_or(Error::Process {
            who: "sidelane stat",
            reason: "has no standard output".into(),
        })?;
        let pids: Vec<Pid> = batch.pids().collect();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread
            .spawn(move || sample(stdout, &pids))
            .during(|| "starting a thread".into())?;
        Ok(Sampler { process, thread })
    }

    /// What was seen.
    fn end(mut self) -> Result<Vec<Sample>> {
        self.process.signal(Signal::SIGTERM)?;
        let failed = |reason: &str| Error::Process {
            who: "sidelane stat",
            reason: reason.into(),
        };
        if !self.process.ended_within(PATIENCE)? {
            return Err(failed("did not end after SIGTERM"));
        }
        let panicked = || Err(failed("its reader panicked"));
        match self.thread.join().unwrap_or_else(|_| panicked())? {
            none if none.is_empty() => Err(failed("said nothing")),
            samples => Ok(samples),
        }
    }
}

fn sample(stdout: ChildStdout, pids: &[Pid]) -> Result<Vec<Sample>> {
    let start = Instant::now();
    let mut samples = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.during(|| "reading what 'sidelane stat' says".into())?;
        let rates: serde_json::Value =
            serde_json::from_str(&line).map_err(|source| Error::Message {
                text: line.clone(),
                source,
            })?;
        samples.push(Sample {
            at_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            batch_bytes: pids
                .iter()
                .map(|pid| bytes_read_by(*pid))
                .sum::<Result<u64>>()?,
            budget_ms: rates["objectives"][0]["budget_ms"].as_f64(),
        });
    }
    Ok(samples)
}
