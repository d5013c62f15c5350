//! What a trial says: medians with bootstrap intervals, ratios to the default, and a recommendation only where
//! intervals are apart.

use super::{Plan, Setup, Slot};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;
use sidelane_smt::advise::Confidence;
use sidelane_smt::latency::Spread;
use sidelane_smt::report::{digits, wrapped};
use sidelane_topology::printable;
use std::fmt::Write;

/// With fewer rounds nothing is recommended: the interval of a median would have to be wider than what was seen.
const ROUNDS_LEAST: usize = 5;
/// From so many on a recommendation may be sure.
const ROUNDS_SURE: usize = 10;
/// Draws of the bootstrap, and what they begin with: the same values have the same interval.
const DRAWS: usize = 2000;
const SEED: u64 = 0x51de_1a9e;
/// Of the interval.
const CONFIDENCE: f64 = 0.95;

/// What a trial found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The service, as it was named.
    pub service: String,
    /// What was batch.
    pub batch: Vec<String>,
    /// Length of a slot.
    pub slot_seconds: f64,
    /// Rounds in which each setup was measured.
    pub rounds: usize,
    /// What took turns.
    #[serde(skip)]
    setups: Vec<Setup>,
    /// What was compared.
    pub figures: Vec<Figure>,
    /// What follows.
    pub recommendation: Recommendation,
    /// All slots, in their order.
    pub slots: Vec<Slot>,
}

/// A figure under each setup.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name, as in [`Slot`].
    pub name: &'static str,
    /// In words.
    #[serde(skip)]
    title: &'static str,
    /// Under each setup in which it is known.
    pub setups: Vec<SetupFigures>,
}

/// A figure under one setup.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SetupFigures {
    /// Which.
    pub setup: Setup,
    /// Over its slots.
    pub value: Estimate,
    /// Over the rounds: the value divided by the default's in the same round. None for the default itself.
    pub to_default: Option<Estimate>,
}

/// A median over slots.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Its interval of 95 %, by the bootstrap; none of fewer than three values.
    pub interval: Option<[f64; 2]>,
}

/// What follows from a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recommendation {
    /// The setup to take; none: nothing can be said.
    pub setup: Option<Setup>,
    /// In words.
    pub sentences: Vec<String>,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is not surer.
    pub doubts: Vec<String>,
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    Spread::of(values).map(|spread| spread.median)
}

impl Estimate {
    fn of(values: &[f64]) -> Option<Estimate> {
        let middle = median(values)?;
        let interval = (values.len() >= 3).then(|| {
            let mut random = Pcg64Mcg::seed_from_u64(SEED);
            let mut draw = || {
                let again = (0..values.len()).map(|_| values[random.random_range(0..values.len())]);
                median(&again.collect::<Vec<f64>>()).unwrap_or(middle)
            };
            let mut medians: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
            medians.sort_by(f64::total_cmp);
            let beyond = (DRAWS as f64 * (1.0 - CONFIDENCE) / 2.0) as usize;
            [medians[beyond], medians[DRAWS - 1 - beyond]]
        });
        let median = middle;
        Some(Estimate { median, interval })
    }

    fn words(&self) -> String {
        let [low, high] = self.interval.map_or([None; 2], |ends| ends.map(Some));
        match low.zip(high) {
            Some((low, high)) => {
                format!("{} ({}–{})", digits(self.median), digits(low), digits(high))
            }
            None => digits(self.median),
        }
    }

    fn below(&self, limit: f64) -> bool {
        self.interval.is_some_and(|[_, high]| high < limit)
    }

    fn above(&self, limit: f64) -> bool {
        self.interval.is_some_and(|[low, _]| low > limit)
    }
}

type Value = fn(&Slot) -> Option<f64>;

/// What is shown: the name, the title, the value.
const FIGURES: [(&str, &str, Value); 9] = [
    ("latency_p50_ms", "latency p50, ms", |s| s.latency_p50_ms),
    ("latency_p99_ms", "latency p99, ms", |s| s.latency_p99_ms),
    ("wait_p50_ms", "wait p50, ms", |s| s.wait_p50_ms),
    ("wait_p99_ms", "wait p99, ms", |s| s.wait_p99_ms),
    ("beside_share", "run time beside others", |s| s.beside_share),
    ("service_lanes", "service, lanes", |s| Some(s.service_lanes)),
    ("service_speed", "service, instr./ns", |s| s.service_speed),
    ("batch_lanes", "batch, lanes", |s| Some(s.batch_lanes)),
    ("batch_work", "batch, 10⁹ instr./s", |s| s.batch_work),
];

