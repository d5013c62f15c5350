//! Gives the tasks of a simulation their work, and measures what becomes of it.

mod device;

use super::requests::{Request, Slots, StageState};
use super::{Arrivals, Behaviour, Stage, Workload};
use crate::random::Stream;
use crate::results::Measured;
use crate::show::TaskLabel;
use crate::simulation::{Occurrence, Simulation};
use crate::task::{TaskId, TaskTotals};
use crate::{Error, Result};

/// Most requests under way that no client bounds, as many as there may be clients. More would only fill the memory:
/// a machine that is that far behind never catches up.
const UNDER_WAY_MAX: usize = 1_000_000;

/// What random numbers are for: each has a stream of its own, so that all configurations of a
/// scenario meet the same arrivals and demands.
mod purpose {
    pub const ARRIVALS: u64 = 1;
    pub const DEMANDS: u64 = 2;
    pub const CLIENT: u64 = 3;
    pub const IO: u64 = 4;
}

/// A timer of the driver, as a simulation's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// The next request of an open loop or a trace.
    Arrival { group: usize },
    /// A client has thought.
    Client { group: usize, client: usize },
    /// A device has answered.
    Device { group: usize, task: usize },
    /// The time of the request in a slot is up.
    Deadline { slot: usize, generation: u32 },
    /// The request in a slot has waited beside the CPU.
    Delay { slot: usize, generation: u32 },
}

/// What a group of tasks needs to go on.
struct Group {
    index: usize,
    /// Its workload's place in the scenario.
    number: usize,
    spec: Workload,
    tasks: Vec<TaskId>,
    stages: Vec<StageState>,
    arrivals: Stream,
    demands: Stream,
    /// A stream for each client, or for each task that waits for devices.
    own: Vec<Stream>,
    /// The next request of a trace.
    position: usize,
}

/// Who a task is.
#[derive(Debug, Clone, Copy)]
struct Role {
    group: usize,
    /// Its stage, or its place among the group's tasks.
    place: usize,
    /// The slot of the request that it serves.
    request: Option<usize>,
    began_ns: u64,
    /// Since when it waits for its device, and for how long it polls then.
    waits_ns: u64,
    poll_ns: u64,
}

impl Group {
    fn totals(&self, sim: &Simulation) -> TaskTotals {
        let of_task = |task: &TaskId| sim.task_totals(*task);
        let totals = self.tasks.iter().map(of_task);
        totals.fold(TaskTotals::default(), |sum, totals| sum.plus(&totals))
    }
}

/// Drives a simulation.
pub(crate) struct Driver {
    groups: Vec<Group>,
    roles: Vec<Role>,
    requests: Slots,
    measured: Vec<Measured>,
}

impl Driver {
    /// Creates the tasks of the workloads and sets the first timers.
    pub fn new(
        sim: &mut Simulation,
        workloads: &[(usize, &Workload)],
        seed: &[u64; 2],
    ) -> Result<Driver> {
        let mut driver = Driver {
            groups: Vec::new(),
            roles: Vec::new(),
            requests: Slots::default(),
            measured: Vec::new(),
        };
        for (number, workload) in workloads {
            driver.add_group(sim, *number as u64, workload, seed)?;
        }
        for group in 0..driver.groups.len() {
            driver.begin(sim, group)?;
        }
        Ok(driver)
    }

    fn add_group(
        &mut self,
        sim: &mut Simulation,
        number: u64,
        workload: &Workload,
        &[seed, replication]: &[u64; 2],
    ) -> Result<()> {
        let stream = |what: u64, which: u64| Stream::new(seed, &[replication, number, what, which]);
        let (places, own, purpose) = match &workload.behaviour {
            Behaviour::Requests {
                arrivals, stages, ..
            } => {
                let places = stages.iter().enumerate();
                let places = places.flat_map(|(stage, s)| std::iter::repeat_n(stage, s.workers));
                let clients = match arrivals {
                    Arrivals::Closed { clients, .. } => *clients,
                    _ => 0,
                };
                (places.collect(), clients, purpose::CLIENT)
            }
            Behaviour::Batch { tasks } => ((0..*tasks).collect::<Vec<_>>(), 0, purpose::IO),
            Behaviour::Serve { tasks } => (vec![0; *tasks], 0, purpose::IO),
            Behaviour::Io { tasks, .. } => ((0..*tasks).collect(), *tasks, purpose::IO),
        };
        let mut group = Group {
            index: self.groups.len(),
            number: number as usize,
            spec: workload.clone(),
            tasks: Vec::new(),
            stages: Vec::new(),
            arrivals: stream(purpose::ARRIVALS, 0),
            demands: stream(purpose::DEMANDS, 0),
            own: (0..own as u64)
                .map(|which| stream(purpose, which))
                .collect(),
            position: 0,
        };
        let stages = match &workload.behaviour {
            Behaviour::Requests { stages, .. } => stages.len(),
            Behaviour::Serve { .. } => 1,
            Behaviour::Batch { .. } | Behaviour::Io { .. } => 0,
        };
        group.stages.resize_with(stages, StageState::default);
        for place in places {
            let task = sim.create(workload.task_at(place))?;
            group.tasks.push(task);
            if let Some(stage) = group.stages.get_mut(place) {
                stage.idle.push_back(task);
            }
            self.roles.push(Role {
                group: group.index,
                place,
                request: None,
                began_ns: 0,
                waits_ns: 0,
                poll_ns: workload.first_poll_ns(),
            });
        }
        self.measured.push(Measured::new(workload));
        self.groups.push(group);
        Ok(())
    }

