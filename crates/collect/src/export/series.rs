//! Series of cgroups: one a path, whatever ends and begins again there.

use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::{CgroupTotals, Notes, Snapshot, Usage, by_path, cgroups_between};
use std::collections::BTreeMap;

/// Cgroups that have a series of their own.
pub const SERIES_MAX: usize = 100;

/// Paths of which anything is remembered: the use of late, and totals of series that ended.
const REMEMBERED_MAX: usize = 4096;

/// Use counts half after this time. It is how long a query of Prometheus looks back by default: what ran
/// within it is what a graph shows.
const HALF_LIFE_NS: f64 = 300e9;

/// A series ends for a path that was used more than so many times as much of late, so that two which are
/// used alike do not take turns.
const CLEARLY_MORE: f64 = 2.0;

/// Totals by path, over any number of cgroups that had that path one after the other.
///
/// Each use counts once: in the series of its path while there is one, else in that of the others. So no
/// total goes back, and a series that ended and begins again goes on where it was.
#[derive(Debug, Default)]
pub struct Series {
    paths: BTreeMap<String, Path>,
    others: Option<Usage>,
    folded: usize,
    ended: u64,
    forgotten: u64,
}

#[derive(Debug, Default)]
struct Path {
    /// What was used while it had a series.
    total: Option<Usage>,
    /// Time on lanes of late, ns.
    recent_ns: f64,
    has_series: bool,
}

impl Series {
    /// Counts what passed from `before`, the reading that came directly before `now`, if there was one.
    pub fn count(&mut self, before: Option<&Snapshot>, now: &Snapshot) {
        let (known, from_ns) = match before {
            Some(before) => (before.cgroups.as_slice(), before.taken_ns),
            None => (Default::default(), now.begun_ns),
        };
        let used = cgroups_between(known, &now.cgroups, &mut Notes::default());
        let used = by_path(used);
        self.fade(now.taken_ns.saturating_sub(from_ns));
        for group in &used {
            if let Some(path) = &group.path {
                let known = self.paths.entry(path.clone()).or_default();
                known.recent_ns += group.usage.raw_ns as f64;
            }
        }
        self.give_series();
        self.folded = 0;
        for CgroupTotals { path, usage, .. } in used {
            let path = path.and_then(|path| self.paths.get_mut(&path));
            match path.filter(|path| path.has_series) {
                Some(path) => add(&mut path.total, usage),
                None => {
                    self.folded += 1;
                    add(&mut self.others, usage);
                }
            }
        }
        self.forget();
    }

    /// The series by path, ascending, and the sum of all others, if there are any.
    pub fn totals(&self) -> impl Iterator<Item = (&str, &Usage)> {
        let own = self.paths.iter().filter(|(_, path)| path.has_series);
        let own = own.filter_map(|(name, path)| Some((name.as_str(), path.total.as_ref()?)));
        own.chain(self.others.as_ref().map(|others| ("(others)", others)))
    }

    /// Paths that were used between the last two readings and count as others, and cgroups whose path is not
    /// known.
    pub fn folded(&self) -> usize {
        self.folded
    }

    /// Series that ended so far, for another took their place.
    pub fn ended(&self) -> u64 {
        self.ended
    }

    /// Of those, the ones whose total was forgotten: should they begin again, they begin at 0.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    fn fade(&mut self, passed_ns: u64) {
        let left = libm::exp2(-(passed_ns as f64) / HALF_LIFE_NS);
        self.paths
            .values_mut()
            .for_each(|path| path.recent_ns *= left);
    }

    /// Gives series to those used most of late: what is free, then the places of those used clearly less.
    fn give_series(&mut self) {
        let least = self.by_use(true);
        let mut free = SERIES_MAX.saturating_sub(least.len());
        let mut least = least.into_iter();
        for (wants_ns, path) in self.by_use(false).into_iter().rev() {
            if free > 0 {
                free -= 1;
            } else {
                match least.next() {
                    Some((has_ns, least)) if wants_ns > CLEARLY_MORE * has_ns => {
                        self.ended += 1;
                        self.set_series(&least, false);
                    }
                    _ => break,
                }
            }
            self.set_series(&path, true);
        }
    }

    /// Paths with a series or without, and their use of late; least first.
    fn by_use(&self, has_series: bool) -> Vec<(f64, String)> {
        let paths = self.paths.iter();
        let mut paths: Vec<(f64, String)> = paths
            .filter(|(_, path)| path.has_series == has_series)
            .map(|(name, path)| (path.recent_ns, name.clone()))
            .collect();
        paths.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        paths
    }

    fn set_series(&mut self, path: &str, has_series: bool) {
        if let Some(path) = self.paths.get_mut(path) {
            path.has_series = has_series;
        }
    }

    /// Keeps memory bounded, however many paths come and go: forgets those used least of late.
    fn forget(&mut self) {
        let surplus = self.paths.len().saturating_sub(REMEMBERED_MAX);
        if surplus == 0 {
            return;
        }
        for (_, path) in self.by_use(false).into_iter().take(surplus) {
            let forgotten = self.paths.remove(&path);
            self.forgotten += u64::from(forgotten.is_some_and(|path| path.total.is_some()));
        }
    }
}

/// Adds times; how long jobs took is not exported.
fn add(sum: &mut Option<Usage>, usage: Usage) {
    let usage = Usage {
        jobs: LogHistogram::default(),
        ..usage
    };
    match sum {
        Some(sum) => sum.add(&usage),
        None => *sum = Some(usage),
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;
