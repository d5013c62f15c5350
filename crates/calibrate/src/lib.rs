//! Measures threadPerf: short, pinned runs on n lanes of a core for every n, on this machine.
//!
//! Work is counted in wall time: how fast the lanes get on is what matters, whatever the kernel says
//! they had. A run at one density is compared with the lane alone before and after it; the
//! densities take turns, up and down; several cores are measured, one at a time, and the rest of
//! the machine is left alone. A run in which others took more than 3 % of a lane is repeated, and
//! counted as disturbed if that does not help.
//!
//! Source of the notion: Inoue and Nakatani 2014, who measure threadPerf once a machine with a
//! benchmark that saturates the core. The mix, its equal weights, the turns and the checks are this
//! project's.

mod calibration;
mod command;
mod error;
mod estimate;
mod footprint;
mod kernels;
mod lane;
mod measure;
mod plan;
mod render;
mod spin;

pub use calibration::{
    Calibration, Confidence, Density, Group, Machine, Method, VERSION, WorkSpeeds,
};
pub use command::Measured;
pub use error::{Error, Result};
pub use kernels::{Footprint, Kernel};
pub use lane::allowed;
pub use measure::Work;

use measure::Runs;
use plan::Plan;
use sidelane_topology::{CpuList, Topology};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// From so few measurements of each density no spread can be told.
const TOO_FEW: usize = 3;

/// More than this share of disturbed runs makes the result doubtful.
const DISTURBED_MAX: f64 = 0.1;

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What is run.
    pub work: Work,
    /// Length of a run, above 0; runs of a command last at least as long as the command.
    pub duration: Duration,
    /// Runs of each work at each density on each core; at least 1.
    pub repetitions: u32,
    /// Cores of each kind that are measured at most; at least 1.
    pub cores: usize,
}

impl Default for Settings {
    /// The whole mix, 200 ms a run, 5 repetitions on 2 cores of each kind.
    fn default() -> Settings {
        Settings {
            work: Work::Mix(Kernel::ALL.to_vec()),
            duration: Duration::from_millis(200),
            repetitions: 5,
            cores: 2,
        }
    }
}

/// A machine that can be calibrated, and what that takes.
#[derive(Debug, Clone)]
pub struct Task {
    settings: Settings,
    machine: Machine,
    plan: Plan,
    footprints: Vec<Footprint>,
    /// Whether the machine is a captured tree, which runs nothing.
    captured: bool,
}

impl Task {
    /// Looks at the machine below `root`; `allowed`: the CPUs that may be used, see [`allowed`].
    ///
    /// # Errors
    /// No core with two lanes that may be used; settings of nothing.
    pub fn new(
        root: &Path,
        topology: &Topology,
        allowed: &CpuList,
        settings: Settings,
    ) -> Result<Task> {
        check(&settings)?;
        let plan = plan::plan(topology, allowed, settings.cores)?;
        let footprint = |group: &plan::Group| {
            let cpu = group.cores.iter().flat_map(|core| &core.cpus).next();
            footprint::choose(root, topology, cpu.copied().unwrap_or(0), group.lanes)
        };
        Ok(Task {
            footprints: plan.groups.iter().map(footprint).collect(),
            machine: calibration::machine(root, topology),
            captured: root != Path::new("/"),
            settings,
            plan,
        })
    }

    /// How many runs there will be, without those that are repeated.
    pub fn runs(&self) -> usize {
        let work = match &self.settings.work {
            Work::Mix(kernels) => kernels.len(),
            Work::Command(_) => 1,
        };
        // The lane alone is measured twice.
        let of_group = |group: &plan::Group| group.cores.len() * (group.lanes + 1);
        let per_repetition: usize = self.plan.groups.iter().map(of_group).sum();
        per_repetition * work * self.settings.repetitions as usize
    }

    /// About how long it takes; of a command, at least so long.
    pub fn expected(&self) -> Duration {
        let runs = u32::try_from(self.runs()).unwrap_or(u32::MAX);
        self.settings.duration.saturating_mul(runs)
    }

