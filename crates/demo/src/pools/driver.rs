//! The measuring part.

use super::{Message, PoolRun, PoolsPlan, Run, Setup};
use crate::batch::Batch;
use crate::driver;
use crate::error::{Error, Result};
use crate::experiment::{Measure, Observer};
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
/// Pause after each change of places: several of the pools' periods.
const SETTLE: Duration = Duration::from_millis(500);
/// The pools' cgroups.
const POOLS: [&str; 2] = ["alone", "sharing"];

impl Measure for PoolsPlan {
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Message>,
    ) -> Result<()> {
        let machine = Machine::of(&Topology::read(Path::new("/"))?);
        let two = two_cores(&machine)?;
        observer.message(Message::Machine(driver::facts(&machine)?))?;
        let mut driver = Driver::set_up(self, sidelane, stop, &machine, two.clone())?;
        let setups = |repetition| self.setups(repetition);
        take_turns(
            &two,
            self.repetitions,
            None,
            setups,
            observer,
            |setup, repetition, _| driver.run(setup, repetition),
        )
    }
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
    /// Speed of a lane of theirs when 1, 2, ... lanes work.
    thread_perf: Vec<f64>,
    /// One more than a core has lanes: one is alone, the others share.
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
        let thread_perf = reference::batch_thread_perf(&machine, &work)?;
        Ok(Driver {
            plan,
            sidelane: sidelane.to_owned(),
            stop,
            smt,
            machine,
            thread_perf,
            work,
            cgroups,
        })
    }

    /// Sets the machine up, measures, and puts it back.
    fn run(&mut self, setup: Setup, repetition: u32) -> Result<Run> {
        let before = self.core_speed()?;
        self.smt.set(setup.has_smt())?;
        let pools = POOLS.map(|name| self.cgroups.path(name));
        let configuration = self.plan.configuration(setup, &pools, &self.thread_perf);
        let scheduler = Scheduler::attach_configured(&self.sidelane, &configuration)?;
        let measured = self.measure_turns();
        self.work.stop()?;
        scheduler.detach()?;
        self.smt.set(true)?;
        let speed = f64::midpoint(before, self.core_speed()?);
        let [alone, sharing] = measured?.map(|[work_per_s, lanes]| PoolRun {
            work_cores: work_per_s / speed,
            lanes,
        });
        Ok(Run {
            setup,
            repetition,
            thread_perf: self.thread_perf.clone(),
            alone,
            sharing,
        })
    }

    /// Work a second of a core with one process: what it is measured in.
    fn core_speed(&self) -> Result<f64> {
        reference::batch_speed(&self.machine, &self.work, REFERENCE)
    }

    /// Work and lane time a second, of each pool.
    ///
    /// Processes that do the same differ in speed, by where their memory lies: so each is alone on each
    /// core once.
    fn measure_turns(&self) -> Result<[[f64; 2]; 2]> {
        self.work.resume(self.work.pids().count())?;
        let processes = self.work.pids().count();
        let turns = 2 * processes;
        let turn = Duration::from_millis(self.plan.run_ms) / turns as u32;
        let (mut pools, mut elapsed_s) = ([[0.0; 2]; 2], 0.0);
        for number in 0..turns {
            let alone = number % processes;
            self.place(alone, number / processes)?;
            std::thread::sleep(SETTLE);
            let (before, start) = (self.totals()?, Instant::now());
            std::thread::sleep(turn);
            let (after, turn_s) = (self.totals()?, start.elapsed().as_secs_f64());
            if self.stop.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            for (process, (before, after)) in before.iter().zip(&after).enumerate() {
                let pool = &mut pools[usize::from(process != alone)];
                pool[0] += (after.work - before.work) as f64;
                pool[1] += (after.lane_ns - before.lane_ns) as f64 / 1e9;
            }
            elapsed_s += turn_s;
        }
        Ok(pools.map(|pool| pool.map(|total| total / elapsed_s)))
    }

    /// Puts process `alone` on `core` (0 or 1), in a pool for itself, and all others on the other one.
    fn place(&self, alone: usize, core: usize) -> Result<()> {
        let lanes = |core: usize| {
            let lanes = self.machine.cores.iter().cycle().nth(core);
            lanes.map(Vec::as_slice).unwrap_or_default()
        };
        for (process, pid) in self.work.pids().enumerate() {
            let shares = process != alone;
            self.cgroups.add(POOLS[usize::from(shares)], pid)?;
            pin(pid, lanes(core + usize::from(shares)))?;
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
