//! What the scheduler aims at for the computing server, and whether it got there.

use crate::results::{ConfigurationResults, Results};
use crate::setups::{Configuration, Workload};
use serde::Serialize;

/// Latency under Sidelane may be this multiple of that of `alone`.
const LATENCY_RATIO_MAX: f64 = 1.05;
/// Batch shall get this share of the capacity that is left.
const BATCH_SHARE_MIN: f64 = 0.95;
/// Batch time on lanes of cores with a running critical task, as a share of batch time.
const BATCH_BESIDE_CRITICAL_MAX: f64 = 0.01;

/// An aim and what came out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The figure.
    pub figure: &'static str,
    /// Its value.
    pub value: f64,
    /// `true`: the value may be at most `limit`; `false`: it must be at least that.
    pub at_most: bool,
    /// The aim.
    pub limit: f64,
    /// Whether it is met.
    pub met: bool,
}

impl Verdict {
    fn at_most(figure: &'static str, value: f64, limit: f64) -> Verdict {
        Verdict {
            figure,
            value,
            at_most: true,
            limit,
            met: value <= limit,
        }
    }

    fn at_least(figure: &'static str, value: f64, limit: f64) -> Verdict {
        Verdict {
            figure,
            value,
            at_most: false,
            limit,
            met: value >= limit,
        }
    }
}

/// The aims for the configuration `sidelane` that these results can be held against.
pub fn verdicts(results: &Results) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    if let Some(sidelane) = sidelane_compute(results) {
        let ratios = sidelane.over_alone;
        verdicts.extend([
            Verdict::at_most("compute p50 / alone", ratios.p50, LATENCY_RATIO_MAX),
            Verdict::at_most("compute p99 / alone", ratios.p99, LATENCY_RATIO_MAX),
            Verdict::at_least("compute batch share", sidelane.batch_share, BATCH_SHARE_MIN),
        ]);
    }
    // A trace with holes proves nothing.
    let mut traces = results.traces.iter().filter(|trace| trace.lost == 0);
    if let Some(trace) = traces.find(|trace| trace.configuration == Configuration::Sidelane) {
        verdicts.push(Verdict::at_most(
            "batch time beside critical",
            trace.analysis.batch_beside_critical,
            BATCH_BESIDE_CRITICAL_MAX,
        ));
    }
    verdicts
}

fn sidelane_compute(results: &Results) -> Option<&ConfigurationResults> {
    let compute = results
        .workloads
        .iter()
        .find(|w| w.name == Workload::Compute)?;
    compute
        .configurations
        .iter()
        .find(|c| c.name == Configuration::Sidelane)
}
