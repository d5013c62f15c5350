//! Books kept from the recorded steps alone, and the comparison with the simulator's.

use super::verdict::{Broken, Rule, Verdict};
use super::watch::Watch;
use crate::machine::{Interference, speed_of_lane};
use crate::simulation::Simulation;
use crate::task::{TaskId, TaskTotals};
use crate::{CoreTotals, LaneTotals};

/// Sums of the same numbers in another order differ by no more than this share.
const TOLERANCE: f64 = 1e-9;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()) + 1e-3
}

impl Watch {
    /// Brings the books of a core up to now.
    pub fn account(&mut self, core: usize) {
        let from_ns = std::mem::replace(&mut self.cores[core].accounted_ns, self.now_ns);
        let passed_ns = self.now_ns - from_ns;
        if passed_ns == 0 {
            return;
        }
        let (busy, online) = (self.cores[core].busy, self.online(core));
        let capacity = f64::from(self.machine.cores[core].capacity) / 1024.0;
        for index in 0..self.machine.cores[core].lanes.len() {
            let cpu = self.machine.cores[core].lanes[index] as usize;
            let Some(id) = self.lanes[cpu].task else {
                let lane = &mut self.lanes[cpu];
                match lane.online {
                    true => lane.totals.idle_ns += passed_ns,
                    false => lane.totals.offline_ns += passed_ns,
                }
                continue;
            };
            let speed = self.speed(core, id);
            let lane = &mut self.lanes[cpu];
            let progress_ns = self.now_ns - lane.ready_ns.clamp(from_ns, self.now_ns);
            let task = &mut self.tasks[id.index()];
            lane.totals.class_ns[task.spec.class as usize] += passed_ns;
            task.totals.lane_ns += passed_ns;
            task.totals.overhead_ns += passed_ns - progress_ns;
            task.totals.mt1_ns += progress_ns as f64 * speed;
            task.totals.work_ns += progress_ns as f64 * speed * capacity;
            let pool = task.spec.pool;
            if pool.is_some() {
                self.charge_pools(pool, passed_ns, online, busy);
            }
            let books = &mut self.cores[core];
            books.progress_ns[if online > 1 { busy } else { 0 }] += progress_ns;
            books.density_work_ns[busy] += progress_ns as f64 * speed * capacity;
        }
        self.cores[core].density_ns[busy] += passed_ns;
    }

    /// Lanes of a core that are online.
    fn online(&self, core: usize) -> usize {
        let lanes = self.machine.cores[core].lanes.iter();
        lanes
            .filter(|cpu| self.lanes[**cpu as usize].online)
            .count()
    }

    /// Of a task that runs on a core, relative to running there alone with SMT off.
    fn speed(&self, core: usize, id: TaskId) -> f64 {
        let lanes = &self.machine.cores[core].lanes;
        let tasks = lanes
            .iter()
            .filter_map(|&cpu| self.lanes[cpu as usize].task);
        match &self.machine.interference {
            Interference::ThreadPerf(speeds) => {
                speed_of_lane(speeds, self.online(core), tasks.count())
            }
            Interference::Kinds(table) => {
                let row = &table[self.task(id).spec.kind];
                let others = tasks.filter(|&other| other != id);
                others
                    .map(|other| row[self.task(other).spec.kind])
                    .product()
            }
        }
    }

    /// Compares these books with the simulator's.
    pub fn check_books(&mut self, simulation: &mut Simulation) -> Verdict {
        simulation.account();
        self.now_ns = simulation.now_ns();
        for core in 0..self.cores.len() {
            self.account(core);
            self.check_core_books(core, &simulation.core_totals()[core])?;
        }
        for (cpu, lane) in (0_u32..).zip(&self.lanes) {
            let known = self.machine.cores[lane.core].lanes.contains(&cpu);
            if known {
                self.check_lane_books(cpu, lane.totals, simulation.lane_totals(cpu))?;
            }
        }
        for (index, task) in self.tasks.iter().enumerate() {
            let id = TaskId(index as u32);
            check_task_books(id, task.totals, simulation.task_totals(id))?;
        }
        self.check_identities()
    }

    fn check_lane_books(&self, cpu: u32, own: LaneTotals, theirs: LaneTotals) -> Verdict {
        let all_ns = theirs.busy_ns() + theirs.idle_ns + theirs.offline_ns;
        if own == theirs && all_ns == self.now_ns {
            return Ok(());
        }
        let what = format!(
            "lane {cpu}: {theirs:?} adds up to {all_ns} of {} ns; the steps say {own:?}",
            self.now_ns
        );
        Broken::because(Rule::Accounts, what)
    }

    fn check_core_books(&self, index: usize, theirs: &CoreTotals) -> Verdict {
        let own = &self.cores[index];
        let mut pairs = own.density_work_ns.iter().zip(&theirs.density_work_ns);
        let same = own.density_ns == theirs.density_ns
            && theirs.density_ns.iter().sum::<u64>() == self.now_ns;
        if !same {
            let what = format!(
                "core {index}: densities {:?} of {} ns; the steps say {:?}",
                theirs.density_ns, self.now_ns, own.density_ns
            );
            return Broken::because(Rule::Accounts, what);
        }
        match pairs.all(|(&own, &theirs)| close(own, theirs)) {
            true => Ok(()),
            false => Broken::because(
                Rule::Work,
                format!(
                    "core {index}: work by density {:?}; the steps say {:?}",
                    theirs.density_work_ns, own.density_work_ns
                ),
            ),
        }
    }

    /// MT1-equivalent time and work of all tasks are those of all cores.
    fn check_identities(&self) -> Verdict {
        let of_tasks: f64 = self.tasks.iter().map(|task| task.totals.work_ns).sum();
        let works = self.cores.iter().flat_map(|core| &core.density_work_ns);
        let of_cores: f64 = works.sum();
        if !close(of_tasks, of_cores) {
            let what = format!("tasks did {of_tasks} ns of work, cores {of_cores}");
            return Broken::because(Rule::Work, what);
        }
        let Interference::ThreadPerf(speeds) = &self.machine.interference else {
            return Ok(());
        };
        let mt1_of_tasks: f64 = self.tasks.iter().map(|task| task.totals.mt1_ns).sum();
        let mt1_of_cores: f64 = self
            .cores
            .iter()
            .flat_map(|core| core.progress_ns.iter().zip([1.0].iter().chain(speeds)))
            .map(|(&progress_ns, speed)| progress_ns as f64 * speed)
            .sum();
        match close(mt1_of_tasks, mt1_of_cores) {
            true => Ok(()),
            false => Broken::because(
                Rule::Work,
                format!("MT1 time of tasks {mt1_of_tasks} ns, of cores {mt1_of_cores} ns"),
            ),
        }
    }
}

fn check_task_books(id: TaskId, own: TaskTotals, theirs: TaskTotals) -> Verdict {
    let times = |totals: TaskTotals| (totals.lane_ns, totals.overhead_ns, totals.wait_ns);
    if times(own) != times(theirs) {
        let what = format!("{id}: {theirs:?}; the steps say {own:?}");
        return Broken::because(Rule::Accounts, what);
    }
    if !close(own.work_ns, theirs.work_ns) || !close(own.mt1_ns, theirs.mt1_ns) {
        let what = format!("{id}: {theirs:?}; the steps say {own:?}");
        return Broken::because(Rule::Work, what);
    }
    Ok(())
}
