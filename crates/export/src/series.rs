//! What is added up from reading to reading: series of cgroups, one a path, whatever ends and begins again there, and likewise
//! of pods; latencies of jobs by class.

use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::{TaskTotals, Usage};
use std::collections::BTreeMap;

/// Cgroups that have a series of their own.
pub const SERIES_MAX: usize = 100;

/// What the sum of all others is called.
pub const OTHERS: &str = "(others)";

/// Names of which anything is remembered: the use of late, and totals of series that ended.
const REMEMBERED_MAX: usize = 4096;

/// Use counts half after this time. It is how long a query of Prometheus looks back by default: what ran
/// within it is what a graph shows.
const HALF_LIFE_NS: f64 = 300e9;

/// A series ends for a name that was used more than so many times as much of late, so that two which are
/// used alike do not take turns.
const CLEARLY_MORE: f64 = 2.0;

/// Totals by name, such as the path of cgroups, over any number of them that had that name one after the other.
///
/// Each use counts once: in the series of its name while there is one, else in that of the others. So no
/// total goes back, and a series that ended and begins again goes on where it was.
#[derive(Debug)]
pub struct Series<K> {
    /// Series at most, the others apart.
    most: usize,
    names: BTreeMap<K, Named>,
    others: Option<Usage>,
    folded: usize,
    ended: u64,
    forgotten: u64,
}

#[derive(Debug, Default)]
struct Named {
    /// What was used while it had a series.
    total: Option<Usage>,
    /// Time on lanes of late, ns.
    recent_ns: f64,
    has_series: bool,
}

impl<K: Ord + Clone> Series<K> {
    /// With no more series than these.
    pub fn new(most: usize) -> Series<K> {
        Series {
            most,
            names: BTreeMap::new(),
            others: None,
            folded: 0,
            ended: 0,
            forgotten: 0,
        }
    }

    /// Counts what was used in the last so many nanoseconds, by name where it is known.
    pub fn count(&mut self, passed_ns: u64, used: Vec<(Option<K>, Usage)>) {
        self.fade(passed_ns);
        for (name, usage) in &used {
            if let Some(name) = name {
                let known = self.names.entry(name.clone()).or_default();
                known.recent_ns += usage.raw_ns as f64;
            }
        }
        self.give_series();
        self.folded = 0;
        for (name, usage) in used {
            let known = name.and_then(|name| self.names.get_mut(&name));
            match known.filter(|known| known.has_series) {
                Some(known) => add(&mut known.total, usage),
                None => {
                    self.folded += 1;
                    add(&mut self.others, usage);
                }
            }
        }
        self.forget();
    }

    /// The series by name, ascending, and the sum of all others, if there are any.
    pub fn totals(&self) -> impl Iterator<Item = (Option<&K>, &Usage)> + Clone {
        let own = self.names.iter().filter(|(_, known)| known.has_series);
        let own = own.filter_map(|(name, known)| Some((Some(name), known.total.as_ref()?)));
        own.chain(self.others.as_ref().map(|others| (None, others)))
    }

