//! Verdicts: our values beside published ones.

use super::Point;
use super::claims::{Claim, Comparison, Expectation, Limit, Origin, Reach, Role, reached};
use super::model::Prediction;
use crate::run::Outcome;
use crate::statistics::Estimate;
use crate::summary::CONFIDENCE;
use crate::sweep::At;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// A claim at a point, what we found there, and the verdict.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The claim and its point as text: the same in each run of the experiment.
    pub id: String,
    /// What was published.
    pub claim: Claim,
    /// The point; of a claim about several points the one that is worst for it.
    pub at: BTreeMap<String, toml::Value>,
    /// Our value; none where the metric has no meaning. Of a rise or a fall, the smallest step in the
    /// right direction.
    pub ours: Option<Estimate>,
    /// Ours ÷ published.
    pub ratio: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A verdict; docs/experiments.md says what each means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they say what they mean")]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Agrees,
    SameDirection,
    Differs,
    TrendHolds,
    TrendFails,
    Consistent,
    Inconsistent,
    Input,
    InputMissed,
    Unclear,
    NoValue,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Agrees => "agrees",
            Verdict::SameDirection => "same direction",
            Verdict::Differs => "differs",
            Verdict::TrendHolds => "trend holds",
            Verdict::TrendFails => "trend fails",
            Verdict::Consistent => "consistent",
            Verdict::Inconsistent => "inconsistent",
            Verdict::Input => "input",
            Verdict::InputMissed => "input missed",
            Verdict::Unclear => "unclear",
            Verdict::NoValue => "no value",
        })
    }
}

impl Verdict {
    /// Is ours not what was published?
    pub(super) fn is_against(self) -> bool {
        matches!(
            self,
            Verdict::SameDirection | Verdict::Differs | Verdict::TrendFails | Verdict::Inconsistent
        )
    }
}

impl Finding {
    /// Was it published, and not put in by us?
    pub(super) fn is_prediction(&self) -> bool {
        self.claim.role == Role::Prediction && self.claim.kind != Origin::Own
    }

    /// Why ours differs, where it does.
    pub(super) fn cause(&self) -> Option<&str> {
        let known = self.claim.cause.as_deref();
        let known = known.or(self.is_prediction().then_some("unknown"));
        known.filter(|_| self.verdict.is_against())
    }
}

/// Is it so? None: the interval reaches across the limit.
type Truth = Option<bool>;

/// The findings of a claim: one for each point of a number, one for the worst point of a trend. Where an assumption
/// is varied (`assumed` has what the experiment itself assumes), each of its values is judged by itself.
pub(super) fn judge(claim: &Claim, points: &[Point], assumed: &At) -> Vec<Finding> {
    let meant = |point: &&Point| is_at(&claim.at, point);
    let mut cases: Vec<(At, Vec<&Point>)> = Vec::new();
    for point in points.iter().filter(meant) {
        let mut case = point.at.clone();
        case.retain(|name, _| assumed.contains_key(name));
        match cases.iter_mut().find(|(other, _)| *other == case) {
            Some((_, points)) => points.push(point),
            None => cases.push((case, vec![point])),
        }
    }
    let judged = cases.into_iter().flat_map(|(case, points)| {
        let mut claim = claim.clone();
        if case != *assumed && claim.role == Role::Prediction {
            claim.role = Role::Sensitivity;
        }
        claim.at.extend(case);
        judge_case(&claim, points)
    });
    judged.collect()
}

/// Is the point one of those?
fn is_at(at: &At, point: &Point) -> bool {
    at.iter()
        .all(|(name, value)| point.at.get(name) == Some(value))
}

fn judge_case(claim: &Claim, mut points: Vec<&Point>) -> Vec<Finding> {
    if let Some(sweep) = &claim.greatest_over {
        points = greatest(claim, &points, sweep);
    }
    if let Some(reach) = &claim.reaches {
        return far(claim, reach, &points);
    }
    if let Some(sweep) = &claim.mean_over {
        return mean(claim, sweep, &points);
    }
    match &claim.expectation {
        Expectation::Value { value, tolerance } => {
            let at = |point: &&Point| number(claim, point, *value, *tolerance);
            points.iter().map(at).collect()
        }
        Expectation::Trend(Limit::Rises(sweep)) => vec![course(claim, &points, sweep, 1.0)],
        Expectation::Trend(Limit::Falls(sweep)) => vec![course(claim, &points, sweep, -1.0)],
        Expectation::Trend(limit) => {
            let bounds = bounds(limit);
            let all = points.iter().map(|point| {
                let ours = compared(claim, point);
                let truth = ours.as_ref().map(|ours| within(ours, bounds));
                (point.at.clone(), ours, truth)
            });
            vec![worst(claim, all.collect())]
        }
    }
}

