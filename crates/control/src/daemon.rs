//! The daemon: look, decide, set; restore in the end.

use crate::actuator::{SchedulerCap, Sysfs, check_harmless, cores_without};
use crate::exposition::Exposition;
use crate::learner::{Learner, Learnt};
use crate::sampler::{Sampler, check_numbers, normalized};
use crate::state::{RestoredAtEnd, StateFile};
use crate::{Actuator, ActuatorKind, DryRun, Error, Result, Settings};
use serde::Serialize;
use sidelane_model::{Decision, Governor, Machine, ThreadPerf};
use sidelane_topology::reserved::Reserved;
use sidelane_topology::{CpuList, SmtControl, Topology};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a sleeping daemon looks for signals.
const POLL: Duration = Duration::from_millis(50);

/// What happens, for whoever tells the operator.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Event {
    /// What an earlier daemon had left behind was restored.
    Restored,
    /// It watches now.
    Started {
        /// What sets the level.
        actuator: ActuatorKind,
        /// Cores.
        cores: u32,
        /// The level found.
        level: usize,
        /// Speeds of lanes that share a core.
        thread_perf: Vec<f64>,
        /// They were neither given nor measured.
        assumed: bool,
        /// The model's name.
        model: &'static str,
    },
    /// threadPerf, learnt from counted instructions.
    Learnt {
        /// Speeds of lanes that share a core.
        thread_perf: Vec<f64>,
        /// Which of them were measured; the others stand in.
        measured: Vec<bool>,
    },
    /// A decision.
    Decided(Decision),
    /// Something that works less well than it could.
    Warning {
        /// What.
        message: String,
    },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was told to stop, and has restored what it found.
    Stopped,
    /// This machine has nothing to control.
    NothingToDo(String),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Restored => f.write_str("restored what an earlier run had left behind"),
            Event::Started {
                actuator: kind,
                cores,
                level,
                thread_perf,
                assumed,
                model,
            } => {
                let speeds: Vec<String> = thread_perf.iter().map(f64::to_string).collect();
                let speeds = speeds.join(",");
                let source = if *assumed {
                    " (assumed; see 'sidelane calibrate')"
                } else {
                    ""
                };
                write!(
                    f,
                    "{kind:?}: {cores} cores, SMT level {level}, threadPerf {speeds}{source}, model {model}"
                )
            }
            Event::Learnt {
                thread_perf,
                measured,
            } => {
                f.write_str("threadPerf learnt:")?;
                for (speed, measured) in thread_perf.iter().zip(measured) {
                    let origin = if *measured { "" } else { " (not seen)" };
                    write!(f, " {speed:.3}{origin}")?;
                }
                Ok(())
            }
            Event::Decided(decision) => decided(f, decision),
            Event::Warning { message } => write!(f, "warning: {message}"),
        }
    }
}

/// `level 1 -> 2 (better): load 0.62, peak 0.95; expected response 3.05, 1.52`
fn decided(f: &mut fmt::Formatter<'_>, decision: &Decision) -> fmt::Result {
    match decision.changed() {
        true => write!(f, "level {} -> {}", decision.previous, decision.level)?,
        false => write!(f, "level {}", decision.level)?,
    }
    write!(
        f,
        " ({}): load {:.3}, peak {:.3}; expected response",
        decision.reason, decision.utilization, decision.peak
    )?;
    for level in &decision.expected.levels {
        let comma = if level.level > 1 { "," } else { "" };
        write!(f, "{comma} {:.3}", level.response)?;
    }
    Ok(())
}

/// Runs until `stop` is set, then restores what it found.
///
/// # Errors
/// Before anything is changed: bad settings, a machine that cannot be read, missing privilege, another
/// daemon. Later: `/proc/stat` holds garbage, or what was found cannot be restored. Whatever else goes
/// wrong is an [`Event::Warning`], and tried again.
pub fn run(
    settings: &Settings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(Event),
) -> Result<Outcome> {
    if settings.actuator != ActuatorKind::DryRun && restore(&settings.root, &settings.state)? {
        on_event(Event::Restored);
    }
    let mut state = None;
    loop {
        let topology = Topology::read(&settings.root)?;
        let reserved = Reserved::read(&settings.root);
        if let Some(why) = nothing_to_do(&topology, &reserved.cpus()) {
            return Ok(Outcome::NothingToDo(why));
        }
        if state.is_none() && settings.actuator != ActuatorKind::DryRun {
            state = Some(StateFile::hold(&settings.root, &settings.state)?);
        }
        let mut daemon = Daemon::new(settings, &topology, reserved, on_event)?;
        let found = daemon.actuator.found();
        if let (Some(state), Some(found)) = (&state, &found) {
            state.save(found)?;
        }
        // also if something panics on the way
        let found = state.as_ref().map(RestoredAtEnd);
        let served = daemon.serve(settings, stop, on_event);
        found.map_or(Ok(()), RestoredAtEnd::end)?;
        match served? {
            Served::Stopped => return Ok(Outcome::Stopped),
            Served::ReservedChanged => {
                warn(on_event, "other CPUs are reserved now: starting afresh");
            }
        }
    }
}

