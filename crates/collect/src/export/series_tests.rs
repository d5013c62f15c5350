#![allow(clippy::unwrap_used)]
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const S: u64 = 1_000_000_000;

/// Cgroups that come, run and go, as a collector reads them: once more after they are removed.
#[derive(Default)]
struct Machine {
    now: Snapshot,
    next_id: u64,
    living: Vec<CgroupTotals>,
    removed: Vec<CgroupTotals>,
    /// All that was used, by path.
    used_ns: BTreeMap<String, u64>,
    series: Series,
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
        self.series.count(Some(&self.now), &now);
        self.now = now;
    }

    fn told(&self) -> BTreeMap<String, u64> {
        let told: Vec<(String, u64)> = (self.series.totals())
            .map(|(path, usage)| (path.to_owned(), usage.raw_ns))
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
    assert!(machine.series.paths.len() <= REMEMBERED_MAX);
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
        let kept = machine.series.paths.values().filter_map(|path| path.total.as_ref());
        let all = kept.chain(machine.series.others.as_ref()).map(|usage| usage.raw_ns);
        prop_assert_eq!(all.sum::<u64>(), machine.used_ns.values().sum::<u64>());
    }
}
