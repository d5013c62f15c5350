//! The plain demonstration's measuring part, all in one boot.
//!
//! Servers and compressors are the same processes throughout. Before each configuration, and after the last, the
//! speed of a whole core is measured anew.

use crate::arguments::{between, within};
use crate::arrivals::Phase;
use crate::batch::{self, Batch};
use crate::compute::{ComputeServer, Outcome, units_of};
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Requests, Site, Turn};
use crate::figures::Facts;
use crate::machine::{Cgroups, Machine, SmtSwitch};
use crate::plan::Plan;
use crate::plan::{Calibration, Finding, Run, TraceRun};
use crate::plan::{Configuration, Workload};
use crate::redis::{self, Redis};
use crate::reference::{self, Mix};
use crate::report;
use crate::results::Results;
use crate::scheduler::Scheduler;
use crate::sys::{cpu_time_ns, find_program};
use crate::tracefs::Recording;
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::Summary;
use sidelane_smt::trace::{self, Class};
use sidelane_topology::Topology;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Length of the measurement of a core's speed before each configuration, ms.
const REFERENCE_MS: u64 = 930;
/// Pause after each change of the configuration, ms.
const SETTLE_MS: u64 = 150;
/// The longest run, s.
const RUN_S_MAX: f64 = 86_400.0;
/// Where the kernel's tracer is controlled.
const TRACING: &str = "/sys/kernel/tracing";

/// What is alive while measuring: processes before cgroups.
pub struct Rig {
    calibration: Calibration,
    /// The repetition for which requests are as long as they are now.
    calibrated: u32,
    compute: ComputeServer,
    redis: Option<Redis>,
    batch: Batch,
    smt: SmtSwitch,
    cgroups: Cgroups,
}

impl Experiment for Plan {
    const COMMAND: &'static [&'static str] = &["demo"];
    // measured for option pricing (FOF)
    const THREAD_PERF: &'static [f64] = &[1.0, 0.63];
    type Setup = Configuration;
    type Finding = Finding;
    type Rig = Rig;
    type Document = report::Document;

    fn repetitions(&self) -> u32 {
        self.repetitions
    }

    fn setups(&self, _lanes: usize) -> Vec<Configuration> {
        self.configurations.clone()
    }

    fn validate(&self) -> Result<()> {
        let wrong = |problem: &str| Err(Error::BadPlan(problem.into()));
        if self.workloads.is_empty() {
            return wrong("--workloads must name at least one of compute, redis");
        }
        if !self.configurations.contains(&Configuration::Alone) {
            return wrong("--configurations must contain alone: the others are compared with it");
        }
        within("--load", self.load, between(0.0, 1.0))?;
        within("--redis-load", self.redis_load, between(0.0, 1.0))?;
        within("--mean-ms", self.mean_demand_ms, 0.01..=1000.0)?;
        let s = |ms: u64| ms as f64 / 1000.0;
        within("--seconds", s(self.compute_ms), 0.1..=RUN_S_MAX)?;
        within("--redis-seconds", s(self.redis_ms), 0.1..=RUN_S_MAX)?;
        within("--trace-seconds", s(self.trace_ms), 0.0..=RUN_S_MAX)?;
        within("--workers", self.workers.unwrap_or(1) as f64, 1.0..)
    }

    /// How long measuring takes at least, seconds: the sum of the parts that have a given length.
    fn seconds(&self, _lanes: usize) -> f64 {
        let run_ms = |workload: &Workload| match workload {
            Workload::Compute => self.compute_ms,
            Workload::Redis => self.redis_ms,
        };
        let runs_ms: u64 = self.workloads.iter().map(run_ms).sum();
        let configuration_ms = runs_ms + REFERENCE_MS + 3 * SETTLE_MS;
        let count = u64::from(self.repetitions) * self.configurations.len() as u64;
        (count * configuration_ms + 2 * self.trace_ms) as f64 / 1000.0
    }

    fn learn(&mut self, thread_perf: &[f64], _is_emulated: bool) {
        self.thread_perf = thread_perf.to_vec();
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        let mut programs = vec![find_program("gzip").ok_or(batch::MISSING)?];
        if self.workloads.contains(&Workload::Redis) {
            programs.push(find_program("redis-server").ok_or(redis::MISSING)?);
        }
        Ok(programs)
    }

    fn check_native(&self) -> Result<()> {
        if !nix::unistd::geteuid().is_root() {
            let problem = "--native needs root: for cgroups, SMT control, tracing";
            return Err(Error::Unsupported(problem.into()));
        }
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        match self
            .configurations
            .iter()
            .all(|c| *c == Configuration::Alone)
        {
            true => Ok(()),
            false => {
                machine.check_smt("nothing to show; leave out --native to use the emulated machine")
            }
        }
    }

    /// Checks the machine, starts the servers and the compressors, and calibrates.
    fn set_up(&self, site: &mut Site<'_, Finding>) -> Result<Rig> {
        let smt = SmtSwitch::new(Path::new("/sys"), &site.machine);
        if self.configurations.contains(&Configuration::SmtOff) {
            smt.check()?;
        }
        let lanes = site.machine.lane_count();
        let cgroups = site.cgroups()?;
        let compute = ComputeServer::start(site.sidelane, self.workers.unwrap_or(lanes))?;
        cgroups.add("critical", compute.pid())?;
        let batch = Batch::start(lanes, self.seed)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        let mut redis = None;
        if self.workloads.contains(&Workload::Redis) {
            let started = Redis::start()?;
            cgroups.add("critical", started.pid())?;
            redis = Some(started);
        }
        let calibration = calibrate(self, &site.machine, &batch, redis.as_mut())?;
        site.found(Finding::Calibration(calibration))?;
        if let Some(redis) = &redis {
            redis.pause()?;
        }
        Ok(Rig {
            calibration,
            calibrated: 0,
            compute,
            redis,
            batch,
            smt,
            cgroups,
        })
    }

    fn measure(
        &self,
        rig: &mut Rig,
        turn: Turn<Configuration>,
        site: &mut Site<'_, Finding>,
    ) -> Result<()> {
        if rig.calibrated != turn.repetition {
            rig.calibrate_demand(self, site)?;
            rig.calibrated = turn.repetition;
        }
        rig.take_reference(self, site)?;
        rig.under(self, turn.setup, site, |rig, site| {
            for workload in &self.workloads {
                let run = rig.run_workload(self, *workload, turn, site)?;
                site.found(Finding::Run(run))?;
            }
            Ok(())
        })
    }

    fn finish(&self, rig: &mut Rig, site: &mut Site<'_, Finding>) -> Result<()> {
        rig.take_reference(self, site)?;
        let traced = [
            Configuration::Default,
            Configuration::Sidelane,
            Configuration::BatchOnly,
        ];
        let traced = traced.iter().filter(|c| self.configurations.contains(c));
        for configuration in traced.filter(|_| self.trace_ms > 0) {
            rig.trace(self, *configuration, site)?;
        }
        Ok(())
    }

    fn document(&self, facts: Facts, findings: Vec<Finding>) -> Result<report::Document> {
        Ok(report::Document::new(Results::new(facts, &findings)?))
    }

    fn render(document: &report::Document) -> String {
        report::render(&document.results)
    }

    fn drawing(&self, document: &report::Document) -> Option<(&Path, String)> {
        Some((&self.svg, report::draw(&document.results)))
    }
}