/// Why the daemon no longer serves.
enum Served {
    Stopped,
    /// The machine that it decides for is another one now.
    ReservedChanged,
}

/// Restores what a daemon that was killed had found. Whether there was anything to restore.
///
/// # Errors
/// One still runs, or it cannot be restored.
pub fn restore(root: &Path, state: &Path) -> Result<bool> {
    match state.exists() {
        true => StateFile::hold(root, state)?.restore(),
        false => Ok(false),
    }
}

/// Why there is no SMT to control, if there is none.
pub(crate) fn nothing_to_do(topology: &Topology, reserved: &CpuList) -> Option<String> {
    let online = topology
        .cores()
        .iter()
        .map(|core| core.online_lanes().count());
    if online.max().unwrap_or(0) > 1 {
        let ours = cores_without(topology, reserved);
        let single = ours.iter().all(|lanes| lanes.len() < 2);
        return single.then(|| {
            format!("no core has more than one lane that is not reserved (CPUs {reserved} are)")
        });
    }
    Some(match topology.smt().control {
        Some(SmtControl::Off | SmtControl::Lanes(_)) => {
            "SMT is switched off, and is left so; to let Sidelane choose, first write \"on\" to \
             /sys/devices/system/cpu/smt/control"
        }
        Some(SmtControl::ForceOff) => "SMT is switched off until the next boot (nosmt=force)",
        _ => "no core has more than one lane online",
    }
    .to_owned())
}

struct Daemon {
    actuator: Box<dyn Actuator>,
    governor: Governor,
    sampler: Sampler,
    /// CPUs that are none of its business.
    reserved: Reserved,
    /// Lanes of each core that were online at the beginning, without those reserved.
    cores: Vec<Vec<u32>>,
    exposition: Option<Exposition>,
    learner: Option<Learner>,
}