/// How many rounds have a slot of each setup.
fn whole_rounds(setups: &[Setup], slots: &[Slot]) -> usize {
    let of = |setup: &Setup| slots.iter().filter(|slot| slot.setup == *setup).count();
    setups.iter().map(of).min().unwrap_or(0)
}

fn figure(slots: &[Slot], name: &'static str, title: &'static str, value: Value) -> Figure {
    let of = |setup: Setup| {
        let slots = slots.iter().filter(move |slot| slot.setup == setup);
        slots.filter_map(move |slot| Some((slot.round, value(slot)?)))
    };
    let setups = Setup::ALL.into_iter().filter_map(|setup| {
        let values: Vec<f64> = of(setup).map(|(_, value)| value).collect();
        let ratio = |(round, value): (usize, f64)| {
            let mut defaults = of(Setup::Default);
            let (_, default) = defaults.find(|(at, _)| *at == round)?;
            Some(value / default).filter(|ratio| ratio.is_finite())
        };
        let ratios: Vec<f64> = of(setup).filter_map(ratio).collect();
        Some(SetupFigures {
            setup,
            value: Estimate::of(&values)?,
            to_default: Estimate::of(&ratios).filter(|_| setup != Setup::Default),
        })
    });
    let setups = setups.collect();
    Figure {
        name,
        title,
        setups,
    }
}

impl Figure {
    fn under(&self, setup: Setup) -> Option<&SetupFigures> {
        self.setups.iter().find(|one| one.setup == setup)
    }

    fn ratio(&self, setup: Setup) -> Option<Estimate> {
        self.under(setup)?.to_default
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, slots: &[Slot]) -> Report {
        let figures = FIGURES
            .into_iter()
            .map(|(name, title, value)| figure(slots, name, title, value));
        let figures: Vec<Figure> = figures.filter(|one| !one.setups.is_empty()).collect();
        let batch: Vec<String> = plan.batch.iter().map(ToString::to_string).collect();
        let rounds = whole_rounds(&plan.setups, slots);
        Report {
            service: plan.service.name.clone(),
            recommendation: recommendation(plan, &figures, rounds),
            batch,
            slot_seconds: plan.slot.as_secs_f64(),
            rounds,
            figures,
            setups: plan.setups.clone(),
            slots: slots.to_vec(),
        }
    }

    fn figure(&self, name: &str) -> Option<&Figure> {
        named(&self.figures, name)
    }

    /// For people, at most 100 columns.
    pub fn text(&self) -> String {
        let mut text = wrapped(&format!(
            "{} beside {}: {} rounds, slots of {} s; medians and their intervals of 95 %",
            printable(self.service.as_bytes()),
            printable(self.batch.join(", ").as_bytes()),
            self.rounds,
            self.slot_seconds
        ));
        let mut row = |what: &str, cell: &dyn Fn(Setup) -> Option<String>| {
            let cells = self.setups.iter().map(|setup| {
                let cell = cell(*setup).unwrap_or_else(|| "-".to_owned());
                format!("{cell:>25}")
            });
            // a string takes whatever is written to it
            let _ = writeln!(text, "  {what:<22}{}", cells.collect::<String>());
        };
        row("", &|setup| Some(setup.name().to_uppercase()));
        for figure in &self.figures {
            let value = |setup| figure.under(setup).map(|one| one.value.words());
            row(figure.title, &value);
        }
        for name in ["latency_p99_ms", "wait_p99_ms", "batch_lanes", "batch_work"] {
            let Some(figure) = self.figure(name) else {
                continue;
            };
            let ratio = |setup: Setup| match setup {
                Setup::Default => Some("1".to_owned()),
                _ => figure.ratio(setup).map(|one| one.words()),
            };
            let title = figure.title.split(',').next().unwrap_or_default();
            let title = match name {
                "batch_lanes" => "batch time",
                "batch_work" => "batch work",
                _ => title,
            };
            row(&format!("{title} ÷ default"), &ratio);
        }
        text.push('\n');
        for sentence in &self.recommendation.sentences {
            text += &wrapped(sentence);
        }
        text + &(self.recommendation.confidence).line(&self.recommendation.doubts)
    }
}

fn named<'a>(figures: &'a [Figure], name: &str) -> Option<&'a Figure> {
    figures.iter().find(|figure| figure.name == name)
}

