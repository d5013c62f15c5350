//! The measuring part: runs on the machine that is measured, all in one boot.
//!
//! Each repetition goes through all configurations, in an order that rotates. Servers and compressors are
//! the same processes throughout. Before each configuration, and after the last, the speed of a whole core
//! is measured anew.

use crate::batch::Batch;
use crate::compute::{ComputeServer, Outcome, units_of};
use crate::error::{During, Error, Result};
use crate::experiment::{Measure, Observer};
use crate::lines::MachineFacts;
use crate::machine::{Cgroups, Machine, SmtSwitch};
use crate::message::{Calibration, Message, Run, TraceRun};
use crate::plan::Plan;
use crate::redis::Redis;
use crate::reference::Mix;
use crate::scheduler::Scheduler;
use crate::setups::{Configuration, Workload};
use crate::sys::cpu_time_ns;
use crate::tracefs::Recording;
use crate::{arrivals, reference};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::latency::Summary;
use sidelane_smt::trace::{self, Class};
use sidelane_topology::Topology;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The parent of the classes' cgroups.
const CGROUP_PARENT: &str = "sidelane-demo";
/// Where the kernel's tracer is controlled.
const TRACING: &str = "/sys/kernel/tracing";

/// Measures everything in the plan on this machine, as [`Experiment::measure`] says.
///
impl Measure for Plan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let mut driver = Driver::set_up(self, sidelane, stop, observer)?;
        for repetition in 0..self.repetitions {
            if repetition > 0 {
                driver.calibrate_demand()?;
            }
            for configuration in self.order(repetition) {
                driver.take_reference()?;
                driver.measure_configuration(configuration, repetition)?;
            }
        }
        driver.take_reference()?;
        if let Some(trace_ms) = self.trace_ms {
            for configuration in [Configuration::Default, Configuration::Sidelane] {
                if self.configurations.contains(&configuration) {
                    driver.trace_configuration(configuration, trace_ms)?;
                }
            }
        }
        driver.observer.message(Message::Done)
    }
}