/// Of the points that differ in a sweep alone the one with the greatest value.
fn greatest<'a>(claim: &Claim, points: &[&'a Point], sweep: &str) -> Vec<&'a Point> {
    let mut chosen: Vec<(&Point, f64)> = Vec::new();
    for &point in points {
        let value = compared(claim, point).map_or(f64::NEG_INFINITY, |ours| ours.mean);
        let same = |(other, _): &&mut (&Point, f64)| rest(other, sweep) == rest(point, sweep);
        match chosen.iter_mut().find(same) {
            Some(best) if value > best.1 => *best = (point, value),
            Some(_) => {}
            None => chosen.push((point, value)),
        }
    }
    chosen.into_iter().map(|(point, _)| point).collect()
}

/// Where a point is, but for a sweep.
fn rest(point: &Point, sweep: &str) -> BTreeMap<String, toml::Value> {
    let mut at = point.at.clone();
    at.remove(sweep);
    at
}

fn bounds(limit: &Limit) -> [f64; 2] {
    match limit {
        Limit::Above(low) => [*low, f64::INFINITY],
        Limit::Below(high) => [f64::NEG_INFINITY, *high],
        Limit::Between(both) => *both,
        Limit::Rises(_) | Limit::Falls(_) => [0.0, f64::INFINITY],
    }
}

/// Is a value between two bounds, as far as its interval tells?
fn within(ours: &Estimate, [low, high]: [f64; 2]) -> Truth {
    let width = ours.half_width.unwrap_or(0.0);
    let (from, to) = (ours.mean - width, ours.mean + width);
    match () {
        () if from >= low && to <= high => Some(true),
        () if to < low || from > high => Some(false),
        () => None,
    }
}

/// Points that are the same but for a sweep.
type Group<'a> = (BTreeMap<String, toml::Value>, Vec<&'a Point>);

fn groups<'a>(points: &[&'a Point], sweep: &str) -> Vec<Group<'a>> {
    let mut groups: Vec<Group> = Vec::new();
    for &point in points {
        let at = rest(point, sweep);
        match groups.iter_mut().find(|(other, _)| *other == at) {
            Some((_, group)) => group.push(point),
            None => groups.push((at, vec![point])),
        }
    }
    groups
}

/// How far a sweep goes: a finding for each point but for that sweep.
fn far(claim: &Claim, reach: &Reach, points: &[&Point]) -> Vec<Finding> {
    let found = groups(points, &reach.over).into_iter().map(|(at, group)| {
        let of = |configuration: &str| {
            let course = group.iter().filter_map(|point| {
                let load = point.at.get(&reach.over)?;
                let load = load.as_float().or(load.as_integer().map(|it| it as f64));
                load.zip(of(claim, point, configuration))
            });
            reached(reach, &course.collect::<Vec<_>>())
        };
        (at, estimate(claim, of))
    });
    findings(claim, found)
}

/// The mean over a sweep: a finding for each point but for that sweep.
fn mean(claim: &Claim, sweep: &str, points: &[&Point]) -> Vec<Finding> {
    let found = groups(points, sweep).into_iter().map(|(at, group)| {
        let all: Option<Vec<_>> = group.iter().map(|point| values(claim, point)).collect();
        let ours = all.and_then(|all| {
            let replications = all.iter().map(Vec::len).min()?;
            let of = |n: usize| all.iter().map(|values| values[n]).sum::<f64>() / all.len() as f64;
            Estimate::of(&(0..replications).map(of).collect::<Vec<_>>(), CONFIDENCE)
        });
        (at, ours)
    });
    findings(claim, found)
}

