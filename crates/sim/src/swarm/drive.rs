//! Lets a generated scenario happen, and looks at it as it goes.

use super::plan::{Behaviour, Draws, Plan, Span};
use super::verdict::{Broken, Rule, Verdict};
use super::watch::Watch;
use crate::simulation::{Kind, Occurrence, Simulation};
use crate::task::{TaskId, TaskSpec};
use crate::{Error, Record};

/// So many moments of a run are looked at closely.
const LOOKS: u64 = 100;
/// A run that takes more steps goes on to its end at once.
const STEPS: u64 = 60_000;
/// What is left to a task when nothing is added any more, ns of work.
const LEFT_NS: f64 = 2e6;

/// What rings.
#[derive(Debug, Clone, Copy)]
enum Alarm {
    /// The task gets work.
    Give(usize),
    Fault,
    Look,
}

/// A task as the driver knows it.
pub(super) struct Actor {
    pub id: TaskId,
    behaviour: Behaviour,
    /// Work it was given, ns; not finite: it never pauses.
    given_ns: f64,
    /// Times it was done: each may do up to 1 ns of its lane's time too much.
    rounds: u32,
}

/// A run of a scenario.
pub(super) struct Driver<'a> {
    pub plan: &'a Plan,
    pub draws: Draws,
    pub simulation: Simulation,
    pub watch: Watch,
    pub actors: Vec<Actor>,
    alarms: Vec<Alarm>,
    /// Steps not taken into account yet, and all if they are kept.
    pub kept: Option<Vec<Record>>,
    pub draining: bool,
    pub looks: u64,
    pub faults: u64,
}

impl<'a> Driver<'a> {
    pub fn new(plan: &'a Plan, draws: Draws, keep: bool) -> Result<Driver<'a>, Broken> {
        let kind = Kind::Sidelane(plan.sidelane.clone());
        let simulation = Simulation::new(plan.machine.clone(), &kind);
        let mut simulation = simulation.map_err(|error| broken(&error))?;
        simulation.keep_records();
        Ok(Driver {
            plan,
            draws,
            simulation,
            watch: Watch::new(&plan.machine, &plan.sidelane),
            actors: Vec::new(),
            alarms: Vec::new(),
            kept: keep.then(Vec::new),
            draining: false,
            looks: 0,
            faults: 0,
        })
    }

    /// The whole run.
    pub fn run(&mut self) -> Verdict {
        for planned in &self.plan.tasks {
            self.create(&planned.spec, planned.behaviour)?;
        }
        self.ring_later(1, Alarm::Look);
        self.fault_later();
        let length_ns = self.plan.length_ns;
        while let Some(occurrence) = self.next(length_ns)? {
            self.react(occurrence)?;
            if self.watch.nr_steps > STEPS {
                break;
            }
        }
        self.look()?;
        self.drain()?;
        self.look()?;
        self.watch.check_books(&mut self.simulation)?;
        self.check_work()
    }

    fn next(&mut self, until_ns: u64) -> Result<Option<Occurrence>, Broken> {
        let occurrence = self.simulation.next(until_ns);
        self.absorb()?;
        occurrence.map_err(|error| broken(&error))
    }

    /// Takes the steps since the last time into account.
    pub fn absorb(&mut self) -> Verdict {
        let records = self.simulation.take_records();
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(&records);
        }
        records
            .into_iter()
            .try_for_each(|record| self.watch.step(record))
    }

