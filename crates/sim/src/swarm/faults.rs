//! What happens to a running system.

use super::drive::Driver;
use super::generate::some_cpus;
use super::plan::Fault;
use super::verdict::Verdict;
use crate::task::{Class, TaskId, TaskSpec};

/// No more tasks than this are created.
const TASKS: usize = 500;

impl Driver<'_> {
    /// One of the scenario's faults.
    pub fn fault(&mut self) -> Verdict {
        self.faults += 1;
        let Some(fault) = self.draws.one(&self.plan.faults).copied() else {
            return Ok(());
        };
        match fault {
            Fault::Lane => {
                let lane = self.some_core().first().copied();
                self.set_online(lane.as_slice())
            }
            Fault::Core => {
                let lanes = self.some_core();
                self.set_online(&lanes)
            }
            Fault::Smt => {
                let cores = &self.plan.machine.cores;
                let siblings = cores.iter().flat_map(|core| core.lanes.iter().skip(1));
                let siblings: Vec<u32> = siblings.copied().collect();
                self.set_online(&siblings)
            }
            Fault::Affinity => self.change_affinity(),
            Fault::Class => self.change_class(),
            Fault::Exit => match self.some_task() {
                Some(id) => {
                    let result = self.simulation.exit(id);
                    self.done(result).map(|_| ())
                }
                None => Ok(()),
            },
            Fault::Create => self.create_another(),
        }
    }

    /// The lanes of a core, any of them first.
    fn some_core(&mut self) -> Vec<u32> {
        let core = self.draws.one(&self.plan.machine.cores);
        let mut lanes = core.map_or(Vec::new(), |core| core.lanes.clone());
        let first = self.draws.below(lanes.len() as u64) as usize;
        lanes.rotate_left(first);
        lanes
    }

    fn some_task(&mut self) -> Option<TaskId> {
        let task = self.draws.below(self.actors.len() as u64) as usize;
        self.actors.get(task).map(|actor| actor.id)
    }

    fn set_online(&mut self, cpus: &[u32]) -> Verdict {
        let online = self.draws.percent(50);
        let result = self.simulation.set_online(cpus, online);
        self.done(result).map(|_| ())
    }

    fn change_affinity(&mut self) -> Verdict {
        let Some(id) = self.some_task() else {
            return Ok(());
        };
        let cpus = some_cpus(&mut self.draws, &self.plan.machine);
        let before = self.watch.task(id).spec.cpus.clone();
        // The steps that follow show what the task may use from now on.
        self.absorb()?;
        let now_ns = self.simulation.now_ns();
        self.watch.set_cpus(id, cpus.as_deref(), now_ns)?;
        let result = self.simulation.set_cpus(id, cpus.as_deref());
        if result.is_err() {
            self.watch.set_cpus(id, before.as_deref(), now_ns)?;
        } else {
            self.watch.task_mut(id).spec.cpus = cpus;
        }
        self.done(result).map(|_| ())
    }

    fn change_class(&mut self) -> Verdict {
        let (Some(id), Some(&class)) = (self.some_task(), self.draws.one(&Class::ALL)) else {
            return Ok(());
        };
        self.absorb()?;
        if self.is_ending(id) || self.watch.task(id).spec.kernel_thread {
            return Ok(());
        }
        let now_ns = self.simulation.now_ns();
        if self.plan.sidelane.settings.only_batch() {
            // what follows at once goes by the new class
            self.watch.set_class(id, class, now_ns)?;
            let result = self.simulation.set_class(id, class);
            return self.done(result).map(|_| ());
        }
        let result = self.simulation.set_class(id, class);
        self.absorb()?;
        self.watch.set_class(id, class, now_ns)?;
        self.done(result).map(|_| ())
    }

    fn create_another(&mut self) -> Verdict {
        if self.actors.len() >= TASKS {
            return Ok(());
        }
        let Some(like) = self.draws.one(&self.plan.tasks) else {
            return Ok(());
        };
        let cpus = match self.draws.percent(40) {
            true => some_cpus(&mut self.draws, &self.plan.machine),
            false => like.spec.cpus.clone(),
        };
        let spec = TaskSpec {
            name: format!("new{}", self.actors.len()),
            cpus,
            ..like.spec.clone()
        };
        self.create(&spec, like.behaviour)
    }
}
