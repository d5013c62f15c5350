//! What commands do with a running collector: hand its readings out, or watch for a while.

use super::{Collector, Place, Settings};
use crate::bpf::{from_bytes, intf};
use crate::{Error, cgroups, running};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidelane_metrics::export::{Server, text};
use sidelane_metrics::snapshot::{Class, Interval, LaneState, Snapshot, delta};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it is looked whether the end has come.
const POLL: Duration = Duration::from_millis(50);

/// Ratios are over at least so long: two scrapers at the same time do not make them jump.
const RATIOS_MIN_NS: u64 = 1_000_000_000;

/// Answers requests for metrics until `stop`. A collector that no longer sees the whole machine is
/// replaced, `tell` hears why, and totals begin at 0, as after a restart of this program.
///
/// # Errors
/// The collector cannot be started, or no requests can be received.
pub fn export(
    settings: &Settings,
    server: &Server,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    while !stop.load(Ordering::Relaxed) {
        let mut place = Place::default();
        let mut readings = Readings::start(Collector::start(settings, &mut place)?)?;
        while !stop.load(Ordering::Relaxed) {
            let answered = server.answer(POLL, || readings.text());
            answered.map_err(|e| Error::Metrics(e.to_string()))?;
            if let Some(reason) = readings.collector.outdated() {
                tell(&format!("the collector is started anew: {reason}"));
                break;
            }
        }
    }
    Ok(())
}

struct Readings<'a> {
    collector: Collector<'a>,
    before: Snapshot,
    recent: Option<Interval>,
}

impl<'a> Readings<'a> {
    fn start(mut collector: Collector<'a>) -> Result<Readings<'a>, Error> {
        let before = collector.read()?;
        Ok(Readings {
            collector,
            before,
            recent: None,
        })
    }

    fn text(&mut self) -> Result<String, Error> {
        let now = self.collector.read()?;
        if now.taken_ns.saturating_sub(self.before.taken_ns) >= RATIOS_MIN_NS {
            self.recent = delta(&self.before, &now).ok();
            self.before = now.clone();
        }
        text(&now, self.recent.as_ref()).map_err(|e| Error::Metrics(e.to_string()))
    }
}

/// Watches for so long, or until `stop`; intervals of a second. After a collector that no longer saw the
/// whole machine, only what its successor saw.
///
/// # Errors
/// The collector cannot be started or read.
pub fn watch(
    settings: &Settings,
    length: Duration,
    stop: &AtomicBool,
) -> Result<Vec<Interval>, Error> {
    let end = Instant::now() + length;
    let over = || stop.load(Ordering::Relaxed) || Instant::now() >= end;
    loop {
        let mut place = Place::default();
        let mut collector = Collector::start(settings, &mut place)?;
        let mut before = collector.read()?;
        let mut intervals = Vec::new();
        while !over() && collector.outdated().is_none() {
            let second = (Instant::now() + Duration::from_secs(1)).min(end);
            while !over() && Instant::now() < second {
                std::thread::sleep(POLL.min(second.saturating_duration_since(Instant::now())));
            }
            let after = collector.read()?;
            intervals.push(delta(&before, &after).map_err(|e| Error::Metrics(e.to_string()))?);
            before = after;
        }
        if over() {
            return Ok(intervals);
        }
    }
}

/// Hands an interval at a time to `next`, which says when the following one is wanted, until it says
/// nothing. A collector that no longer saw the whole machine is replaced.
///
/// # Errors
/// The collector cannot be started or read, or `next` fails.
pub fn follow<E: From<Error>>(
    settings: &Settings,
    mut next: impl FnMut(Interval, BTreeMap<u32, LaneState>) -> Result<bool, E>,
) -> Result<(), E> {
    loop {
        let mut place = Place::default();
        let mut collector = Collector::start(settings, &mut place)?;
        let lanes = Lanes::open();
        let mut before = collector.read()?;
        while collector.outdated().is_none() {
            let after = collector.read()?;
            let Ok(interval) = delta(&before, &after) else {
                break;
            };
            let cpus = (after.cores.iter()).flat_map(|core| core.lanes.iter().map(|lane| lane.cpu));
            let states = lanes.as_ref().map(|lanes| lanes.states(cpus));
            if !next(interval, states.unwrap_or_default())? {
                return Ok(());
            }
            before = after;
        }
    }
}

/// What the lanes of the running scheduler do.
pub struct Lanes(MapHandle);

impl Lanes {
    /// Of the scheduler that is attached, if it is Sidelane's.
    pub fn open() -> Option<Lanes> {
        let map = running::map(b"lane_signals", size_of::<intf::lane_signal>());
        map.ok().map(Lanes)
    }

    /// By CPU number.
    pub fn states(&self, cpus: impl Iterator<Item = u32>) -> BTreeMap<u32, LaneState> {
        let state = |cpu: u32| {
            let bytes = self.0.lookup(&cpu.to_ne_bytes(), MapFlags::ANY).ok()??;
            Some((
                cpu,
                state_of(from_bytes::<intf::lane_signal>(&bytes)?.state),
            ))
        };
        cpus.filter_map(state).collect()
    }
}

fn state_of(state: u32) -> LaneState {
    match state {
        intf::lane_state_LANE_CRITICAL => LaneState::Runs(Class::Critical),
        intf::lane_state_LANE_NORMAL => LaneState::Runs(Class::Normal),
        intf::lane_state_LANE_BATCH => LaneState::Runs(Class::Batch),
        intf::lane_state_LANE_IDLE => LaneState::Idle,
        _ => LaneState::Unknown,
    }
}

/// Cgroups with a limit (`cpu.max`), by path: how many lanes they may use on the mean.
pub fn limits() -> BTreeMap<String, f64> {
    let Ok(Some(mount)) = cgroups::mount_point(Path::new("/")) else {
        return BTreeMap::new();
    };
    let paths = cgroups::list(&mount).into_values();
    let limited = paths.filter_map(|path| {
        let file = mount.join(path.trim_start_matches('/')).join("cpu.max");
        let lanes = lanes_of(&std::fs::read_to_string(file).ok()?)?;
        Some((path, lanes))
    });
    limited.collect()
}

/// Of the text of a `cpu.max`: quota ÷ period; none without a limit.
fn lanes_of(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (f64, f64) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0.0).then(|| quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_quota_by_period() {
        assert_eq!(lanes_of("150000 100000\n"), Some(1.5));
        for none in ["max 100000\n", "", "5", "5 0", "a b"] {
            assert_eq!(lanes_of(none), None, "{none:?}");
        }
    }
}
