//! What tasks do: workers serve requests, which are answered; others compute, then wait for a device, over and over.

use super::{Driver, Timer, rounded};
use crate::Result;
use crate::simulation::Simulation;
use crate::task::{Mark, TaskId};
use crate::workload::Behaviour;

impl Driver {
    /// The worker takes the next request of its stage, or sleeps.
    pub(super) fn take_next(&mut self, sim: &mut Simulation, worker: TaskId) -> Result<()> {
        let role = &mut self.roles[worker.index()];
        let state = &mut self.groups[role.group].stages[role.place];
        while let Some(slot) = state.queue.pop_front() {
            let Some(request) = self.requests.get(slot) else {
                continue;
            };
            if request.ended {
                self.requests.remove(slot);
                continue;
            }
            request.worker = Some(worker);
            role.request = Some(slot);
            let (began_ns, demand_ns) = (request.arrived_ns, request.demands_ns[request.stage]);
            let behaviour = &self.groups[request.group].spec.behaviour;
            if let Some(allowed_ns) = behaviour.marks() {
                let deadline_ns = allowed_ns.map_or(0, |ns| began_ns.saturating_add(ns));
                let mark = Mark::Begins {
                    began_ns,
                    deadline_ns,
                };
                sim.mark(worker, mark);
            }
            return sim.give(worker, demand_ns);
        }
        state.idle.push_back(worker);
        Ok(())
    }

    /// A task has done its work.
    pub(super) fn done(&mut self, sim: &mut Simulation, task: TaskId) -> Result<()> {
        let role = self.roles[task.index()];
        match role.request {
            Some(slot) => self.served(sim, task, slot),
            None if matches!(self.groups[role.group].spec.behaviour, Behaviour::Io { .. }) => {
                self.round_done(sim, task)
            }
            None => Ok(()),
        }
    }

    /// A worker has served a request.
    fn served(&mut self, sim: &mut Simulation, worker: TaskId, slot: usize) -> Result<()> {
        self.roles[worker.index()].request = None;
        if let Some(request) = self.requests.get(slot) {
            request.worker = None;
            if self.groups[request.group].spec.behaviour.marks().is_some() {
                let latency_ns = sim.now_ns() - request.arrived_ns;
                sim.mark(worker, Mark::Ends { latency_ns });
            }
            request.served_ns += request.demands_ns[request.stage];
            self.leave(sim, slot)?;
        }
        self.take_next(sim, worker)
    }

    /// A request leaves its stage, for the next one if there is one.
    pub(super) fn leave(&mut self, sim: &mut Simulation, slot: usize) -> Result<()> {
        let Some(request) = self.requests.get(slot) else {
            return Ok(());
        };
        request.stage += 1;
        let (group, stage) = (request.group, request.stage);
        if request.ended {
            self.requests.remove(slot);
        } else if stage < self.groups[group].stages.len() {
            self.enter(sim, group, slot, stage)?;
        } else {
            self.end(sim, group, slot, 1.0);
            self.requests.remove(slot);
        }
        Ok(())
    }

    /// The time of a request is up: it ends as far as it is.
    pub(super) fn deadline(
        &mut self,
        sim: &mut Simulation,
        slot: usize,
        generation: u32,
    ) -> Result<()> {
        if self.requests.generation(slot) != generation {
            return Ok(());
        }
        let Some(request) = self.requests.get(slot) else {
            return Ok(());
        };
        let mut served_ns = request.served_ns;
        let Behaviour::Requests {
            quality, stages, ..
        } = &self.groups[request.group].spec.behaviour
        else {
            return Ok(());
        };
        let work = stages.iter().zip(&request.demands_ns);
        let work = work.filter(|(stage, _)| !stage.is_delay());
        let demand_ns: f64 = work.map(|(_, demand_ns)| demand_ns).sum();
        let (worker, quality) = (request.worker, *quality);
        if let Some(worker) = worker {
            served_ns += request.demands_ns[request.stage] - sim.cut(worker);
        }
        request.ended = true;
        let group = request.group;
        self.measured[group].deadline_misses += 1;
        self.end(sim, group, slot, quality.of(served_ns, demand_ns));
        Ok(())
    }

    /// A request is answered.
    fn end(&mut self, sim: &mut Simulation, group: usize, slot: usize, quality: f64) {
        let Some(request) = self.requests.get(slot) else {
            return;
        };
        let (latency_ns, client) = (sim.now_ns() - request.arrived_ns, request.client);
        self.measured[group].complete(latency_ns, quality);
        if let Some(client) = client {
            self.think(sim, group, client);
        }
    }
}

/// Tasks that compute, then wait for a device.
impl Driver {
    /// Such a task has computed, or polled for as long as it may.
    pub(super) fn round_done(&mut self, sim: &mut Simulation, task: TaskId) -> Result<()> {
        if sim.end_poll(task) {
            return Ok(()); // in vain: it sleeps
        }
        let role = self.roles[task.index()];
        let latency_ns = sim.now_ns() - role.began_ns;
        self.measured[role.group].complete(latency_ns, 1.0);
        self.wait_for_device(sim, role.group, role.place);
        match role.poll_ns {
            0 => Ok(()),
            poll_ns => sim.poll(task, poll_ns),
        }
    }

    pub(super) fn wait_for_device(&mut self, sim: &mut Simulation, group: usize, task: usize) {
        let state = &mut self.groups[group];
        let Behaviour::Io { wait, .. } = &state.spec.behaviour else {
            return;
        };
        let after_ns = rounded(wait.sample(&mut state.own[task]));
        self.roles[state.tasks[task].index()].waits_ns = sim.now_ns();
        let token = Timer::Device { group, task }.token();
        sim.set_timer(sim.now_ns().saturating_add(after_ns), token);
    }

    /// A device has answered, to the task itself or to another one.
    pub(super) fn device(&mut self, sim: &mut Simulation, group: usize, task: usize) -> Result<()> {
        let token = Timer::Answer { group, task }.token();
        match self.receiver(group, task) {
            Some(other) if sim.ring_when_on_lane(other, token) => Ok(()),
            _ => self.answer(sim, group, task),
        }
    }

    /// The other task that receives a device's answer, if one does.
    fn receiver(&mut self, group: usize, task: usize) -> Option<TaskId> {
        let state = &mut self.groups[group];
        let others = state.tasks.len() - 1;
        let Behaviour::Io { relayed, .. } = state.spec.behaviour else {
            return None;
        };
        let stream = &mut state.own[task];
        if relayed == 0.0 || others == 0 || stream.uniform() > relayed {
            return None;
        }
        let which = stream.below(others as u64) as usize;
        Some(state.tasks[(task + 1 + which) % (others + 1)])
    }

    /// A task has its device's answer, and computes.
    pub(super) fn answer(&mut self, sim: &mut Simulation, group: usize, task: usize) -> Result<()> {
        let state = &mut self.groups[group];
        let Behaviour::Io { burst, poll, .. } = &state.spec.behaviour else {
            return Ok(());
        };
        let work_ns = burst.sample(&mut state.own[task]);
        let id = state.tasks[task];
        let role = &mut self.roles[id.index()];
        role.began_ns = sim.now_ns();
        if let Some(poll) = poll {
            role.poll_ns = poll.next_ns(role.poll_ns, role.began_ns - role.waits_ns);
        }
        sim.end_poll(id);
        self.measured[group].arrived += 1;
        sim.give(id, work_ns)
    }
}
