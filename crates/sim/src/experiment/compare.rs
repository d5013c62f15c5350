//! Two runs of experiments beside one another: what another version of the scheduler, or of a file, changed.

use super::{Report, Verdict};
use crate::statistics::Estimate;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Differences up to this share are rounding.
const ROUNDING: f64 = 1e-3;

/// What was kept of a run: of `sidelane reproduce --format json`, the keys that are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    /// By experiment.
    pub experiments: Vec<SavedReport>,
}

/// What was kept of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedReport {
    /// Its name.
    pub name: String,
    /// Claim by claim.
    pub findings: Vec<SavedFinding>,
}

/// What was kept of a finding.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SavedFinding {
    /// The claim and its point.
    pub id: String,
    /// What came out.
    pub ours: Option<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A finding that is not what it was.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Change {
    /// Of which experiment.
    pub experiment: String,
    /// The claim and its point.
    pub id: String,
    /// As it was saved; none: the claim is new.
    pub then: Option<SavedFinding>,
    /// As it is; none: the claim is gone.
    pub now: Option<SavedFinding>,
}

/// From which difference on a value has changed. A verdict that is another one always has.
#[derive(Debug, Clone, Copy)]
pub enum Slack {
    /// Where the two intervals do not meet.
    Intervals,
    /// This share of the value.
    Share(f64),
}

impl Saved {
    /// Reads what `sidelane reproduce --format json` wrote, or `saved` itself as JSON.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(text: &str) -> Result<Saved, String> {
        serde_json::from_str(text)
            .map_err(|error| format!("{error}; give what `sidelane reproduce --format json` wrote"))
    }

    /// What is kept of reports.
    pub fn of(reports: &[Report]) -> Saved {
        let finding = |finding: &super::Finding| SavedFinding {
            id: finding.id.clone(),
            ours: finding.ours,
            verdict: finding.verdict,
        };
        let report = |report: &Report| SavedReport {
            name: report.name.clone(),
            findings: report.findings.iter().map(finding).collect(),
        };
        Saved {
            experiments: reports.iter().map(report).collect(),
        }
    }

    /// What is different now, of the experiments that were run now.
    pub fn changes(&self, now: &Saved, slack: Slack) -> Vec<Change> {
        let mut changes = Vec::new();
        for report in &now.experiments {
            let then = self.experiments.iter().find(|it| it.name == report.name);
            let mut then = then.map_or_else(Vec::new, |it| it.findings.clone());
            let change = |id: &String, then, now| Change {
                experiment: report.name.clone(),
                id: id.clone(),
                then,
                now,
            };
            for finding in &report.findings {
                let found = then.iter().position(|it| it.id == finding.id);
                let found = found.map(|index| then.remove(index));
                if !found.as_ref().is_some_and(|it| it.is_like(finding, slack)) {
                    changes.push(change(&finding.id, found, Some(finding.clone())));
                }
            }
            let gone = then.into_iter();
            changes.extend(gone.map(|it| change(&it.id.clone(), Some(it), None)));
        }
        changes
    }
}

impl SavedFinding {
    fn is_like(&self, other: &SavedFinding, slack: Slack) -> bool {
        let near = match (&self.ours, &other.ours) {
            (Some(then), Some(now)) => are_near(then, now, slack),
            (then, now) => then.is_none() == now.is_none(),
        };
        near && self.verdict == other.verdict
    }

    fn text(&self) -> String {
        let ours = self.ours.map_or("-".into(), |ours| ours.text(1.0));
        format!("{ours}, {}", self.verdict)
    }
}

fn are_near(one: &Estimate, other: &Estimate, slack: Slack) -> bool {
    let size = one.mean.abs().max(other.mean.abs());
    let allowed = match slack {
        Slack::Intervals => one.half_width.unwrap_or(0.0) + other.half_width.unwrap_or(0.0),
        Slack::Share(share) => share * size,
    };
    (one.mean - other.mean).abs() <= allowed.max(ROUNDING * size)
}

/// Changes as lines for people.
pub fn changes_text(changes: &[Change]) -> String {
    let mut out = String::new();
    let mut experiment = "";
    for change in changes {
        if change.experiment != experiment {
            let _ = writeln!(out, "{}", change.experiment);
            experiment = &change.experiment;
        }
        let side =
            |side: &Option<SavedFinding>| side.as_ref().map_or("-".into(), SavedFinding::text);
        let (then, now) = (side(&change.then), side(&change.now));
        let _ = writeln!(out, "  {}\n    {then}  →  {now}", change.id);
    }
    match changes.len() {
        0 => out.push_str("No verdict changed, and no value beyond the intervals.\n"),
        1 => out.push_str("1 claim changed.\n"),
        n => {
            let _ = writeln!(out, "{n} claims changed.");
        }
    }
    out
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn saved(id: &str, mean: f64, half_width: f64, verdict: Verdict) -> Saved {
        let finding = SavedFinding {
            id: id.into(),
            ours: Some(Estimate {
                mean,
                half_width: Some(half_width),
                replications: 4,
            }),
            verdict,
        };
        Saved {
            experiments: vec![SavedReport {
                name: "a".into(),
                findings: vec![finding],
            }],
        }
    }

    #[test]
    fn a_value_changes_where_intervals_do_not_meet() {
        let then = saved("x", 1.0, 0.1, Verdict::Agrees);
        let near = saved("x", 1.15, 0.1, Verdict::Agrees);
        let far = saved("x", 1.25, 0.1, Verdict::Agrees);
        assert!(then.changes(&near, Slack::Intervals).is_empty());
        assert_eq!(then.changes(&far, Slack::Intervals).len(), 1);
        assert_eq!(then.changes(&near, Slack::Share(0.1)).len(), 1);
    }

    #[test]
    fn verdicts_and_claims_that_come_and_go_are_changes() {
        let then = saved("x", 1.0, 0.1, Verdict::Agrees);
        let other = saved("x", 1.0, 0.1, Verdict::Differs);
        assert_eq!(then.changes(&other, Slack::Intervals).len(), 1);
        let renamed = then.changes(&saved("y", 1.0, 0.1, Verdict::Agrees), Slack::Intervals);
        assert!(renamed[0].then.is_none() && renamed[1].now.is_none());
    }

    #[test]
    fn a_saved_run_is_read_from_what_reproduce_prints() {
        let text = r#"{"schema": "sidelane.reproduce/1", "experiments": [{"name": "a", "title": "t", "findings":
            [{"id": "x", "claim": {}, "at": {}, "ours": null, "ratio": null, "verdict": "trend-holds"}]}]}"#;
        let saved = Saved::read(text).unwrap();
        assert_eq!(
            saved.experiments[0].findings[0].verdict,
            Verdict::TrendHolds
        );
    }
}
