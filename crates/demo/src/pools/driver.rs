//! The measuring part.

use super::{Message, PoolRun, PoolsPlan, Run, Setup};
use crate::batch::Batch;
use crate::driver;
use crate::error::{Error, Result};
use crate::experiment::Observer;
use crate::machine::{Cgroups, Machine, SmtSwitch};
use crate::reference;
use crate::scheduler::Scheduler;
use crate::sys::{cpu_time_ns, pin};
use crate::turns::take_turns;
use nix::unistd::Pid;
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CGROUP_PARENT: &str = "sidelane-demo-pools";
/// Length of a measurement of the cores' speed.
const REFERENCE: Duration = Duration::from_millis(700);
/// Pause before measuring: several of the scheduler's periods.
const SETTLE: Duration = Duration::from_secs(1);

pub(super) fn measure(
    plan: &PoolsPlan,
    sidelane: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer<Message>,
) -> Result<()> {
    let machine = Machine::of(&Topology::read(Path::new("/"))?);
    let two = two_cores(&machine)?;
    observer.message(Message::Machine(driver::facts(&machine)?))?;
    let mut driver = Driver::set_up(plan, sidelane, stop, &machine, two.clone())?;
    let setups = |repetition| plan.setups(repetition);
    take_turns(
        &two,
        plan.repetitions,
        None,
        setups,
        observer,
        |setup, repetition, _| driver.run(setup, repetition),
    )
}

/// Two cores with as many lanes as there are on any.
fn two_cores(machine: &Machine) -> Result<Machine> {
    let widest = machine.cores.iter().map(Vec::len).max().unwrap_or(0);
    let wide = machine.cores.iter().filter(|lanes| lanes.len() == widest);
    let cores: Vec<Vec<u32>> = wide.take(2).cloned().collect();
    match cores.len() == 2 && widest > 1 {
        true => Ok(Machine { cores }),
        false => Err(Error::Unsupported(
            "two cores with several lanes online are needed, as many on each: one for each pool"
                .into(),
        )),
    }
}

/// Everything that is alive while measuring; processes before cgroups.
struct Driver<'a> {
    plan: &'a PoolsPlan,
    sidelane: PathBuf,
    stop: &'a AtomicBool,
    /// Back on when this value goes.
    smt: SmtSwitch,
    /// The cores in use.
    machine: Machine,
    /// The first is the pool alone, the others share.
    work: Batch,
    cgroups: Cgroups,
}

impl<'a> Driver<'a> {
    fn set_up(
        plan: &'a PoolsPlan,
        sidelane: &Path,
        stop: &'a AtomicBool,
        all: &Machine,
        machine: Machine,
    ) -> Result<Driver<'a>> {
        let smt = SmtSwitch::new(Path::new("/sys"), all);
        smt.check()?;
        let cgroups = Cgroups::enter_pools(CGROUP_PARENT)?;
        let lanes = machine.cores.first().map_or(0, Vec::len);
        let work = Batch::start_normal(1 + lanes, plan.seed)?;
        for (pid, number) in work.pids().zip(0..) {
            cgroups.add(if number == 0 { "alone" } else { "sharing" }, pid)?;
        }
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            smt,
            machine,
            work,
            cgroups,
        })
    }

    /// Sets the machine up, measures, and puts it back.
    fn run(&mut self, setup: Setup, repetition: u32) -> Result<Run> {
        let before = self.core_speed()?;
        self.smt.set(setup.has_smt())?;
        let pools = ["alone", "sharing"].map(|name| self.cgroups.path(name));
        let configuration = self.plan.configuration(setup, &pools);
        let scheduler = Scheduler::attach_configured(&self.sidelane, &configuration)?;
        let (work, lanes) = self.measure_turns()?;
        scheduler.detach()?;
        self.smt.set(true)?;
        let speed = f64::midpoint(before, self.core_speed()?);
        let pool = |of: fn(&[f64]) -> f64| PoolRun {
            work_cores: of(&work) / speed,
            lanes: of(&lanes),
        };
        Ok(Run {
            setup,
            repetition,
            alone: pool(|each| each.iter().take(1).sum()),
            sharing: pool(|each| each.iter().skip(1).sum()),
        })
    }

    /// Work a second of a core with one process: what it is measured in.
    fn core_speed(&self) -> Result<f64> {
        reference::batch_speed(&self.machine, &self.work, REFERENCE)
    }

    /// Work and lane time of each process, both a second.
    fn measure_turns(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        self.place(0)?;
        self.work.resume(self.work.pids().count())?;
        std::thread::sleep(SETTLE);
        let (before, start) = (self.totals()?, Instant::now());
        for turn in 0..self.plan.turns {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            self.place(turn as usize)?;
            std::thread::sleep(Duration::from_millis(self.plan.turn_ms));
        }
        let (after, elapsed_s) = (self.totals()?, start.elapsed().as_secs_f64());
        self.work.stop()?;
        let per_s = |of: fn(&Totals) -> u64, scale: f64| {
            let both = before.iter().zip(&after);
            both.map(|(a, b)| (of(b) - of(a)) as f64 * scale / elapsed_s)
                .collect()
        };
        Ok((per_s(|t| t.work, 1.0), per_s(|t| t.lane_ns, 1e-9)))
    }

    /// Puts the pools on their cores of a turn.
    fn place(&self, turn: usize) -> Result<()> {
        let core = |number: usize| {
            let lanes = self.machine.cores.iter().cycle().nth(number);
            lanes.map(Vec::as_slice).unwrap_or_default()
        };
        for (pid, number) in self.work.pids().zip(0..) {
            let place = if number == 0 { turn } else { turn + 1 };
            pin(pid, core(place))?;
        }
        Ok(())
    }

    fn totals(&self) -> Result<Vec<Totals>> {
        let work = self.work.work_done_each()?;
        let total = |(pid, work): (Pid, u64)| {
            let lane_ns = cpu_time_ns(pid)?;
            Ok(Totals { work, lane_ns })
        };
        self.work.pids().zip(work).map(total).collect()
    }
}

/// Of a process, since it started.
struct Totals {
    work: u64,
    lane_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pools_get_two_alike_cores_of_the_widest() {
        let cores = |cores: &[&[u32]]| {
            let cores = cores.iter().map(|lanes| lanes.to_vec()).collect();
            two_cores(&Machine { cores }).map(|two| two.cores).ok()
        };
        let wide = vec![vec![1, 5], vec![2, 6]];
        assert_eq!(cores(&[&[0], &[1, 5], &[2, 6], &[3, 7]]), Some(wide));
        assert_eq!(cores(&[&[0, 1], &[2]]), None);
        assert_eq!(cores(&[&[0], &[1]]), None);
        assert_eq!(cores(&[]), None);
    }
}
