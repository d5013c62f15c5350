//! What batch may count on: the extended resource `sidelane.dev/batch-cpu` of the node, in thousandths of an MT1-equivalent core.
//! The cluster's scheduler subtracts what pods request of it, so it is all that there is for batch, used or not.
//!
//! Problem: critical work comes and goes within seconds; a request holds for hours.
//!
//! Rule: of each interval it is known how many lanes critical and other work used. What was left for batch is then
//!
//! ```text
//! threadPerf × (lanes − lanes of a core × critical lanes − other lanes)
//! ```
//!
//! A lane with critical work closes its core, so it counts as all lanes of it. Critical tasks that share a core are counted
//! twice, which is on the safe side; so is that batch borrows beside critical work. Each lane of batch is taken to run at the
//! speed that it has when all lanes of the core run. Other lanes are those that are busy, with whatever it is but critical work and
//! batch: also interrupts, real-time tasks, and what a hypervisor takes. Of the last intervals a low quantile is told. It
//! falls within a few intervals and rises when what was low has left the window. What the node says changes only by
//! more than a part of what it could offer at most, so that the API server is not written to all the time.
//!
//! Does not: know of `batch_lanes`, affinities and quotas of batch.

use crate::scheduler::ask;
use serde::Deserialize;
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs;
use std::time::{Duration, Instant};

/// Name of the resource.
pub const RESOURCE: &str = "sidelane.dev/batch-cpu";

/// What the node says is changed by more than this part of what it could offer at most.
const BAND: f64 = 1.0 / 20.0;

/// `USER_HZ`: of all of the kernel's interfaces.
const TICKS_PER_S: f64 = 100.0;

/// How it is told.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Intervals that count.
    pub window: Duration,
    /// Of these, the quantile that is told, above 0 to 1.
    pub quantile: f64,
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Of the largest core.
    pub lanes_per_core: u64,
    /// threadPerf of that many.
    pub speed: f64,
}

/// What was counted up to a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// When.
    pub at: Instant,
    /// Lanes that are online.
    pub lanes: usize,
    /// Time that they were busy, s.
    pub busy_s: f64,
    /// Of that, with critical work, s.
    pub critical_s: f64,
    /// Of that, with batch, s.
    pub batch_s: f64,
}

/// Lanes on the mean of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lanes {
    all: f64,
    critical: f64,
    other: f64,
}

impl Reading {
    /// What the machine and its scheduler have counted until now.
    ///
    /// # Errors
    /// The scheduler cannot be asked, or has batch alone.
    pub fn take(program: &OsStr) -> Result<Reading, String> {
        let stat: Stat = ask(program, &["stat", "0.01", "1", "--no-smt"])?;
        if stat.scope != "all" {
            return Err(format!(
                "scope = {:?} knows nothing of critical work",
                stat.scope
            ));
        }
        let text =
            fs::read_to_string("/proc/stat").map_err(|error| format!("/proc/stat: {error}"))?;
        let (lanes, busy_s) = busy(&text).ok_or("/proc/stat: no times of lanes")?;
        Ok(Reading {
            at: Instant::now(),
            lanes,
            busy_s,
            critical_s: stat.totals.busy_lane_s.critical,
            batch_s: stat.totals.busy_lane_s.batch,
        })
    }

    /// What lanes did since another reading; none if no time passed, lanes came or went, or the scheduler began anew.
    fn since(&self, before: &Reading) -> Option<Lanes> {
        let passed_s = self.at.checked_duration_since(before.at)?.as_secs_f64();
        let rate =
            |now: f64, before: f64| Some((now - before) / passed_s).filter(|rate| *rate >= 0.0);
        let busy = rate(self.busy_s, before.busy_s)?;
        let critical = rate(self.critical_s, before.critical_s)?;
        let batch = rate(self.batch_s, before.batch_s)?;
        (self.lanes == before.lanes).then_some(Lanes {
            all: self.lanes as f64,
            critical,
            other: (busy - critical - batch).max(0.0),
        })
    }
}

/// Of the document of `sidelane stat`.
#[derive(Debug, Deserialize)]
struct Stat {
    scope: String,
    totals: Totals,
}

#[derive(Debug, Deserialize)]
struct Totals {
    busy_lane_s: ByClass,
}

