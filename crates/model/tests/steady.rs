//! At a steady load the level settles: the governor in a closed loop with machines whose lanes are busy as the
//! level and the work allow.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use sidelane_model::{
    Governor, GovernorConfig, LaneOrder, Machine, Model, Normalization, Options, ThreadPerf, load,
};

/// Long enough for every window and dwell time to pass several times.
const INTERVALS: usize = 80;

/// What a machine has to do, the same all the time.
#[derive(Debug, Clone, Copy)]
enum Work {
    /// So many tasks that never sleep, idle cores first.
    Hogs(usize),
    /// So much a core, in cores that run one lane. `together`: the share of it for which all lanes of a core run at
    /// once; for the rest as few do as can.
    Arriving { work: f64, together: f64 },
}

#[derive(Debug, Clone)]
struct World {
    speeds: ThreadPerf,
    /// Lanes of each core.
    cores: Vec<usize>,
    work: Work,
    /// 1: a lane runs only while those below do; 0: all lanes of a core alike.
    order: f64,
    /// The share of time that the last lane of the first core runs work that may run nowhere else.
    pinned: f64,
}

impl World {
    fn machine(&self) -> Machine {
        Machine::new(self.cores.len() as u32, self.speeds.clone()).unwrap()
    }

    /// Shares of time that the lanes run which may run at a level.
    fn busy(&self, level: usize) -> Vec<Vec<f64>> {
        let lanes: Vec<usize> = self.cores.iter().map(|lanes| *lanes.min(&level)).collect();
        let mut cores: Vec<Vec<f64>> = match self.work {
            Work::Hogs(tasks) => self.hogs(tasks, &lanes),
            Work::Arriving { work, together } => self.arriving(work, together, level, &lanes),
        };
        if self.pinned > 0.0 {
            let core = &mut cores[0];
            core.resize(self.cores[0], 0.0);
            let last = core.last_mut().unwrap();
            *last = (*last + self.pinned).min(1.0);
        }
        cores
    }

    fn hogs(&self, mut tasks: usize, lanes: &[usize]) -> Vec<Vec<f64>> {
        let mut running = vec![0; lanes.len()];
        while tasks > 0 && running.iter().zip(lanes).any(|(n, lanes)| n < lanes) {
            let open = (0..lanes.len()).filter(|core| running[*core] < lanes[*core]);
            let core = open.min_by_key(|core| running[*core]).unwrap();
            running[core] += 1;
            tasks -= 1;
        }
        let shares = |(n, lanes): (&usize, &usize)| {
            let mut densities = vec![0.0; lanes + 1];
            densities[*n] = 1.0;
            self.shares(&densities)
        };
        running.iter().zip(lanes).map(shares).collect()
    }

    /// Cores with fewer lanes are full sooner; the others then do what is left, as far as they can.
    fn arriving(&self, work: f64, together: f64, level: usize, lanes: &[usize]) -> Vec<Vec<f64>> {
        let machine = self.machine();
        let rate = |running: usize| machine.core_rate(level, running);
        // further lanes may make a core slower: then it runs fewer
        let most = |lanes: usize| (1..=lanes).map(rate).fold(0.0, f64::max);
        let done = |each: f64| lanes.iter().map(|n| most(*n).min(each)).sum::<f64>();
        let (mut low, mut high) = (0.0, 16.0);
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            match done(middle) < work * lanes.len() as f64 {
                true => low = middle,
                false => high = middle,
            }
        }
        let core = |lanes: &usize| {
            let work = most(*lanes).min(high);
            let mut densities = vec![0.0; lanes + 1];
            let all = together * (work / rate(*lanes)).min(1.0);
            densities[*lanes] += all;
            densities[0] += together - all;
            let enough = (1..=*lanes).find(|n| rate(*n) >= work).unwrap_or(*lanes);
            let fewer = rate(enough - 1);
            let more = ((work - fewer) / (rate(enough) - fewer)).clamp(0.0, 1.0);
            densities[enough] += (1.0 - together) * more;
            densities[enough - 1] += (1.0 - together) * (1.0 - more);
            self.shares(&densities)
        };
        lanes.iter().map(core).collect()
    }

    /// Of each lane, from the shares of time that n lanes run.
    fn shares(&self, densities: &[f64]) -> Vec<f64> {
        let lanes = densities.len() - 1;
        let mean: f64 = (densities.iter().enumerate())
            .map(|(n, share)| n as f64 * share)
            .sum();
        let share = |lane: usize| {
            let nested: f64 = densities[lane + 1..].iter().sum();
            self.order * nested + (1.0 - self.order) * mean / lanes as f64
        };
        (0..lanes).map(|lane| share(lane).clamp(0.0, 1.0)).collect()
    }

    /// The levels, from the first to that after the last interval.
    fn levels(&self, start: usize, normalization: Normalization, model: Model) -> Vec<usize> {
        let machine = self.machine();
        let config = GovernorConfig {
            options: Options::new(model),
            ..GovernorConfig::default()
        };
        let mut governor = Governor::new(machine, config, start).unwrap();
        let mut levels = vec![start];
        for _ in 0..INTERVALS {
            let (level, options) = (governor.level(), config.options);
            let busy = self.busy(level);
            let load = load(governor.machine(), &busy, level, normalization, options);
            levels.push(governor.decide(load.unwrap().unwrap()).level);
        }
        levels
    }
}

