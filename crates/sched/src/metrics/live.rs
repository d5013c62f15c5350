//! What commands do with a running collector: hand its readings out, or watch for a while.

use super::{Collector, Listener, Place, Settings, Wanted, tell};
use crate::bpf::{from_bytes, intf};
use crate::task_storage::TaskStorage;
use crate::{Error, running};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use sidelane_collect::export::{Series, Server, text};
use sidelane_smt::snapshot::{Class, Interval, LaneState, Snapshot, delta};
use std::collections::BTreeMap;
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
    let mut storage = TaskStorage::default();
    while !stop.load(Ordering::Relaxed) {
        let mut place = Place::default();
        let mut readings = Readings::start(Collector::start(settings, &mut place)?)?;
        while !stop.load(Ordering::Relaxed) {
            let answered = server.answer(POLL, || readings.text());
            answered.map_err(|e| Error::Metrics(e.to_string()))?;
            storage.let_go();
            if readings.collector.crowded() {
                let _ = readings.take(); // the next scrape says why, or succeeds
            }
            if let Some(reason) = readings.collector.outdated() {
                tell(&format!("the collector is started anew: {reason}"));
                break;
            }
        }
        storage.retire(readings.collector.into_storage());
    }
    Ok(())
}

struct Readings<'a> {
    collector: Collector<'a>,
    last: Snapshot,
    series: Series,
    /// Where the next ratios begin.
    ratios_from: Snapshot,
    recent: Option<Interval>,
}

impl<'a> Readings<'a> {
    fn start(mut collector: Collector<'a>) -> Result<Readings<'a>, Error> {
        let first = collector.read()?;
        let mut series = Series::default();
        series.count(None, &first);
        Ok(Readings {
            collector,
            last: first.clone(),
            series,
            ratios_from: first,
            recent: None,
        })
    }

    fn take(&mut self) -> Result<(), Error> {
        let now = self.collector.read()?;
        self.series.count(Some(&self.last), &now);
        self.last = now;
        Ok(())
    }

    fn text(&mut self) -> Result<String, Error> {
        self.take()?;
        let now = &self.last;
        if now.taken_ns.saturating_sub(self.ratios_from.taken_ns) >= RATIOS_MIN_NS {
            self.recent = delta(&self.ratios_from, now).ok();
            self.ratios_from = now.clone();
        }
        text(now, self.recent.as_ref(), &self.series).map_err(|e| Error::Metrics(e.to_string()))
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
    let mut seconds = Seconds {
        stop,
        length,
        end: None,
        intervals: Vec::new(),
    };
    tell(settings, &mut seconds)?;
    Ok(seconds.intervals)
}

/// Intervals of a second.
struct Seconds<'a> {
    stop: &'a AtomicBool,
    length: Duration,
    /// Known once the collector runs: on a loaded machine its start takes seconds.
    end: Option<Instant>,
    intervals: Vec<Interval>,
}

impl Listener for Seconds<'_> {
    type Error = Error;

    fn begun(&mut self, _instead: Option<&str>) -> Result<(), Error> {
        self.intervals.clear();
        self.end.get_or_insert(Instant::now() + self.length);
        Ok(())
    }

    fn wait(&mut self) -> Result<Wanted, Error> {
        let now = Instant::now();
        let end = self.end.unwrap_or(now);
        let second = (now + Duration::from_secs(1)).min(end);
        while !self.stop.load(Ordering::Relaxed) {
            let left = second.saturating_duration_since(Instant::now());
            if left.is_zero() && second < end {
                return Ok(Wanted::More);
            } else if left.is_zero() {
                break;
            }
            std::thread::sleep(POLL.min(left));
        }
        Ok(Wanted::Last)
    }

    fn take(&mut self, interval: Interval) -> Result<(), Error> {
        self.intervals.push(interval);
        Ok(())
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