fn recommendation(plan: &Plan, figures: &[Figure], rounds: usize) -> Recommendation {
    let latency = named(figures, "latency_p99_ms");
    let (tail, what) = match latency {
        Some(latency) => (Some(latency), "latencies"),
        None => (named(figures, "wait_p99_ms"), "waits for a lane"),
    };
    let told = |setup, sentences: Vec<String>, confidence, doubts: Vec<String>| Recommendation {
        setup,
        sentences,
        confidence,
        doubts,
    };
    let Some(tail) = tail.filter(|_| rounds >= ROUNDS_LEAST) else {
        let found = format!(
            "Unknown: {rounds} rounds were measured, and with fewer than {ROUNDS_LEAST} chance could have made what \
             differs. Try for longer (--minutes), or with shorter slots (--slot)."
        );
        return told(None, vec![found], Confidence::None, Vec::new());
    };
    let batch = named(figures, "batch_work").or(named(figures, "batch_lanes"));
    let counted = named(figures, "batch_work").is_some();
    let mut doubts = Vec::new();
    if latency.is_none() {
        let why =
            "waits do not tell how fast the service is beside others; --latency-command would";
        doubts.push(why.to_owned());
    }
    if !counted && !plan.batch.is_empty() {
        let why =
            "no instructions are counted here, and beside others batch gets less done in its time";
        doubts.push(why.to_owned());
    }
    let confidence = match (latency, rounds >= ROUNDS_SURE) {
        (None, _) => Confidence::Low,
        (Some(_), true) => Confidence::High,
        (Some(_), false) => Confidence::Medium,
    };
    let others = [Setup::Sidelane, Setup::SmtOff];
    let better = |setup: &Setup| tail.ratio(*setup).is_some_and(|ratio| ratio.below(1.0));
    let better: Vec<Setup> = others.into_iter().filter(better).collect();
    let words = |setup: Setup| compared(setup, tail, what, batch, counted);
    let sentences: Vec<String> = others.into_iter().filter_map(words).collect();
    let Some(best) = best(&better, tail, batch) else {
        let found = "Keep the kernel's default: nothing else that was tried is better for the service beyond chance.";
        let sentences = [vec![found.to_owned()], sentences].concat();
        return told(Some(Setup::Default), sentences, confidence, doubts);
    };
    let found = format!("Take {}: {}", best.name(), advice(best, plan));
    told(
        Some(best),
        [vec![found], sentences].concat(),
        confidence,
        doubts,
    )
}

/// Of those that are better for the service: the one whose tail is shorter beyond chance, else the one that leaves
/// batch more, else the first.
fn best(better: &[Setup], tail: &Figure, batch: Option<&Figure>) -> Option<Setup> {
    let &[one, other] = better else {
        return better.first().copied();
    };
    let apart = |figure: &Figure, less: Setup, more: Setup| {
        let less = figure.ratio(less)?.interval?;
        let more = figure.ratio(more)?.interval?;
        Some(less[1] < more[0])
    };
    let holds = |found: Option<bool>| found == Some(true);
    if holds(apart(tail, one, other)) {
        return Some(one);
    }
    if holds(apart(tail, other, one)) || holds(batch.and_then(|b| apart(b, one, other))) {
        return Some(other);
    }
    Some(one)
}

/// `Sidelane: the 99th percentile of waits is 0.51 (0.48–0.55) times the default's, batch's time 0.92 (0.90–0.95).`
fn compared(
    setup: Setup,
    tail: &Figure,
    what: &str,
    batch: Option<&Figure>,
    counted: bool,
) -> Option<String> {
    let ratio = tail.ratio(setup)?;
    let judged = match ratio {
        _ if ratio.below(1.0) => "better",
        _ if ratio.above(1.0) => "worse",
        _ => "no difference beyond chance",
    };
    let mut text = format!(
        "{}: the 99th percentile of {what} is {} times the default's ({judged})",
        capital(setup.name()),
        ratio.words()
    );
    if let Some(batch) = batch.and_then(|batch| batch.ratio(setup)) {
        let measure = if counted { "work" } else { "time on lanes" };
        text += &format!(", batch's {measure} {}", batch.words());
    }
    Some(text + ".")
}

