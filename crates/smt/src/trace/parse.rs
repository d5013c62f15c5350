//! Reads the kernel's trace text (`/sys/kernel/tracing/trace`).
//!
//! Lines look like this (thread names may contain blanks and brackets, so fields are found from
//! the right of the name):
//!
//! ```text
//! # entries-in-buffer/entries-written: 5/5   #P:4
//!           <idle>-0       [001] d..2.    12.345678: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=gzip next_pid=123 next_prio=120
//!      my (app) x-77       [002] d.h3.    12.345690: sched_waking: comm=gzip pid=123 prio=120 target_cpu=001
//! CPU:1 [LOST 12 EVENTS]
//! ```
//!
//! Events of other kinds are skipped and counted; lost events are counted, because an analysis of a
//! trace with holes would be wrong.

use super::{Event, Kind};
use thiserror::Error;

/// What a trace text contained.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parsed {
    /// The scheduling events, in order of time.
    pub events: Vec<Event>,
    /// Events of kinds that are not understood here.
    pub skipped: u64,
    /// Events that the kernel says it had no room for.
    pub lost: u64,
}

/// A line of a known kind that cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
#[error(
    "trace line {line}: no readable `{field}` in {text:?}; was it written by another kernel's tracer?"
)]
pub struct ParseError {
    /// Line number, from 1.
    pub line: usize,
    /// The field that is missing or malformed.
    pub field: &'static str,
    /// The line.
    pub text: String,
}

/// Parses a trace text.
pub fn parse(text: &str) -> Result<Parsed, ParseError> {
    let mut parsed = Parsed::default();
    let (mut in_buffer_lost, mut marked_lost) = (0, 0);
    for (index, line) in text.lines().enumerate() {
        if let Some(comment) = line.strip_prefix('#') {
            in_buffer_lost += overwritten(comment).unwrap_or(0);
        } else if line.starts_with("CPU:") {
            marked_lost += lost_in(line).unwrap_or(0);
        } else if !line.trim().is_empty() {
            let unreadable = |field| ParseError {
                line: index + 1,
                field,
                text: line.to_owned(),
            };
            match event_in(line).map_err(unreadable)? {
                Some(event) => parsed.events.push(event),
                None => parsed.skipped += 1,
            }
        }
    }
    // The same losses may be told both ways.
    parsed.lost = in_buffer_lost.max(marked_lost);
    parsed.events.sort_by_key(|event| event.time_ns);
    Ok(parsed)
}

/// Entries written but no longer in the buffer, from the header's comment.
fn overwritten(comment: &str) -> Option<u64> {
    let (_, counts) = comment.split_once("entries-in-buffer/entries-written:")?;
    let (kept, written) = counts.split_whitespace().next()?.split_once('/')?;
    written.parse::<u64>().ok()?.checked_sub(kept.parse().ok()?)
}

/// The count in `CPU:1 [LOST 12 EVENTS]`.
fn lost_in(line: &str) -> Option<u64> {
    line.split_once("[LOST ")?
        .1
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// The event in a line, `None` when its kind is not one of ours; else the field that is wrong.
fn event_in(line: &str) -> Result<Option<Event>, &'static str> {
    let kinds: [(&str, KindReader); 4] = [
        (": sched_switch: ", switch),
        (": sched_waking: ", waking),
        (": sched_wakeup: ", wakeup),
        (": sched_process_fork: ", fork),
    ];
    for (marker, read) in kinds {
        if let Some((head, fields)) = line.split_once(marker) {
            let (cpu, time_ns) = head_of(head)?;
            return Ok(Some(Event {
                time_ns,
                cpu,
                kind: read(fields)?,
            }));
        }
    }
    Ok(None)
}

/// Reads the fields of one kind of event, or names the one that is wrong.
type KindReader = fn(&str) -> Result<Kind, &'static str>;

/// CPU and time from `NAME-PID [CPU] FLAGS SECONDS`.
fn head_of(head: &str) -> Result<(u32, u64), &'static str> {
    let mut from_right = head.split_whitespace().rev();
    let time_ns = from_right
        .next()
        .and_then(seconds_to_ns)
        .ok_or("time stamp")?;
    let cpu = from_right
        .filter_map(|word| word.strip_prefix('[')?.strip_suffix(']')?.parse().ok())
        .next()
        .ok_or("[CPU]")?;
    Ok((cpu, time_ns))
}

/// `12.345678` in nanoseconds; any number of decimals up to nine.
fn seconds_to_ns(text: &str) -> Option<u64> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let scale = 10u64.checked_pow(9u32.checked_sub(fraction.len().try_into().ok()?)?)?;
    let whole = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    whole.checked_add(fraction.parse::<u64>().ok()?.checked_mul(scale)?)
}