fn changes(levels: &[usize]) -> usize {
    levels.windows(2).filter(|pair| pair[0] != pair[1]).count()
}

fn speeds() -> impl Strategy<Value = ThreadPerf> {
    let alone = prop_oneof![Just(1.0), 0.7..1.0f64];
    (alone, prop::collection::vec(0.4..1.0f64, 0..4)).prop_map(|(alone, ratios)| {
        let mut speeds = vec![alone];
        for ratio in ratios {
            speeds.push(speeds.last().unwrap() * ratio);
        }
        ThreadPerf::new(speeds).unwrap()
    })
}

fn arriving(
    work: std::ops::Range<f64>,
    together: std::ops::RangeInclusive<f64>,
) -> impl Strategy<Value = Work> {
    (work, together).prop_map(|(work, together)| Work::Arriving { work, together })
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        (0..40usize).prop_map(Work::Hogs),
        arriving(0.0..2.5, 0.0..=1.0),
        // where levels cross, and where the estimate errs most
        arriving(0.7..1.1, 0.0..=0.1),
    ]
}

prop_compose! {
    /// Cores of several kinds, one of them with all lanes.
    fn world()(
        speeds in speeds(),
        others in prop_oneof![
            prop::collection::vec(1..5usize, 0..12),
            (0..16usize).prop_map(|cores| vec![4; cores]),
        ],
        work in work(),
        order in prop::sample::select(vec![0.0, 0.5, 1.0]),
        pinned in prop::sample::select(vec![0.0, 0.0, 0.3, 1.0]),
    ) -> World {
        let widest = speeds.lanes();
        let cores = std::iter::once(widest).chain(others.into_iter().map(|n| n.min(widest)));
        World { cores: cores.collect(), speeds, work, order, pinned }
    }
}

fn normalization() -> impl Strategy<Value = Normalization> {
    prop::sample::select(vec![
        Normalization::Model,
        Normalization::Lanes(LaneOrder::Independent),
        Normalization::Lanes(LaneOrder::LowerFirst),
    ])
}

#[test]
fn one_thread_on_each_core_keeps_all_lanes() {
    for cores in [1, 2, 8, 16, 32] {
        for model in Model::ALL {
            let world = World {
                speeds: ThreadPerf::new(vec![1.0, 0.6]).unwrap(),
                cores: vec![2; cores],
                work: Work::Hogs(cores),
                order: 1.0,
                pinned: 0.0,
            };
            let levels = world.levels(2, Normalization::Model, model);
            assert!(changes(&levels) <= 1, "{cores} {model:?}: {levels:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// From all lanes, as the daemon begins: a first decision, and at most one change after it.
    #[test]
    fn a_steady_load_has_a_steady_level(
        world in world(),
        normalization in normalization(),
        model in prop::sample::select(Model::ALL.to_vec()),
    ) {
        let levels = world.levels(world.speeds.lanes(), normalization, model);
        prop_assert!(changes(&levels[1..]) <= 1, "{levels:?}");
    }

    /// From any level: no level is left downwards twice, and in the end there is no change.
    #[test]
    fn it_settles_from_any_level(
        world in world(),
        start in any::<prop::sample::Index>(),
        normalization in normalization(),
        model in prop::sample::select(Model::ALL.to_vec()),
    ) {
        let start = 1 + start.index(world.speeds.lanes());
        let levels = world.levels(start, normalization, model);
        let falls = levels.windows(2).filter(|pair| pair[1] < pair[0]);
        let mut left: Vec<usize> = falls.map(|pair| pair[0]).collect();
        left.sort_unstable();
        prop_assert!(left.windows(2).all(|pair| pair[0] < pair[1]), "{levels:?}");
        prop_assert_eq!(changes(&levels[INTERVALS / 2..]), 0, "{:?}", levels);
    }
}
