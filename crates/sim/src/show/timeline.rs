//! From steps to spans of time.

use crate::machine::Machine;
use crate::record::{Record, Step};
use crate::task::TaskId;
use std::collections::BTreeMap;

/// Something that took time, or lasts to the end of what is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub from_ns: u64,
    pub to_ns: u64,
    pub what: What,
}

/// What took time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A task was on a lane.
    Ran { task: TaskId, lane: u32, end: End },
    /// A task waited, after waking or else after it was taken off a lane, for the lane on which it
    /// ran then, if it did.
    Waited {
        task: TaskId,
        lane: Option<u32>,
        woken: bool,
    },
    /// A lane was not there.
    Offline { lane: u32 },
}

/// Why a task left its lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Slept,
    Preempted,
    /// It did not, or no step says why.
    Unknown,
}

/// Follows the steps and tells each span as soon as it is over.
pub(super) struct Timeline {
    /// By CPU number; none if no core has it.
    lanes: Vec<Option<Lane>>,
    /// Since when a task waits, and whether it woke then.
    waits: BTreeMap<TaskId, (u64, bool)>,
    /// Time of the first step.
    first_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Lane {
    running: Option<(TaskId, u64)>,
    offline_ns: Option<u64>,
    /// Whether a step was about it.
    seen: bool,
}

impl Timeline {
    /// Before the first step.
    pub fn new(machine: &Machine, first_ns: u64) -> Timeline {
        let mut lanes = vec![None; machine.nr_lanes];
        for &cpu in machine.cores.iter().flat_map(|core| &core.lanes) {
            let online = machine.online.get(cpu as usize).copied().unwrap_or(true);
            if let Some(lane) = lanes.get_mut(cpu as usize) {
                *lane = Some(Lane {
                    offline_ns: (!online).then_some(0),
                    ..Lane::default()
                });
            }
        }
        Timeline {
            lanes,
            waits: BTreeMap::new(),
            first_ns,
        }
    }

    /// Takes a step; what is over because of it is told.
    pub fn step(&mut self, record: &Record, tell: &mut impl FnMut(Span)) {
        let now_ns = record.at_ns;
        match record.step {
            Step::Wake { task } => {
                self.waits.insert(task, (now_ns, true));
            }
            Step::Run { task, lane } => self.run(now_ns, task, lane, tell),
            Step::Preempt { task, lane } => {
                self.leave(now_ns, task, lane, End::Preempted, tell);
                self.waits.insert(task, (now_ns, false));
            }
            Step::Sleep { task, lane } => {
                self.leave(now_ns, task, lane, End::Slept, tell);
                self.waits.remove(&task);
            }
            Step::Exit { task } => self.end_wait(now_ns, task, None, tell),
            Step::Online { lane } => self.online(now_ns, lane, tell),
            Step::Offline { lane } => self.offline(now_ns, lane, tell),
            Step::Queue { .. }
            | Step::QueueLocal { .. }
            | Step::Kick { .. }
            | Step::Change { .. } => {}
        }
    }

    /// Tells what goes on at the end of what is known.
    pub fn finish(&mut self, end_ns: u64, tell: &mut impl FnMut(Span)) {
        for cpu in 0..self.lanes.len() as u32 {
            self.end_run(end_ns, cpu, End::Unknown, tell);
            self.end_offline(end_ns, cpu, tell);
        }
        while let Some((&task, _)) = self.waits.first_key_value() {
            self.end_wait(end_ns, task, None, tell);
        }
    }

    fn lane(&mut self, cpu: u32) -> Option<&mut Lane> {
        self.lanes.get_mut(cpu as usize)?.as_mut()
    }

    fn run(&mut self, now_ns: u64, task: TaskId, cpu: u32, tell: &mut impl FnMut(Span)) {
        self.end_wait(now_ns, task, Some(cpu), tell);
        self.end_run(now_ns, cpu, End::Unknown, tell);
        if let Some(lane) = self.lane(cpu) {
            *lane = Lane {
                running: Some((task, now_ns)),
                offline_ns: None,
                seen: true,
            };
        }
    }

    fn leave(
        &mut self,
        now_ns: u64,
        task: TaskId,
        cpu: u32,
        end: End,
        tell: &mut impl FnMut(Span),
    ) {
        let first_ns = self.first_ns;
        let Some(lane) = self.lane(cpu) else { return };
        if !std::mem::replace(&mut lane.seen, true) {
            lane.running = Some((task, first_ns));
        }
        self.end_run(now_ns, cpu, end, tell);
    }

