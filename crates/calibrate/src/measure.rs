//! Runs everything: cores, kinds of work, repetitions, densities.

use super::command::Measured;
use super::error::Result;
use super::estimate::Ratios;
use super::kernels::{Footprint, Kernel};
use super::lane::{Seen, Watch};
use super::plan::{CoreLanes, Group};
use super::spin::Spinners;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Others may take this share of a lane; a run in which they took more is disturbed.
pub(super) const TAKEN_MAX: f64 = 0.03;

/// How often a disturbed run is repeated.
const REPEATS: u32 = 2;

/// Where `/proc` is.
const ROOT: &str = "/";

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// Kernels of the representative mix.
    Mix(Vec<Kernel>),
    /// A command.
    Command(Measured),
}

/// How the runs are made.
pub(super) struct Runs<'a> {
    pub work: &'a Work,
    pub duration: Duration,
    pub repetitions: u32,
    pub stop: &'a AtomicBool,
    /// Is told after each run that counts.
    pub ran: &'a mut dyn FnMut(),
    /// Runs that counted.
    pub count: usize,
    /// Of these, disturbed.
    pub disturbed: usize,
    /// The most that others took of a lane in one of these.
    pub taken_max: f64,
}

/// Whatever gets work done on lanes.
enum Worker<'a> {
    Spinners(Spinners),
    Command(&'a Measured),
}

impl Runs<'_> {
    /// Measures the cores of a group, one after the other.
    pub(super) fn measure(&mut self, group: &Group, footprint: Footprint) -> Result<Vec<Ratios>> {
        let work = self.work;
        let workers = || -> Vec<(String, Worker)> {
            match work {
                Work::Mix(kernels) => kernels
                    .iter()
                    .map(|&kernel| {
                        let spinners = Spinners::new(kernel, footprint, group.lanes);
                        (kernel.to_string(), Worker::Spinners(spinners))
                    })
                    .collect(),
                Work::Command(command) => vec![(command.line(), Worker::Command(command))],
            }
        };
        let names = workers().into_iter().map(|(name, _)| name);
        let mut all: Vec<Ratios> = names.map(|name| Ratios::new(name, group.lanes)).collect();
        for core in &group.cores {
            // A kernel's memory is given back before the next one takes its own.
            for ((_, mut worker), ratios) in workers().into_iter().zip(&mut all) {
                for repetition in 0..self.repetitions as usize {
                    ratios.add(&self.densities(&mut worker, core, repetition)?);
                }
            }
        }
        Ok(all)
    }

    /// Speeds at each density, up and down by turns, so that drift hits all alike. The lane alone,
    /// to which all others are related, is measured before and after them.
    fn densities(
        &mut self,
        worker: &mut Worker,
        core: &CoreLanes,
        repetition: usize,
    ) -> Result<Vec<f64>> {
        let lanes = core.cpus.len();
        // Another lane is the first in each repetition.
        let mut cpus = core.cpus.clone();
        cpus.rotate_left(repetition % lanes);
        let mut at_density = |running: usize| {
            let (running, idle) = cpus.split_at(running);
            self.run(worker, running, idle)
        };
        let before = at_density(1)?;
        let mut order: Vec<usize> = (2..=lanes).collect();
        let down = !repetition.is_multiple_of(2);
        if down {
            order.reverse();
        }
        let mut together: Vec<f64> = order
            .into_iter()
            .map(&mut at_density)
            .collect::<Result<_>>()?;
        if down {
            together.reverse();
        }
        let alone = f64::midpoint(before, at_density(1)?);
        Ok([vec![alone], together].concat())
    }

    /// One run that counts: the least disturbed of a few.
    fn run(&mut self, worker: &mut Worker, running: &[u32], idle: &[u32]) -> Result<f64> {
        let (mut speed, mut taken) = self.attempt(worker, running, idle)?;
        for _ in 0..REPEATS {
            if taken <= TAKEN_MAX {
                break;
            }
            let again = self.attempt(worker, running, idle)?;
            if again.1 < taken {
                (speed, taken) = again;
            }
        }
        self.count += 1;
        self.disturbed += usize::from(taken > TAKEN_MAX);
        self.taken_max = self.taken_max.max(taken);
        (self.ran)();
        Ok(speed)
    }

    /// Speed, and the largest share of a lane that others took: of CPU time on the lanes that ran,
    /// of time by a hypervisor, or of the lanes that should have been idle.
    fn attempt(
        &mut self,
        worker: &mut Worker,
        running: &[u32],
        idle: &[u32],
    ) -> Result<(f64, f64)> {
        let (root, own) = (Path::new(ROOT), children_time());
        let watch = Watch::begin(root)?;
        let pace = match worker {
            Worker::Spinners(spinners) => spinners.run(running, self.duration, self.stop)?,
            Worker::Command(command) => command.run(running, self.duration, self.stop)?,
        };
        let own = children_time().saturating_sub(own);
        let seen = watch.end(root)?;
        let taken = match worker {
            Worker::Spinners(_) => 1.0 - pace.lane_share,
            Worker::Command(_) => seen.taken_beside(own, running),
        };
        let taken = taken
            .max(seen.stolen_share(running))
            .max(seen.busy_share(idle))
            .clamp(0.0, 1.0);
        Ok((pace.speed, taken))
    }
}

impl Seen {
    /// The share of these lanes that was busy with something else than what took this CPU time; two
    /// ticks a lane may be miscounted.
    fn taken_beside(&self, own: Duration, cpus: &[u32]) -> f64 {
        let lanes = u32::try_from(cpus.len().max(1)).unwrap_or(u32::MAX);
        let slack = Duration::from_millis(20) * lanes;
        let others = self.busy(cpus).saturating_sub(own + slack);
        others.as_secs_f64() / (self.elapsed().as_secs_f64().max(1e-3) * f64::from(lanes))
    }
}

/// CPU time of the children that have ended.
fn children_time() -> Duration {
    let time = |value: TimeVal| {
        Duration::from_micros(u64::try_from(value.num_microseconds()).unwrap_or(0))
    };
    getrusage(UsageWho::RUSAGE_CHILDREN).map_or(Duration::ZERO, |usage| {
        time(usage.user_time()) + time(usage.system_time())
    })
}