    /// Measures. Ends soon when `stop` is set, and leaves nothing running. `ran` is told after each
    /// run how many there were.
    ///
    /// # Errors
    /// A command that cannot be started or fails, a system call that does, or `stop`.
    pub fn run(&self, stop: &AtomicBool, mut ran: impl FnMut(usize)) -> Result<Calibration> {
        if self.captured {
            return Err(Error::Settings("a captured tree runs nothing".into()));
        }
        let (mut groups, mut before) = (Vec::new(), 0);
        for (group, &footprint) in self.plan.groups.iter().zip(&self.footprints) {
            let mut count = before;
            let mut tell = || {
                count += 1;
                ran(count);
            };
            let mut runs = Runs {
                work: &self.settings.work,
                duration: self.settings.duration,
                repetitions: self.settings.repetitions,
                stop,
                ran: &mut tell,
                count: 0,
                disturbed: 0,
                taken_max: 0.0,
            };
            let ratios = runs.measure(group, footprint)?;
            before += runs.count;
            let estimate = estimate::estimate(&ratios, group.lanes)
                .ok_or_else(|| Error::Settings("nothing was measured".into()))?;
            groups.push(Group {
                tier: group.tier,
                capacity: group.capacity,
                lanes: group.lanes,
                cores: group.cores.iter().map(|core| core.index).collect(),
                thread_perf: estimate.thread_perf,
                densities: estimate.densities,
                work: estimate.work,
                footprint: matches!(self.settings.work, Work::Mix(_)).then_some(footprint),
                runs: runs.count,
                disturbed_runs: runs.disturbed,
                taken_max: runs.taken_max,
            });
        }
        Ok(self.calibration(groups))
    }

    fn calibration(&self, groups: Vec<Group>) -> Calibration {
        let mut notes = self.plan.notes.clone();
        if self.machine.virtual_machine {
            notes.push("a virtual machine: its lanes are what the hypervisor makes them".into());
        }
        let repetitions = self.settings.repetitions as usize;
        let doubts: Vec<String> = groups
            .iter()
            .flat_map(|group| doubts(group, repetitions * group.cores.len()))
            .collect();
        let confidence = match doubts.is_empty() {
            true => Confidence::High,
            false => Confidence::Low,
        };
        notes.extend(groups.iter().flat_map(remarks));
        notes.extend(doubts);
        let command = match &self.settings.work {
            Work::Mix(_) => None,
            Work::Command(command) => Some(&command.argv),
        };
        let words = |argv: &Vec<std::ffi::OsString>| {
            argv.iter()
                .map(|word| word.to_string_lossy().into_owned())
                .collect()
        };
        Calibration {
            version: VERSION,
            thread_perf: groups
                .first()
                .map(|group| group.thread_perf.clone())
                .unwrap_or_default(),
            confidence,
            notes,
            machine: self.machine.clone(),
            method: Method {
                duration_ms: self.settings.duration.as_secs_f64() * 1e3,
                repetitions: self.settings.repetitions,
                command: command.map(words),
            },
            groups,
        }
    }
}

fn check(settings: &Settings) -> Result<()> {
    let nothing = match &settings.work {
        Work::Mix(kernels) => kernels.is_empty(),
        Work::Command(command) => command.argv.is_empty(),
    };
    let fault = if nothing {
        "nothing to run: name a kernel or a command"
    } else if settings.duration.is_zero() {
        "runs of no length; give more than 0 ms"
    } else if settings.repetitions == 0 || settings.cores == 0 {
        "0 repetitions or cores; give at least 1"
    } else {
        return Ok(());
    };
    Err(Error::Settings(fault.into()))
}

