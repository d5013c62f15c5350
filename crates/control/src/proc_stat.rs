//! How busy each lane is: `/proc/stat`.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// What a lane has done since boot, in ticks of the kernel's accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTicks {
    /// Busy, with tasks of a nice value above 0 left out.
    busy: u64,
    /// Busy with tasks of a nice value above 0.
    nice: u64,
    /// Idle, or waiting for devices.
    idle: u64,
}

/// Ticks by CPU number; CPUs that are offline are not there.
pub type LaneTicksByCpu = BTreeMap<u32, LaneTicks>;

/// Reads `/proc/stat` below a root.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read(root: &Path) -> Result<LaneTicksByCpu> {
    let path = root.join("proc/stat");
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io("read", &path, e))?;
    parse(&text).map_err(|(line, problem)| Error::ProcStat {
        path,
        line,
        problem,
    })
}

/// Ticks of each CPU, or line and problem.
fn parse(text: &str) -> std::result::Result<LaneTicksByCpu, (usize, String)> {
    let mut lanes = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        let mut words = line.split_ascii_whitespace();
        let Some(cpu) = words.next().and_then(|word| word.strip_prefix("cpu")) else {
            continue;
        };
        if cpu.is_empty() {
            continue; // the sum of all
        }
        let wrong = |problem: String| (number, problem);
        let cpu: u32 = cpu
            .parse()
            .map_err(|_| wrong(format!("\"cpu{cpu}\" has no CPU number")))?;
        let fields: Vec<u64> = words
            .map(|word| word.parse().map_err(|_| word))
            .collect::<std::result::Result<_, _>>()
            .map_err(|word| wrong(format!("\"{word}\" is no number of ticks")))?;
        if lanes
            .insert(cpu, LaneTicks::of(&fields).map_err(wrong)?)
            .is_some()
        {
            return Err(wrong(format!("cpu{cpu} stands there twice")));
        }
    }
    match lanes.is_empty() {
        true => Err((1, "no line of a CPU".to_owned())),
        false => Ok(lanes),
    }
}

impl LaneTicks {
    /// From: user, nice, system, idle, iowait, irq, softirq, steal; proc_stat(5). Old kernels have
    /// the first four only. Guests' time follows, and is part of user and nice.
    fn of(fields: &[u64]) -> std::result::Result<LaneTicks, String> {
        let [user, nice, system, idle, rest @ ..] = fields else {
            return Err(format!("{} numbers; expected at least 4", fields.len()));
        };
        let optional = |index: usize| rest.get(index).copied().unwrap_or(0);
        let (iowait, interrupts, steal) = (optional(0), [optional(1), optional(2)], optional(3));
        let busy = [*user, *system, interrupts[0], interrupts[1], steal];
        Ok(LaneTicks {
            busy: busy.into_iter().fold(0, u64::saturating_add),
            nice: *nice,
            idle: idle.saturating_add(iowait),
        })
    }

    /// The share of time that the lane was busy since an earlier reading, 0 to 1; `ignore_nice`:
    /// tasks of a nice value above 0 do not count. None if no time has passed, as of a lane that has
    /// just come online.
    pub fn busy_share(&self, before: &LaneTicks, ignore_nice: bool) -> Option<f64> {
        // waiting for devices may be counted backwards
        let since = |of: fn(&LaneTicks) -> u64| of(self).saturating_sub(of(before)) as f64;
        let (busy, nice, idle) = (since(|t| t.busy), since(|t| t.nice), since(|t| t.idle));
        let counted = if ignore_nice { busy } else { busy + nice };
        let all = busy + nice + idle;
        (all > 0.0).then(|| counted / all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
cpu  30 0 0 70 0 0 0 0 0 0
cpu0 10 20 30 400 50 6 7 8 9 0
cpu12 1 2 3 4
intr 12345 0 0
ctxt 5
";

    #[test]
    fn fields_are_sorted_into_busy_and_idle() {
        let lanes = parse(SAMPLE).unwrap();
        let cpu0 = LaneTicks {
            busy: 61,
            nice: 20,
            idle: 450,
        };
        assert_eq!(lanes.get(&0), Some(&cpu0));
        let cpu12 = LaneTicks {
            busy: 4,
            nice: 2,
            idle: 4,
        };
        assert_eq!(lanes.get(&12), Some(&cpu12));
        assert_eq!(lanes.len(), 2);
    }

    #[test]
    fn shares_are_of_the_time_between_two_readings() {
        let before = LaneTicks {
            busy: 100,
            nice: 10,
            idle: 1000,
        };
        let after = LaneTicks {
            busy: 130,
            nice: 30,
            idle: 1050,
        };
        assert_eq!(after.busy_share(&before, false), Some(0.5));
        assert_eq!(after.busy_share(&before, true), Some(0.3));
        assert_eq!(before.busy_share(&before, false), None);
        let backwards = LaneTicks { idle: 990, ..after };
        assert_eq!(backwards.busy_share(&before, false), Some(1.0));
    }

    #[test]
    fn garbage_is_refused_with_its_line() {
        for (text, line, problem) in [
            ("cpu 1 2 3 4\ncpu0 1 2 x 4\n", 2, "\"x\" is no number"),
            ("cpu0 1 2 3 4\ncpu0 1 2 3 4\n", 2, "twice"),
            ("cpux 1 2 3 4\n", 1, "\"cpux\" has no CPU number"),
            ("cpu0 1 2 3\n", 1, "3 numbers; expected at least 4"),
            ("cpu0 1 -2 3 4\n", 1, "\"-2\" is no number"),
            ("\0\u{1}garbage", 1, "no line of a CPU"),
            ("", 1, "no line of a CPU"),
        ] {
            let (at, what) = parse(text).unwrap_err();
            assert!(
                at == line && what.contains(problem),
                "{text:?}: {at}: {what}"
            );
        }
    }
}
