//! Requests on their way through the stages of a service.

use super::Quality;
use crate::task::TaskId;
use std::collections::VecDeque;

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// Whose it is: an index of the driver's.
    pub group: usize,
    pub arrived_ns: u64,
    /// Demand at each stage, ns.
    pub demands_ns: Vec<f64>,
    /// Where it is.
    pub stage: usize,
    /// Served at earlier stages, ns.
    pub served_ns: f64,
    /// Who serves it now.
    pub worker: Option<TaskId>,
    /// The client that waits for it, of a closed loop.
    pub client: Option<usize>,
    /// Its time was up: it counts no more.
    pub ended: bool,
}

/// A stage at work.
#[derive(Debug, Default)]
pub(super) struct StageState {
    /// Requests that wait here, by slot.
    pub queue: VecDeque<usize>,
    /// Workers that sleep, the one that has slept longest first: as threads that wait for one
    /// socket are woken.
    pub idle: VecDeque<TaskId>,
}

/// Requests in slots that are used again; a slot's generation tells its requests apart.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<(u32, Option<Request>)>,
    free: Vec<usize>,
    /// Requests that are there without a client that waits for them.
    clientless: usize,
}

impl Slots {
    pub fn add(&mut self, request: Request) -> usize {
        self.clientless += usize::from(request.client.is_none());
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot].1 = Some(request);
                slot
            }
            None => {
                self.slots.push((0, Some(request)));
                self.slots.len() - 1
            }
        }
    }

    pub fn generation(&self, slot: usize) -> u32 {
        self.slots[slot].0
    }

    pub fn get(&mut self, slot: usize) -> Option<&mut Request> {
        self.slots.get_mut(slot)?.1.as_mut()
    }

    pub fn remove(&mut self, slot: usize) -> Option<Request> {
        let (generation, request) = self.slots.get_mut(slot)?;
        let request = request.take()?;
        *generation = generation.wrapping_add(1);
        self.free.push(slot);
        self.clientless -= usize::from(request.client.is_none());
        Some(request)
    }

    /// How many requests are there without a client that waits for them: no number of clients bounds
    /// these.
    pub fn clientless(&self) -> usize {
        self.clientless
    }

    /// Requests of a group that are there, those that ended left out.
    pub fn count(&self, group: usize) -> u64 {
        let there = |(_, request): &&(u32, Option<Request>)| {
            let request = request.as_ref();
            request.is_some_and(|request| request.group == group && !request.ended)
        };
        self.slots.iter().filter(there).count() as u64
    }
}

impl Quality {
    /// What a request is worth of which so much was served, of so much demand, both in ns.
    pub fn of(&self, served_ns: f64, demand_ns: f64) -> f64 {
        if served_ns >= demand_ns {
            return 1.0;
        }
        match *self {
            Quality::AllOrNothing => 0.0,
            Quality::Proportional => served_ns / demand_ns,
            Quality::Exponential { concavity, full_ns } => {
                let part = (served_ns / full_ns).clamp(0.0, 1.0);
                libm::expm1(-concavity * part) / libm::expm1(-concavity)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_grows_with_what_was_served() {
        let fof = Quality::Exponential {
            concavity: 3.0,
            full_ns: 1000.0,
        };
        assert_eq!(fof.of(0.0, 500.0), 0.0);
        // (1 - e^-0.6) / (1 - e^-3)
        assert!((fof.of(200.0, 500.0) - 0.474_828_7).abs() < 1e-6);
        assert_eq!(fof.of(500.0, 500.0), 1.0);
        assert_eq!(Quality::AllOrNothing.of(499.0, 500.0), 0.0);
        assert_eq!(Quality::Proportional.of(125.0, 500.0), 0.25);
    }

    #[test]
    fn slots_are_used_again_and_told_apart() {
        let request = Request {
            group: 0,
            arrived_ns: 0,
            demands_ns: vec![1.0],
            stage: 0,
            served_ns: 0.0,
            worker: None,
            client: None,
            ended: false,
        };
        let mut slots = Slots::default();
        let first = slots.add(request.clone());
        let generation = slots.generation(first);
        assert!(slots.remove(first).is_some());
        assert!(slots.remove(first).is_none());
        assert_eq!(slots.add(request), first);
        assert_ne!(slots.generation(first), generation);
        assert_eq!(slots.count(0), 1);
    }
}
