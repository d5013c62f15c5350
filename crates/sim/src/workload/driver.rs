//! Gives the tasks of a simulation their work, and measures what becomes of it.

mod arrivals;
mod service;

use super::requests::{Slots, StageState};
use super::{Arrivals, Behaviour, Measured, Workload};
use crate::Result;
use crate::random::Stream;
use crate::show::TaskLabel;
use crate::simulation::{Occurrence, Simulation};
use crate::task::{TaskId, TaskTotals};

/// What random numbers are for: each has a stream of its own, so that all configurations of a
/// scenario meet the same arrivals and demands.
mod purpose {
    pub const ARRIVALS: u64 = 1;
    pub const DEMANDS: u64 = 2;
    pub const CLIENT: u64 = 3;
    pub const IO: u64 = 4;
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
                    Timer::Answer { group, task } => self.answer(sim, group, task)?,
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

/// A time as the simulation counts it.
fn rounded(ns: f64) -> u64 {
    (ns + 0.5) as u64
}

/// A timer of the driver, as a simulation's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next request of an open loop or a trace.
    Arrival { group: usize },
    /// A client has thought.
    Client { group: usize, client: usize },
    /// A device has answered.
    Device { group: usize, task: usize },
    /// A task has its device's answer.
    Answer { group: usize, task: usize },
    /// The time of the request in a slot is up.
    Deadline { slot: usize, generation: u32 },
    /// The request in a slot has waited beside the CPU.
    Delay { slot: usize, generation: u32 },
}

/// Layout of a token: 3 bits what, then two numbers of 29 and 32 bits.
impl Timer {
    pub fn token(self) -> u64 {
        let (what, a, b) = match self {
            Timer::Arrival { group } => (0, group as u64, 0),
            Timer::Client { group, client } => (1, group as u64, client as u64),
            Timer::Device { group, task } => (2, group as u64, task as u64),
            Timer::Deadline { slot, generation } => (3, slot as u64, u64::from(generation)),
            Timer::Delay { slot, generation } => (4, slot as u64, u64::from(generation)),
            Timer::Answer { group, task } => (5, group as u64, task as u64),
        };
        what << 61 | a << 32 | b
    }

    pub fn of(token: u64) -> Timer {
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
            4 => Timer::Delay {
                slot: a,
                generation: b,
            },
            _ => Timer::Answer {
                group: a,
                task: b as usize,
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
            Timer::Answer { group: 5, task: 4 },
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
