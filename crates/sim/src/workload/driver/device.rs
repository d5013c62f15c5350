//! Tasks that compute, then wait for a device, over and over.

use super::timer::Timer;
use super::{Driver, rounded};
use crate::Result;
use crate::simulation::Simulation;
use crate::task::TaskId;
use crate::workload::Behaviour;

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

    pub(super) fn device(&mut self, sim: &mut Simulation, group: usize, task: usize) -> Result<()> {
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
