//! The measuring part.

use super::kernel::{HaltPolling, LaneTime, measure_programs};
use super::pauses::{self, Pauses};
use super::results;
use super::sides::{self, IoSide};
use super::{EMULATED_HOLD_MIN_MS, Found, IoPlan, Run, SETTLE_MS, Setup, Work};
use crate::arguments::{within, within_ms};
use crate::batch::{self, Batch};
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Site, Turn, turns};
use crate::figures::{Document, Facts};
use crate::reference;
use crate::scheduler::Scheduler;
use crate::sys::{KernelSetting, find_program, machine_switches, now_ns};
use crate::{redis, vm};
use std::path::PathBuf;
use std::time::Duration;

/// Length of a measurement of how fast one process computes.
const REFERENCE: Duration = Duration::from_millis(500);
/// About how long it takes until an emulated machine has booted, and until pauses are measured.
const BOOT_S: f64 = 22.0;

/// What is alive while measuring.
pub struct Rig {
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

impl Experiment for IoPlan {
    const COMMAND: &'static [&'static str] = &["demo", "io"];
    type Setup = Setup;
    type Finding = Run;
    type Rig = Rig;
    type Document = Document<results::Figures>;

    fn repetitions(&self) -> u32 {
        self.repetitions
    }

    fn setups(&self, _lanes: usize) -> Vec<Setup> {
        self.work().setups()
    }

    fn turns(&self, lanes: usize) -> Vec<Turn<Setup>> {
        let repetitions = self.only.map_or(0..self.repetitions, |only| only..only + 1);
        turns(&self.setups(lanes), repetitions)
    }

    fn validate(&self) -> Result<()> {
        let wrong = |problem: &str| Err(Error::BadPlan(problem.into()));
        if self.only.is_some_and(|only| only >= self.repetitions) {
            return wrong("there is no such repetition");
        }
        within("--connections", self.connections.into(), 1.0..=1000.0)?;
        if let Some(players) = self.players {
            within("--players", players.into(), 1.0..=128.0)?;
            if self.ping_pong && players % 2 == 1 {
                return wrong("--players: give an even number for ping-pong");
            }
        }
        within("--turns", self.turns.into(), 1.0..)?;
        within("--wait-us", self.wait_us.into(), 1.0..=1e6)?;
        within(
            "--computing",
            self.computing.unwrap_or(1).into(),
            1.0..=1000.0,
        )?;
        if let Some(ms) = self.hold_min_ms {
            within("--hold-min-ms", ms, 0.05..=3.0)?;
        }
        within_ms("--seconds", self.run_ms, 100)
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_s = (self.run_ms + SETTLE_MS) as f64 / 1000.0 + 2.5;
        let boots = self.parts().len().max(1) as f64;
        boots * BOOT_S + self.turns(lanes).len() as f64 * run_s
    }

    fn learn(&mut self, thread_perf: &[f64], is_emulated: bool) {
        self.thread_perf = thread_perf.to_vec();
        if is_emulated {
            self.hold_min_ms.get_or_insert(EMULATED_HOLD_MIN_MS);
        }
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        match self.work() {
            Work::Processes { .. } => {
                let redis = find_program("redis-server").ok_or(redis::MISSING)?;
                let gzip = find_program("gzip").ok_or(batch::MISSING)?;
                Ok(vec![redis, gzip])
            }
            Work::VirtualMachines { .. } => Ok(Vec::new()),
        }
    }

    fn modules(&self) -> Vec<String> {
        match self.work() {
            Work::Processes { .. } => Vec::new(),
            // the emulator has AMD's virtualization
            Work::VirtualMachines { .. } => vec!["kvm-amd".into()],
        }
    }

    /// The emulator's nested virtualization now and then keeps a translation of code that the guest's kernel
    /// has rewritten, and the kernel dies of it ("Oops: int3").
    fn parts(&self) -> Vec<Self> {
        let part = |only| IoPlan {
            only: Some(only),
            ..self.clone()
        };
        match self.work() {
            Work::Processes { .. } => Vec::new(),
            Work::VirtualMachines { .. } => (0..self.repetitions).map(part).collect(),
        }
    }

