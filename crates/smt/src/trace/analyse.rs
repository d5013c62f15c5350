//! Batch time beside critical tasks, and how long critical wake-ups shared their core.
//!
//! One pass over the events keeps, for each lane, the thread it runs. Between two events nothing
//! changes, so every interval is accounted as it ends. A lane's thread before its first switch is
//! the one that this switch takes off it; a lane without any switch counts as idle.

use super::{Class, Event, Kind, Pid};
use crate::latency::Summary;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use thiserror::Error;

/// Lane-time by what ran, in nanoseconds: the sum is the length of the trace × the number of lanes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaneTime {
    /// Critical threads.
    pub critical_ns: u64,
    /// Batch threads.
    pub batch_ns: u64,
    /// All other threads.
    pub normal_ns: u64,
    /// Nothing.
    pub idle_ns: u64,
}

/// What a trace says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// From the first event to the last, in nanoseconds.
    pub span_ns: u64,
    /// What the lanes did.
    pub lane_time: LaneTime,
    /// Batch time on lanes while a critical thread ran on another lane of the same core.
    pub batch_beside_critical_ns: u64,
    /// `batch_beside_critical_ns` as a share of all batch time, in [0, 1]; 0 without batch time.
    pub batch_beside_critical: f64,
    /// Time from each critical wake-up to the sibling lanes of the core it ran on being empty of
    /// batch; 0 where no batch ran there from the wake-up on.
    pub wake_to_clear: Summary,
    /// The same, over those wake-ups alone after which batch still ran on a sibling lane.
    pub wake_to_clear_found: Summary,
    /// Wake-ups of which the thread stopped running before the siblings were clear; they count in
    /// both summaries with the time until it stopped.
    pub never_clear: u64,
    /// Time from each critical wake-up to the thread running.
    pub wake_to_run: Summary,
    /// How often a critical thread was taken off its lane although it could have gone on.
    pub critical_preemptions: u64,
}

/// Why a trace cannot be analysed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// An event names a lane that the topology does not have.
    #[error("event {index} is on CPU {cpu}, which the list of cores does not have")]
    UnknownCpu {
        /// Position of the event, from 0.
        index: usize,
        /// The CPU number.
        cpu: u32,
    },
    /// Events are not in order of time.
    #[error("event {index} is earlier than the one before it; sort the events by time")]
    OutOfOrder {
        /// Position of the event, from 0.
        index: usize,
    },
}

/// Analyses events in order of time. `cores` lists the CPU numbers of the lanes of each core,
/// `classes` the class of each thread known at the start: children inherit their parent's class,
/// unknown threads are normal.
pub fn analyse(
    events: &[Event],
    cores: &[Vec<u32>],
    classes: &HashMap<Pid, Class>,
) -> Result<Analysis, TraceError> {
    let mut state = State::new(events, cores, classes);
    for (index, event) in events.iter().enumerate() {
        let Some(&lane) = state.lane_of.get(&event.cpu) else {
            return Err(TraceError::UnknownCpu {
                index,
                cpu: event.cpu,
            });
        };
        if event.time_ns < state.now_ns {
            return Err(TraceError::OutOfOrder { index });
        }
        state.advance(event.time_ns);
        state.apply(lane, event.kind);
    }
    Ok(state.finish())
}

/// A lane's place: its core, and its position among the core's lanes.
#[derive(Clone, Copy)]
struct Lane {
    core: usize,
    slot: usize,
}

/// What one lane does, and what is being measured on it.
#[derive(Clone, Default)]
struct LaneState {
    /// Thread on the lane; 0 is idle.
    pid: Pid,
    /// When batch last stopped running here.
    batch_until_ns: Option<u64>,
    /// The wake-up time of the critical thread on this lane, while its siblings are not clear.
    unclear_since_ns: Option<u64>,
}

/// The pass over the events.
struct State {
    lane_of: HashMap<u32, Lane>,
    cores: Vec<Vec<LaneState>>,
    classes: HashMap<Pid, Class>,
    /// Woken critical threads that do not run yet, and when the wake-up began.
    woken_ns: HashMap<Pid, u64>,
    start_ns: u64,
    now_ns: u64,
    result: Analysis,
    clear_ns: Vec<u64>,
    run_ns: Vec<u64>,
}

impl State {
    fn new(events: &[Event], cores: &[Vec<u32>], classes: &HashMap<Pid, Class>) -> State {
        let mut lane_of = HashMap::new();
        for (core, lanes) in cores.iter().enumerate() {
            for (slot, &cpu) in lanes.iter().enumerate() {
                lane_of.insert(cpu, Lane { core, slot });
            }
        }
        let start_ns = events.first().map_or(0, |event| event.time_ns);
        let mut state = State {
            lane_of,
            cores: cores
                .iter()
                .map(|lanes| vec![LaneState::default(); lanes.len()])
                .collect(),
            classes: classes.clone(),
            woken_ns: HashMap::new(),
            start_ns,
            now_ns: start_ns,
            result: Analysis::default(),
            clear_ns: Vec::new(),
            run_ns: Vec::new(),
        };
        // In reverse, so that a lane's first switch is the one that stays.
        for event in events.iter().rev() {
            if let (Kind::Switch { prev_pid, .. }, Some(&lane)) =
                (event.kind, state.lane_of.get(&event.cpu))
            {
                state.cores[lane.core][lane.slot].pid = prev_pid;
            }
        }
        state
    }