/// Values at points, beside what is claimed.
fn findings(
    claim: &Claim,
    found: impl Iterator<Item = (BTreeMap<String, toml::Value>, Option<Estimate>)>,
) -> Vec<Finding> {
    match &claim.expectation {
        Expectation::Value { value, tolerance } => found
            .map(|(at, ours)| beside(claim, at, ours, *value, *tolerance))
            .collect(),
        Expectation::Trend(limit) => {
            let judged = found.map(|(at, ours)| {
                let truth = ours.as_ref().map(|ours| within(ours, bounds(limit)));
                (at, ours, truth)
            });
            vec![worst(claim, judged.collect())]
        }
    }
}

fn number(claim: &Claim, point: &Point, value: f64, tolerance: f64) -> Finding {
    let ours = compared(claim, point);
    beside(claim, point.at.clone(), ours, value, tolerance)
}

/// Our value beside the published one.
fn beside(
    claim: &Claim,
    at: BTreeMap<String, toml::Value>,
    ours: Option<Estimate>,
    value: f64,
    tolerance: f64,
) -> Finding {
    let slack = value.abs() * tolerance;
    let truth = ours
        .as_ref()
        .map(|ours| within(ours, [value - slack, value + slack]));
    let mut named = at.clone();
    named.retain(|name, _| claim.greatest_over.as_ref() != Some(name)); // where it is greatest is a result
    Finding {
        id: claim.id(&named),
        claim: claim.clone(),
        at,
        ratio: ours
            .as_ref()
            .filter(|_| value != 0.0)
            .map(|ours| ours.mean / value),
        verdict: verdict(claim, truth, ours.as_ref()),
        ours,
    }
}

/// From each value of a sweep to the next, whatever the other sweeps are at.
fn course(claim: &Claim, points: &[&Point], sweep: &str, direction: f64) -> Finding {
    let mut steps = Vec::new();
    for (index, point) in points.iter().enumerate() {
        let next = points[index + 1..]
            .iter()
            .find(|next| rest(next, sweep) == rest(point, sweep));
        let Some(next) = next else { continue };
        let both = values(claim, point).zip(values(claim, next));
        let step = both.and_then(|(from, to)| {
            let steps = from
                .iter()
                .zip(&to)
                .map(|(from, to)| (to - from) * direction);
            Estimate::of(&steps.collect::<Vec<_>>(), CONFIDENCE)
        });
        let truth = step.as_ref().map(|step| within(step, [0.0, f64::INFINITY]));
        steps.push((next.at.clone(), step, truth));
    }
    worst(claim, steps)
}

/// A point, the value there, and whether it is as claimed; none without a value.
type Judged = (
    BTreeMap<String, toml::Value>,
    Option<Estimate>,
    Option<Truth>,
);

/// The finding that is worst for a claim: false before unclear before true, and of these the nearest to its limit.
fn worst(claim: &Claim, all: Vec<Judged>) -> Finding {
    let rank = |truth: &Option<Truth>| match truth {
        None => 0,
        Some(Some(false)) => 1,
        Some(None) => 2,
        Some(Some(true)) => 3,
    };
    let order = |(_, ours, truth): &Judged| {
        let margin = ours.as_ref().map_or(0.0, |ours| margin(claim, ours.mean));
        (rank(truth), margin)
    };
    let by = |one: &Judged, other: &Judged| {
        let ((rank, margin), (other_rank, other_margin)) = (order(one), order(other));
        rank.cmp(&other_rank).then(margin.total_cmp(&other_margin))
    };
    let (at, ours, truth) = all.into_iter().min_by(by).unwrap_or_default();
    Finding {
        id: claim.id(&claim.at),
        claim: claim.clone(),
        at,
        verdict: verdict(claim, truth, ours.as_ref()),
        ours,
        ratio: None,
    }
}

/// How far a value is on the right side of a trend's limit.
fn margin(claim: &Claim, value: f64) -> f64 {
    match &claim.expectation {
        Expectation::Trend(Limit::Rises(_) | Limit::Falls(_)) | Expectation::Value { .. } => value,
        Expectation::Trend(limit) => {
            let [low, high] = bounds(limit);
            (value - low).min(high - value)
        }
    }
}

