//! Figures from messages.
//!
//! The **batch share** of a run is the multiplications done, as a share of what the cores could have done
//! in the time that the requests do not need: multiplications/s ÷ (those of one whole core × (cores −
//! cores that the requests need)). The speed of a whole core is the mean of those measured before the runs
//! of the repetition.

use super::{LanesPlan, Message, Run, Setup};
use crate::error::{Error, Result};
use crate::experiment::{Measured, collect};
use serde::Serialize;
use sidelane_smt::latency::Spread;

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// Whether SMT was emulated.
    pub emulated_smt: bool,
    /// The machine; its speed was measured before each run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Offered load, as a share of all cores.
    pub load: f64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each setup.
    pub rows: Vec<Row>,
}

/// A setup's figures, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub setup: Setup,
    /// Median latency, ms.
    pub p50_ms: Spread,
    /// 95th percentile, ms.
    pub p95_ms: Spread,
    /// 99th percentile, ms.
    pub p99_ms: Spread,
    /// Batch work done, as a share of the capacity that the requests leave; none without batch.
    pub batch_share: Option<Spread>,
    /// How often batch stepped aside by itself, 1/s.
    pub naps_per_s: Spread,
}

impl Document {
    /// # Errors
    /// Runs are missing, or batch did nothing that can be measured.
    pub fn new(plan: &LanesPlan, messages: &[Message], emulated_smt: bool) -> Result<Document> {
        let (measured, runs) = collect(messages)?;
        if runs.len() != Setup::ALL.len() * plan.repetitions as usize {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        let cores = measured.cores.len() as f64;
        let rows: Option<Vec<Row>> = Setup::ALL
            .iter()
            .map(|setup| row(&runs, *setup, cores))
            .collect();
        Ok(Document {
            emulated_smt,
            measured,
            load: plan.load,
            mean_demand_ms: plan.mean_demand_ms,
            repetitions: plan.repetitions,
            rows: rows.ok_or_else(|| Error::Incomplete("a figure is not a number".into()))?,
        })
    }
}

fn row(runs: &[Run], setup: Setup, cores: f64) -> Option<Row> {
    let own: Vec<&Run> = runs.iter().filter(|run| run.setup == setup).collect();
    let spread =
        |value: fn(&Run) -> f64| Spread::of(&own.iter().map(|run| value(run)).collect::<Vec<_>>());
    let share = |run: &&Run| {
        let idle_cores = cores - run.critical_cores;
        run.batch_per_s / (whole_core_per_s(runs, run.repetition) * idle_cores)
    };
    let shares = Spread::of(&own.iter().map(share).collect::<Vec<_>>());
    let batch_share = match setup {
        Setup::Alone => None,
        _ => Some(shares.filter(|shares| shares.max.is_finite())?),
    };
    Some(Row {
        setup,
        p50_ms: spread(|run| run.latency.p50_ns as f64 / 1e6)?,
        p95_ms: spread(|run| run.latency.p95_ns as f64 / 1e6)?,
        p99_ms: spread(|run| run.latency.p99_ns as f64 / 1e6)?,
        batch_share,
        naps_per_s: spread(|run| run.naps_per_s)?,
    })
}

/// Multiplications of one whole core in a repetition, 1/s.
fn whole_core_per_s(runs: &[Run], repetition: u32) -> f64 {
    let of = runs.iter().filter(|run| run.repetition == repetition);
    let (sum, count) = of.fold((0.0, 0.0), |(sum, count), run| {
        (sum + run.batch_per_core_s, count + 1.0)
    });
    sum / count
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lines::MachineFacts;
    use sidelane_smt::latency::Summary;

    fn messages(plan: &LanesPlan) -> Vec<Message> {
        let mut messages = vec![Message::Machine(MachineFacts {
            kernel: "7.0".into(),
            cores: vec![vec![0, 1], vec![2, 3]],
        })];
        for repetition in 0..plan.repetitions {
            for setup in plan.setups(repetition) {
                let batch_per_s = match setup {
                    Setup::Alone => 0.0,
                    Setup::Default => 1500.0,
                    Setup::Lanes => 750.0,
                    Setup::Sidelane => 1200.0,
                };
                messages.push(Message::Speed(1e6));
                messages.push(Message::Run(Run {
                    setup,
                    repetition,
                    latency: Summary::of(&mut [u64::from(repetition + 1) * 1_000_000]),
                    critical_cores: 0.5,
                    batch_per_s,
                    naps_per_s: if setup == Setup::Lanes { 40.0 } else { 0.0 },
                    // 1000 on the mean, in both repetitions
                    batch_per_core_s: if setup == Setup::Lanes { 1300.0 } else { 900.0 },
                }));
            }
        }
        messages
    }

    fn plan() -> LanesPlan {
        LanesPlan {
            repetitions: 2,
            ..LanesPlan::default()
        }
    }

    pub fn document() -> Result<Document> {
        Document::new(&plan(), &messages(&plan()), true)
    }

    #[test]
    fn shares_are_of_what_the_requests_leave() {
        let document = document().unwrap();
        let shares: Vec<Option<f64>> = document
            .rows
            .iter()
            .map(|row| row.batch_share.map(|share| share.median))
            .collect();
        assert_eq!(shares, [None, Some(1.0), Some(0.5), Some(0.8)]);
        let p99_ms = document.rows[2].p99_ms;
        assert_eq!((p99_ms.min, p99_ms.max), (1.0, 2.0));
    }

    #[test]
    fn the_machine_stands_beside_the_other_facts() {
        let json = serde_json::to_string(&document().unwrap()).unwrap();
        let start =
            r#"{"emulated_smt":true,"kernel":"7.0","cores":[[0,1],[2,3]],"units_per_core_s":{"#;
        assert!(json.starts_with(start), "{json}");
    }

    #[test]
    fn missing_runs_and_a_still_batch_are_errors() {
        let mut messages = messages(&plan());
        for message in &mut messages {
            if let Message::Run(run) = message {
                run.batch_per_core_s = 0.0;
            }
        }
        assert!(Document::new(&plan(), &messages, true).is_err());
        messages.pop();
        assert!(Document::new(&plan(), &messages, true).is_err());
    }
}
