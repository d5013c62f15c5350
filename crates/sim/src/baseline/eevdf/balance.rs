//! Moving tasks between lanes: newly idle, periodic and active balancing.
//!
//! A lane that falls idle pulls one waiting task, from its core first, then ever further. Besides,
//! each domain is balanced every so often (1 ms a lane), for each of its groups:
//! - idle lanes of the group pull waiting tasks;
//! - else, if another group has at least two runnable tasks more, the running task of one of its
//!   lanes moves to an idle lane here, after [`Level::tries`] vain attempts: this spreads tasks over
//!   cores, caches and nodes (`SD_PREFER_SIBLING`, active balancing);
//! - a group without an idle lane pulls waiting tasks from one with more load a lane, every
//!   16th time unless one of its lanes has only `SCHED_IDLE` tasks.
//!
//! Simplified: load is the weight of runnable tasks; idle lanes pull whatever waits, however busy
//! the groups are as a whole; nobody weighs the cost of balancing, and periods do not vary.

use super::Eevdf;
use super::layout::{Domain, LaneSet, Layout, Level};
use crate::engine::{Engine, Event};
use std::rc::Rc;

/// Busy groups pull by load every so many periods.
const BUSY_FACTOR: u64 = 16;

impl Level {
    /// Vain attempts before hot tasks are moved, and two more before running ones are.
    pub(super) fn tries(self) -> u32 {
        match self {
            Level::Core => 0,
            Level::Cache | Level::Node => 1,
            Level::Machine => 2,
        }
    }

    /// Load a lane from which on a group is too busy, in percent of another's.
    pub(super) fn imbalance_percent(self) -> i64 {
        if self == Level::Core { 110 } else { 117 }
    }
}

/// How far the balancing of a domain is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    armed: bool,
    /// Balancings so far.
    rounds: u64,
    /// By group: vain attempts in a row.
    pub failed: Vec<u32>,
}

/// The balancing of all domains.
#[derive(Debug)]
pub(super) struct Balancer {
    /// Tells timers of an earlier layout apart.
    pub generation: u64,
    pub progress: Vec<Progress>,
}

impl Balancer {
    pub fn new(layout: &Layout, generation: u64) -> Balancer {
        let progress = |domain: &Domain| Progress {
            failed: vec![0; domain.groups.len()],
            ..Progress::default()
        };
        Balancer {
            generation,
            progress: layout.domains.iter().map(progress).collect(),
        }
    }
}

/// A group to be balanced.
#[derive(Clone, Copy)]
pub(super) struct Local<'a> {
    pub domain: usize,
    pub level: Level,
    pub groups: &'a [LaneSet],
    pub group: usize,
}

impl Eevdf {
    /// The lane falls idle: pulls a waiting task. False if there is none.
    pub(super) fn pull_to_idle(&mut self, engine: &mut Engine, cpu: u32) -> bool {
        if self.occupancy.overloaded.is_empty() {
            return false;
        }
        let layout = Rc::clone(&self.layout);
        for &index in &layout.domains_of[cpu as usize] {
            let domain = &layout.domains[index];
            let group = domain.groups.iter().position(|lanes| lanes.contains(cpu));
            let local = Local {
                domain: index,
                level: domain.level,
                groups: &domain.groups,
                group: group.unwrap_or(0),
            };
            let sources = self.sources(local);
            if let Some(id) = self.find_waiting(engine, local, &sources, cpu, i64::MAX) {
                self.steal(engine, cpu, id);
                return true;
            }
        }
        false
    }

    /// Sees to it that the domains of a lane are balanced from now on.
    pub(super) fn arm_balancing(&mut self, engine: &mut Engine, cpu: u32) {
        let layout = Rc::clone(&self.layout);
        for &index in &layout.domains_of[cpu as usize] {
            if !self.balancer.progress[index].armed && self.needs_balancing(&layout, index) {
                self.arm(engine, &layout, index);
            }
        }
    }

    /// Whether there is anything to move within a domain, now or without further notice.
    fn needs_balancing(&self, layout: &Layout, index: usize) -> bool {
        let domain = &layout.domains[index];
        match domain.level {
            Level::Core => domain.lanes.intersects(&self.occupancy.overloaded),
            _ => domain.lanes.common(&self.occupancy.idle).count() < domain.lanes.len(),
        }
    }

    fn arm(&mut self, engine: &mut Engine, layout: &Layout, index: usize) {
        self.balancer.progress[index].armed = true;
        let token = self.balancer.generation << 32 | index as u64;
        let at_ns = engine.now_ns() + layout.domains[index].period_ns;
        engine.events.add(at_ns, Event::SchedulerTimer { token });
    }

    pub(super) fn balance_timer(&mut self, engine: &mut Engine, token: u64) {
        let index = token as u32 as usize;
        if token >> 32 != self.balancer.generation {
            return;
        }
        let layout = Rc::clone(&self.layout);
        self.balancer.progress[index].armed = false;
        if !self.needs_balancing(&layout, index) {
            return;
        }
        self.arm(engine, &layout, index);
        self.balancer.progress[index].rounds += 1;
        let here = engine.this_lane;
        let domain = &layout.domains[index];
        for group in 0..domain.groups.len() {
            self.balance_group(
                engine,
                Local {
                    domain: index,
                    level: domain.level,
                    groups: &domain.groups,
                    group,
                },
            );
        }
        engine.this_lane = here;
    }

    fn balance_group(&mut self, engine: &mut Engine, local: Local) {
        let lanes = &local.groups[local.group];
        let idle: Vec<u32> = lanes.common(&self.occupancy.idle).collect();
        if idle.is_empty() {
            let lax = lanes.intersects(&self.occupancy.idle_policy);
            let rounds = self.balancer.progress[local.domain].rounds;
            if lax || rounds.is_multiple_of(BUSY_FACTOR) {
                self.pull_load(engine, local);
            }
            return;
        }
        let (mut pulled, mut vain) = (false, false);
        for &cpu in &idle {
            engine.this_lane = cpu;
            let sources = self.sources(local);
            match self.find_waiting(engine, local, &sources, cpu, i64::MAX) {
                Some(id) => {
                    self.steal(engine, cpu, id);
                    engine.look(cpu);
                    pulled = true;
                }
                None => vain |= self.has_waiting(engine, &sources, cpu),
            }
        }
        if !pulled {
            vain |= self.spread(engine, local, &idle);
        }
        let failed = &mut self.balancer.progress[local.domain].failed[local.group];
        *failed = if vain { *failed + 1 } else { 0 };
    }
}