    /// Sets the group's first timers.
    fn begin(&mut self, sim: &mut Simulation, group: usize) -> Result<()> {
        let behaviour = self.groups[group].spec.behaviour.clone();
        match behaviour {
            Behaviour::Requests {
                arrivals: Arrivals::Closed { clients, .. },
                ..
            } => {
                for client in 0..clients {
                    self.think(sim, group, client);
                }
            }
            Behaviour::Requests { .. } => self.plan_arrival(sim, group),
            Behaviour::Serve { .. } => {}
            Behaviour::Batch { .. } => {
                for task in self.groups[group].tasks.clone() {
                    sim.give(task, f64::INFINITY)?;
                }
            }
            Behaviour::Io { tasks, .. } => {
                for task in 0..tasks {
                    self.wait_for_device(sim, group, task);
                }
            }
        }
        Ok(())
    }

    /// Goes on until a time, ns.
    pub fn run(&mut self, sim: &mut Simulation, until_ns: u64) -> Result<()> {
        while let Some(occurrence) = sim.next(until_ns)? {
            match occurrence {
                Occurrence::Done(task) => self.done(sim, task)?,
                Occurrence::Timer(token) => match Timer::of(token) {
                    Timer::Arrival { group } => self.arrival(sim, group)?,
                    Timer::Client { group, client } => self.client(sim, group, client)?,
                    Timer::Device { group, task } => self.device(sim, group, task)?,
                    Timer::Deadline { slot, generation } => self.deadline(sim, slot, generation)?,
                    Timer::Delay { slot, generation } => self.delayed(sim, slot, generation)?,
                },
            }
        }
        Ok(())
    }

    /// Forgets what was measured so far.
    pub fn reset(&mut self, sim: &mut Simulation) {
        sim.account();
        for (group, measured) in self.groups.iter().zip(&mut self.measured) {
            *measured = Measured::new(&group.spec);
            measured.totals_before = group.totals(sim);
        }
    }

    /// What was measured since.
    pub fn finish(mut self, sim: &mut Simulation) -> Vec<Measured> {
        sim.account();
        for (group, measured) in self.groups.iter().zip(&mut self.measured) {
            measured.totals = group.totals(sim).since(&measured.totals_before);
            measured.unfinished = self.requests.count(group.index);
        }
        self.measured
    }

    /// What all tasks are called in pictures.
    pub fn labels(&self) -> Vec<TaskLabel> {
        let label = |role: &Role| {
            let task = self.groups[role.group].spec.task_at(role.place);
            TaskLabel::new(&task.name, task.class)
        };
        self.roles.iter().map(label).collect()
    }
}

/// Arrivals.
impl Driver {
    fn plan_arrival(&mut self, sim: &mut Simulation, group: usize) {
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

    fn arrival(&mut self, sim: &mut Simulation, group: usize) -> Result<()> {
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

    fn think(&mut self, sim: &mut Simulation, group: usize, client: usize) {
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

    fn client(&mut self, sim: &mut Simulation, group: usize, client: usize) -> Result<()> {
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
    fn enter(
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
    fn delayed(&mut self, sim: &mut Simulation, slot: usize, generation: u32) -> Result<()> {
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

/// Service.
impl Driver {
    /// The worker takes the next request of its stage, or sleeps.
    fn take_next(&mut self, sim: &mut Simulation, worker: TaskId) -> Result<()> {
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
            return sim.give(worker, request.demands_ns[request.stage]);
        }
        state.idle.push_back(worker);
        Ok(())
    }

    /// A task has done its work.
    fn done(&mut self, sim: &mut Simulation, task: TaskId) -> Result<()> {
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
            request.served_ns += request.demands_ns[request.stage];
            self.leave(sim, slot)?;
        }
        self.take_next(sim, worker)
    }

    /// A request leaves its stage, for the next one if there is one.
    fn leave(&mut self, sim: &mut Simulation, slot: usize) -> Result<()> {
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
    fn deadline(&mut self, sim: &mut Simulation, slot: usize, generation: u32) -> Result<()> {
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

/// A time as the simulation counts it.
fn rounded(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

/// Layout of a token: 3 bits what, then two numbers of 29 and 32 bits.
impl Timer {
    fn token(self) -> u64 {
        let (what, a, b) = match self {
            Timer::Arrival { group } => (0, group as u64, 0),
            Timer::Client { group, client } => (1, group as u64, client as u64),
            Timer::Device { group, task } => (2, group as u64, task as u64),
            Timer::Deadline { slot, generation } => (3, slot as u64, u64::from(generation)),
            Timer::Delay { slot, generation } => (4, slot as u64, u64::from(generation)),
        };
        what << 61 | a << 32 | b
    }

    fn of(token: u64) -> Timer {
        let (a, b) = ((token >> 32 & 0x1fff_ffff) as usize, token as u32);
        match token >> 61 {
            0 => Timer::Arrival { group: a },
            1 => Timer::Client {
                group: a,
                client: b as usize,
            },
            2 => Timer::Device {
                group: a,
                task: b as usize,
            },
            3 => Timer::Deadline {
                slot: a,
                generation: b,
            },
            _ => Timer::Delay {
                slot: a,
                generation: b,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_timers() {
        for timer in [
            Timer::Arrival { group: 7 },
            Timer::Client {
                group: 3,
                client: 1_000_000,
            },
            Timer::Device { group: 0, task: 12 },
            Timer::Deadline {
                slot: 123_456_789,
                generation: u32::MAX,
            },
            Timer::Delay {
                slot: 500_000_000,
                generation: u32::MAX,
            },
        ] {
            assert_eq!(Timer::of(timer.token()), timer);
        }
    }
}