/// Reasons not to rely on a group's result of so many measurements of each density.
fn doubts(group: &Group, measurements: usize) -> Vec<String> {
    let unclear = group.densities.iter().skip(1).filter(|at| !at.clear);
    let mut doubts: Vec<String> = unclear
        .map(|at| {
            format!(
                "with {} lanes the spread, {:.3} to {:.3}, is larger than the effect",
                at.lanes, at.measured.min, at.measured.max
            )
        })
        .collect();
    if group.disturbed_runs as f64 > DISTURBED_MAX * group.runs as f64 {
        doubts.push("others disturbed too many runs; measure again on a quiet machine".into());
    }
    if measurements < TOO_FEW {
        doubts.push(format!(
            "too few to tell a spread: measured {measurements} times"
        ));
    }
    doubts
}

/// What is to be said of a group besides.
fn remarks(group: &Group) -> Vec<String> {
    let mut remarks = Vec::new();
    if group.disturbed_runs > 0 {
        remarks.push(format!(
            "others disturbed {} of {} runs, also when repeated: they took up to {:.0} % of a lane",
            group.disturbed_runs,
            group.runs,
            group.taken_max * 100.0
        ));
    }
    let clipped = group.densities.iter().zip(&group.thread_perf);
    for (at, valid) in clipped.filter(|(at, _)| at.clipped) {
        remarks.push(format!(
            "with {} lanes {:.3} was measured; {valid:.3} is the nearest that does not increase",
            at.lanes, at.measured.median
        ));
    }
    remarks
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    /// A machine whose one core has two lanes; both must be CPUs of this machine.
    fn two_lanes() -> (Topology, CpuList) {
        let here = allowed().unwrap();
        let cpus: Vec<u32> = here.iter().take(2).collect();
        let core = Builder::new().core(CoreSpec::new(cpus));
        (core.build().unwrap(), here)
    }

    fn short(work: Work) -> Settings {
        Settings {
            work,
            duration: Duration::from_millis(5),
            repetitions: 2,
            cores: 1,
        }
    }

    #[test]
    fn settings_of_nothing_are_refused() {
        let (topology, here) = two_lanes();
        let refused = |settings: Settings| Task::new(Path::new("/"), &topology, &here, settings);
        let wrong = [
            Settings {
                work: Work::Mix(Vec::new()),
                ..Settings::default()
            },
            Settings {
                repetitions: 0,
                ..Settings::default()
            },
            Settings {
                duration: Duration::ZERO,
                ..Settings::default()
            },
        ];
        for settings in wrong {
            assert!(refused(settings).unwrap_err().is_input());
        }
    }

    #[test]
    fn a_mix_is_measured() {
        let (topology, here) = two_lanes();
        if here.len() < 2 {
            return; // this machine has no two lanes
        }
        let settings = short(Work::Mix(vec![Kernel::Integer, Kernel::Branchy]));
        let task = Task::new(Path::new("/"), &topology, &here, settings).unwrap();
        assert_eq!(
            (task.runs(), task.expected()),
            (12, Duration::from_millis(60))
        );
        let mut told = 0;
        let found = task.run(&AtomicBool::new(false), |ran| told = ran).unwrap();
        assert_eq!(told, 12);
        assert_eq!(sidelane_smt::thread_perf::fault(&found.thread_perf), None);
        assert_eq!((found.lanes(), found.groups[0].work.len()), (2, 2));
        // Two measurements tell no spread.
        assert_eq!(found.confidence, Confidence::Low);
        assert!(
            found
                .notes
                .iter()
                .any(|note| note.contains("measured 2 times"))
        );
        let text = found.to_string();
        assert!(
            text.contains("floating") ^ text.contains("branchy"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_command_is_measured() {
        let (topology, here) = two_lanes();
        if here.len() < 2 {
            return; // this machine has no two lanes
        }
        let command = Measured {
            argv: vec!["sleep".into(), "0.01".into()],
            show_output: false,
        };
        let task = Task::new(
            Path::new("/"),
            &topology,
            &here,
            short(Work::Command(command)),
        )
        .unwrap();
        let found = task.run(&AtomicBool::new(false), |_| {}).unwrap();
        assert_eq!(
            found.method.command,
            Some(vec!["sleep".into(), "0.01".into()])
        );
        // Sleepers do not slow each other down.
        assert!(
            found.groups[0].densities[1].measured.median > 0.6,
            "{found:?}"
        );
    }
}