    /// After an operation on the simulation: what it says, unless it could not be done.
    pub fn done<T>(&mut self, result: crate::Result<T>) -> Result<Option<T>, Broken> {
        self.absorb()?;
        match result {
            Ok(value) => Ok(Some(value)),
            Err(Error::BadWorkload(_)) => Ok(None),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Creates a task and sees to its first work.
    pub fn create(&mut self, spec: &TaskSpec, behaviour: Behaviour) -> Verdict {
        let result = self.simulation.create(spec);
        let Some(id) = self.done(result)? else {
            return Ok(());
        };
        self.watch.create(spec, self.simulation.now_ns());
        let task = self.actors.len();
        self.actors.push(Actor {
            id,
            behaviour,
            given_ns: 0.0,
            rounds: 0,
        });
        let first_ns = match behaviour {
            Behaviour::Spin => self.draws.below(1 + self.plan.length_ns / 10),
            Behaviour::Loop { pause, .. } => self.draw(pause),
            Behaviour::Open { gap, .. } => self.draw(gap),
            // One of a ring begins.
            Behaviour::Chain { next, .. } if next < task => self.draws.below(self.plan.quantum_ns),
            Behaviour::Chain { .. } => return Ok(()),
        };
        self.ring_later(first_ns, Alarm::Give(task));
        Ok(())
    }

    fn react(&mut self, occurrence: Occurrence) -> Verdict {
        match occurrence {
            Occurrence::Done(id) => self.task_done(id.index()),
            Occurrence::Timer(token) => match self.alarms.get(token as usize).copied() {
                Some(Alarm::Give(task)) => self.give_alarm(task),
                Some(Alarm::Fault) => self.fault_alarm(),
                Some(Alarm::Look) => {
                    let gap_ns = self.plan.length_ns / LOOKS;
                    let gap_ns = self.draws.below(2 * gap_ns);
                    self.ring_later(gap_ns, Alarm::Look);
                    self.look()
                }
                None => Ok(()),
            },
        }
    }

    fn task_done(&mut self, task: usize) -> Verdict {
        self.actors[task].rounds += 1;
        if self.draining {
            return Ok(());
        }
        match self.actors[task].behaviour {
            Behaviour::Loop { pause, .. } => match self.draw(pause) {
                0 => self.give(task),
                pause_ns => {
                    self.ring_later(pause_ns, Alarm::Give(task));
                    Ok(())
                }
            },
            Behaviour::Chain { next, .. } => self.give(next),
            Behaviour::Spin | Behaviour::Open { .. } => Ok(()),
        }
    }

    fn give_alarm(&mut self, task: usize) -> Verdict {
        if self.draining {
            return Ok(());
        }
        if let Behaviour::Open { gap, .. } = self.actors[task].behaviour {
            let gap_ns = self.draw(gap).max(1);
            self.ring_later(gap_ns, Alarm::Give(task));
        }
        self.give(task)
    }

    fn fault_alarm(&mut self) -> Verdict {
        if self.draining {
            return Ok(());
        }
        self.fault_later();
        self.fault()
    }

    fn give(&mut self, task: usize) -> Verdict {
        let Some(actor) = self.actors.get(task) else {
            return Ok(()); // the next one of a ring could not be created
        };
        let id = actor.id;
        if self.is_ending(id) {
            return Ok(());
        }
        let work_ns = match actor.behaviour {
            Behaviour::Spin => f64::INFINITY,
            Behaviour::Loop { demand, .. }
            | Behaviour::Open { demand, .. }
            | Behaviour::Chain { demand, .. } => {
                self.draws.magnitude(demand.from_ns, demand.to_ns) as f64
            }
        };
        self.add(task, work_ns)
    }

    fn add(&mut self, task: usize, work_ns: f64) -> Verdict {
        self.actors[task].given_ns += work_ns;
        let result = self.simulation.give(self.actors[task].id, work_ns);
        self.done(result).map(|_| ())
    }

    /// Looks at everything, closely.
    fn look(&mut self) -> Verdict {
        self.absorb()?;
        self.looks += 1;
        let checked = self.simulation.check_deep();
        checked.map_err(|error| broken(&error))?;
        self.watch.sample(self.simulation.now_ns())
    }

    /// Nothing is added any more: all tasks have to come to their end.
    fn drain(&mut self) -> Verdict {
        self.draining = true;
        for task in 0..self.actors.len() {
            let id = self.actors[task].id;
            if self.is_ending(id) {
                continue;
            }
            let left_ns = self.simulation.cut(id);
            self.actors[task].given_ns -= left_ns;
            if left_ns > 0.0 {
                self.add(task, left_ns.min(LEFT_NS))?;
            }
        }
        let from_ns = self.simulation.now_ns();
        let until_ns = from_ns + self.drain_ns();
        while self.watch.moves().is_some() && self.simulation.now_ns() < until_ns {
            let part_ns = self.simulation.now_ns() + self.plan.length_ns / 4;
            while let Some(occurrence) = self.next(part_ns)? {
                if let Occurrence::Done(id) = occurrence {
                    self.actors[id.index()].rounds += 1;
                }
            }
            self.look()?;
        }
        match self.watch.moves() {
            None => Ok(()),
            Some(index) => {
                let task = &self.watch.tasks[index];
                let what = format!(
                    "task {index} ({}) is {:?}, in {:?}, since {} ns, though nothing was added \
                     since {from_ns} ns",
                    task.known.name(),
                    task.state,
                    task.place,
                    task.since_ns
                );
                Broken::because(Rule::Drain, what)
            }
        }
    }

    /// Enough for one lane, the slowest, to do all that is left, in turns as long as a slice.
    fn drain_ns(&self) -> u64 {
        const SLOWEST: u64 = 64;
        let each_ns = SLOWEST * LEFT_NS as u64 + 2 * self.plan.machine.costs.tick_ns;
        let bound_ns = self.watch.settings.starvation_bound_ns;
        bound_ns + self.actors.len() as u64 * (each_ns + 10 * self.watch.slice_ns())
    }

    /// What each task was given and what is left of it is what it did.
    fn check_work(&mut self) -> Verdict {
        for actor in &self.actors {
            let done_ns = self.simulation.task_totals(actor.id).work_ns;
            if !actor.given_ns.is_finite() || self.is_ending(actor.id) {
                continue;
            }
            let over_ns = done_ns - actor.given_ns;
            let slack_ns = 1e-9 * done_ns + 1e-3;
            if over_ns < -slack_ns || over_ns > f64::from(actor.rounds) + slack_ns {
                let what = format!(
                    "{} was given {} ns and did {done_ns} ns in {} rounds",
                    actor.id, actor.given_ns, actor.rounds
                );
                return Broken::because(Rule::Work, what);
            }
        }
        Ok(())
    }

    /// Is the task no more, or about to be?
    pub fn is_ending(&self, id: TaskId) -> bool {
        self.simulation.is_exiting(id)
    }

    fn draw(&mut self, span: Span) -> u64 {
        self.draws.magnitude(span.from_ns, span.to_ns)
    }

    fn fault_later(&mut self) {
        if let Some(gap_ns) = self.plan.fault_gap_ns {
            let gap_ns = self.draws.below(2 * gap_ns);
            self.ring_later(gap_ns, Alarm::Fault);
        }
    }

    fn ring_later(&mut self, after_ns: u64, alarm: Alarm) {
        let quantum_ns = self.plan.quantum_ns;
        let at_ns = self.simulation.now_ns() + after_ns;
        let at_ns = (at_ns / quantum_ns + 1) * quantum_ns;
        self.alarms.push(alarm);
        let token = self.alarms.len() as u64 - 1;
        self.simulation.set_timer(at_ns, token);
    }
}

/// What an error of the simulation stands for.
fn broken(error: &Error) -> Broken {
    let rule = match error {
        Error::Violation { what, .. } if what.starts_with("lost") => Rule::Lost,
        Error::Violation { .. } => Rule::Kernel,
        _ => Rule::Setup,
    };
    Broken {
        rule,
        what: error.to_string(),
    }
}