#[derive(Debug, Deserialize)]
struct ByClass {
    critical: f64,
    batch: f64,
}

/// Lanes in `/proc/stat`, and how long all of them together were busy.
fn busy(text: &str) -> Option<(usize, f64)> {
    let lanes = text
        .lines()
        .filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    let all = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = all
        .split_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; what follows is in user and nice
    let [user, nice, system, _, _, irq, softirq, steal] = ticks.get(..8)?.try_into().ok()?;
    let busy: u64 = [user, nice, system, irq, softirq, steal].into_iter().sum();
    Some((lanes.count(), busy as f64 / TICKS_PER_S))
}

impl Machine {
    /// One of so many lanes a core; none where it is not known how fast they are.
    pub fn new(lanes_per_core: u64, thread_perf: Option<f64>) -> Option<Machine> {
        let speed = match lanes_per_core {
            1 => 1.0,
            _ => thread_perf.filter(|speed| *speed > 0.0 && *speed <= 1.0)?,
        };
        Some(Machine {
            lanes_per_core,
            speed,
        })
    }

    /// What so many lanes could do at most, in thousandths of a core.
    fn most(&self, lanes: f64) -> f64 {
        1000.0 * self.speed * lanes
    }

    /// What was there for batch, in thousandths of a core.
    fn lendable(&self, lanes: Lanes) -> f64 {
        let closed = self.lanes_per_core as f64 * lanes.critical;
        let left = (lanes.all - closed - lanes.other).clamp(0.0, lanes.all);
        self.most(left)
    }
}

/// What the node is to say, from interval to interval.
#[derive(Debug)]
pub struct BatchCpu {
    settings: Settings,
    last: Option<Reading>,
    /// When an interval ended, and what was there for batch.
    intervals: VecDeque<(Instant, f64)>,
    told: Option<u64>,
}

impl BatchCpu {
    /// Nothing is told yet.
    pub fn new(settings: Settings) -> BatchCpu {
        BatchCpu {
            settings,
            last: None,
            intervals: VecDeque::new(),
            told: None,
        }
    }

    /// What the node is to say; none: it is to have no such resource.
    pub fn told(&self) -> Option<u64> {
        self.told
    }

    /// When the last interval ended.
    pub fn last_at(&self) -> Option<Instant> {
        self.last.map(|last| last.at)
    }

    /// Nothing may be counted on any more.
    pub fn withdraw(&mut self) {
        *self = BatchCpu::new(self.settings);
    }

    /// Takes a reading: an interval ends, the next begins.
    pub fn count(&mut self, machine: Machine, reading: Reading) {
        let before = self.last.replace(reading);
        let Some(lanes) = before.and_then(|before| reading.since(&before)) else {
            return;
        };
        self.intervals
            .push_back((reading.at, machine.lendable(lanes)));
        let begin = reading.at.checked_sub(self.settings.window);
        self.intervals
            .retain(|(at, _)| begin.is_none_or(|begin| *at > begin));
        let found = self.quantile();
        let differs = |told: u64| (found - told as f64).abs() > BAND * machine.most(lanes.all);
        if self.told.is_none_or(differs) {
            self.told = Some(found.round() as u64);
        }
    }

    /// By nearest rank: of few intervals the least.
    fn quantile(&self) -> f64 {
        let mut found: Vec<f64> = self.intervals.iter().map(|(_, milli)| *milli).collect();
        found.sort_by(f64::total_cmp);
        let rank = (self.settings.quantile * found.len() as f64).ceil() as usize;
        found.get(rank.max(1) - 1).copied().unwrap_or(0.0)
    }
}

