//! A run as a trace that <https://ui.perfetto.dev> opens, in the Chrome JSON format.
//!
//! A process stands for each core, with a thread for each lane; one more process has a thread for
//! each task, with its waiting and what the scheduler does with it. Arrows lead from a wake-up to
//! the run that it led to. Process and thread numbers share no number, and none is 0: the importer
//! has taken such threads for each other, and takes process 0 for the kernel's idle one.

use super::Trace;
use super::timeline::{End, Span, Timeline, What};
use crate::record::{Record, Step};
use crate::task::TaskId;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Flags of a kick, as in the kernel: bit and word.
const KICK_FLAGS: [(u64, &str); 3] = [(1, "idle"), (2, "preempt"), (4, "wait")];

impl Trace<'_> {
    /// Writes the run in the Chrome JSON format, event by event; what goes on at the last step goes
    /// on to a time, ns.
    ///
    /// # Errors
    /// If writing fails.
    pub fn write_perfetto(&self, until_ns: u64, out: &mut impl Write) -> io::Result<()> {
        let mut writer = Writer::new(self, out);
        writer.begin()?;
        let first_ns = self.records.first().map_or(0, |record| record.at_ns);
        let last_ns = self.records.last().map_or(0, |record| record.at_ns);
        let mut timeline = Timeline::new(self.machine, first_ns);
        let mut spans = Vec::new();
        for record in self.records {
            timeline.step(record, &mut |span| spans.push(span));
            writer.write_spans(&mut spans)?;
            writer.write_step(record)?;
        }
        timeline.finish(until_ns.max(last_ns), &mut |span| spans.push(span));
        writer.write_spans(&mut spans)?;
        writer.end()
    }
}

/// A thread of the trace.
#[derive(Clone, Copy)]
struct Track {
    pid: u64,
    tid: u64,
}

struct Writer<'a, W> {
    trace: &'a Trace<'a>,
    out: &'a mut W,
    /// The core of a lane, by CPU number.
    core_of: Vec<Option<usize>>,
    /// Lanes are numbered from here as threads, and tasks from twice that on.
    base: u64,
    /// Number of the last arrow, and the one that leads to the run on a lane.
    arrows: u64,
    arrow_to: BTreeMap<u32, u64>,
    is_first: bool,
}

