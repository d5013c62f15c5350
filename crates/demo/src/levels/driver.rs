//! The measuring part, and how it is reached.

use super::{Level, LevelsPlan, Message, PlateauRun, Run, Setup};
use crate::arrivals::{self, Arrival};
use crate::compute::ComputeServer;
use crate::driver;
use crate::error::{During, Error, Result};
use crate::experiment::{Measure, Observer};
use crate::machine::{Cgroups, Machine};
use crate::reference;
use crate::scheduler::Scheduler;
use crate::sys::Guarded;
use nix::sys::signal::Signal;
use sidelane_control::{Actuator, SchedulerCap, Sysfs};
use sidelane_smt::latency::Summary;
use sidelane_topology::Topology;
use sidelane_topology::reserved::Reserved;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const CGROUP_PARENT: &str = "sidelane-levels";
/// Pause after each change of the setup.
const SETTLE: Duration = Duration::from_secs(1);
/// How long the daemon may take to restore the level.
const PATIENCE: Duration = Duration::from_secs(30);

impl Measure for LevelsPlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let topology = Topology::read(Path::new("/"))?;
        let machine = Machine::of(&topology);
        if !machine.has_smt() {
            return Err(Error::Unsupported(
                "no core has more than one lane online".into(),
            ));
        }
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let mut driver = Driver::set_up(self, sidelane, stop, machine, topology)?;
        let lanes = driver.machine.cores.iter().map(Vec::len).max().unwrap_or(1);
        for repetition in 0..self.repetitions {
            for setup in self.setups(lanes, repetition) {
                observer.message(Message::Speed(driver.calibrate()?))?;
                let (number, of) = (repetition + 1, self.repetitions);
                observer.progress(&format!("repetition {number}/{of}: {setup}"));
                observer.message(Message::Run(driver.run(setup, repetition)?))?;
            }
        }
        observer.message(Message::Speed(driver.calibrate()?))?;
        observer.message(Message::Done)
    }
}

/// Everything that is alive while measuring; processes before cgroups.
struct Driver<'a> {
    plan: &'a LevelsPlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    machine: Machine,
    topology: Topology,
    units_per_core_s: f64,
    compute: ComputeServer,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a LevelsPlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        machine: Machine,
        topology: Topology,
    ) -> Result<Driver<'a>> {
        let cgroups = Cgroups::enter(CGROUP_PARENT)?;
        let compute = ComputeServer::start(sidelane, machine.lane_count())?;
        cgroups.add("critical", compute.pid())?;
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            units_per_core_s: 0.0,
            machine,
            topology,
            compute,
            cgroups,
        })
    }

    /// Finds the speed of a core, from which demands are made; units of work a second.
    fn calibrate(&mut self) -> Result<f64> {
        self.units_per_core_s = reference::steady_compute_speed(&self.machine)?;
        Ok(self.units_per_core_s)
    }

    /// Sets the level and the scheduler up, goes through all plateaus, and puts the machine back.
    fn run(&mut self, setup: Setup, repetition: u32) -> Result<Run> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let scheduler = match setup.sidelane {
            true => Some(Scheduler::attach(&self.sidelane, &critical, &batch)?),
            false => None,
        };
        let mut found = FoundLevel::of(setup, &self.topology)?;
        let controller = match setup.level {
            Level::Fixed(level) => {
                found.set(level)?;
                None
            }
            Level::Controlled => Some(Controller::start(
                &self.sidelane,
                setup,
                &self.plan.control_arguments(),
            )?),
        };
        std::thread::sleep(SETTLE);
        let plateaus = self.plateaus(repetition, setup, controller.as_ref())?;
        controller.map_or(Ok(()), Controller::stop)?;
        drop(found);
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        Ok(Run {
            setup,
            repetition,
            plateaus,
        })
    }

    fn plateaus(
        &mut self,
        repetition: u32,
        setup: Setup,
        controller: Option<&Controller>,
    ) -> Result<Vec<PlateauRun>> {
        let schedule = self.schedule(repetition);
        let mean_units = self.units_per_core_s * self.plan.mean_demand_ms / 1000.0;
        let stop = self.stop;
        let keep_on = move || !stop.load(Ordering::Relaxed);
        let start = Instant::now();
        let outcome = self.compute.run(&schedule, mean_units, &keep_on)?;
        let mut runs = Vec::new();
        let mut begin_ms = 0;
        for plateau in &self.plan.plateaus {
            let end_ms = begin_ms + plateau.run_ms;
            let counts = ((begin_ms + self.plan.settle_ms) * 1_000_000)..(end_ms * 1_000_000);
            let requests = schedule.iter().zip(&outcome.latency_ns);
            let mut latency_ns: Vec<u64> = requests
                .filter(|(arrival, _)| counts.contains(&arrival.at_ns))
                .map(|(_, latency_ns)| *latency_ns)
                .collect();
            let sum: u64 = latency_ns.iter().sum();
            let at = |ms| start + Duration::from_millis(ms);
            runs.push(PlateauRun {
                requests: latency_ns.len() as u64,
                mean_ns: sum as f64 / latency_ns.len().max(1) as f64,
                p99_ns: Summary::of(&mut latency_ns).p99_ns,
                level: match setup.level {
                    Level::Fixed(level) => level,
                    Level::Controlled => controller.map_or(0, |c| c.level_at(at(end_ms))),
                },
                changes: controller.map_or(0, |c| c.changes(at(begin_ms), at(end_ms))),
            });
            begin_ms = end_ms;
        }
        Ok(runs)
    }

    /// The same for all setups of a repetition.
    fn schedule(&self, repetition: u32) -> Vec<Arrival> {
        let mut all = Vec::new();
        let mut begin_ms = 0;
        for (plateau, number) in self.plan.plateaus.iter().zip(0..) {
            let cores = self.machine.cores.len() as f64;
            let rate_per_s = plateau.load * cores / (self.plan.mean_demand_ms / 1000.0);
            let seed = self.plan.seed + u64::from(repetition) * 1000 + number;
            let part = arrivals::schedule(rate_per_s, plateau.run_ms * 1_000_000, seed);
            all.extend(part.into_iter().map(|arrival| Arrival {
                at_ns: arrival.at_ns + begin_ms * 1_000_000,
                ..arrival
            }));
            begin_ms += plateau.run_ms;
        }
        all
    }
}

/// The level that was found: it comes back when this value goes.
struct FoundLevel {
    actuator: Box<dyn Actuator>,
}

impl FoundLevel {
    fn of(setup: Setup, topology: &Topology) -> Result<FoundLevel> {
        Ok(FoundLevel {
            actuator: match setup.sidelane {
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
    fn start(sidelane: &Path, setup: Setup, arguments: &[String]) -> Result<Controller> {
        let actuator = if setup.sidelane { "scheduler" } else { "sysfs" };
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