/// A quantity of the API as a whole number; none if it is not written as the API server writes whole numbers.
pub fn whole(quantity: &str) -> Option<u64> {
    let digits = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match quantity.strip_prefix(digits)? {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// How many lanes a core has. A lane that is offline does not say whose it is, so with SMT off it is one; it is asked for again
/// when lanes come or go, and while it is not known.
#[derive(Debug, Default)]
pub struct LanesPerCore {
    known: Option<u64>,
    /// When it was asked for last, and the lanes that were online then.
    asked: Option<(Instant, Option<String>)>,
}

impl LanesPerCore {
    /// As far as is known.
    pub fn known(&self) -> Option<u64> {
        self.known
    }

    /// Asks, while these lanes are online, if there may be something new; without an answer, again after a pause. What came of
    /// it; none: it was not asked.
    pub fn look(
        &mut self,
        online: Option<String>,
        now: Instant,
        pause: Duration,
        ask: impl FnOnce() -> Result<u64, String>,
    ) -> Option<Result<(), String>> {
        if let Some((at, lanes)) = &self.asked
            && *lanes == online
            && (self.known.is_some() || now.saturating_duration_since(*at) < pause)
        {
            return None;
        }
        self.asked = Some((now, online));
        let answer = ask();
        // what was true of other lanes is no answer
        self.known = answer.as_ref().ok().copied();
        Some(answer.map(|_| ()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SETTINGS: Settings = Settings {
        window: Duration::from_secs(600),
        quantile: 0.1,
    };

    /// Two cores of two lanes.
    fn machine() -> Machine {
        Machine::new(2, Some(0.63)).unwrap()
    }

    /// A machine of four lanes, and what it is to say.
    struct Bed {
        batch: BatchCpu,
        reading: Reading,
    }

    impl Bed {
        fn new() -> Bed {
            let reading = Reading {
                at: Instant::now(),
                lanes: 4,
                busy_s: 1000.0,
                critical_s: 10.0,
                batch_s: 20.0,
            };
            let mut batch = BatchCpu::new(SETTINGS);
            batch.count(machine(), reading);
            Bed { batch, reading }
        }

        /// Half a minute with so many lanes of each.
        fn runs(&mut self, critical: f64, other: f64, batch: f64) -> Option<u64> {
            self.reading.at += Duration::from_secs(30);
            self.reading.critical_s += critical * 30.0;
            self.reading.batch_s += batch * 30.0;
            self.reading.busy_s += (critical + other + batch) * 30.0;
            self.batch.count(machine(), self.reading);
            self.batch.told()
        }
    }

    #[test]
    fn what_is_left_is_counted_in_cores() {
        let of = |critical, other| {
            let lanes = Lanes {
                all: 4.0,
                critical,
                other,
            };
            machine().lendable(lanes).round()
        };
        assert_eq!(of(0.0, 0.0), 2520.0); // 4 × 0.63
        assert_eq!(of(1.0, 0.0), 1260.0); // a core is closed
        assert_eq!(of(0.5, 0.0), 1890.0); // for half of the time
        assert_eq!(of(0.0, 1.0), 1890.0); // 3 × 0.63
        assert_eq!(of(0.5, 1.5), 945.0); // 1.5 × 0.63
        assert_eq!(of(2.0, 0.0), 0.0);
        assert_eq!(of(1.0, 2.5), 0.0);
    }

    #[test]
    fn how_fast_lanes_are_has_to_be_known() {
        assert!(Machine::new(2, None).is_none() && Machine::new(2, Some(1.5)).is_none());
        // with SMT off it is
        assert_eq!(Machine::new(1, None).unwrap().most(4.0), 4000.0);
    }

    #[test]
    fn of_the_last_intervals_a_low_one_is_told() {
        let mut bed = Bed::new();
        assert_eq!(bed.batch.told(), None, "one reading is no interval");
        assert_eq!(bed.runs(0.0, 0.0, 3.0), Some(2520), "used by batch or not");
        for _ in 0..19 {
            assert_eq!(bed.runs(0.0, 0.0, 0.0), Some(2520));
        }
        // one low interval of 20 is below the quantile, two are not
        assert_eq!(bed.runs(1.0, 0.0, 0.0), Some(2520));
        assert_eq!(bed.runs(1.0, 0.0, 0.0), Some(1260));
        for _ in 0..18 {
            assert_eq!(bed.runs(0.0, 0.0, 0.0), Some(1260));
        }
        // the first of the two has left the window
        assert_eq!(bed.runs(0.0, 0.0, 0.0), Some(2520));
    }

    #[test]
    fn small_changes_are_not_told() {
        let mut bed = Bed::new();
        assert_eq!(bed.runs(0.0, 1.0, 0.0), Some(1890));
        // a twentieth of 2520 is 126: 0.2 lanes
        assert_eq!(bed.runs(0.0, 1.19, 0.0), Some(1890));
        assert_eq!(bed.runs(0.0, 1.21, 0.0), Some(1758));
    }

    #[test]
    fn an_interval_that_does_not_fit_is_left_out() {
        let mut bed = Bed::new();
        bed.reading.critical_s = 0.0; // attached anew
        assert_eq!(bed.runs(0.0, 0.0, 0.0), None);
        bed.reading.lanes = 2;
        assert_eq!(bed.runs(0.0, 0.0, 0.0), None);
        assert_eq!(bed.runs(0.0, 0.0, 0.0), Some(1260));
        bed.batch.withdraw();
        assert_eq!(bed.batch.told(), None);
        assert_eq!(bed.runs(0.0, 0.0, 0.0), None);
        assert_eq!(bed.runs(0.0, 0.0, 0.0), Some(1260));
    }

    #[test]
    fn the_kernel_says_how_busy_lanes_were() {
        let text = "cpu  100 20 30 4000 500 6 7 8 90 10\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu3 1 2 3 4 5 6 7 8 9 10\nintr 5\n";
        assert_eq!(busy(text), Some((2, 1.71)));
        assert_eq!(busy("cpu  1 2 3\n"), None);
    }

    #[test]
    fn whole_numbers_are_read_as_the_api_server_writes_them() {
        let of = ["1500", "2k", "0", "3M", "1500m", "", "k", "2Ki"].map(whole);
        let expected = [
            Some(1500),
            Some(2000),
            Some(0),
            Some(3_000_000),
            None,
            None,
            None,
            None,
        ];
        assert_eq!(of, expected);
    }

    proptest! {
        /// Whatever was counted, not less than nothing and not more than all lanes can do is told.
        #[test]
        fn it_stays_within_the_machine(
            lanes_per_core in 1..9u64,
            speed in 0.01..1.0f64,
            steps in prop::collection::vec((1..100u64, 1..512usize, -9.0..5e4f64, -9.0..5e4f64, -9.0..5e4f64), 1..60),
        ) {
            let machine = Machine::new(lanes_per_core, Some(speed)).unwrap();
            let mut reading = Bed::new().reading;
            let (mut batch, mut lanes_max) = (BatchCpu::new(SETTINGS), 0);
            for (passed_s, lanes, busy_s, critical_s, batch_s) in steps {
                reading.at += Duration::from_secs(passed_s);
                reading.lanes = if passed_s % 7 == 0 { lanes } else { reading.lanes };
                reading.busy_s += busy_s;
                reading.critical_s += critical_s;
                reading.batch_s += batch_s;
                batch.count(machine, reading);
                lanes_max = lanes_max.max(reading.lanes);
                if let Some(told) = batch.told() {
                    prop_assert!(told as f64 <= machine.most(lanes_max as f64).round());
                }
            }
        }
    }

    /// What is known after a look at a second of the test, with these lanes online; and whether it was asked for.
    fn look(
        lanes: &mut LanesPerCore,
        begin: Instant,
        (second, online): (u64, &str),
        answer: Result<u64, &str>,
    ) -> (Option<u64>, bool) {
        let now = begin + Duration::from_secs(second);
        let ask = || answer.map_err(str::to_owned);
        let asked = lanes.look(Some(online.to_owned()), now, Duration::from_secs(20), ask);
        (lanes.known(), asked.is_some())
    }

    #[test]
    fn it_is_asked_for_when_lanes_come_or_go() {
        let (begin, mut lanes) = (Instant::now(), LanesPerCore::default());
        let mut look = |at, answer| look(&mut lanes, begin, at, answer);
        assert_eq!(look((0, "0-7"), Ok(1)), (Some(1), true));
        assert_eq!(look((100, "0-7"), Ok(2)), (Some(1), false));
        assert_eq!(look((101, "0-15"), Ok(2)), (Some(2), true));
        let failed = look((102, "0-7"), Err("no answer"));
        assert_eq!(failed, (None, true), "2 was of other lanes");
    }

    #[test]
    fn while_it_is_not_known_it_is_asked_for_now_and_then() {
        let (begin, mut lanes) = (Instant::now(), LanesPerCore::default());
        let mut look = |at, answer| look(&mut lanes, begin, at, answer);
        assert_eq!(look((0, "0-7"), Err("no answer")), (None, true));
        assert_eq!(look((2, "0-7"), Ok(2)), (None, false));
        assert_eq!(look((20, "0-7"), Ok(2)), (Some(2), true));
    }
}