impl<'a, W: Write> Writer<'a, W> {
    fn new(trace: &'a Trace<'a>, out: &'a mut W) -> Writer<'a, W> {
        let machine = trace.machine;
        let mut core_of = vec![None; machine.nr_lanes];
        for (index, core) in machine.cores.iter().enumerate() {
            for &cpu in &core.lanes {
                if let Some(core) = core_of.get_mut(cpu as usize) {
                    *core = Some(index);
                }
            }
        }
        // A power of ten, so that the last digits are the CPU number.
        let mut base: u64 = 1000;
        while base <= machine.nr_lanes.max(machine.cores.len() + 1) as u64 {
            base *= 10;
        }
        Writer {
            trace,
            out,
            core_of,
            base,
            arrows: 0,
            arrow_to: BTreeMap::new(),
            is_first: true,
        }
    }

    fn lane_track(&self, lane: u32) -> Option<Track> {
        let core = self.core_of.get(lane as usize).copied().flatten()?;
        Some(Track {
            pid: core as u64 + 1,
            tid: self.base + u64::from(lane),
        })
    }

    fn task_track(&self, task: TaskId) -> Track {
        Track {
            pid: self.trace.machine.cores.len() as u64 + 1,
            tid: 2 * self.base + u64::from(task.0),
        }
    }

    /// The head of the document, and the names of all processes and threads.
    fn begin(&mut self) -> io::Result<()> {
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
        let trace = self.trace;
        for (index, core) in trace.machine.cores.iter().enumerate() {
            let pid = index as u64 + 1;
            let name = format!("core {index} (capacity {})", core.capacity);
            self.name_process(pid, &name)?;
            for &cpu in &core.lanes {
                let tid = self.base + u64::from(cpu);
                self.name_thread(Track { pid, tid }, &format!("lane {cpu}"))?;
            }
        }
        let pid = trace.machine.cores.len() as u64 + 1;
        self.name_process(pid, "tasks: waiting and steps")?;
        for task in tasks(trace) {
            let name = trace.name(task);
            let words = format!("{name} ({})", trace.class(task).name());
            self.name_thread(self.task_track(task), &words)?;
        }
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }

    fn write_spans(&mut self, spans: &mut Vec<Span>) -> io::Result<()> {
        spans.drain(..).try_for_each(|span| self.write_span(span))
    }

    fn write_span(&mut self, span: Span) -> io::Result<()> {
        match span.what {
            What::Ran { task, lane, end } => self.write_run(span, task, lane, end),
            What::Waited { task, lane, woken } => self.write_wait(span, task, lane, woken),
            What::Offline { lane } => match self.lane_track(lane) {
                Some(track) => self.complete(track, "offline", "lane", span, &json!({})),
                None => Ok(()),
            },
        }
    }

    fn write_run(&mut self, span: Span, task: TaskId, lane: u32, end: End) -> io::Result<()> {
        let arrow = self.arrow_to.remove(&lane);
        let Some(track) = self.lane_track(lane) else {
            return Ok(());
        };
        let class = self.trace.class(task).name();
        let end = match end {
            End::Slept => "slept",
            End::Preempted => "preempted",
            End::Unknown => "unknown",
        };
        let args = json!({"task": task.0, "class": class, "end": end});
        self.complete(track, &self.trace.name(task), class, span, &args)?;
        // An arrow binds to a span that was written before it.
        match arrow {
            Some(id) => self.arrow(track, "f", id, span.from_ns),
            None => Ok(()),
        }
    }

    fn write_wait(
        &mut self,
        span: Span,
        task: TaskId,
        lane: Option<u32>,
        woken: bool,
    ) -> io::Result<()> {
        let track = self.task_track(task);
        let class = self.trace.class(task).name();
        let after = if woken { "wake-up" } else { "preemption" };
        let args = json!({"task": task.0, "class": class, "after": after, "ran_on": lane});
        self.complete(track, "waits", "wait", span, &args)?;
        match lane.filter(|&lane| woken && self.lane_track(lane).is_some()) {
            Some(lane) => {
                self.arrows += 1;
                self.arrow_to.insert(lane, self.arrows);
                self.arrow(track, "s", self.arrows, span.from_ns)
            }
            None => Ok(()),
        }
    }

    /// What takes no time.
    fn write_step(&mut self, record: &Record) -> io::Result<()> {
        let (track, name, args) = match record.step {
            Step::Wake { task } => (Some(self.task_track(task)), "wake", json!({})),
            Step::Queue { task, queue } => (
                Some(self.task_track(task)),
                "queue",
                json!({"queue": format!("{queue:#x}")}),
            ),
            Step::QueueLocal { task, lane } => (
                Some(self.task_track(task)),
                "queue of lane",
                json!({"lane": lane}),
            ),
            Step::Change { task } => (Some(self.task_track(task)), "change", json!({})),
            Step::Exit { task } => (Some(self.task_track(task)), "exit", json!({})),
            Step::Kick { lane, flags } => (
                self.lane_track(lane),
                "kick",
                json!({"flags": kick_words(flags)}),
            ),
            Step::Online { lane } => (self.lane_track(lane), "online", json!({})),
            Step::Offline { lane } => (self.lane_track(lane), "offline", json!({})),
            Step::Run { .. } | Step::Preempt { .. } | Step::Sleep { .. } => return Ok(()),
        };
        let Some(Track { pid, tid }) = track else {
            return Ok(());
        };
        let at = micros(record.at_ns);
        self.event(format_args!(
            "\"ph\":\"i\",\"s\":\"t\",\"name\":\"{name}\",\"cat\":\"step\",\"pid\":{pid},\
             \"tid\":{tid},\"ts\":{at},\"args\":{args}"
        ))
    }

    fn complete(
        &mut self,
        track: Track,
        name: &str,
        category: &str,
        span: Span,
        args: &Value,
    ) -> io::Result<()> {
        let Track { pid, tid } = track;
        let (name, at) = (json!(name), micros(span.from_ns));
        let took = micros(span.to_ns - span.from_ns);
        self.event(format_args!(
            "\"ph\":\"X\",\"name\":{name},\"cat\":\"{category}\",\"pid\":{pid},\"tid\":{tid},\
             \"ts\":{at},\"dur\":{took},\"args\":{args}"
        ))
    }

    fn arrow(&mut self, track: Track, phase: &str, id: u64, at_ns: u64) -> io::Result<()> {
        let Track { pid, tid } = track;
        let at = micros(at_ns);
        let binds = if phase == "f" { ",\"bp\":\"e\"" } else { "" };
        self.event(format_args!(
            "\"ph\":\"{phase}\",\"name\":\"wake-up\",\"cat\":\"wake-up\",\"id\":{id},\
             \"pid\":{pid},\"tid\":{tid},\"ts\":{at}{binds}"
        ))
    }

    fn name_process(&mut self, pid: u64, name: &str) -> io::Result<()> {
        let name = json!(name);
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"args\":{{\"name\":{name}}}"
        ))?;
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":{pid},\
             \"args\":{{\"sort_index\":{pid}}}"
        ))
    }

    fn name_thread(&mut self, track: Track, name: &str) -> io::Result<()> {
        let (Track { pid, tid }, name) = (track, json!(name));
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{pid},\"tid\":{tid},\
             \"args\":{{\"name\":{name}}}"
        ))?;
        self.event(format_args!(
            "\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{pid},\"tid\":{tid},\
             \"args\":{{\"sort_index\":{tid}}}"
        ))
    }

    fn event(&mut self, members: std::fmt::Arguments<'_>) -> io::Result<()> {
        let separator = match std::mem::replace(&mut self.is_first, false) {
            true => "",
            false => ",\n",
        };
        write!(self.out, "{separator}{{{members}}}")
    }
}

