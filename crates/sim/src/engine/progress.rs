//! How fast tasks are beside each other, what they have done by now, and when they will be done.

use super::{CoreTotals, Engine, Event, LaneTotals};
use crate::machine::{Interference, speed_of_lane};
use crate::task::{Class, TaskId, TaskTotals};

impl Engine {
    /// The switch on a lane is over: its siblings are as fast as beside any work.
    pub fn settled(&mut self, cpu: u32) {
        let core = self.lanes[cpu as usize].core;
        self.account(core);
        self.plan_core(core);
    }

    /// What a lane is busy with but work, from `at_ns` on: what a sibling keeps of its speed beside it.
    fn kept_beside(&self, cpu: u32, at_ns: u64) -> Option<f64> {
        let beside = self.machine.beside?;
        let lane = &self.lanes[cpu as usize];
        let id = lane.current?;
        if lane.switched && at_ns < lane.switching_until_ns {
            return Some(beside.switching);
        }
        self.task(id).polling.then_some(beside.polling)
    }

    /// The speed of the task on a lane from `at_ns` on, relative to running alone on the same core with SMT off.
    fn shared_speed(&self, core: usize, id: TaskId, at_ns: u64) -> f64 {
        let lanes = self.machine.cores[core].lanes.iter();
        let others = lanes.filter_map(|&cpu| {
            let other = self.lanes[cpu as usize].current?;
            (other != id).then(|| (other, self.kept_beside(cpu, at_ns)))
        });
        let beside = match &self.machine.interference {
            Interference::ThreadPerf(speeds) if self.machine.beside.is_none() => {
                speed_of_lane(speeds, self.online[core], self.busy[core])
            }
            Interference::ThreadPerf(speeds) => {
                let (mut working, mut kept) = (1, 1.0);
                for (_, beside) in others {
                    match beside {
                        Some(share) => kept *= share,
                        None => working += 1,
                    }
                }
                speed_of_lane(speeds, self.online[core], working) * kept
            }
            Interference::Kinds(table) => {
                let row = &table[self.task(id).spec.kind];
                let speed = |(other, kept): (TaskId, Option<f64>)| {
                    kept.unwrap_or(row[self.task(other).spec.kind])
                };
                others.map(speed).product()
            }
        };
        beside * self.machine.kept_at_level(self.online[core])
    }

    pub(super) fn capacity(&self, core: usize) -> f64 {
        f64::from(self.machine.cores[core].capacity) / 1024.0
    }

    /// Brings everything on a core up to now, at the speeds so far.
    pub fn account(&mut self, core: usize) {
        let (from_ns, now_ns) = (self.accounted_ns[core], self.now_ns());
        if from_ns == now_ns {
            return;
        }
        self.accounted_ns[core] = now_ns;
        let passed_ns = now_ns - from_ns;
        let capacity = self.capacity(core);
        let (mut done_ns, mut batch, mut critical) = (0.0, 0, false);
        for index in 0..self.machine.cores[core].lanes.len() {
            let cpu = self.machine.cores[core].lanes[index] as usize;
            let lane = &mut self.lanes[cpu];
            let (Some(id), ready_ns) = (lane.current, lane.ready_ns) else {
                lane.totals.add_idle(lane.online, passed_ns);
                continue;
            };
            let class = self.tasks[id.index()].spec.class;
            self.lanes[cpu].totals.class_ns[class as usize] += passed_ns;
            batch += u64::from(class == Class::Batch);
            critical |= class == Class::Critical;
            let ready_for_ns = now_ns - from_ns.max(ready_ns).min(now_ns);
            let shared = self.shared_speed(core, id, from_ns);
            let task = &mut self.tasks[id.index()];
            let progress_ns = if task.polling { 0 } else { ready_for_ns };
            if task.polling {
                task.totals.polled_ns += ready_for_ns;
                task.work_ns -= ready_for_ns as f64;
            }
            let totals = &mut task.totals;
            let mt1_ns = progress_ns as f64 * shared;
            totals.add(passed_ns, progress_ns, mt1_ns, mt1_ns * capacity);
            totals.prorated_ns += passed_ns as f64 / self.busy[core].max(1) as f64;
            let task = &mut self.tasks[id.index()];
            task.collected.mt1_ns += passed_ns as f64 * shared;
            task.work_ns -= mt1_ns * capacity;
            self.lanes[cpu].work_ns += mt1_ns * capacity;
            if let Some(share) = self.machine.misses.get(task.spec.kind) {
                self.lanes[cpu].missed_ns += mt1_ns * capacity * share;
            }
            done_ns += mt1_ns * capacity;
        }
        let totals = &mut self.cores[core];
        totals.density_ns[self.busy[core]] += passed_ns;
        totals.density_work_ns[self.busy[core]] += done_ns;
        if critical {
            totals.batch_beside_critical_ns += batch * passed_ns;
        }
    }