/// The value behind the last ` name=`, which no thread name before it can imitate.
fn field<T: std::str::FromStr>(fields: &str, name: &'static str) -> Result<T, &'static str> {
    let start = fields.rfind(&format!(" {name}=")).ok_or(name)? + name.len() + 2;
    let value = fields
        .get(start..)
        .and_then(|rest| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).ok_or(name)
}

fn switch(fields: &str) -> Result<Kind, &'static str> {
    let (prev, next) = fields
        .rsplit_once(" ==> next_comm=")
        .ok_or("==> next_comm")?;
    let state: String = field(prev, "prev_state")?;
    Ok(Kind::Switch {
        prev_pid: field(prev, "prev_pid")?,
        // "R" was running, "R+" was preempted; everything else sleeps or is gone.
        prev_runnable: state.starts_with('R'),
        next_pid: field(next, "next_pid")?,
    })
}

fn waking(fields: &str) -> Result<Kind, &'static str> {
    Ok(Kind::Waking {
        pid: field(fields, "pid")?,
    })
}

fn wakeup(fields: &str) -> Result<Kind, &'static str> {
    Ok(Kind::Wakeup {
        pid: field(fields, "pid")?,
        target_cpu: field(fields, "target_cpu")?,
    })
}

fn fork(fields: &str) -> Result<Kind, &'static str> {
    let (parent, child) = fields.rsplit_once(" child_comm=").ok_or("child_comm")?;
    Ok(Kind::Fork {
        parent_pid: field(parent, "pid")?,
        child_pid: field(child, "child_pid")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 3/3   #P:4\n";

    fn only(line: &str) -> Event {
        let parsed = parse(line).unwrap();
        assert_eq!(parsed.events.len(), 1, "{parsed:?}");
        parsed.events[0]
    }

    #[test]
    fn switches() {
        let line = "          <idle>-0       [001] d..2.    12.345678: sched_switch: \
            prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=gzip \
            next_pid=123 next_prio=120";
        let kind = Kind::Switch {
            prev_pid: 0,
            prev_runnable: true,
            next_pid: 123,
        };
        assert_eq!(
            only(line),
            Event {
                time_ns: 12_345_678_000,
                cpu: 1,
                kind
            }
        );
    }

    #[test]
    fn names_with_blanks_brackets_and_field_names() {
        let line = "a pid=9 [007] b-77 [002] d.h3. 1.000000005: sched_switch: prev_comm=a pid=9 \
            [007] prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=x next_pid=5 next_pid=6 \
            next_prio=1";
        let kind = Kind::Switch {
            prev_pid: 77,
            prev_runnable: false,
            next_pid: 6,
        };
        assert_eq!(
            only(line),
            Event {
                time_ns: 1_000_000_005,
                cpu: 2,
                kind
            }
        );
    }

    #[test]
    fn wakings_wakeups_and_forks() {
        let waking =
            "x-1 [000] d..1. 3.5: sched_waking: comm=pid=4 pid=123 prio=120 target_cpu=001";
        assert_eq!(only(waking).kind, Kind::Waking { pid: 123 });
        assert_eq!(only(waking).time_ns, 3_500_000_000);
        let wakeup = "x-1 [000] d..1. 3.5: sched_wakeup: comm=a pid=123 prio=120 target_cpu=003";
        assert_eq!(
            only(wakeup).kind,
            Kind::Wakeup {
                pid: 123,
                target_cpu: 3
            }
        );
        let fork =
            "x-1 [000] ..... 3.5: sched_process_fork: comm=sh pid=1 child_comm=sh child_pid=2";
        assert_eq!(
            only(fork).kind,
            Kind::Fork {
                parent_pid: 1,
                child_pid: 2
            }
        );
    }

    #[test]
    fn order_of_time_other_kinds_and_comments() {
        let text = format!(
            "{HEADER}x-1 [000] d..1. 2.0: sched_waking: comm=a pid=2 prio=120 target_cpu=000\n\
             x-1 [000] d..1. 1.0: sched_waking: comm=a pid=1 prio=120 target_cpu=000\n\
             x-1 [000] d..1. 1.5: tracing_mark_write: hello\n"
        );
        let parsed = parse(&text).unwrap();
        let pids: Vec<_> = parsed.events.iter().map(|event| event.kind).collect();
        assert_eq!(pids, [Kind::Waking { pid: 1 }, Kind::Waking { pid: 2 }]);
        assert_eq!((parsed.skipped, parsed.lost), (1, 0));
    }

    #[test]
    fn lost_events_are_counted_once() {
        let header = "# entries-in-buffer/entries-written: 100/112   #P:4\n";
        assert_eq!(
            parse(&format!("{header}CPU:1 [LOST 12 EVENTS]\n"))
                .unwrap()
                .lost,
            12
        );
        assert_eq!(
            parse("CPU:1 [LOST 3 EVENTS]\nCPU:2 [LOST 4 EVENTS]\n")
                .unwrap()
                .lost,
            7
        );
    }

    #[test]
    fn damaged_lines_are_named() {
        let line = "\nx-1 [000] d..1. 2.0: sched_waking: comm=a pid=oops prio=120 target_cpu=000";
        let error = parse(line).unwrap_err();
        assert_eq!((error.line, error.field), (2, "pid"));
        let error = parse("x-1 [000] d..1. later: sched_waking: comm=a pid=1").unwrap_err();
        assert_eq!(error.field, "time stamp");
    }
}