    /// The class of a thread; `None` for the idle thread.
    fn class(&self, pid: Pid) -> Option<Class> {
        (pid != 0).then(|| self.classes.get(&pid).copied().unwrap_or(Class::Normal))
    }

    fn is(&self, pid: Pid, class: Class) -> bool {
        self.class(pid) == Some(class)
    }

    /// Accounts the time up to `time_ns`, in which nothing changed.
    fn advance(&mut self, time_ns: u64) {
        let elapsed_ns = time_ns - self.now_ns;
        self.now_ns = time_ns;
        for core in 0..self.cores.len() {
            let mut batch_lanes = 0;
            let mut critical_runs = false;
            for slot in 0..self.cores[core].len() {
                let class = self.class(self.cores[core][slot].pid);
                let time = &mut self.result.lane_time;
                match class {
                    Some(Class::Critical) => time.critical_ns += elapsed_ns,
                    Some(Class::Batch) => time.batch_ns += elapsed_ns,
                    Some(Class::Normal) => time.normal_ns += elapsed_ns,
                    None => time.idle_ns += elapsed_ns,
                }
                batch_lanes += u64::from(class == Some(Class::Batch));
                critical_runs |= class == Some(Class::Critical);
            }
            if critical_runs {
                self.result.batch_beside_critical_ns += batch_lanes * elapsed_ns;
            }
        }
    }

    fn apply(&mut self, lane: Lane, kind: Kind) {
        match kind {
            Kind::Switch {
                prev_runnable,
                next_pid,
                ..
            } => {
                self.switch(lane, prev_runnable, next_pid);
            }
            Kind::Waking { pid } => self.wake(pid),
            // Where `sched_waking` was not recorded (or missed), the wake-up begins here.
            Kind::Wakeup { pid, .. } => self.wake(pid),
            Kind::Fork {
                parent_pid,
                child_pid,
            } => {
                if let Some(&class) = self.classes.get(&parent_pid) {
                    self.classes.insert(child_pid, class);
                } else {
                    // A number that is used again does not keep its old class.
                    self.classes.remove(&child_pid);
                }
            }
        }
    }

    /// A thread is being woken: remembered if it is critical and does not run already.
    fn wake(&mut self, pid: Pid) {
        let runs = self.cores.iter().flatten().any(|lane| lane.pid == pid);
        if self.is(pid, Class::Critical) && !runs {
            self.woken_ns.entry(pid).or_insert(self.now_ns);
        }
    }

    fn switch(&mut self, lane: Lane, prev_runnable: bool, next_pid: Pid) {
        let prev_pid = self.cores[lane.core][lane.slot].pid;
        if self.is(prev_pid, Class::Critical) {
            self.result.critical_preemptions += u64::from(prev_runnable);
            self.stop_critical(lane);
        }
        let was_batch = self.is(prev_pid, Class::Batch);
        let state = &mut self.cores[lane.core][lane.slot];
        state.pid = next_pid;
        if was_batch {
            state.batch_until_ns = Some(self.now_ns);
        }
        if was_batch && !self.batch_on(lane.core) {
            self.clear_core(lane.core);
        }
        if let Some(woken_ns) = self.woken_ns.remove(&next_pid) {
            self.start_critical(lane, woken_ns);
        }
    }

    /// A woken critical thread runs: measures, or begins to measure, until its siblings are clear.
    fn start_critical(&mut self, lane: Lane, woken_ns: u64) {
        self.run_ns.push(self.now_ns - woken_ns);
        if self.batch_on(lane.core) {
            self.cores[lane.core][lane.slot].unclear_since_ns = Some(woken_ns);
            return;
        }
        let siblings = self.cores[lane.core].iter().enumerate();
        let last_batch_ns = siblings
            .filter(|&(slot, _)| slot != lane.slot)
            .filter_map(|(_, sibling)| sibling.batch_until_ns)
            .max();
        self.clear_ns
            .push(last_batch_ns.unwrap_or(0).saturating_sub(woken_ns));
    }

    /// A critical thread leaves its lane; a measurement still open ends as never clear.
    fn stop_critical(&mut self, lane: Lane) {
        if let Some(woken_ns) = self.cores[lane.core][lane.slot].unclear_since_ns.take() {
            self.clear_ns.push(self.now_ns - woken_ns);
            self.result.never_clear += 1;
        }
    }

    /// Whether batch runs on any lane of the core.
    fn batch_on(&self, core: usize) -> bool {
        self.cores[core]
            .iter()
            .any(|lane| self.is(lane.pid, Class::Batch))
    }

    /// The core is empty of batch now: ends the measurements open on its lanes.
    fn clear_core(&mut self, core: usize) {
        for lane in &mut self.cores[core] {
            if let Some(woken_ns) = lane.unclear_since_ns.take() {
                self.clear_ns.push(self.now_ns - woken_ns);
            }
        }
    }

    fn finish(mut self) -> Analysis {
        self.result.span_ns = self.now_ns - self.start_ns;
        let batch_ns = self.result.lane_time.batch_ns;
        if batch_ns > 0 {
            self.result.batch_beside_critical =
                self.result.batch_beside_critical_ns as f64 / batch_ns as f64;
        }
        let mut found_ns: Vec<u64> = self.clear_ns.iter().copied().filter(|&ns| ns > 0).collect();
        self.result.wake_to_clear = Summary::of(&mut self.clear_ns);
        self.result.wake_to_clear_found = Summary::of(&mut found_ns);
        self.result.wake_to_run = Summary::of(&mut self.run_ns);
        self.result
    }
}
