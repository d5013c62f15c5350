//! Points of a sweep, simulated and written one a line, and shards of them put together.

use crate::run::run;
use crate::summary::Summary;
use crate::sweep::{At, Read, Swept};
use crate::{Error, Mistake};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// So many points for each thread are simulated before they are written.
const AHEAD: usize = 4;

/// What came out at a point: a line of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PointSummary {
    /// Its number, from 0.
    pub point: u64,
    /// How many there are.
    pub points: u64,
    /// What the results depend on, in hexadecimal: points with the same belong together.
    pub digest: String,
    /// Values of the sweeps.
    pub at: At,
    /// What came out; none where points are listed only.
    #[serde(flatten)]
    pub summary: Option<Summary>,
}

/// A part of the points: every `of`th, from `index` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The first, below `of`.
    pub index: u64,
    /// How many shards there are.
    pub of: u64,
}

impl Shard {
    /// All points.
    pub const ALL: Shard = Shard { index: 0, of: 1 };

    /// The points that belong to it, of so many.
    pub fn points(self, all: u64) -> impl Iterator<Item = u64> {
        (self.index..all).step_by(usize::try_from(self.of).unwrap_or(usize::MAX))
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    /// `0/4` to `3/4`.
    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(index, of)| {
            let of: u64 = of.trim().parse().ok()?;
            Some((index.trim().parse().ok()?, of))
        });
        match numbers {
            Some((index, of)) if index < of => Ok(Shard { index, of }),
            _ => Err("expected I/N with I below N, such as 0/4 for the first of four".into()),
        }
    }
}

/// Why a point has no result.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PointError {
    /// Its values make no scenario.
    #[error("point {point}: {mistake}")]
    Scenario {
        /// The point.
        point: u64,
        /// Why not.
        mistake: Mistake,
    },
    /// Its simulation ended early.
    #[error("point {point}: {error}")]
    Simulation {
        /// The point.
        point: u64,
        /// Why.
        error: Error,
    },
}

impl Swept {
    /// How a point is called, without what comes out there.
    pub fn point(&self, point: u64, digest: u64) -> PointSummary {
        PointSummary {
            point,
            points: self.points(),
            digest: format!("{digest:016x}"),
            at: self.at(point),
            summary: None,
        }
    }

    /// Simulates the points of a shard; `written` gets them in their order. `progress` is told of each replication.
    ///
    /// # Errors
    /// The first point without a result, in their order, or the first error of `written`.
    pub fn run<E: From<PointError>>(
        &self,
        shard: Shard,
        read: Read,
        digest: u64,
        progress: &(dyn Fn() + Sync),
        mut written: impl FnMut(PointSummary) -> Result<(), E>,
    ) -> Result<(), E> {
        let points: Vec<u64> = shard.points(self.points()).collect();
        for some in points.chunks(AHEAD * rayon::current_num_threads()) {
            let simulated = some.par_iter().map(|&point| {
                let summary = self.simulate(point, read, progress)?;
                Ok(PointSummary {
                    summary: Some(summary),
                    ..self.point(point, digest)
                })
            });
            for point in simulated.collect::<Vec<Result<PointSummary, PointError>>>() {
                written(point?)?;
            }
        }
        Ok(())
    }

    fn simulate(
        &self,
        point: u64,
        read: Read,
        progress: &(dyn Fn() + Sync),
    ) -> Result<Summary, PointError> {
        let wrong = |mistake| PointError::Scenario { point, mistake };
        let scenario = self.scenario_at(&self.at(point), read).map_err(wrong)?;
        let ended = |error| PointError::Simulation { point, error };
        let outcomes = run(&scenario, progress).map_err(ended)?;
        let mut summary = Summary::new(&scenario, &outcomes);
        // a hundred numbers a workload, ten thousand times
        let workloads = summary.configurations.iter_mut();
        for workload in workloads.flat_map(|one| &mut one.workloads) {
            workload.latency.clear();
        }
        Ok(summary)
    }
}

/// Points from files of shards, put in order.
#[derive(Debug)]
pub struct Merged {
    schema: &'static str,
    lines: BTreeMap<u64, String>,
    /// Number of points and digest that all have.
    common: Option<(u64, String)>,
}

impl Merged {
    /// None yet; all are to be of this `schema`.
    pub fn new(schema: &'static str) -> Merged {
        Merged {
            schema,
            lines: BTreeMap::new(),
            common: None,
        }
    }

    /// Adds the line of a point.
    ///
    /// # Errors
    /// What is no such line, belongs to another sweep, or says something else of a point that is there already.
    pub fn add(&mut self, line: &str) -> Result<(), String> {
        #[derive(Deserialize)]
        struct Head {
            schema: String,
            point: u64,
            points: u64,
            digest: String,
        }
        let head = serde_json::from_str::<Head>(line);
        let head = head.map_err(|error| format!("no point of a sweep: {error}"))?;
        if head.schema != self.schema {
            return Err(format!("is {:?}, not {:?}", head.schema, self.schema));
        }
        let own = (head.points, head.digest);
        let common = self.common.get_or_insert_with(|| own.clone());
        if *common != own || head.point >= own.0 {
            return Err("belongs to another scenario, other settings or another version".into());
        }
        let known = self
            .lines
            .entry(head.point)
            .or_insert_with(|| line.to_owned());
        match known == line {
            true => Ok(()),
            false => Err(format!("says something else of point {}", head.point)),
        }
    }

    /// Points without a line, as runs of them.
    pub fn missing(&self) -> Vec<RangeInclusive<u64>> {
        let all = self.common.as_ref().map_or(0, |(points, _)| *points);
        let mut missing = Vec::new();
        let mut next = 0;
        for &point in self.lines.keys().chain([&all]) {
            if point > next {
                missing.push(next..=point - 1);
            }
            next = point + 1;
        }
        missing
    }

    /// The lines in the order of their points.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.lines.values().map(String::as_str)
    }

    /// The points in their order.
    ///
    /// # Errors
    /// The first that was listed and not simulated, or lacks something.
    pub fn points(&self) -> impl Iterator<Item = Result<PointSummary, String>> {
        self.lines.iter().map(|(number, line)| {
            let point = serde_json::from_str::<PointSummary>(line);
            let point = point.map_err(|error| format!("point {number}: {error}"))?;
            match point.summary {
                Some(_) => Ok(point),
                None => Err(format!("point {number} was listed, not simulated")),
            }
        })
    }
}