/// Everything that is alive while measuring. Fields go in this order: processes before cgroups.
struct Driver<'a> {
    plan: &'a Plan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    observer: &'a mut dyn Observer<Message>,
    machine: Machine,
    calibration: Calibration,
    compute: ComputeServer,
    redis: Option<Redis>,
    batch: Batch,
    smt: SmtSwitch,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    /// Checks the machine, starts the servers and the compressors, and calibrates.
    fn set_up(
        plan: &'a Plan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        observer: &'a mut dyn Observer<Message>,
    ) -> Result<Driver<'a>> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        let smt = SmtSwitch::new(Path::new("/sys"), &machine);
        if plan.configurations.contains(&Configuration::SmtOff) {
            smt.check()?;
        }
        observer.message(Message::Machine(facts(&machine)?))?;
        observer.progress("starting servers and batch, calibrating");
        let cgroups = Cgroups::enter(CGROUP_PARENT)?;
        let workers = plan.compute.workers.unwrap_or(machine.lane_count());
        let compute = ComputeServer::start(sidelane, workers)?;
        cgroups.add("critical", compute.pid())?;
        let batch = Batch::start(machine.lane_count(), plan.seed)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        let mut redis = None;
        if plan.workloads.contains(&Workload::Redis) {
            let started = Redis::start()?;
            cgroups.add("critical", started.pid())?;
            redis = Some(started);
        }
        let calibration = calibrate(plan, &machine, &batch, redis.as_mut())?;
        observer.message(Message::Calibration(calibration))?;
        if let Some(redis) = &redis {
            redis.pause()?;
        }
        let sidelane = sidelane.to_owned();
        let driver = Driver {
            plan,
            sidelane,
            stop,
            observer,
            machine,
            calibration,
            compute,
            redis,
            batch,
            smt,
            cgroups,
        };
        Ok(driver)
    }

    /// Fails when somebody asked to stop.
    fn go_on(&self) -> Result<()> {
        if self.stop.load(Ordering::Relaxed) {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    fn settle(&self) -> Result<()> {
        std::thread::sleep(Duration::from_millis(self.plan.settle_ms));
        self.go_on()
    }

    /// Makes requests as long again as the plan says: over minutes a host's speed may double, and the load
    /// with it.
    fn calibrate_demand(&mut self) -> Result<()> {
        self.go_on()?;
        let mix = mix_of(self.plan);
        let speed = reference::steady_mixed_speed(&self.machine, &self.batch, mix)?;
        self.calibration.units_per_core_s = speed;
        self.calibration.mean_units = self.calibration.units_per_core_s * mean_demand_s(self.plan);
        Ok(())
    }

    fn take_reference(&mut self) -> Result<()> {
        self.go_on()?;
        let length = Duration::from_millis(self.plan.reference_ms);
        let reference = reference::measure(&self.machine, &self.batch, length, mix_of(self.plan))?;
        self.observer.message(Message::Reference(reference))
    }

    /// Sets the configuration up, measures all workloads under it, and takes it down.
    fn measure_configuration(
        &mut self,
        configuration: Configuration,
        repetition: u32,
    ) -> Result<()> {
        self.with_configuration(configuration, |driver| {
            for workload in driver.plan.workloads.clone() {
                let of = driver.plan.repetitions;
                let number = repetition + 1;
                driver.observer.progress(&format!(
                    "repetition {number}/{of}: {workload}, {configuration}"
                ));
                let run = driver.run_workload(workload, configuration, repetition)?;
                driver.observer.message(Message::Run(run))?;
            }
            Ok(())
        })
    }

    /// Does something under a configuration and puts the machine back.
    fn with_configuration(
        &mut self,
        configuration: Configuration,
        action: impl FnOnce(&mut Self) -> Result<()>,
    ) -> Result<()> {
        self.smt.set(configuration != Configuration::SmtOff)?;
        let scheduler = match configuration {
            Configuration::Sidelane => Some(self.attach()?),
            _ => None,
        };
        if configuration.has_batch() {
            self.batch.resume(self.machine.lane_count())?;
        }
        self.settle()?;
        action(self)?;
        self.batch.stop()?;
        if let Some(scheduler) = scheduler {
            scheduler.detach()?;
        }
        self.smt.set(true)?;
        self.settle()
    }

    fn attach(&self) -> Result<Scheduler> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let thread_perf = &self.plan.thread_perf;
        Scheduler::attach_calibrated(&self.sidelane, &critical, &batch, thread_perf)
    }

    /// One run of one workload.
    fn run_workload(
        &mut self,
        workload: Workload,
        configuration: Configuration,
        repetition: u32,
    ) -> Result<Run> {
        let seed = self.plan.run_seed(workload, repetition);
        let server = match (workload, &self.redis) {
            (Workload::Redis, Some(redis)) => redis.pid(),
            _ => self.compute.pid(),
        };
        let server_before_ns = cpu_time_ns(server)?;
        let bytes_before = self.batch.work_done()?;
        let (outcome, units) = match workload {
            Workload::Compute => self.run_compute(self.plan.compute.run_ms, seed)?,
            Workload::Redis => (self.run_redis(seed)?, 0),
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
            configuration,
            repetition,
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
    fn run_compute(&mut self, run_ms: u64, seed: u64) -> Result<(Outcome, u64)> {
        let calibration = &self.calibration;
        let schedule = arrivals::schedule(calibration.compute_rate_per_s, run_ms * 1_000_000, seed);
        let units = schedule
            .iter()
            .map(|a| units_of(a, calibration.mean_units))
            .sum();
        let stop = self.stop;
        let keep_on = move || !stop.load(Ordering::Relaxed);
        Ok((
            self.compute
                .run(&schedule, calibration.mean_units, &keep_on)?,
            units,
        ))
    }

    fn run_redis(&mut self, seed: u64) -> Result<Outcome> {
        let stop = self.stop;
        let keep_on = move || !stop.load(Ordering::Relaxed);
        let rate_per_s = self.calibration.redis_rate_per_s;
        let run_ns = self.plan.redis.run_ms * 1_000_000;
        let redis = self
            .redis
            .as_mut()
            .ok_or(Error::Incomplete("redis was not started".into()))?;
        redis.resume()?;
        let outcome = redis.run(rate_per_s, run_ns, seed, &keep_on)?;
        redis.pause()?;
        Ok(outcome)
    }

    /// Traces a run of the computing server and analyses it.
    fn trace_configuration(&mut self, configuration: Configuration, trace_ms: u64) -> Result<()> {
        self.with_configuration(configuration, |driver| {
            driver
                .observer
                .progress(&format!("tracing scheduling events: {configuration}"));
            let classes = driver.classes()?;
            let recording = Recording::begin(Path::new(TRACING))?;
            let seed = driver
                .plan
                .run_seed(Workload::Compute, driver.plan.repetitions);
            driver.run_compute(trace_ms, seed)?;
            let parsed = trace::parse(&recording.end()?)?;
            let analysis = trace::analyse(&parsed.events, &driver.machine.cores, &classes)?;
            driver.observer.message(Message::Trace(TraceRun {
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

/// The kernel, and the lanes of each core.
pub(crate) fn facts(machine: &Machine) -> Result<MachineFacts> {
    let path = "/proc/sys/kernel/osrelease";
    let kernel = fs::read_to_string(path)
        .during(|| path.into())?
        .trim()
        .to_owned();
    Ok(MachineFacts {
        kernel,
        cores: machine.cores.clone(),
    })
}

/// What one core does all along: the computing server's requests, and batch between them.
fn mix_of(plan: &Plan) -> Mix {
    Mix {
        load: plan.compute.load,
        seed: plan.seed,
    }
}

fn mean_demand_s(plan: &Plan) -> f64 {
    plan.compute.mean_demand_ms / 1000.0
}

/// Finds how many units of work make the mean demand, and the rates that make the loads asked for.
fn calibrate(
    plan: &Plan,
    machine: &Machine,
    batch: &Batch,
    redis: Option<&mut Redis>,
) -> Result<Calibration> {
    let units_per_core_s = reference::steady_mixed_speed(machine, batch, mix_of(plan))?;
    let mean_s = mean_demand_s(plan);
    let redis_service_ns = redis.map_or(Ok(0.0), |redis| redis.calibrate(plan.seed))?;
    let redis_rate_per_s = if redis_service_ns > 0.0 {
        plan.redis.load * 1e9 / redis_service_ns
    } else {
        0.0
    };
    Ok(Calibration {
        units_per_core_s,
        mean_units: units_per_core_s * mean_s,
        compute_rate_per_s: plan.compute.load * machine.cores.len() as f64 / mean_s,
        redis_service_ns,
        redis_rate_per_s,
    })
}
