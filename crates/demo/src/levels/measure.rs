//! The measuring part, and the SMT level: set and restored, or set by `sidelane control` at work.

use super::results;
use super::{Found, INTERVALS, Level, LevelsPlan, Plateau, Run, Setup};
use crate::arguments::{between, demands_ms, within, within_ms};
use crate::compute::ComputeServer;
use crate::error::{During, Error, Result};
use crate::experiment::{Experiment, Requests, Site, Turn};
use crate::figures::{Document, Facts};
use crate::machine::Cgroups;
use crate::scheduler::Scheduler;
use crate::sys::Guarded;
use nix::sys::signal::Signal;
use sidelane_control::{Actuator, SchedulerCap, Sysfs};
use sidelane_smt::latency::Summary;
use sidelane_topology::Topology;
use sidelane_topology::reserved::Reserved;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Pause after each change of the setup.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the daemon may take to restore the level.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is alive while measuring.
pub struct Rig {
    compute: ComputeServer,
    cgroups: Cgroups,
}

impl Experiment for LevelsPlan {
    const COMMAND: &'static [&'static str] = &["demo", "levels"];
    // what the daemon takes as typical
    const THREAD_PERF: &'static [f64] = &[1.0, 0.6];
    type Setup = Setup;
    type Finding = Run;
    type Rig = Rig;
    type Document = Document<results::Figures>;

    fn repetitions(&self) -> u32 {
        self.repetitions
    }

    /// Each level and control, with both schedulers.
    fn setups(&self, lanes: usize) -> Vec<Setup> {
        let levels = || (1..=lanes).map(Level::Fixed).chain([Level::Controlled]);
        let of = |sidelane| levels().map(move |level| Setup { sidelane, level });
        of(false).chain(of(true)).collect()
    }

    fn validate(&self) -> Result<()> {
        if self.loads.is_empty() {
            return Err(Error::BadPlan("--loads: at least one is needed".into()));
        }
        for load in &self.loads {
            within("--loads", *load, between(0.0, 2.0))?;
        }
        within("--mean-ms", self.mean_demand_ms, demands_ms())?;
        within_ms("--seconds", self.run_ms, self.settle_ms.saturating_add(1))?;
        let (window_s, settle_s) = (
            INTERVALS * self.interval_s(),
            self.settle_ms as f64 / 1000.0,
        );
        match settle_s < window_s {
            false => Ok(()),
            true => Err(Error::BadPlan(format!(
                "{settle_s} s of each plateau do not count, but the controller looks back {window_s} s, for requests of \
                 {} ms; give a longer --settle",
                self.mean_demand_ms
            ))),
        }
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_s = self.loads.len() as f64 * self.run_ms as f64 / 1000.0;
        self.turns(lanes).len() as f64 * (run_s + 3.0)
    }

    /// The controller is told the speeds of the lanes.
    fn learn(&mut self, thread_perf: &[f64], _is_emulated: bool) {
        if !thread_perf.is_empty() {
            let speeds: Vec<String> = thread_perf.iter().map(f64::to_string).collect();
            self.control
                .extend(["--thread-perf".into(), speeds.join(",")]);
        }
    }

    fn set_up(&self, site: &mut Site<'_, Run>) -> Result<Rig> {
        site.machine.check_smt("there is no level to set")?;
        let cgroups = site.cgroups()?;
        let compute = site.critical_server(&cgroups)?;
        Ok(Rig { compute, cgroups })
    }

    /// Sets the level and the scheduler up, goes through all plateaus, and puts the machine back.
    fn measure(&self, rig: &mut Rig, turn: Turn<Setup>, site: &mut Site<'_, Run>) -> Result<()> {
        let units_per_core_s = site.speed()?;
        let setup = turn.setup;
        let (critical, batch) = (rig.cgroups.path("critical"), rig.cgroups.path("batch"));
        let scheduler = match setup.sidelane {
            true => Some(Scheduler::attach(site.sidelane, &critical, &batch)?),
            false => None,
        };
        let mut found = FoundLevel::of(setup.sidelane, &site.topology)?;
        let controller = match setup.level {
            Level::Fixed(level) => found.set(level).map(|()| None)?,
            Level::Controlled => {
                let arguments = self.control_arguments();
                let controller = Controller::start(site.sidelane, setup.sidelane, &arguments);
                Some(controller?)
            }
        };
        site.sleep(SETTLE)?;
        let phases = self.phases(turn.repetition);
        let demand_ms = self.mean_demand_ms;
        let requests = Requests::new(&site.machine, units_per_core_s, demand_ms, &phases);
        let start = Instant::now();
        let outcome = requests.send(&mut rig.compute, site.stop)?;
        let latencies = requests.schedule.iter().zip(outcome.latency_ns);
        let latencies: Vec<(u64, u64)> = latencies.map(|(at, ns)| (at.at_ns, ns)).collect();
        let plateau = |number| self.plateau(number, setup.level, &latencies, start, &controller);
        let plateaus = (0..self.loads.len() as u64).map(plateau).collect();
        controller.map_or(Ok(()), Controller::stop)?;
        drop(found);
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        site.found(turn.run(Found { plateaus }))
    }

    fn finish(&self, _rig: &mut Rig, site: &mut Site<'_, Run>) -> Result<()> {
        site.speed().map(drop)
    }

    fn document(&self, facts: Facts, runs: Vec<Run>) -> Result<Self::Document> {
        results::document(self, facts, runs)
    }

    fn render(document: &Self::Document) -> String {
        results::render(document)
    }
}

