//! What SMT costs one service now: from its waits, from how long it ran alone on a core and beside others, and
//! from how fast lanes were then.
//!
//! What rests on speeds that nobody measured is unknown, and is said to be.

use crate::advise::Confidence;
use crate::histogram::LogHistogram;
use crate::latency::Quantile;
use crate::report::{shortened, wrapped};
use crate::snapshot::{RateSource, Rates};
use crate::thread_perf;
use serde::Serialize;
use sidelane_topology::printable;
use std::fmt::Write;

/// What a watch of a service counted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// How long it was watched.
    pub elapsed_ns: u64,
    /// Cores of the machine.
    pub cores: usize,
    /// The most lanes of a core that are online.
    pub lanes_per_core: usize,
    /// The service.
    pub service: Group,
    /// Other work that was counted.
    pub batch: Group,
    /// Beside what the service ran, the most first. With `unlisted_ns` the times add up to its run time
    /// beside others.
    pub beside: Vec<Beside>,
    /// Beside those for which there was no room.
    pub unlisted_ns: u64,
    /// What limits the figures; each a sentence.
    pub notes: Vec<String>,
}

/// What the tasks of some cgroups did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    /// Time on lanes while exactly n lanes of the core were busy, its own included, `[n - 1]`.
    pub by_density_ns: Vec<u64>,
    /// Times they began to run.
    pub runs: u64,
    /// Time they could have run and did not.
    pub waiting_ns: u64,
    /// How long each wait was, ns.
    pub waits: LogHistogram,
    /// Instructions, where the machine counts them.
    pub works: Option<Works>,
}

/// Instructions of runs that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Works {
    /// Of all.
    pub all: Work,
    /// Of those in which no other lane of the core was busy.
    pub alone: Work,
    /// Of those in which another always was.
    pub beside: Work,
}

/// Instructions, and in what time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Work {
    /// On lanes.
    pub ns: u64,
    /// Executed.
    pub instructions: u64,
}

/// What ran on another lane of the core.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// Its cgroup's path, if it is known.
    pub cgroup: Option<String>,
    /// Name of its threads.
    pub name: String,
    /// For how long.
    pub ns: u64,
}

impl Group {
    /// Time on lanes.
    pub fn run_ns(&self) -> u64 {
        self.by_density_ns.iter().sum()
    }

    /// Share of that beside others; none if nothing ran.
    pub fn beside_share(&self) -> Option<f64> {
        let run_ns = self.run_ns();
        let alone_ns = self.by_density_ns.first().copied().unwrap_or(0);
        (run_ns > 0).then(|| (run_ns - alone_ns) as f64 / run_ns as f64)
    }
}

impl Work {
    /// Instructions a second; none if too little ran to tell.
    fn rate(&self) -> Option<f64> {
        (self.ns >= LEAST_NS).then(|| self.instructions as f64 / self.ns as f64)
    }
}

/// Below this time of a kind nothing is said about it.
const LEAST_NS: u64 = 50_000_000;
/// Shares and costs below this are as good as none.
const NONE_BELOW: f64 = 0.02;
/// So many of what ran beside are named.
const NAMED: usize = 8;

/// The answer for one service. Shares are of 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The service, as it was named.
    pub service: String,
    /// Cores of the machine, and the most lanes of one that are online.
    #[serde(skip)]
    machine: (usize, usize),
    /// How long it was watched.
    pub seconds: f64,
    /// Lanes that it used on the mean.
    pub lanes: f64,
    /// Share of its run time by lanes of the core that were busy, its own included, from 1.
    pub by_density: Vec<f64>,
    /// Waits for a lane.
    pub waits: Waits,
    /// How fast it is beside others.
    pub speed: Speed,
    /// Beside what it ran, the most first; eight at most.
    pub beside: Vec<BesideShare>,
    /// Of its run time, the share beside tasks for whose names there was no room.
    pub unlisted_share: f64,
    /// What follows.
    pub verdict: Verdict,
    /// What limits the figures; each a sentence.
    pub notes: Vec<String>,
}

/// Waits for a lane.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Median, ms; none without any.
    pub p50_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
    /// Share of the time in which it ran or wanted to.
    pub share: f64,
}

impl Waits {
    /// Of a group.
    pub fn of(group: &Group) -> Waits {
        let ms = |q| group.waits.quantile(q).map(|ns| ns as f64 / 1e6);
        let wanted_ns = group.run_ns() + group.waiting_ns;
        Waits {
            count: group.waits.count(),
            p50_ms: ms(Quantile::P50),
            p99_ms: ms(Quantile::P99),
            share: group.waiting_ns as f64 / wanted_ns.max(1) as f64,
        }
    }
}