impl Rig {
    /// Makes requests as long again as the plan says: over minutes a host's speed may double, and the load
    /// with it.
    fn calibrate_demand(&mut self, plan: &Plan, site: &Site<'_, Finding>) -> Result<()> {
        let speed = reference::steady_mixed_speed(&site.machine, &self.batch, mix_of(plan))?;
        self.calibration.units_per_core_s = speed;
        self.calibration.mean_units = speed * plan.mean_demand_s();
        Ok(())
    }

    fn take_reference(&mut self, plan: &Plan, site: &mut Site<'_, Finding>) -> Result<()> {
        site.go_on()?;
        let length = Duration::from_millis(REFERENCE_MS);
        let reference = reference::measure(&site.machine, &self.batch, length, mix_of(plan))?;
        site.found(Finding::Reference(reference))
    }

    /// Does something under a configuration and puts the machine back.
    fn under<'a>(
        &mut self,
        plan: &Plan,
        configuration: Configuration,
        site: &mut Site<'a, Finding>,
        action: impl FnOnce(&mut Self, &mut Site<'a, Finding>) -> Result<()>,
    ) -> Result<()> {
        self.smt.set(configuration != Configuration::SmtOff)?;
        let scheduler = match configuration {
            Configuration::Sidelane => Some(self.attach(plan, site.sidelane, &[])?),
            Configuration::BatchOnly => {
                Some(self.attach(plan, site.sidelane, &["--only", "batch"])?)
            }
            Configuration::Alone | Configuration::Default | Configuration::SmtOff => None,
        };
        if configuration.has_batch() {
            self.batch.resume(site.machine.lane_count())?;
        }
        let settle = Duration::from_millis(SETTLE_MS);
        site.sleep(settle)?;
        action(self, site)?;
        self.batch.stop()?;
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        self.smt.set(true)?;
        site.sleep(settle)
    }