    /// Names that were used between the last two readings and count as others, and uses without a name.
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
        self.names
            .values_mut()
            .for_each(|known| known.recent_ns *= left);
    }

    /// Gives series to those used most of late: what is free, then the places of those used clearly less.
    fn give_series(&mut self) {
        let least = self.by_use(true);
        let mut free = self.most.saturating_sub(least.len());
        let mut least = least.into_iter();
        for (wants_ns, name) in self.by_use(false).into_iter().rev() {
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
            self.set_series(&name, true);
        }
    }

    /// Names with a series or without, and their use of late; least first.
    fn by_use(&self, has_series: bool) -> Vec<(f64, K)> {
        let names = self.names.iter();
        let mut names: Vec<(f64, K)> = names
            .filter(|(_, known)| known.has_series == has_series)
            .map(|(name, known)| (known.recent_ns, name.clone()))
            .collect();
        names.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
        names
    }

    fn set_series(&mut self, name: &K, has_series: bool) {
        if let Some(known) = self.names.get_mut(name) {
            known.has_series = has_series;
        }
    }

    /// Keeps memory bounded, however many names come and go: forgets those used least of late.
    fn forget(&mut self) {
        let surplus = self.names.len().saturating_sub(REMEMBERED_MAX);
        if surplus == 0 {
            return;
        }
        for (_, name) in self.by_use(false).into_iter().take(surplus) {
            let forgotten = self.names.remove(&name);
            self.forgotten += u64::from(forgotten.is_some_and(|known| known.total.is_some()));
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

/// How long jobs took, by class. Who has no class, because Sidelane's scheduler is not attached, does not count.
#[derive(Debug, Default)]
pub struct Jobs(BTreeMap<&'static str, LogHistogram>);

/// Latencies of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latencies {
    /// Jobs.
    pub count: u64,
    /// Of all of them together, s; each counts as the middle of the collector's bucket, which is a quarter of an octave.
    pub sum_s: f64,
    /// The longest of a bucket, s, and how many are in it; the last one is the rest.
    pub buckets: Vec<(f64, u64)>,
}

impl Jobs {
    /// Bounds are 1.5 times a power of two of ns, and the next power, of these: from 16 µs to 17 s.
    const OCTAVES: std::ops::Range<u32> = 14..34;

    /// Counts what tasks did since the reading before.
    pub fn count(&mut self, tasks: &[TaskTotals]) {
        for task in tasks {
            let Some(class) = task.class else { continue };
            self.0
                .entry(class.name())
                .or_default()
                .merge(&task.usage.jobs);
        }
    }

    /// The classes that had jobs.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static str, Latencies)> {
        self.0.iter().map(|(class, jobs)| (*class, latencies(jobs)))
    }
}

fn latencies(jobs: &LogHistogram) -> Latencies {
    let octave = |k: u32| [1 << k, 3 << (k - 1)];
    let mut bounds: Vec<u64> = Jobs::OCTAVES.flat_map(octave).collect();
    bounds.push(1 << Jobs::OCTAVES.end);
    let mut counts = vec![0; bounds.len() + 1];
    let (mut count, mut sum_ns) = (0, 0.0);
    for (longest_ns, many) in jobs.counts() {
        // the largest value of a bucket is one below its end
        counts[bounds.partition_point(|&bound| bound <= longest_ns)] += many;
        let octave = 1u64 << longest_ns.max(1).ilog2();
        sum_ns += (longest_ns - longest_ns.min(octave / 8)) as f64 * many as f64;
        count += many;
    }
    let bounds = bounds.into_iter().map(|bound_ns| bound_ns as f64 / 1e9);
    Latencies {
        count,
        sum_s: sum_ns / 1e9,
        buckets: bounds.chain([f64::MAX]).zip(counts).collect(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::used_between;
    use proptest::prelude::*;
    use sidelane_smt::snapshot::{CgroupTotals, Class, Snapshot};
    use std::collections::BTreeSet;

    const S: u64 = 1_000_000_000;

    /// Cgroups that come, run and go, as a collector reads them: once more after they are removed.
    struct Machine {
        now: Snapshot,
        next_id: u64,
        living: Vec<CgroupTotals>,
        removed: Vec<CgroupTotals>,
        /// All that was used, by path.
        used_ns: BTreeMap<String, u64>,
        series: Series<String>,
    }

    impl Default for Machine {
        fn default() -> Machine {
            Machine {
                now: Snapshot::default(),
                next_id: 0,
                living: Vec::new(),
                removed: Vec::new(),
                used_ns: BTreeMap::new(),
                series: Series::new(SERIES_MAX),
            }
        }
    }

    impl Machine {
        fn begin(&mut self, path: &str) -> u64 {
            self.next_id += 1;
            self.living.push(CgroupTotals {
                id: self.next_id,
                path: Some(path.to_owned()),
                ..CgroupTotals::default()
            });
            self.next_id
        }

        fn run(&mut self, id: u64, raw_ns: u64) {
            let mut groups = self.living.iter_mut();
            let group = groups.find(|group| group.id == id).unwrap();
            group.usage.raw_ns += raw_ns;
            let path = group.path.clone().unwrap();
            *self.used_ns.entry(path).or_default() += raw_ns;
        }

        fn end(&mut self, id: u64) {
            let at = self.living.iter().position(|group| group.id == id).unwrap();
            self.removed.push(self.living.remove(at));
        }

        /// Reads a second later.
        fn read(&mut self) {
            let mut now = Snapshot {
                taken_ns: self.now.taken_ns + S,
                cgroups: self.living.clone(),
                ..Snapshot::default()
            };
            now.cgroups.append(&mut self.removed);
            let used = used_between(Some(&self.now), &now);
            self.series.count(used.passed_ns, used.by_path());
            self.now = now;
        }

        fn told(&self) -> BTreeMap<String, u64> {
            let told: Vec<(String, u64)> = (self.series.totals())
                .map(|(path, usage)| (path.map_or(OTHERS, |path| path).to_owned(), usage.raw_ns))
                .collect();
            let names: BTreeSet<&String> = told.iter().map(|(path, _)| path).collect();
            assert_eq!(names.len(), told.len(), "a label is told twice");
            assert!(told.len() <= SERIES_MAX + 1);
            told.into_iter().collect()
        }
    }

    #[test]
    fn lives_at_one_path_are_one_series() {
        let mut machine = Machine::default();
        for life in 1..=5_000 {
            let id = machine.begin("/web.service");
            machine.run(id, 7);
            machine.end(id);
            machine.read();
            assert_eq!(
                machine.told(),
                [("/web.service".to_owned(), life * 7)].into()
            );
        }
    }

    #[test]
    fn a_cgroup_that_works_is_told_however_many_come_and_go() {
        let mut machine = Machine::default();
        let early = machine.begin("/early");
        let mut late = None;
        for life in 0..6_000 {
            let id = machine.begin(&format!("/short/{life}"));
            machine.run(id, S / 100);
            machine.run(early, S / 5);
            if life == 3_000 {
                late = Some(machine.begin("/late"));
            }
            late.iter().for_each(|late| machine.run(*late, S / 10));
            machine.end(id);
            if life % 3 == 2 {
                machine.read();
            }
        }
        machine.read();
        let told = machine.told();
        for path in ["/early", "/late"] {
            assert_eq!(told[path], machine.used_ns[path], "{path}");
        }
        assert!(machine.series.names.len() <= REMEMBERED_MAX);
        assert!(machine.series.ended() > 0 && machine.series.forgotten() <= machine.series.ended());
        assert_eq!(
            machine.series.folded(),
            0,
            "the last one has the place of one before"
        );
    }

    #[test]
    fn what_has_no_series_is_folded_and_counted() {
        let mut machine = Machine::default();
        let ids: Vec<u64> = (0..SERIES_MAX + 7)
            .map(|at| machine.begin(&format!("/{at:03}")))
            .collect();
        for round in 1..=3 {
            for id in &ids {
                machine.run(*id, S);
            }
            machine.read();
            let told = machine.told();
            assert_eq!(machine.series.folded(), 7);
            assert_eq!(told["(others)"], 7 * round * S);
            assert_eq!(told.len(), SERIES_MAX + 1);
        }
        assert_eq!(
            machine.series.ended(),
            0,
            "those that run alike take no turns"
        );
    }

    #[test]
    fn a_series_that_begins_again_goes_on_where_it_was() {
        let mut machine = Machine::default();
        let first = machine.begin("/first");
        machine.run(first, S);
        machine.read();
        for at in 0..SERIES_MAX {
            let id = machine.begin(&format!("/{at}"));
            machine.run(id, 10 * S);
        }
        machine.read();
        assert!(!machine.told().contains_key("/first"));
        machine.run(first, S);
        machine.read();
        assert_eq!(machine.told()["(others)"], S);
        machine.run(first, 50 * S);
        machine.read();
        let told = machine.told();
        assert_eq!((told["/first"], told["(others)"]), (51 * S, S));
    }

    #[test]
    fn jobs_are_in_the_bucket_of_their_latency() {
        let mut jobs = Jobs::default();
        let task = |class, latencies: &[u64]| TaskTotals {
            class,
            usage: Usage {
                jobs: LogHistogram::of(latencies.iter().copied()),
                ..Usage::default()
            },
            ..TaskTotals::default()
        };
        // as the collector tells them: the longest of a quarter of an octave
        let ms = (1 << 20) - 1;
        jobs.count(&[
            task(Some(Class::Critical), &[1023, ms, ms, 1 << 36]),
            task(None, &[ms]),
            task(Some(Class::Critical), &[(5 << 18) - 1]),
        ]);
        let all: Vec<_> = jobs.latencies().collect();
        let [("critical", latencies)] = &all[..] else {
            panic!("{all:?}");
        };
        assert_eq!(latencies.count, 5);
        let counts: u64 = latencies.buckets.iter().map(|(_, count)| count).sum();
        assert_eq!(counts, 5);
        let up_to = |bound: u64| {
            let bound = bound as f64 / 1e9;
            let found = latencies.buckets.iter().find(|(le, _)| *le == bound);
            found.unwrap().1
        };
        assert_eq!((up_to(1 << 14), up_to(1 << 20), up_to(3 << 19)), (1, 2, 1));
        assert_eq!(latencies.buckets.last(), Some(&(f64::MAX, 1)));
        let rest = latencies.sum_s - 68.7;
        assert!((-9.0..0.1).contains(&rest), "{latencies:?}");
        assert!(latencies.buckets.is_sorted_by(|a, b| a.0 < b.0));
    }

    /// An hour of a machine whose containers live for a moment: 10,000 of them, beside services that use little.
    #[test]
    fn ten_thousand_short_lives_lose_no_living_cgroup() {
        let mut machine = Machine::default();
        let mut services = Vec::new();
        for life in 0..10_000 {
            // they begin one after the other, when the places are taken
            if life % 500 == 0 {
                services.push(machine.begin(&format!("/service/{}", services.len())));
            }
            let id = machine.begin(&format!("/pod/{life}"));
            machine.run(id, S / 20);
            services.iter().for_each(|id| machine.run(*id, S / 50));
            machine.end(id);
            if life % 10 == 9 {
                machine.read();
            }
        }
        let told = machine.told();
        for at in 0..services.len() {
            let path = format!("/service/{at}");
            // a place is taken by those used clearly more: what was used until then is in (others)
            let used_ns = machine.used_ns[&path];
            let found_ns = told.get(&path).copied().unwrap_or(0);
            assert!(
                found_ns > used_ns - S && found_ns <= used_ns,
                "{path}: {found_ns}"
            );
        }
        assert!(machine.series.names.len() <= REMEMBERED_MAX);
        // each use counts once, also of what is forgotten
        let (all, used) = (told.values().sum::<u64>(), machine.used_ns.values().sum());
        assert!(all <= used && machine.series.ended() >= machine.series.forgotten());
    }

    proptest! {
        /// Whatever comes and goes: no label twice, no total goes back, each use counts once.
        #[test]
        fn totals_ascend_and_add_up(
            steps in prop::collection::vec((0..4u8, 0..180usize, 0..3 * S), 1..600),
        ) {
            let mut machine = Machine::default();
            let mut before = BTreeMap::new();
            for (what, path, raw_ns) in steps {
                let path = format!("/{path}");
                let living = machine.living.iter().find(|group| group.path.as_ref() == Some(&path));
                match (what, living.map(|group| group.id)) {
                    (0, Some(id)) => machine.end(id),
                    (0 | 1, None) => { machine.begin(&path); }
                    (1 | 2, Some(id)) => machine.run(id, raw_ns),
                    _ => {
                        machine.read();
                        let told = machine.told();
                        for (path, raw_ns) in &told {
                            prop_assert!(before.get(path).is_none_or(|earlier| earlier <= raw_ns));
                        }
                        before.extend(told);
                    }
                }
            }
            machine.read();
            let kept = machine.series.names.values().filter_map(|known| known.total.as_ref());
            let all = kept.chain(machine.series.others.as_ref()).map(|usage| usage.raw_ns);
            prop_assert_eq!(all.sum::<u64>(), machine.used_ns.values().sum::<u64>());
        }
    }
}