impl Daemon {
    fn new(
        settings: &Settings,
        topology: &Topology,
        reserved: Reserved,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Daemon> {
        if settings.actuator != ActuatorKind::Scheduler {
            check_numbers(&settings.root)?;
        }
        let cores = cores_without(topology, &reserved.cpus());
        let lanes = cores.iter().map(Vec::len).max().unwrap_or(1);
        let (thread_perf, assumed) = settings.thread_perf(lanes)?;
        let nr_cores = u32::try_from(cores.len()).unwrap_or(u32::MAX);
        let machine = settings.actuator.machine(nr_cores, thread_perf)?;
        tell_reserved(&reserved, on_event);
        let mut actuator = actuator(settings, topology, &reserved, lanes, on_event)?;
        let level = actuator.level()?.clamp(1, lanes);
        if !topology.capacities_equal() || cores.iter().any(|core| core.len() != lanes) {
            warn(
                on_event,
                "cores differ in speed or lanes; the model takes them as equal",
            );
        }
        on_event(started(settings, &machine, level, assumed));
        let learner = learner(settings, &cores, &machine, on_event);
        Ok(Daemon {
            actuator,
            governor: Governor::new(machine, settings.governor, level)?,
            sampler: Sampler::new(settings)?,
            cores,
            reserved,
            learner,
            exposition: settings.metrics.as_deref().map(Exposition::new),
        })
    }

    fn serve(
        &mut self,
        settings: &Settings,
        stop: &AtomicBool,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Served> {
        while sleep(settings.interval, stop) {
            match self.interval(settings, on_event) {
                Err(error @ Error::ProcStat(_)) => return Err(error),
                Err(error) => warn_of(on_event, &error),
                Ok(Some(served)) => return Ok(served),
                Ok(None) => {}
            }
        }
        Ok(Served::Stopped)
    }

    /// Brings threadPerf up to date.
    fn learn(
        &mut self,
        busy: &BTreeMap<u32, f64>,
        settings: &Settings,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<()> {
        let Some(learner) = &mut self.learner else {
            return Ok(());
        };
        let learnt = learner.learn(&self.cores, busy, settings.lane_order())?;
        let Some(Learnt { speeds, measured }) = learnt else {
            return Ok(());
        };
        let thread_perf = ThreadPerf::new(speeds.clone())?;
        let cores = self.governor.machine().cores();
        let machine = settings.actuator.machine(cores, thread_perf)?;
        self.governor.set_machine(machine)?;
        on_event(Event::Learnt {
            thread_perf: speeds,
            measured,
        });
        Ok(())
    }

    /// Looks, decides and sets once; why it is the last time, if it is.
    fn interval(
        &mut self,
        settings: &Settings,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<Served>> {
        let busy = self.sampler.sample()?;
        // what was known of threadPerf before will do
        if let Err(error) = self.learn(&busy, settings, on_event) {
            warn_of(on_event, &error);
        }
        let how = (settings.normalization(), settings.governor.options);
        let (in_force, machine) = (self.actuator.level()?, self.governor.machine());
        let in_force = in_force.clamp(1, machine.thread_perf().lanes());
        let Some(load) = normalized(machine, &self.cores, &busy, in_force, how)? else {
            return Ok(None);
        };
        let decision = self.governor.decide(load);
        on_event(Event::Decided(decision.clone()));
        let set = self.set(in_force, decision.level, settings, on_event);
        // a decision is told whether or not it could be carried out
        let written = self.exposition.as_ref().map(|it| it.write(&decision));
        if let Some(Err(error)) = written {
            warn_of(on_event, &error);
        }
        set
    }

    /// Sets a level if it is another one; why it was the last time, if it was.
    fn set(
        &mut self,
        in_force: usize,
        level: usize,
        settings: &Settings,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Option<Served>> {
        if in_force == level {
            return Ok(None);
        }
        if Reserved::read(&settings.root) != self.reserved {
            return Ok(Some(Served::ReservedChanged));
        }
        let says = self.actuator.set(level)?;
        says.into_iter().for_each(|message| warn(on_event, message));
        Ok(None)
    }
}

/// None if it is not wanted, or the machine does not count, which is said.
fn learner(
    settings: &Settings,
    cores: &[Vec<u32>],
    machine: &Machine,
    on_event: &mut dyn FnMut(Event),
) -> Option<Learner> {
    if !settings.learn {
        return None;
    }
    match Learner::new(cores, machine.thread_perf().speeds()) {
        Ok(learner) => Some(learner),
        Err(error) => {
            warn(on_event, format!("{error}; threadPerf stays as it is"));
            None
        }
    }
}

/// Which CPUs are left alone, and what could not be told.
fn tell_reserved(reserved: &Reserved, on_event: &mut dyn FnMut(Event)) {
    for (reason, cpus) in reserved.by_reason() {
        let says = format!("CPUs {cpus} are {reason}: left as they are, and no part of the load");
        warn(on_event, says);
    }
    for note in reserved.notes() {
        warn(
            on_event,
            format!("CPUs may be reserved that are not known: {note}"),
        );
    }
}

fn actuator(
    settings: &Settings,
    topology: &Topology,
    reserved: &Reserved,
    lanes: usize,
    on_event: &mut dyn FnMut(Event),
) -> Result<Box<dyn Actuator>> {
    Ok(match settings.actuator {
        ActuatorKind::Scheduler => Box::new(SchedulerCap::open()?),
        ActuatorKind::Sysfs => Box::new(Sysfs::new(&settings.root, topology, reserved)?),
        ActuatorKind::DryRun => {
            let cores = cores_without(topology, &reserved.cpus());
            if let Err(error) = check_harmless(&settings.root, &cores, reserved) {
                warn(
                    on_event,
                    format!("without --dry-run it would refuse: {error}"),
                );
            }
            Box::new(DryRun { level: lanes })
        }
    })
}

fn started(settings: &Settings, machine: &Machine, level: usize, assumed: bool) -> Event {
    Event::Started {
        actuator: settings.actuator,
        cores: machine.cores(),
        level,
        thread_perf: machine.thread_perf().speeds().to_vec(),
        assumed,
        model: settings.governor.options.model().name(),
    }
}

fn warn(on_event: &mut dyn FnMut(Event), message: impl Into<String>) {
    on_event(Event::Warning {
        message: message.into(),
    });
}

/// Of something that the next interval tries again.
fn warn_of(on_event: &mut dyn FnMut(Event), error: &Error) {
    warn(on_event, format!("{error}; trying again"));
}

/// False once `stop` is set.
fn sleep(time: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while !stop.load(Ordering::Relaxed) {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::sleep(left.min(POLL)),
            _ => return true,
        }
    }
    false
}

#[cfg(test)]
#[path = "daemon_tests.rs"]
mod tests;