    /// For how long a lane has run anything, ns.
    pub fn busy_ns(&mut self, cpu: u32) -> u64 {
        self.account(self.lanes[cpu as usize].core);
        self.lanes[cpu as usize].totals.busy_ns()
    }

    /// Work done on a lane, ns of an unshared lane of the fastest core.
    pub fn work_ns(&mut self, cpu: u32) -> f64 {
        self.account(self.lanes[cpu as usize].core);
        self.lanes[cpu as usize].work_ns
    }

    /// Of that, waiting for memory.
    pub fn missed_ns(&mut self, cpu: u32) -> f64 {
        self.account(self.lanes[cpu as usize].core);
        self.lanes[cpu as usize].missed_ns
    }

    /// Brings everything up to now.
    pub fn account_all(&mut self) {
        for core in 0..self.cores.len() {
            self.account(core);
        }
    }

    /// Plans anew when the tasks of a core will be done.
    pub(super) fn plan_core(&mut self, core: usize) {
        for index in 0..self.machine.cores[core].lanes.len() {
            self.plan(self.machine.cores[core].lanes[index]);
        }
    }

    /// Plans when the task on a lane will be done, at the speed from now on.
    pub(super) fn plan(&mut self, cpu: u32) {
        let now_ns = self.now_ns();
        let lane = &mut self.lanes[cpu as usize];
        let Some(id) = lane.current else { return };
        lane.generation = lane.generation.wrapping_add(1);
        let (core, generation, ready_ns) = (lane.core, lane.generation, lane.ready_ns);
        let work_ns = self.task(id).work_ns.max(0.0);
        if work_ns.is_infinite() {
            return;
        }
        let speed = match self.task(id).polling {
            true => 1.0,
            false => self.shared_speed(core, id, now_ns) * self.capacity(core),
        };
        let left_ns = (work_ns / speed).ceil() as u64;
        let at_ns = ready_ns.max(now_ns).saturating_add(left_ns);
        self.events.add(
            at_ns,
            Event::Complete {
                lane: cpu,
                generation,
            },
        );
    }
}

impl LaneTotals {
    /// Running tasks of any class, ns.
    pub(crate) fn busy_ns(&self) -> u64 {
        self.class_ns.iter().sum()
    }

    /// What was added to an earlier value.
    pub(crate) fn since(&self, earlier: &LaneTotals) -> LaneTotals {
        LaneTotals {
            class_ns: std::array::from_fn(|i| self.class_ns[i] - earlier.class_ns[i]),
            idle_ns: self.idle_ns - earlier.idle_ns,
            offline_ns: self.offline_ns - earlier.offline_ns,
        }
    }

    fn add_idle(&mut self, online: bool, passed_ns: u64) {
        if online {
            self.idle_ns += passed_ns;
        } else {
            self.offline_ns += passed_ns;
        }
    }
}

impl CoreTotals {
    /// What was added to an earlier value.
    pub(crate) fn since(&self, earlier: &CoreTotals) -> CoreTotals {
        let times = self.density_ns.iter().zip(&earlier.density_ns);
        let work = self.density_work_ns.iter().zip(&earlier.density_work_ns);
        CoreTotals {
            density_ns: times.map(|(now, then)| now - then).collect(),
            density_work_ns: work.map(|(now, then)| now - then).collect(),
            batch_beside_critical_ns: self.batch_beside_critical_ns
                - earlier.batch_beside_critical_ns,
        }
    }
}

impl TaskTotals {
    fn add(&mut self, passed_ns: u64, progress_ns: u64, mt1_ns: f64, work_ns: f64) {
        self.lane_ns += passed_ns;
        self.overhead_ns += passed_ns - progress_ns;
        self.mt1_ns += mt1_ns;
        self.work_ns += work_ns;
    }
}