/// Is a change that was published as a number a change to the same side of none?
fn is_same_direction(claim: &Claim, ours: Option<&Estimate>) -> bool {
    let (Expectation::Value { value, .. }, Some(_), Some(ours)) =
        (&claim.expectation, &claim.relative_to, ours)
    else {
        return false;
    };
    let none = match claim.compare {
        Comparison::Ratio => 1.0,
        Comparison::Difference | Comparison::Increase | Comparison::Reduction => 0.0,
    };
    let side = match value.total_cmp(&none) {
        Ordering::Greater => [none, f64::INFINITY],
        Ordering::Less => [f64::NEG_INFINITY, none],
        Ordering::Equal => return false,
    };
    within(ours, side) == Some(true)
}

fn verdict(claim: &Claim, truth: Option<Truth>, ours: Option<&Estimate>) -> Verdict {
    let is_trend = matches!(claim.expectation, Expectation::Trend(_));
    match (truth, claim.role) {
        (None, _) => Verdict::NoValue,
        (Some(Some(false)), Role::Input) => Verdict::InputMissed,
        (_, Role::Input) => Verdict::Input,
        (Some(None), _) => Verdict::Unclear,
        (Some(Some(true)), Role::Consistency) => Verdict::Consistent,
        (Some(Some(false)), Role::Consistency) => Verdict::Inconsistent,
        (Some(Some(true)), _) if is_trend => Verdict::TrendHolds,
        (Some(Some(false)), _) if is_trend => Verdict::TrendFails,
        (Some(Some(true)), _) => Verdict::Agrees,
        (Some(Some(false)), _) if is_same_direction(claim, ours) => Verdict::SameDirection,
        (Some(Some(false)), _) => Verdict::Differs,
    }
}

/// What the claim is about, as an estimate.
fn compared(claim: &Claim, point: &Point) -> Option<Estimate> {
    estimate(claim, |configuration| of(claim, point, configuration))
}

/// The same; `of` tells the values of a configuration by replication.
fn estimate(claim: &Claim, of: impl Fn(&str) -> Option<Vec<f64>>) -> Option<Estimate> {
    let own = of(&claim.configuration)?;
    let Some(other) = &claim.relative_to else {
        return Estimate::of(&own, CONFIDENCE);
    };
    let other = of(other)?;
    if claim.compare == Comparison::Difference {
        return Estimate::of(&joined(&own, &other, claim.compare), CONFIDENCE);
    }
    let mut ratio = Estimate::ratio(&own, &other, CONFIDENCE)?;
    match claim.compare {
        Comparison::Increase => ratio.mean -= 1.0,
        Comparison::Reduction => ratio.mean = 1.0 - ratio.mean,
        Comparison::Ratio | Comparison::Difference => {}
    }
    Some(ratio)
}

/// What the claim is about, by replication.
fn values(claim: &Claim, point: &Point) -> Option<Vec<f64>> {
    let own = of(claim, point, &claim.configuration)?;
    match &claim.relative_to {
        None => Some(own),
        Some(other) => Some(joined(&own, &of(claim, point, other)?, claim.compare)),
    }
}

fn joined(own: &[f64], other: &[f64], compare: Comparison) -> Vec<f64> {
    let join = |(own, other): (&f64, &f64)| match compare {
        Comparison::Ratio => own / other,
        Comparison::Difference => own - other,
        Comparison::Increase => own / other - 1.0,
        Comparison::Reduction => 1.0 - own / other,
    };
    own.iter().zip(other).map(join).collect()
}

/// The metric of a configuration, by replication. A workload that takes no part there has no value.
fn of(claim: &Claim, point: &Point, configuration: &str) -> Option<Vec<f64>> {
    let predicted = |prediction: &&Prediction| prediction.name == configuration;
    if let Some(prediction) = point.predictions.iter().find(predicted) {
        return prediction.value(&claim.what).map(|value| vec![value]);
    }
    let named = |outcome: &&Outcome| outcome.configuration == configuration;
    let outcome = point.outcomes.iter().find(named)?;
    let workload = match &claim.relative_workload {
        Some(other) if claim.relative_to.as_deref() == Some(configuration) => Some(other),
        _ => claim.workload.as_ref(),
    };
    outcome.values(workload.map(String::as_str), &claim.what)
}
