//! How busy each lane is: `/proc/stat`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Why it says nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// It holds something else.
    #[error("{}:{line}: {problem}; expected the lines of proc_stat(5)", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
}

/// What a lane has done since boot, in ticks of the kernel's accounting.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LaneTicks {
    /// Busy with anything but what follows.
    pub busy: u64,
    /// Busy with tasks of a nice value above 0.
    pub nice: u64,
    /// Taken away by a hypervisor.
    pub stolen: u64,
    /// Idle, or waiting for devices.
    pub idle: u64,
}

/// Ticks by CPU number; CPUs that are offline are not there.
pub type LaneTicksByCpu = BTreeMap<u32, LaneTicks>;

/// Reads `/proc/stat` below a root.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read(root: &Path) -> Result<LaneTicksByCpu, Error> {
    let path = root.join("proc/stat");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(cause) => return Err(Error::Unreadable { path, cause }),
    };
    parse(&text).map_err(|(line, problem)| Error::Malformed {
        path,
        line,
        problem,
    })
}

/// Ticks of each CPU, or line and problem.
fn parse(text: &str) -> Result<LaneTicksByCpu, (usize, String)> {
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
            .collect::<Result<_, _>>()
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
    fn of(fields: &[u64]) -> Result<LaneTicks, String> {
        let [user, nice, system, idle, rest @ ..] = fields else {
            return Err(format!("{} numbers; expected at least 4", fields.len()));
        };
        let optional = |index: usize| rest.get(index).copied().unwrap_or(0);
        let busy = [*user, *system, optional(1), optional(2)];
        Ok(LaneTicks {
            busy: busy.into_iter().fold(0, u64::saturating_add),
            nice: *nice,
            stolen: optional(3),
            idle: idle.saturating_add(optional(0)), // and iowait
        })
    }

    /// What was added since an earlier reading; nothing where a count went backwards.
    pub fn since(&self, before: &LaneTicks) -> LaneTicks {
        LaneTicks {
            busy: self.busy.saturating_sub(before.busy),
            nice: self.nice.saturating_sub(before.nice),
            stolen: self.stolen.saturating_sub(before.stolen),
            idle: self.idle.saturating_sub(before.idle),
        }
    }

    /// Whether a count went backwards since an earlier reading: the kernel's count of waits for devices may, and a
    /// hypervisor's of stolen time when the machine moves.
    fn fell_below(&self, before: &LaneTicks) -> bool {
        self.busy < before.busy
            || self.nice < before.nice
            || self.stolen < before.stolen
            || self.idle < before.idle
    }

    /// The share of time that the lane was busy since an earlier reading, 0 to 1; `ignore_nice`:
    /// tasks of a nice value above 0 do not count. None if it cannot be told: no time has passed, as of
    /// a lane that has just come online, or a count went backwards.
    pub fn busy_share(&self, before: &LaneTicks, ignore_nice: bool) -> Option<f64> {
        if self.fell_below(before) {
            return None;
        }
        let spent = self.since(before);
        let busy = spent.busy as f64 + spent.stolen as f64;
        let nice = spent.nice as f64;
        let counted = if ignore_nice { busy } else { busy + nice };
        let all = busy + nice + spent.idle as f64;
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
cpu13 1 2 3 400 5 6 7 8 9 10
intr 12345 0 0
ctxt 5
";

    #[test]
    fn fields_are_sorted_into_busy_and_idle() {
        let lanes = parse(SAMPLE).unwrap();
        let cpu0 = LaneTicks {
            busy: 53,
            nice: 20,
            stolen: 8,
            idle: 450,
        };
        assert_eq!(lanes.get(&0), Some(&cpu0));
        let cpu12 = LaneTicks {
            busy: 4,
            nice: 2,
            stolen: 0,
            idle: 4,
        };
        assert_eq!(lanes.get(&12), Some(&cpu12));
        let cpu13 = LaneTicks {
            busy: 1 + 3 + 6 + 7,
            nice: 2,
            stolen: 8,
            idle: 405,
        };
        assert_eq!(lanes.get(&13), Some(&cpu13));
        assert_eq!(lanes.len(), 3);
    }

    #[test]
    fn shares_are_of_the_time_between_two_readings() {
        let before = LaneTicks {
            busy: 90,
            nice: 10,
            stolen: 10,
            idle: 1000,
        };
        let after = LaneTicks {
            busy: 110,
            nice: 30,
            stolen: 20,
            idle: 1050,
        };
        assert_eq!(after.busy_share(&before, false), Some(0.5));
        assert_eq!(after.busy_share(&before, true), Some(0.3));
        assert_eq!(before.busy_share(&before, false), None);
    }

    #[test]
    fn a_count_that_falls_makes_the_interval_unknown_and_one_that_jumps_does_not_wrap() {
        let parsed = |line: &str| *parse(line).unwrap().get(&0).unwrap();
        let before = parsed("cpu0 100 100 100 100 100 100 100 100");
        for fallen in [
            "cpu0 10 200 100 200 200 100 100 200",
            "cpu0 200 10 200 200 200 200 200 200",
            "cpu0 200 200 200 10 10 200 200 200",
            "cpu0 200 200 200 100 99 200 200 200",
            "cpu0 200 200 200 200 200 200 200 99",
        ] {
            assert_eq!(parsed(fallen).busy_share(&before, false), None, "{fallen}");
        }
        let most = u64::MAX;
        let jumped = parsed(&format!("cpu0 {most} 100 100 200 100 100 100 {most}"));
        let share = jumped.busy_share(&before, false).unwrap();
        assert!(share > 0.99 && share <= 1.0, "{share}");
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