fn advice(setup: Setup, plan: &Plan) -> String {
    let rule = printable(plan.service.rule.to_string().as_bytes());
    match setup {
        Setup::Default => "nothing is to be done.".to_owned(),
        Setup::SmtOff => {
            "'sidelane control' switches to it by load; it has fewer lanes for all else.".to_owned()
        }
        Setup::Sidelane => {
            let batch = plan.batch.iter().map(|rule| format!(" --batch {rule}"));
            let batch = printable(batch.collect::<String>().as_bytes());
            format!("'sidelane run --critical {rule}{batch}' keeps it.")
        }
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + chars.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Service;
    use std::path::PathBuf;
    use std::time::Duration;

    fn plan() -> Plan {
        Plan {
            service: Service::parse("redis.service").unwrap(),
            batch: vec!["cgroup:/batch.slice".parse().unwrap()],
            slot: Duration::from_secs(20),
            length: Duration::from_secs(600),
            setups: Setup::ALL.to_vec(),
            guard: None,
            latency_command: None,
            thread_perf: None,
            state: PathBuf::new(),
        }
    }

    /// Slots with these tails and lanes of batch by setup, a little different from round to round.
    fn slots(rounds: usize, by_setup: [(f64, f64); 3]) -> Vec<Slot> {
        let rounds = (0..rounds).flat_map(|round| {
            Setup::ALL
                .into_iter()
                .zip(by_setup)
                .map(move |(setup, (tail, batch))| {
                    let noise = 1.0 + 0.02 * ((round * 7 + setup as usize) % 5) as f64;
                    Slot {
                        setup,
                        round,
                        waits: 1000,
                        wait_p99_ms: Some(tail * noise),
                        latency_p99_ms: Some(2.0 * tail * noise),
                        batch_lanes: batch * noise,
                        ..Slot::default()
                    }
                })
        });
        rounds.collect()
    }

    #[test]
    fn the_interval_of_a_median_holds_it_and_not_the_outlier() {
        let mut values: Vec<f64> = (0..20).map(|i| 10.0 + f64::from(i) * 0.01).collect();
        values.push(99.0);
        let estimate = Estimate::of(&values).unwrap();
        let [low, high] = estimate.interval.unwrap();
        assert!(low < estimate.median && estimate.median < high && high < 10.2);
        assert_eq!(Estimate::of(&values), Some(estimate));
        assert_eq!(Estimate::of(&[1.0, 2.0]).unwrap().interval, None);
        assert_eq!(Estimate::of(&[]), None);
    }

    #[test]
    fn what_is_better_beyond_chance_is_recommended() {
        let report = Report::new(&plan(), &slots(12, [(3.0, 2.0), (2.5, 1.0), (1.0, 1.9)]));
        let found = &report.recommendation;
        assert_eq!(
            (found.setup, found.confidence),
            (Some(Setup::Sidelane), Confidence::High)
        );
        let text = report.text();
        assert!(
            text.contains("sidelane run --critical unit:redis.service --batch cgroup:/batch.slice"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_setup_that_was_left_out_is_not_shown_and_no_round_waits_for_it() {
        let plan = Plan {
            setups: vec![Setup::Default, Setup::Sidelane],
            ..plan()
        };
        let mut slots = slots(12, [(3.0, 2.0), (2.5, 1.0), (1.0, 1.9)]);
        slots.retain(|slot| slot.setup != Setup::SmtOff);
        let report = Report::new(&plan, &slots);
        assert_eq!(report.rounds, 12);
        assert_eq!(report.recommendation.setup, Some(Setup::Sidelane));
        assert!(!report.text().contains("SMT"), "{}", report.text());
    }

    #[test]
    fn of_two_that_are_as_good_batch_decides() {
        let report = Report::new(&plan(), &slots(6, [(3.0, 2.0), (1.0, 1.9), (1.0, 1.0)]));
        let found = &report.recommendation;
        assert_eq!(
            (found.setup, found.confidence),
            (Some(Setup::SmtOff), Confidence::Medium)
        );
    }

    #[test]
    fn without_a_difference_the_default_stays() {
        let report = Report::new(&plan(), &slots(6, [(3.0, 2.0); 3]));
        assert_eq!(report.recommendation.setup, Some(Setup::Default));
        let worse = Report::new(&plan(), &slots(6, [(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]));
        assert_eq!(worse.recommendation.setup, Some(Setup::Default));
        assert!(worse.text().contains("(worse)"), "{}", worse.text());
    }

    #[test]
    fn few_rounds_recommend_nothing() {
        let report = Report::new(&plan(), &slots(4, [(3.0, 2.0), (2.5, 1.0), (1.0, 1.9)]));
        let found = &report.recommendation;
        assert_eq!((found.setup, found.confidence), (None, Confidence::None));
        assert!(Report::new(&plan(), &[]).recommendation.setup.is_none());
    }

    #[test]
    fn waits_alone_are_no_sure_ground() {
        let mut slots = slots(12, [(3.0, 2.0), (2.5, 1.0), (1.0, 1.9)]);
        slots.iter_mut().for_each(|slot| slot.latency_p99_ms = None);
        let found = Report::new(&plan(), &slots).recommendation;
        assert_eq!(
            (found.setup, found.confidence),
            (Some(Setup::Sidelane), Confidence::Low)
        );
        assert!(found.doubts[0].contains("--latency-command"), "{found:?}");
    }
}