/// How fast a service is beside others.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// Where that is from.
    pub source: RateSource,
    /// Beside others, relative to alone on its core; none if nobody measured it.
    pub beside: Option<f64>,
    /// Share of its speed that it loses now, over all of its run time; none if nobody measured it.
    pub cost: Option<f64>,
}

/// Why there is no answer: nothing shares a core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NoSmt {
    /// The service, as it was named.
    pub service: String,
    /// Why: a sentence without its stop.
    pub no_smt: String,
}

impl NoSmt {
    /// For a service.
    pub fn new(service: &str, why: String) -> NoSmt {
        NoSmt {
            service: service.to_owned(),
            no_smt: why,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        wrapped(&format!(
            "No SMT: {}. So SMT costs no service anything here, and there is nothing to try; {} was not looked up.",
            self.no_smt,
            printable(self.service.as_bytes())
        ))
    }
}

/// What ran beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BesideShare {
    /// Its cgroup's path, if it is known.
    pub cgroup: Option<String>,
    /// Name of its threads.
    pub name: String,
    /// Of the service's run time.
    pub share: f64,
}

impl BesideShare {
    fn words(&self) -> String {
        let cgroup = self.cgroup.as_deref().unwrap_or("(a cgroup that is gone)");
        format!(
            "{} {}",
            printable(cgroup.as_bytes()),
            printable(self.name.as_bytes())
        )
    }
}

/// What follows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// In one word.
    pub cost: Cost,
    /// In words: what was found, and what to do.
    pub sentences: Vec<String>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is not surer; each a sentence.
    pub doubts: Vec<String>,
}

/// What SMT costs a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cost {
    /// Nothing worth mention.
    None,
    /// Speed.
    Speed,
    /// Nobody knows: it shares its core, and how fast it is then was not measured; or it hardly ran.
    Unknown,
}

/// What SMT costs the service called `name`, by what was seen and by these speeds of lanes, which instructions
/// counted meanwhile replace.
pub fn answer(name: &str, seen: &Seen, rates: &Rates) -> Answer {
    let run_ns = seen.service.run_ns().max(1) as f64;
    let by_density = seen.service.by_density_ns.iter();
    let by_density: Vec<f64> = by_density.map(|ns| *ns as f64 / run_ns).collect();
    let beside = seen.beside.iter().take(NAMED);
    let beside: Vec<BesideShare> = beside
        .map(|one| BesideShare {
            cgroup: one.cgroup.clone(),
            name: one.name.clone(),
            share: one.ns as f64 / run_ns,
        })
        .collect();
    let speed = speed(seen, rates, &by_density);
    Answer {
        service: name.to_owned(),
        machine: (seen.cores, seen.lanes_per_core),
        seconds: seen.elapsed_ns as f64 / 1e9,
        lanes: seen.service.run_ns() as f64 / seen.elapsed_ns.max(1) as f64,
        waits: Waits::of(&seen.service),
        verdict: verdict(name, seen, &speed, &beside),
        by_density,
        speed,
        beside,
        unlisted_share: seen.unlisted_ns as f64 / run_ns,
        notes: seen.notes.clone(),
    }
}

