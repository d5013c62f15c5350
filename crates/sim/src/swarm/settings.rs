//! Settings of a random scenario: each row of the table is drawn within its own range.

use super::plan::Draws;
use sidelane_policy::file::Limits;
use sidelane_policy::settings::{BUDGET_KEYS, Kind, Row, rows};
use sidelane_policy::{Borrow, Budget, Objective, Settings, UseCounters};

const MS: f64 = 1e6;
/// Times are drawn up to so many times the default, so that what they bound happens within a run.
const LONGER: f64 = 2.0;

/// Settings that a file could say, for a machine with so many lanes a core.
pub(super) fn settings(draws: &mut Draws, widest: usize) -> Settings {
    let mut settings = Settings::default();
    if draws.percent(25) {
        return settings;
    }
    (settings.budget, settings.thread_perf) = budget(draws, widest);
    // what has no effect is not drawn, and what it needs may itself need something
    let mut left: Vec<&Row> = rows().filter(|row| !goes_together(row)).collect();
    loop {
        let (now, later): (Vec<&Row>, _) = left
            .into_iter()
            .partition(|row| row.needs.is_none_or(|needs| (needs.is_met)(&settings)));
        if now.is_empty() {
            break;
        }
        for row in now {
            if draws.percent(50) && settings.are_asked_for(row) {
                draw(row, draws, widest, &mut settings);
            }
        }
        left = later;
    }
    if settings.only_batch() && settings.budget.borrow == Borrow::Slo {
        settings.budget = Budget::default();
    }
    let times = &mut settings.retention;
    let mut in_order = [times.min_ns, times.start_ns, times.max_ns];
    in_order.sort_unstable();
    [times.min_ns, times.start_ns, times.max_ns] = in_order;
    settings.symbiotic &= settings.counters != UseCounters::Off;
    settings
}

/// Settings of which one says what another may be: drawn together.
fn goes_together(row: &Row) -> bool {
    BUDGET_KEYS.contains(&row.name) || matches!(row.kind, Kind::Speeds(_))
}

fn draw(row: &Row, draws: &mut Draws, widest: usize, settings: &mut Settings) {
    match &row.kind {
        Kind::Time(limits, at) => {
            let at = at(settings);
            *at = time_ns(draws, limits, *at);
        }
        Kind::Number(limits, at) => {
            let most = limits.max().min(2.0 * *at(settings));
            *at(settings) = limits.min() + (most - limits.min()) * draws.share(1);
        }
        Kind::Whole(least, most, at) => {
            // a number of lanes or of tasks is small
            let most = (*most).min((widest as u32).max(2 * *at(settings)));
            *at(settings) = draws.between((*least).into(), most.into()) as u32;
        }
        Kind::Switch(at) => *at(settings) = draws.percent(50),
        Kind::Word(words, _, set) => set(settings, draws.below(words.len() as u64) as usize),
        Kind::Objective(_) | Kind::Speeds(_) => {}
    }
}

/// Within the limits, from the least to some times the default.
fn time_ns(draws: &mut Draws, limits: &Limits, default_ns: u64) -> u64 {
    if limits.allow(0.0) && draws.percent(20) {
        return 0;
    }
    let most_ms = match default_ns {
        0 => limits.max() / 100.0,
        _ => limits.max().min(LONGER * default_ns as f64 / MS),
    };
    draws.magnitude((limits.min() * MS) as u64, (most_ms * MS) as u64)
}

/// How long batch may run beside critical work, and what is told of shared lanes.
fn budget(draws: &mut Draws, widest: usize) -> (Budget, Vec<f64>) {
    let limits = Budget::LIMITS_MS;
    // of that, what lasts no longer than a run
    let budget_ns = draws.magnitude((limits.min() * MS) as u64, (limits.max() * MS) as u64 / 100);
    let borrow = draws.one(&Borrow::ALL).copied().unwrap_or_default();
    let budget = match borrow {
        Borrow::Slo => Budget::slo(Objective {
            latency_ns: budget_ns,
            beyond: draws.between(1, 500) as u32,
        }),
        _ if borrow.is_limited() => Budget::limited(borrow, budget_ns),
        _ => Budget {
            borrow,
            ..Budget::default()
        },
    };
    let known = borrow == Borrow::Dynamic || draws.percent(50);
    let speeds = match known {
        true => thread_perf(draws, widest),
        false => Vec::new(),
    };
    (budget, speeds)
}

/// Speeds of a lane when 1, 2, ... lanes of its core run.
pub(super) fn thread_perf(draws: &mut Draws, widest: usize) -> Vec<f64> {
    let mut speeds = vec![1.0];
    for _ in 1..widest {
        let last = speeds.last().copied().unwrap_or(1.0);
        speeds.push((last * draws.share(500)).max(0.1));
    }
    speeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_a_file_could_say() {
        let mut changed = std::collections::BTreeSet::new();
        for seed in 0..2_000 {
            let mut drawn = settings(&mut Draws::new(seed), 4);
            let mut defaults = Settings::default();
            for row in rows() {
                match &row.kind {
                    Kind::Time(limits, at) => {
                        let ms = *at(&mut drawn) as f64 / MS;
                        let allowed = limits.allow(ms) || *at(&mut drawn) == *at(&mut defaults);
                        assert!(allowed, "{seed}: {} = {ms}", row.name);
                    }
                    Kind::Number(limits, at) => assert!(limits.allow(*at(&mut drawn))),
                    Kind::Whole(least, most, at) => {
                        assert!((*least..=*most).contains(at(&mut drawn)));
                    }
                    _ => {}
                }
                if row.written(&drawn) != row.written(&defaults) {
                    changed.insert(row.name);
                }
            }
        }
        assert_eq!(changed.len(), rows().count(), "{changed:?}");
    }
}