impl LevelsPlan {
    /// One plateau of a run that began at `start`, from moments and latencies of all requests, ns.
    fn plateau(
        &self,
        number: u64,
        level: Level,
        latencies: &[(u64, u64)],
        start: Instant,
        controller: &Option<Controller>,
    ) -> Plateau {
        let (begin_ms, end_ms) = (number * self.run_ms, (number + 1) * self.run_ms);
        let counted = ((begin_ms + self.settle_ms) * 1_000_000)..(end_ms * 1_000_000);
        let own = latencies
            .iter()
            .filter(|(at_ns, _)| counted.contains(at_ns));
        let mut latency_ns: Vec<u64> = own.map(|(_, latency_ns)| *latency_ns).collect();
        let sum: u64 = latency_ns.iter().sum();
        let at = |ms| start + Duration::from_millis(ms);
        Plateau {
            requests: latency_ns.len() as u64,
            mean_ns: sum as f64 / latency_ns.len().max(1) as f64,
            p99_ns: Summary::of(&mut latency_ns).p99_ns,
            level: match level {
                Level::Fixed(level) => level,
                Level::Controlled => controller.as_ref().map_or(0, |c| c.level_at(at(end_ms))),
            },
            changes: controller
                .as_ref()
                .map_or(0, |c| c.changes(at(begin_ms), at(end_ms))),
        }
    }
}

/// The level that was found: it comes back when this value goes.
struct FoundLevel {
    actuator: Box<dyn Actuator>,
}

impl FoundLevel {
    /// The level of now, of Sidelane's cap or of sysfs.
    fn of(sidelane: bool, topology: &Topology) -> Result<FoundLevel> {
        Ok(FoundLevel {
            actuator: match sidelane {
                true => Box::new(SchedulerCap::open()?),
                false => {
                    let root = Path::new("/");
                    Box::new(Sysfs::new(root, topology, &Reserved::read(root))?)
                }
            },
        })
    }

    fn set(&mut self, level: usize) -> Result<()> {
        let says = self.actuator.set(level)?;
        match says.is_empty() {
            true => Ok(()),
            false => Err(Error::Unsupported(says.join("; "))),
        }
    }
}

impl Drop for FoundLevel {
    fn drop(&mut self) {
        let found = self.actuator.found();
        let _ = found.map_or(Ok(()), |found| found.restore(Path::new("/")));
    }
}

/// `sidelane control` at work; it restores the level when it is told to stop.
struct Controller {
    process: Guarded,
    /// The level found, and each change with its moment.
    log: Arc<Mutex<Vec<(Instant, usize)>>>,
}

impl Controller {
    /// Starts it, on the cap of Sidelane's scheduler or on sysfs.
    fn start(sidelane: &Path, has_cap: bool, arguments: &[String]) -> Result<Controller> {
        let actuator = if has_cap { "scheduler" } else { "sysfs" };
        let mut command = Command::new(sidelane);
        command.args([
            "control",
            "--format",
            "json",
            "--quiet",
            "--actuator",
            actuator,
        ]);
        command.args(arguments).stdout(Stdio::piped());
        let mut process = Guarded::spawn(&mut command, "sidelane control")?;
        let log = Arc::new(Mutex::new(Vec::new()));
        let (writer, stdout) = (Arc::clone(&log), process.stdout.take());
        let read = move || {
            let lines = stdout.map(|stdout| BufReader::new(stdout).lines());
            for line in lines.into_iter().flatten().map_while(std::io::Result::ok) {
                let event: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
                let level = event["level"]
                    .as_u64()
                    .and_then(|level| usize::try_from(level).ok());
                if let (Some(level), Ok(mut log)) = (level, writer.lock()) {
                    log.push((Instant::now(), level));
                }
            }
        };
        let thread = std::thread::Builder::new().name("control-log".into());
        thread.spawn(read).during(|| "starting a thread".into())?;
        Ok(Controller { process, log })
    }

    fn log(&self) -> Vec<(Instant, usize)> {
        self.log.lock().map(|log| log.clone()).unwrap_or_default()
    }

    /// 0: it has said nothing yet.
    fn level_at(&self, moment: Instant) -> usize {
        let log = self.log();
        let before = log.iter().rev().find(|(at, _)| *at <= moment);
        before.map_or(0, |(_, level)| *level)
    }

    /// The first entry is the level found: no change.
    fn changes(&self, from: Instant, until: Instant) -> u32 {
        let log = self.log();
        let changes = log
            .iter()
            .skip(1)
            .filter(|(at, _)| (from..until).contains(at));
        u32::try_from(changes.count()).unwrap_or(u32::MAX)
    }

    fn stop(mut self) -> Result<()> {
        let failed = |reason: &str| {
            Err(Error::Process {
                who: "sidelane control",
                reason: reason.into(),
            })
        };
        if self.process.ended_within(Duration::ZERO)? {
            return failed("ended before it was told to; what it said is above");
        }
        self.process.signal(Signal::SIGTERM)?;
        match self.process.ended_within(PATIENCE)? {
            true => Ok(()),
            false => failed("did not end after SIGTERM"),
        }
    }
}