/// By instructions where both kinds of runs were seen, else by threadPerf unless it is assumed.
fn speed(seen: &Seen, rates: &Rates, by_density: &[f64]) -> Speed {
    let share = seen.service.beside_share().unwrap_or(0.0);
    let counted = seen.service.works.and_then(|works| {
        let beside = works.beside.rate()? / works.alone.rate().filter(|rate| *rate > 0.0)?;
        Some((RateSource::Counters, beside, share * (1.0 - beside)))
    });
    let by_rates = || {
        let known = rates.source != RateSource::Assumed;
        let first = rates.thread_perf.first().copied().filter(|_| known)?;
        let speeds = thread_perf::extended(rates.thread_perf.clone(), by_density.len());
        let speeds = speeds.iter().map(|speed| speed / first);
        let whole: f64 = by_density.iter().zip(speeds).map(|(a, b)| a * b).sum();
        let beside = (whole - (1.0 - share)) / share.max(f64::MIN_POSITIVE);
        let beside = if share > 0.0 { beside } else { 1.0 };
        Some((rates.source, beside, 1.0 - whole))
    };
    match counted.or_else(by_rates) {
        Some((source, beside, cost)) => Speed {
            source,
            beside: Some(beside),
            cost: Some(cost),
        },
        None => Speed {
            source: RateSource::Assumed,
            beside: None,
            cost: None,
        },
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn verdict(name: &str, seen: &Seen, speed: &Speed, beside: &[BesideShare]) -> Verdict {
    let told = |cost, sentences: &[String], confidence, doubts: &[String]| Verdict {
        cost,
        sentences: sentences.to_vec(),
        confidence,
        doubts: doubts.to_vec(),
    };
    let share = seen.service.beside_share().unwrap_or(0.0);
    if seen.service.run_ns() < LEAST_NS {
        let why = "Unknown: it hardly ran. Watch for longer, while it does its usual work.";
        return told(Cost::Unknown, &[why.to_owned()], Confidence::None, &[]);
    }
    if share < NONE_BELOW {
        let found = format!(
            "SMT costs it nothing now: it was alone on its core for {} of its run time.",
            percent(1.0 - share)
        );
        return told(Cost::None, &[found], Confidence::High, &[]);
    }
    let most = beside.first().filter(|one| one.share > share / 2.0);
    let most = most.map_or(String::new(), |one| {
        format!(", most of it beside {}", one.words())
    });
    let next = format!(
        "What would help is measured by 'sidelane trial {} --batch RULE'.",
        printable(name.as_bytes())
    );
    let (confidence, doubts) = doubts(speed.source);
    match speed.cost {
        None => {
            let found = format!(
                "Unknown: it shared its core for {} of its run time{most}; how much slower it is then \
                 nobody has measured.",
                percent(share)
            );
            told(Cost::Unknown, &[found, next], confidence, &doubts)
        }
        Some(cost) if cost < NONE_BELOW => {
            let found = format!(
                "SMT costs it nothing worth mention: it shared its core for {} of its run time{most}, and \
                 lost {} of its speed.",
                percent(share),
                percent(cost.max(0.0))
            );
            told(Cost::None, &[found], confidence, &doubts)
        }
        Some(cost) => {
            let found = format!(
                "SMT costs it {} of its speed now: it shared its core for {} of its run time{most}.",
                percent(cost),
                percent(share)
            );
            told(Cost::Speed, &[found, next], confidence, &doubts)
        }
    }
}

/// How sure a cost is that rests on speeds from there.
fn doubts(source: RateSource) -> (Confidence, Vec<String>) {
    let (confidence, why) = match source {
        RateSource::Counters => (
            Confidence::Medium,
            "instructions tell work only while its kind stays the same",
        ),
        RateSource::Calibrated => (
            Confidence::Medium,
            "the calibration ran other programs than this service",
        ),
        RateSource::Given => (
            Confidence::Low,
            "the speeds of lanes were given, not measured",
        ),
        RateSource::Assumed => (
            Confidence::None,
            "no instructions are counted here, and no --calibration was given ('sidelane calibrate' makes one)",
        ),
    };
    (confidence, vec![why.to_owned()])
}

impl Answer {
    /// For people, at most 100 columns.
    pub fn text(&self) -> String {
        let (cores, lanes) = self.machine;
        let mut text = wrapped(&format!(
            "{}, {:.1} s: {:.2} lanes of {cores} cores with {lanes} each",
            printable(self.service.as_bytes()),
            self.seconds,
            self.lanes,
        ));
        text.push('\n');
        for (what, value) in self.rows() {
            // a string takes whatever is written to it
            let _ = writeln!(text, "  {what:<18}  {value}");
        }
        let named = self.beside.iter().map(|one| (one.words(), one.share));
        let unlisted = (self.unlisted_share > 0.0)
            .then(|| ("(no room for their names)".to_owned(), self.unlisted_share));
        let beside: Vec<(String, f64)> = named.chain(unlisted).collect();
        if !beside.is_empty() {
            let _ = writeln!(text, "\n  {:<68}  {:>20}", "BESIDE", "OF ITS RUN TIME");
        }
        for (name, share) in beside {
            let name = shortened(&name, 68);
            let _ = writeln!(text, "  {name:<68}  {:>20}", percent(share));
        }
        text.push('\n');
        for sentence in &self.verdict.sentences {
            text += &wrapped(sentence);
        }
        text += &self.verdict.confidence.line(&self.verdict.doubts);
        for note in &self.notes {
            text += &wrapped(&format!("note: {}", printable(note.as_bytes())));
        }
        text
    }

    fn rows(&self) -> Vec<(String, String)> {
        let mut rows = vec![("wait for a lane".to_owned(), self.waits.words())];
        for (share, lanes) in self.by_density.iter().zip(1..) {
            let what = match lanes {
                1 => "alone on its core".to_owned(),
                2 => "beside 1 lane".to_owned(),
                lanes => format!("beside {} lanes", lanes - 1),
            };
            rows.push((what, format!("{} of its run time", percent(*share))));
        }
        let source = match self.speed.source {
            RateSource::Counters => "by instructions a second, counted meanwhile",
            RateSource::Calibrated => "by a calibration of this machine",
            RateSource::Given => "as given",
            RateSource::Assumed => "",
        };
        let speed = self.speed.beside.map_or("unknown".to_owned(), |beside| {
            format!("{} of that alone, {source}", percent(beside))
        });
        rows.push(("speed beside".to_owned(), speed));
        rows
    }
}

impl Waits {
    /// In words.
    fn words(&self) -> String {
        match (self.p50_ms, self.p99_ms) {
            (Some(p50), Some(p99)) => format!(
                "p50 {p50:.3} ms, p99 {p99:.3} ms of {}; {} of the time that it ran or wanted to",
                self.count,
                percent(self.share)
            ),
            _ => "none".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(alone_ms: u64, beside_ms: u64) -> Seen {
        Seen {
            elapsed_ns: 10_000_000_000,
            cores: 4,
            lanes_per_core: 2,
            service: Group {
                by_density_ns: vec![alone_ms * 1_000_000, beside_ms * 1_000_000],
                waits: LogHistogram::of([10_000, 10_000, 2_000_000]),
                waiting_ns: 2_020_000,
                ..Group::default()
            },
            beside: vec![Beside {
                cgroup: Some("/batch".into()),
                name: "xz".into(),
                ns: beside_ms * 1_000_000,
            }],
            ..Seen::default()
        }
    }

    fn rates(source: RateSource) -> Rates {
        Rates {
            source,
            thread_perf: vec![1.0, 0.6],
        }
    }

    #[test]
    fn assumed_speeds_leave_the_cost_unknown() {
        let seen = seen(600, 400);
        let answer = answer("web.service", &seen, &rates(RateSource::Assumed));
        assert_eq!((answer.speed.beside, answer.speed.cost), (None, None));
        assert_eq!(answer.verdict.cost, Cost::Unknown);
        assert_eq!(answer.verdict.confidence, Confidence::None);
        let text = answer.text();
        assert!(
            text.contains("Unknown: it shared its core for 40 %"),
            "{text}"
        );
        assert!(
            text.contains("/batch xz") && text.contains("Confidence: none"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_calibration_tells_the_cost() {
        let answer = answer(
            "web.service",
            &seen(600, 400),
            &rates(RateSource::Calibrated),
        );
        let cost = answer.speed.cost.unwrap();
        assert!((cost - 0.16).abs() < 1e-9, "{cost}");
        assert!((answer.speed.beside.unwrap() - 0.6).abs() < 1e-9);
        assert_eq!(answer.verdict.cost, Cost::Speed);
        assert!(answer.verdict.confidence < Confidence::High);
        assert!(answer.verdict.sentences[0].contains("16 %"), "{answer:?}");
    }

    #[test]
    fn counted_instructions_come_before_a_calibration() {
        let mut seen = seen(600, 400);
        let work = |ms: u64, instructions| Work {
            ns: ms * 1_000_000,
            instructions,
        };
        let mut works = Works {
            all: work(1000, 900_000),
            alone: work(500, 500_000),
            beside: work(300, 240_000),
        };
        seen.service.works = Some(works);
        let speed = answer("a", &seen, &rates(RateSource::Calibrated)).speed;
        assert_eq!(speed.source, RateSource::Counters);
        assert!((speed.beside.unwrap() - 0.8).abs() < 1e-9);
        assert!((speed.cost.unwrap() - 0.08).abs() < 1e-9);
        works.alone = work(1, 1000); // hardly seen
        seen.service.works = Some(works);
        let speed = answer("a", &seen, &rates(RateSource::Calibrated)).speed;
        assert_eq!(speed.source, RateSource::Calibrated);
    }

    #[test]
    fn alone_on_its_core_it_loses_nothing_whatever_the_speeds() {
        let answer = answer("a", &seen(1000, 5), &rates(RateSource::Assumed));
        assert_eq!(
            (answer.verdict.cost, answer.verdict.confidence),
            (Cost::None, Confidence::High)
        );
    }

    #[test]
    fn what_there_was_no_room_for_is_told_and_nobody_else_is_called_the_most() {
        let mut seen = seen(600, 400);
        seen.beside[0].ns = 100_000_000;
        seen.unlisted_ns = 300_000_000;
        let answer = answer("web.service", &seen, &rates(RateSource::Calibrated));
        assert!((answer.unlisted_share - 0.3).abs() < 1e-9, "{answer:?}");
        let text = answer.text();
        let row = text.lines().find(|line| line.contains("no room")).unwrap();
        assert!(
            row.ends_with("30 %") && !text.contains("most of it"),
            "{text}"
        );
    }

    #[test]
    fn what_hardly_ran_tells_nothing() {
        let answer = answer("a", &seen(10, 5), &rates(RateSource::Calibrated));
        assert_eq!(answer.verdict.cost, Cost::Unknown);
        assert!(answer.verdict.sentences[0].contains("hardly ran"));
    }
}
