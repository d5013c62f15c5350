//! What to do about what was measured: advice with its evidence, and how sure it is.
//!
//! Source: z/VM SMT-2 performance report: a single point of serialization is what makes SMT slow a
//! workload down (Tables 4 to 6), and pools limited in raw time lose entitlement (Table 7). The rules
//! and their thresholds are ours; each says where it stands.

mod rules;
mod text;

pub use text::text;

use crate::metrics::{self, SmtMetrics};
use crate::snapshot::{Class, DeltaError, Interval, RateSource};
use serde::Serialize;

/// An advice.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Advice {
    /// What was found.
    #[serde(flatten)]
    pub finding: Finding,
    /// How sure it is.
    pub confidence: Confidence,
    /// Why it is not surer; each a sentence.
    pub doubts: Vec<String>,
}

/// What was found. Shares are of 1.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "finding", rename_all = "snake_case")]
pub enum Finding {
    /// Several threads run nearly all the time while lanes have room: the stage they are has too few
    /// workers.
    SerialStage {
        /// Its threads, by process.
        threads: Vec<BusyThread>,
        /// Share of the time of lanes during which they did not run.
        idle_lanes: f64,
        /// Share of core time during which no lane ran.
        idle_cores: f64,
    },
    /// One thread runs nearly all the time while lanes have room: all wait for it.
    MasterThread {
        /// It.
        thread: BusyThread,
        /// Share of the time of lanes during which they did not run.
        idle_lanes: f64,
        /// Share of core time during which no lane ran.
        idle_cores: f64,
    },
    /// All lanes together do more than one lane of each core.
    SmtUseful {
        /// How much more, as a share of what one lane does.
        gain: f64,
    },
    /// All lanes together do less than one lane of each core.
    SmtHarmful {
        /// How much less, as a share of what one lane does.
        loss: f64,
    },
    /// All lanes together do what one lane of each core does.
    SmtUseless {
        /// Within this error, as a share of what one lane does.
        within: f64,
    },
    /// Work that the cores could do besides.
    Headroom {
        /// As a share of what all lanes, always busy, would do.
        share: f64,
        /// Thread density, 1 to T.
        thread_density: f64,
        /// Whether some core has more than one lane: only those can be lent.
        smt: bool,
    },
    /// A cgroup limited in raw time got less work done for it than alone on its cores.
    LostEntitlement {
        /// Its path.
        cgroup: String,
        /// Lanes that it may use on the mean.
        limit_lanes: f64,
        /// Lanes that it used on the mean.
        used_lanes: f64,
        /// Share of its raw time that was lost to siblings.
        lost: f64,
        /// Share of the time in which it held tasks back, if anything tells.
        throttled: Option<f64>,
    },
}

/// A thread that runs nearly all the time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BusyThread {
    /// Thread id.
    pub pid: u32,
    /// Process id.
    pub tgid: u32,
    /// Its name.
    pub comm: String,
    /// Share of the time during which it ran.
    pub lane_share: f64,
    /// Its speed, relative to running alone on its core.
    pub speed: f64,
    /// Its class, if a scheduler of ours is attached.
    pub class: Option<Class>,
}

/// How sure an advice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// It rests on numbers that nobody measured: measure them before you act.
    None,
    /// Look closer before you act.
    Low,
    /// Likely.
    Medium,
    /// What was measured leaves little doubt.
    High,
}

/// Why there is no advice.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Too little was measured.
    #[error("{what}: measure for longer, while the machine does its usual work")]
    TooLittle {
        /// What there is.
        what: String,
    },
    /// The intervals do not belong together.
    #[error("the intervals do not belong together: {0}")]
    Intervals(#[from] DeltaError),
    /// The times or rates make no sense.
    #[error("the times cannot be evaluated: {0}")]
    Times(#[from] metrics::Error),
}

/// Below this there is no advice: short intervals say more about the moment than about the work.
pub const SHORTEST_NS: u64 = 2_000_000_000;

/// What the rules look at.
struct Measured<'a> {
    whole: &'a Interval,
    parts: &'a [Interval],
    metrics: SmtMetrics,
}

/// Advice on consecutive intervals, surest first.
///
/// # Errors
/// Too little was measured, or it makes no sense.
pub fn advise(intervals: &[Interval]) -> Result<Vec<Advice>, Error> {
    let too_little = |what: &str| Error::TooLittle { what: what.into() };
    let (first, others) = intervals
        .split_first()
        .ok_or_else(|| too_little("nothing was measured"))?;
    let mut whole = first.clone();
    for interval in others {
        whole.add(interval)?;
    }
    let seconds = whole.elapsed_ns() as f64 / 1e9;
    if whole.elapsed_ns() < SHORTEST_NS {
        return Err(too_little(&format!("only {seconds:.1} s were measured")));
    }
    let metrics = whole.metrics()?;
    if metrics.core_utilization.unwrap_or(0.0) < rules::IDLE_BELOW {
        return Err(too_little("nearly nothing ran"));
    }
    let measured = Measured {
        whole: &whole,
        parts: intervals,
        metrics,
    };
    let mut all: Vec<Advice> = rules::ALL.iter().flat_map(|rule| rule(&measured)).collect();
    all.sort_by_key(|advice| std::cmp::Reverse(advice.confidence));
    Ok(all)
}

impl Measured<'_> {
    /// An advice that is as sure as the least of `limits` allows; each with the reason for it.
    fn advice(&self, finding: Finding, limits: Vec<Option<(Confidence, String)>>) -> Advice {
        let mut limits: Vec<_> = limits.into_iter().flatten().collect();
        if self.whole.notes.lost > 0 {
            let why = format!("{} changes were lost", self.whole.notes.lost);
            limits.push((Confidence::Medium, why));
        }
        Advice {
            finding,
            confidence: (limits.iter().map(|limit| limit.0).min()).unwrap_or(Confidence::High),
            doubts: limits.into_iter().map(|limit| limit.1).collect(),
        }
    }

    /// What rests on how fast lanes are is no surer than that is known.
    fn by_rates(&self) -> Option<(Confidence, String)> {
        match self.whole.rates.source {
            RateSource::Calibrated => None,
            RateSource::Counters if self.metrics.hardly_seen.is_empty() => None,
            RateSource::Counters => Some((
                Confidence::Low,
                format!(
                    "cores hardly ever ran {} lanes, so the rates there are uncertain",
                    list(&self.metrics.hardly_seen)
                ),
            )),
            RateSource::Given => Some((
                Confidence::Medium,
                "the speeds of lanes were given, not measured".into(),
            )),
            RateSource::Assumed => Some((
                Confidence::None,
                "the speeds of lanes are assumed; 'sidelane calibrate' measures them".into(),
            )),
        }
    }
}

fn list(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    words.join(" and ")
}

#[cfg(test)]
mod tests;