    fn online(&mut self, now_ns: u64, cpu: u32, tell: &mut impl FnMut(Span)) {
        let Some(lane) = self.lane(cpu) else { return };
        if !std::mem::replace(&mut lane.seen, true) {
            lane.offline_ns = Some(0);
        }
        self.end_offline(now_ns, cpu, tell);
    }

    fn offline(&mut self, now_ns: u64, cpu: u32, tell: &mut impl FnMut(Span)) {
        self.end_run(now_ns, cpu, End::Unknown, tell);
        if let Some(lane) = self.lane(cpu) {
            lane.offline_ns = Some(now_ns);
            lane.seen = true;
        }
    }

    fn end_run(&mut self, now_ns: u64, cpu: u32, end: End, tell: &mut impl FnMut(Span)) {
        if let Some((task, from_ns)) = self.lane(cpu).and_then(|lane| lane.running.take()) {
            let lane = cpu;
            tell(Span::new(from_ns, now_ns, What::Ran { task, lane, end }));
        }
    }

    fn end_offline(&mut self, now_ns: u64, cpu: u32, tell: &mut impl FnMut(Span)) {
        if let Some(from_ns) = self.lane(cpu).and_then(|lane| lane.offline_ns.take()) {
            tell(Span::new(from_ns, now_ns, What::Offline { lane: cpu }));
        }
    }

    fn end_wait(
        &mut self,
        now_ns: u64,
        task: TaskId,
        lane: Option<u32>,
        tell: &mut impl FnMut(Span),
    ) {
        if let Some((from_ns, woken)) = self.waits.remove(&task) {
            let what = What::Waited { task, lane, woken };
            tell(Span::new(from_ns, now_ns, what));
        }
    }
}

impl Span {
    /// Steps out of order make a span of no length.
    fn new(from_ns: u64, to_ns: u64, what: What) -> Span {
        Span {
            from_ns,
            to_ns: to_ns.max(from_ns),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::testing::{machine, record};

    fn spans(steps: &[(u64, Step)], end_ns: u64) -> Vec<Span> {
        let mut told = Vec::new();
        let first_ns = steps.first().map_or(0, |step| step.0);
        let mut timeline = Timeline::new(&machine(), first_ns);
        for &(at_ns, step) in steps {
            timeline.step(&record(at_ns, step), &mut |span| told.push(span));
        }
        timeline.finish(end_ns, &mut |span| told.push(span));
        told
    }

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    #[test]
    fn runs_and_waits_are_told() {
        let steps = [
            (1, Step::Wake { task: A }),
            (3, Step::Run { task: A, lane: 1 }),
            (5, Step::Preempt { task: A, lane: 1 }),
            (5, Step::Run { task: B, lane: 1 }),
        ];
        let waited = |lane, woken| What::Waited {
            task: A,
            lane,
            woken,
        };
        let ran = |task, end| What::Ran { task, lane: 1, end };
        assert_eq!(
            spans(&steps, 9),
            [
                Span::new(1, 3, waited(Some(1), true)),
                Span::new(3, 5, ran(A, End::Preempted)),
                Span::new(5, 9, ran(B, End::Unknown)),
                Span::new(5, 9, waited(None, false)),
            ]
        );
    }

    #[test]
    fn what_was_before_the_first_step_is_inferred() {
        let steps = [
            (4, Step::Wake { task: B }),
            (6, Step::Sleep { task: A, lane: 0 }),
            (7, Step::Online { lane: 3 }),
            (8, Step::Exit { task: B }),
        ];
        let slept = End::Slept;
        let told = spans(&steps, 9);
        assert_eq!(
            told[..2],
            [
                Span::new(
                    4,
                    6,
                    What::Ran {
                        task: A,
                        lane: 0,
                        end: slept
                    }
                ),
                Span::new(0, 7, What::Offline { lane: 3 }),
            ]
        );
        assert_eq!((told[2].from_ns, told[2].to_ns), (4, 8));
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn lanes_that_no_core_has_are_passed_over() {
        let task = A;
        let lane = 77;
        let steps = [
            (1, Step::Run { task, lane }),
            (2, Step::Sleep { task, lane }),
            (3, Step::Offline { lane }),
            (1, Step::Online { lane }),
        ];
        assert_eq!(spans(&steps, 9), []);
    }
}