    /// Now and then the timers of nested virtual CPUs end, under any scheduler.
    fn check(runs: &[Run]) -> Result<()> {
        match runs.iter().find(|run| run.found.round_trips_per_s == 0.0) {
            None => Ok(()),
            Some(run) => {
                let what = format!("repetition with {}: the I/O-bound side", run.setup);
                Err(Error::StoodStill(what))
            }
        }
    }

    fn check_native(&self) -> Result<()> {
        match self.work() {
            Work::Processes { .. } => self.programs().map(drop),
            Work::VirtualMachines { .. } => vm::check(),
        }
    }

    fn set_up(&self, site: &mut Site<'_, Run>) -> Result<Rig> {
        let (lanes, cores) = (site.machine.lane_count(), site.machine.cores.len());
        let polling = match self.work() {
            Work::Processes { .. } => None,
            Work::VirtualMachines { .. } => Some(HaltPolling::new()?),
        };
        // one process for each core at least, since their speed is measured on all at once
        let count = self.computing_count(lanes).max(cores);
        let computing = sides::computing(self.work(), count, self.seed, site.sidelane)?;
        Ok(Rig {
            pauses: pauses::measure(&site.machine, &computing)?,
            io: IoSide::start(self.work(), site.sidelane, lanes)?,
            computing,
            polling,
            _measured_programs: measure_programs()?,
        })
    }

    fn measure(&self, rig: &mut Rig, turn: Turn<Setup>, site: &mut Site<'_, Run>) -> Result<()> {
        site.speed()?;
        let core_computed_per_s = reference::batch_speed(&site.machine, &rig.computing, REFERENCE)?;
        let scheduler = rig.begin(self, turn.setup, site)?;
        site.sleep(Duration::from_millis(SETTLE_MS))?;
        let before = rig.totals(scheduler.as_ref())?;
        site.sleep(Duration::from_millis(self.run_ms))?;
        let after = rig.totals(scheduler.as_ref())?;
        let (commands, latency) = sides::summary(rig.io.end(before.at_ns)?);
        rig.computing.stop()?;
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        let passed_ns = after.at_ns - before.at_ns;
        let seconds = passed_ns as f64 / 1e9;
        let per_s = |total: fn(&Totals) -> u64| (total(&after) - total(&before)) as f64 / seconds;
        let lanes = after.lanes;
        site.found(turn.run(Found {
            round_trips_per_s: per_s(|totals| totals.round_trips) + commands as f64 / seconds,
            latency,
            computed_per_s: per_s(|totals| totals.computed),
            core_computed_per_s,
            switches_per_s: per_s(|totals| totals.switches),
            computing_switches_per_s: per_s(|totals| totals.computing_switches),
            pauses: rig.pauses,
            lanes: lanes.since(&before.lanes, passed_ns, site.machine.lane_count()),
        }))
    }

    fn document(&self, facts: Facts, runs: Vec<Run>) -> Result<Self::Document> {
        results::document(self, facts, runs)
    }

    fn render(document: &Self::Document) -> String {
        results::render(document)
    }
}

impl Rig {
    /// Attaches what a setup needs, and lets all processes work.
    fn begin(
        &mut self,
        plan: &IoPlan,
        setup: Setup,
        site: &Site<'_, Run>,
    ) -> Result<Option<Scheduler>> {
        if let Some(polling) = &self.polling {
            polling.set(setup == Setup::Polling)?;
        }
        let attach = |settings: String| {
            let text = format!("[scheduler]\n{settings}");
            Scheduler::attach_configured(site.sidelane, &text)
        };
        let settings = setup.settings(plan.hold_min_ms, &plan.thread_perf);
        let scheduler = settings.map(attach).transpose()?;
        self.computing
            .resume(plan.computing_count(site.machine.lane_count()))?;
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::plan;

    #[test]
    fn virtual_machines_are_measured_a_repetition_a_boot() {
        assert!(plan::<IoPlan>("").parts().is_empty());
        let plan: IoPlan = plan("--virtual-machines");
        let parts = plan.parts();
        let part_turns = parts.iter().flat_map(|part| part.turns(2));
        assert_eq!(part_turns.collect::<Vec<_>>(), plan.turns(2));
        assert_eq!(parts.len(), plan.repetitions as usize);
        assert!(parts.iter().all(|part| part.validate().is_ok()));
    }
}
