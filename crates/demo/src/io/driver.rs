//! The measuring part.

use super::account::{LaneTime, measure_programs};
use super::halt_polling::HaltPolling;
use super::pauses::{self, Pauses};
use super::sides::{self, IoSide};
use super::{IoPlan, Message, Run, Setup, Work};
use crate::batch::Batch;
use crate::clock::now_ns;
use crate::driver;
use crate::error::{Error, Result};
use crate::experiment::{Measure, Observer};
use crate::machine::Machine;
use crate::reference;
use crate::scheduler::Scheduler;
use crate::sys::{KernelSetting, machine_switches};
use crate::turns::take_turns;
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Length of a measurement of how fast one process computes.
const REFERENCE: Duration = Duration::from_millis(500);
/// How often it is looked whether somebody wants to stop.
const LOOK: Duration = Duration::from_millis(100);

impl Measure for IoPlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let mut driver = Driver::set_up(self, sidelane, stop, machine.clone())?;
        let setups = |repetition| self.setups(repetition);
        take_turns(
            &machine,
            self.repetitions,
            self.only,
            setups,
            observer,
            |setup, repetition, _speed| driver.run(setup, repetition),
        )
    }
}

/// Everything that is alive while measuring.
struct Driver<'a> {
    plan: &'a IoPlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    machine: Machine,
    io: IoSide,
    computing: Batch,
    polling: Option<HaltPolling>,
    pauses: Option<Pauses>,
    _measured_programs: KernelSetting,
}

/// What only grows.
struct Totals {
    at_ns: u64,
    round_trips: u64,
    computed: u64,
    switches: u64,
    computing_switches: u64,
    lanes: LaneTime,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a IoPlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        machine: Machine,
    ) -> Result<Driver<'a>> {
        let (lanes, cores) = (machine.lane_count(), machine.cores.len());
        let polling = match plan.work {
            Work::Processes { .. } => None,
            Work::VirtualMachines { .. } => Some(HaltPolling::new()?),
        };
        let computing = sides::computing(plan, sidelane, lanes, cores)?;
        Ok(Driver {
            pauses: pauses::measure(&machine, &computing)?,
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            io: IoSide::start(plan, sidelane, lanes)?,
            computing,
            polling,
            _measured_programs: measure_programs()?,
            machine,
        })
    }

    /// Sets the machine up, measures, and puts it back.
    fn run(&mut self, setup: Setup, repetition: u32) -> Result<Run> {
        let core_computed_per_s =
            reference::batch_speed(&self.machine, &self.computing, REFERENCE)?;
        let scheduler = self.begin(setup)?;
        self.sleep(self.plan.settle_ms)?;
        let before = self.totals(scheduler.as_ref())?;
        self.sleep(self.plan.run_ms)?;
        let after = self.totals(scheduler.as_ref())?;
        let (commands, latency) = sides::summary(self.io.end(before.at_ns)?);
        self.computing.stop()?;
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        let seconds = (after.at_ns - before.at_ns) as f64 / 1e9;
        let per_s = |total: fn(&Totals) -> u64| (total(&after) - total(&before)) as f64 / seconds;
        Ok(Run {
            setup,
            repetition,
            round_trips_per_s: per_s(|totals| totals.round_trips) + commands as f64 / seconds,
            latency,
            computed_per_s: per_s(|totals| totals.computed),
            core_computed_per_s,
            switches_per_s: per_s(|totals| totals.switches),
            computing_switches_per_s: per_s(|totals| totals.computing_switches),
            pauses: self.pauses,
            lanes: after.lanes.since(
                &before.lanes,
                after.at_ns - before.at_ns,
                self.machine.lane_count(),
            ),
        })
    }

    /// Attaches what a setup needs, and lets everybody work.
    fn begin(&mut self, setup: Setup) -> Result<Option<Scheduler>> {
        if let Some(polling) = &self.polling {
            polling.set(setup == Setup::Polling)?;
        }
        let attach = |settings: String| {
            let text = format!("[scheduler]\n{settings}");
            Scheduler::attach_configured(&self.sidelane, &text)
        };
        let scheduler = setup
            .settings(self.plan.hold_min_ms, &self.plan.thread_perf)
            .map(attach)
            .transpose()?;
        let count = sides::computing_count(self.plan, self.machine.lane_count());
        self.computing.resume(count)?;
        self.io.begin()?;
        Ok(scheduler)
    }

    fn totals(&self, scheduler: Option<&Scheduler>) -> Result<Totals> {
        let (io, computing) = (self.io.pids(), self.computing.pids());
        Ok(Totals {
            at_ns: now_ns()?,
            round_trips: self.io.round_trips()?,
            computed: self.computing.work_done()?,
            switches: machine_switches()?,
            computing_switches: self.computing.switches()?,
            lanes: LaneTime::read(&io, computing, scheduler.map(Scheduler::pid))?,
        })
    }

    fn sleep(&self, ms: u64) -> Result<()> {
        let end_ns = now_ns()? + ms * 1_000_000;
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            match end_ns.saturating_sub(now_ns()?) {
                0 => return Ok(()),
                left_ns => std::thread::sleep(LOOK.min(Duration::from_nanos(left_ns))),
            }
        }
    }
}