    fn attach(&self, plan: &Plan, sidelane: &Path, flags: &[&str]) -> Result<Scheduler> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        Scheduler::attach_calibrated(sidelane, &critical, &batch, &plan.thread_perf, flags)
    }

    /// One run of one workload.
    fn run_workload(
        &mut self,
        plan: &Plan,
        workload: Workload,
        turn: Turn<Configuration>,
        site: &Site<'_, Finding>,
    ) -> Result<Run> {
        let seed = plan.run_seed(workload, turn.repetition);
        let server = match (workload, &self.redis) {
            (Workload::Redis, Some(redis)) => redis.pid(),
            _ => self.compute.pid(),
        };
        let server_before_ns = cpu_time_ns(server)?;
        let bytes_before = self.batch.work_done()?;
        let (outcome, units) = match workload {
            Workload::Compute => self.run_compute(plan, plan.compute_ms, seed, site)?,
            Workload::Redis => (self.run_redis(plan.redis_ms, seed, site)?, 0),
        };
        let batch_bytes = self.batch.work_done()? - bytes_before;
        let server_lane_ns = cpu_time_ns(server)? - server_before_ns;
        let Outcome {
            mut latency_ns,
            mut late_ns,
            mut wait_ns,
            mut service_ns,
            elapsed_ns,
        } = outcome;
        Ok(Run {
            workload,
            configuration: turn.setup,
            repetition: turn.repetition,
            elapsed_ns,
            histogram: LogHistogram::of(latency_ns.iter().copied()),
            latency: Summary::of(&mut latency_ns),
            late: Summary::of(&mut late_ns),
            wait: Summary::of(&mut wait_ns),
            service: Summary::of(&mut service_ns),
            batch_bytes,
            units,
            server_lane_ns,
        })
    }

    /// Latencies of the computing server, and the units of work that it was given.
    fn run_compute(
        &mut self,
        plan: &Plan,
        run_ms: u64,
        seed: u64,
        site: &Site<'_, Finding>,
    ) -> Result<(Outcome, u64)> {
        let speed = self.calibration.units_per_core_s;
        let load = plan.load;
        let phase = Phase { load, run_ms, seed };
        let requests = Requests::new(&site.machine, speed, plan.mean_demand_ms, &[phase]);
        let units = requests.schedule.iter();
        let units = units.map(|a| units_of(a, requests.mean_units)).sum();
        Ok((requests.send(&mut self.compute, site.stop)?, units))
    }

    fn run_redis(&mut self, run_ms: u64, seed: u64, site: &Site<'_, Finding>) -> Result<Outcome> {
        let rate_per_s = self.calibration.redis_rate_per_s;
        let redis = self.redis.as_mut();
        let redis = redis.ok_or(Error::Incomplete("redis was not started".into()))?;
        redis.resume()?;
        let outcome = redis.run(rate_per_s, run_ms * 1_000_000, seed, site.stop)?;
        redis.pause()?;
        Ok(outcome)
    }

    /// Traces a run of the computing server and analyses it.
    fn trace(
        &mut self,
        plan: &Plan,
        configuration: Configuration,
        site: &mut Site<'_, Finding>,
    ) -> Result<()> {
        self.under(plan, configuration, site, |rig, site| {
            site.progress(&format!("tracing scheduling events: {configuration}"));
            let classes = rig.classes()?;
            let recording = Recording::begin(Path::new(TRACING))?;
            let seed = plan.run_seed(Workload::Compute, plan.repetitions);
            rig.run_compute(plan, plan.trace_ms, seed, site)?;
            let parsed = trace::parse(&recording.end()?)?;
            let analysis = trace::analyse(&parsed.events, &site.machine.cores, &classes)?;
            site.found(Finding::Trace(TraceRun {
                configuration,
                events: parsed.events.len() as u64,
                lost: parsed.lost,
                analysis,
            }))
        })
    }

    /// The class of each thread, by cgroup.
    fn classes(&self) -> Result<HashMap<trace::Pid, Class>> {
        let mut classes = HashMap::new();
        for (name, class) in [("critical", Class::Critical), ("batch", Class::Batch)] {
            classes.extend(
                self.cgroups
                    .threads(name)?
                    .into_iter()
                    .map(|pid| (pid, class)),
            );
        }
        Ok(classes)
    }
}

/// What one core does all along: the computing server's requests, and batch between them.
fn mix_of(plan: &Plan) -> Mix {
    Mix {
        load: plan.load,
        seed: plan.seed,
    }
}

/// Finds how many units of work make the mean demand, and the rates that make the loads asked for.
fn calibrate(
    plan: &Plan,
    machine: &Machine,
    batch: &Batch,
    redis: Option<&mut Redis>,
) -> Result<Calibration> {
    let units_per_core_s = reference::steady_mixed_speed(machine, batch, mix_of(plan))?;
    let mean_s = plan.mean_demand_s();
    let redis_service_ns = redis.map_or(Ok(0.0), |redis| redis.calibrate(plan.seed))?;
    let redis_rate_per_s = if redis_service_ns > 0.0 {
        plan.redis_load * 1e9 / redis_service_ns
    } else {
        0.0
    };
    Ok(Calibration {
        units_per_core_s,
        mean_units: units_per_core_s * mean_s,
        compute_rate_per_s: plan.load * machine.cores.len() as f64 / mean_s,
        redis_service_ns,
        redis_rate_per_s,
    })
}