/// All that have a label, and those that only the steps know.
fn tasks(trace: &Trace<'_>) -> BTreeSet<TaskId> {
    let of_step = |record: &Record| match record.step {
        Step::Wake { task }
        | Step::Queue { task, .. }
        | Step::QueueLocal { task, .. }
        | Step::Run { task, .. }
        | Step::Preempt { task, .. }
        | Step::Sleep { task, .. }
        | Step::Change { task }
        | Step::Exit { task } => Some(task),
        Step::Kick { .. } | Step::Online { .. } | Step::Offline { .. } => None,
    };
    let labelled = (0..trace.tasks.len() as u32).map(TaskId);
    labelled
        .chain(trace.records.iter().filter_map(of_step))
        .collect()
}

fn kick_words(flags: u64) -> String {
    let named = KICK_FLAGS.iter().filter(|(bit, _)| flags & bit != 0);
    let mut words: Vec<String> = named.map(|(_, word)| word.to_string()).collect();
    let rest = KICK_FLAGS.iter().fold(flags, |rest, (bit, _)| rest & !bit);
    if rest != 0 || words.is_empty() {
        words.push(format!("{rest:#x}"));
    }
    words.join(" ")
}

/// A time in µs, exact to the ns.
fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::testing::{machine, record, tasks};

    fn written(steps: &[Record], until_ns: u64) -> String {
        let (machine, tasks) = (machine(), tasks());
        let trace = Trace {
            machine: &machine,
            tasks: &tasks,
            records: steps,
        };
        let mut out = Vec::new();
        trace.write_perfetto(until_ns, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn events(text: &str) -> Vec<Value> {
        let document: Value = serde_json::from_str(text).unwrap();
        document["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn a_run_has_its_lane_and_its_arrow() {
        let (task, lane) = (TaskId(0), 3);
        let steps = [
            record(1_500, Step::Wake { task }),
            record(1_500, Step::Kick { lane, flags: 3 }),
            record(2_001, Step::Run { task, lane }),
            record(9_000, Step::Sleep { task, lane }),
        ];
        let text = written(&steps, 0);
        assert!(text.contains("\"ts\":2.001,\"dur\":6.999"), "{text}");
        let events = events(&text);
        let of = |phase: &str| {
            events
                .iter()
                .filter(|e| e["ph"] == phase)
                .collect::<Vec<_>>()
        };
        let (begins, ends) = (of("s"), of("f"));
        assert_eq!((begins.len(), ends.len()), (1, 1));
        assert_eq!(begins[0]["id"], ends[0]["id"]);
        let run = of("X")
            .into_iter()
            .find(|e| e["cat"] == "critical")
            .unwrap();
        assert_eq!(run["name"], tasks()[0].name.as_str());
        assert_eq!(
            (&run["pid"], &run["tid"]),
            (&ends[0]["pid"], &ends[0]["tid"])
        );
        assert_eq!((&run["pid"], &run["tid"]), (&json!(2), &json!(1003)));
        assert_eq!(run["args"]["end"], "slept");
        let kick = of("i").into_iter().find(|e| e["name"] == "kick").unwrap();
        assert_eq!(kick["args"]["flags"], "idle preempt");
    }

    #[test]
    fn tracks_have_names_and_numbers_of_their_own() {
        let task = TaskId(9);
        let events = events(&written(&[record(0, Step::Wake { task })], 5_000));
        let names = |name: &str| {
            events
                .iter()
                .filter(|e| e["name"] == name)
                .collect::<Vec<_>>()
        };
        // Two labelled tasks and one that only a step knows, beside four lanes.
        assert_eq!(names("thread_name").len(), 7);
        let pids = names("process_name").into_iter().map(|e| e["pid"].as_u64());
        let tids = names("thread_name").into_iter().map(|e| e["tid"].as_u64());
        let numbers: BTreeSet<Option<u64>> = pids.chain(tids).collect();
        assert_eq!(numbers.len(), 3 + 7);
        assert!(!numbers.contains(&Some(0)) && !numbers.contains(&None));
        let wait = names("waits")[0];
        assert_eq!(wait["dur"], 5.0);
        assert_eq!(wait["args"]["ran_on"], Value::Null);
    }

    #[test]
    fn nothing_is_a_trace_too() {
        let text = written(&[], 0);
        assert_eq!(events(&text).iter().filter(|e| e["ph"] != "M").count(), 0);
        assert_eq!(text, written(&[], 0));
    }

    #[test]
    fn flags_have_words() {
        assert_eq!(kick_words(0), "0x0");
        assert_eq!(kick_words(2), "preempt");
        assert_eq!(kick_words(9), "idle 0x8");
    }
}
