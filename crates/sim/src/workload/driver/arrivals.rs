//! Requests arrive, and come to the stages that serve them.

use super::{Driver, Timer, rounded};
use crate::simulation::Simulation;
use crate::workload::requests::Request;
use crate::workload::{Arrivals, Behaviour, Stage};
use crate::{Error, Result};

/// Most requests under way that no client bounds, as many as there may be clients. More would only fill the memory:
/// a machine that is that far behind never catches up.
const UNDER_WAY_MAX: usize = 1_000_000;

impl Driver {
    pub(super) fn plan_arrival(&mut self, sim: &mut Simulation, group: usize) {
        let token = Timer::Arrival { group }.token();
        let state = &mut self.groups[group];
        let Behaviour::Requests { arrivals, .. } = &state.spec.behaviour else {
            return;
        };
        match arrivals {
            Arrivals::Open { interarrival } => {
                let after_ns = rounded(interarrival.sample(&mut state.arrivals));
                sim.set_timer(sim.now_ns().saturating_add(after_ns), token);
            }
            Arrivals::Trace(requests) => {
                if let Some(request) = requests.get(state.position) {
                    sim.set_timer(request.at_ns, token);
                }
            }
            Arrivals::Closed { .. } => {}
        }
    }

    pub(super) fn arrival(&mut self, sim: &mut Simulation, group: usize) -> Result<()> {
        let state = &mut self.groups[group];
        let demands_ns = match &state.spec.behaviour {
            Behaviour::Requests {
                arrivals: Arrivals::Trace(requests),
                stages,
                ..
            } => {
                let whole_ns: f64 = stages.iter().map(Stage::mean_work_ns).sum();
                let demand_ns = requests.get(state.position).map_or(0.0, |r| r.demand_ns);
                let stream = &mut state.demands;
                stages
                    .iter()
                    .map(|stage| match stage.is_delay() {
                        true => stage.demand.sample(stream),
                        false => demand_ns * stage.demand.mean() / whole_ns,
                    })
                    .collect()
            }
            Behaviour::Requests { stages, .. } => {
                let stream = &mut state.demands;
                stages
                    .iter()
                    .map(|stage| stage.demand.sample(stream))
                    .collect()
            }
            _ => Vec::new(),
        };
        state.position += 1;
        self.plan_arrival(sim, group);
        self.arrive(sim, group, demands_ns, None)
    }

    pub(super) fn think(&mut self, sim: &mut Simulation, group: usize, client: usize) {
        let state = &mut self.groups[group];
        let Behaviour::Requests {
            arrivals: Arrivals::Closed { think, .. },
            ..
        } = &state.spec.behaviour
        else {
            return;
        };
        let after_ns = rounded(think.sample(&mut state.own[client]));
        let token = Timer::Client { group, client }.token();
        sim.set_timer(sim.now_ns().saturating_add(after_ns), token);
    }

    pub(super) fn client(
        &mut self,
        sim: &mut Simulation,
        group: usize,
        client: usize,
    ) -> Result<()> {
        let state = &mut self.groups[group];
        let Behaviour::Requests { stages, .. } = &state.spec.behaviour else {
            return Ok(());
        };
        let stream = &mut state.own[client];
        let demands_ns = stages
            .iter()
            .map(|stage| stage.demand.sample(stream))
            .collect();
        self.arrive(sim, group, demands_ns, Some(client))
    }

    /// A request arrives.
    fn arrive(
        &mut self,
        sim: &mut Simulation,
        group: usize,
        demands_ns: Vec<f64>,
        client: Option<usize>,
    ) -> Result<()> {
        if client.is_none() && self.requests.clientless() == UNDER_WAY_MAX {
            return Err(Error::BadWorkload(format!(
                "workload {:?}: {UNDER_WAY_MAX} requests are under way after {} s: they come faster than \
                 they are served; let fewer come, or give them a deadline_ms",
                self.groups[group].spec.task.name,
                sim.now_ns() as f64 / 1e9
            )));
        }
        self.measured[group].arrived += 1;
        let slot = self.requests.add(Request {
            group,
            arrived_ns: sim.now_ns(),
            demands_ns,
            stage: 0,
            served_ns: 0.0,
            worker: None,
            client,
            ended: false,
        });
        if let Behaviour::Requests {
            deadline_ns: Some(deadline_ns),
            ..
        } = self.groups[group].spec.behaviour
        {
            let generation = self.requests.generation(slot);
            let token = Timer::Deadline { slot, generation }.token();
            sim.set_timer(sim.now_ns().saturating_add(deadline_ns), token);
        }
        self.enter(sim, group, slot, 0)
    }

    /// A request comes to a stage.
    pub(super) fn enter(
        &mut self,
        sim: &mut Simulation,
        group: usize,
        slot: usize,
        stage: usize,
    ) -> Result<()> {
        if !self.is_delay(group, stage) {
            let (group, stage) = self.served_at(group, stage);
            self.groups[group].stages[stage].queue.push_back(slot);
            return self.wake_worker(sim, group, stage);
        }
        let generation = self.requests.generation(slot);
        let request = self.requests.get(slot);
        let after_ns = request.map_or(0, |request| rounded(request.demands_ns[stage]));
        let token = Timer::Delay { slot, generation }.token();
        sim.set_timer(sim.now_ns().saturating_add(after_ns), token);
        Ok(())
    }

    fn is_delay(&self, group: usize, stage: usize) -> bool {
        match &self.groups[group].spec.behaviour {
            Behaviour::Requests { stages, .. } => stages[stage].is_delay(),
            _ => false,
        }
    }

    /// Where requests of a stage wait for its workers: there, or at the workload that serves it.
    fn served_at(&self, group: usize, stage: usize) -> (usize, usize) {
        let by = match &self.groups[group].spec.behaviour {
            Behaviour::Requests { stages, .. } => stages[stage].by,
            _ => None,
        };
        let server = by.and_then(|by| self.groups.iter().find(|other| other.number == by));
        server.map_or((group, stage), |server| (server.index, 0))
    }

    /// A request has waited beside the CPU.
    pub(super) fn delayed(
        &mut self,
        sim: &mut Simulation,
        slot: usize,
        generation: u32,
    ) -> Result<()> {
        if self.requests.generation(slot) != generation {
            return Ok(());
        }
        self.leave(sim, slot)
    }

    /// Wakes a worker of the stage, if one sleeps and a request waits.
    fn wake_worker(&mut self, sim: &mut Simulation, group: usize, stage: usize) -> Result<()> {
        let state = &mut self.groups[group].stages[stage];
        if state.queue.is_empty() {
            return Ok(());
        }
        let Some(worker) = state.idle.pop_front() else {
            return Ok(());
        };
        self.take_next(sim, worker)
    }
}
