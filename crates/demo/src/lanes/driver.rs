//! The measuring part.

use super::{LanesPlan, Message, Run, Setup};
use crate::arrivals::{self, Arrival};
use crate::batch::Batch;
use crate::compute::{ComputeServer, units_of};
use crate::driver;
use crate::error::{Error, Result};
use crate::experiment::{Measure, Observer};
use crate::machine::{Cgroups, Machine};
use crate::reference;
use crate::scheduler::Scheduler;
use crate::turns::take_turns;
use sidelane_smt::latency::Summary;
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CGROUP_PARENT: &str = "sidelane-demo-lanes";
/// Length of a measurement of batch's speed.
const REFERENCE: Duration = Duration::from_millis(500);

impl Measure for LanesPlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        if !machine.has_smt() {
            return Err(Error::Unsupported(
                "no core has more than one lane online: there is no lane for batch".into(),
            ));
        }
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let mut driver = Driver::set_up(self, sidelane, stop, machine.clone())?;
        let setups = |repetition| self.setups(repetition);
        take_turns(
            &machine,
            self.repetitions,
            None,
            setups,
            observer,
            |setup, repetition, speed| driver.run(setup, repetition, speed),
        )
    }
}

/// Everything that is alive while measuring; processes before cgroups.
struct Driver<'a> {
    plan: &'a LanesPlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    machine: Machine,
    compute: ComputeServer,
    batch: Batch,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a LanesPlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        machine: Machine,
    ) -> Result<Driver<'a>> {
        let cgroups = Cgroups::enter(CGROUP_PARENT)?;
        let compute = ComputeServer::start(sidelane, machine.lane_count())?;
        cgroups.add("critical", compute.pid())?;
        let batch = Batch::multiplying(machine.lane_count(), sidelane)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            machine,
            compute,
            batch,
            cgroups,
        })
    }

    /// Sets the machine up, measures, and puts it back.
    fn run(&mut self, setup: Setup, repetition: u32, units_per_core_s: f64) -> Result<Run> {
        let batch_per_core_s = reference::batch_speed(&self.machine, &self.batch, REFERENCE)?;
        let service = self.begin(setup)?;
        std::thread::sleep(Duration::from_millis(self.plan.settle_ms));
        let schedule = self.schedule(repetition);
        let mean_units = units_per_core_s * self.plan.mean_demand_ms / 1000.0;
        let stop = self.stop;
        let keep_on = move || !stop.load(Ordering::Relaxed);
        let (before, start) = (self.batch_totals()?, Instant::now());
        let mut outcome = self.compute.run(&schedule, mean_units, &keep_on)?;
        let (after, elapsed_s) = (self.batch_totals()?, start.elapsed().as_secs_f64());
        self.batch.stop()?;
        service.map_or(Ok(()), Scheduler::detach)?;
        let units: u64 = schedule.iter().map(|a| units_of(a, mean_units)).sum();
        Ok(Run {
            setup,
            repetition,
            latency: Summary::of(&mut outcome.latency_ns),
            critical_cores: units as f64 / units_per_core_s / elapsed_s,
            batch_per_s: (after[0] - before[0]) as f64 / elapsed_s,
            naps_per_s: (after[1] - before[1]) as f64 / elapsed_s,
            batch_per_core_s,
        })
    }

    /// Starts what a setup needs, and lets batch run if it has any.
    fn begin(&self, setup: Setup) -> Result<Option<Scheduler>> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let service = match setup {
            Setup::Alone => return Ok(None),
            Setup::Default => None,
            Setup::Lanes => Some(Scheduler::bind_lanes(&self.sidelane, &critical, &batch)?),
            Setup::Sidelane => Some(Scheduler::attach(&self.sidelane, &critical, &batch)?),
        };
        self.batch.resume(self.machine.lane_count())?;
        Ok(service)
    }

    /// Multiplications and naps of batch so far.
    fn batch_totals(&self) -> Result<[u64; 2]> {
        Ok([self.batch.work_done()?, self.batch.naps()?])
    }

    /// The same requests for all setups of a repetition, but for the speed of the moment.
    fn schedule(&self, repetition: u32) -> Vec<Arrival> {
        let plan = self.plan;
        let rate_per_s = plan.load * self.machine.cores.len() as f64 * 1000.0 / plan.mean_demand_ms;
        let seed = plan.seed + u64::from(repetition);
        arrivals::schedule(rate_per_s, plan.run_ms * 1_000_000, seed)
    }
}
