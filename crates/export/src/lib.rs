//! Readings as OpenMetrics, and a small HTTP server that hands them out.
//!
//! Cardinality is bounded: cores and lanes are as many as the machine has, cgroups at most
//! [`SERIES_MAX`] (those that ran most of late; the others are summed), and tasks are not exported.

mod encode;
mod series;
mod serve;

pub use encode::{plain, text};
pub use series::{SERIES_MAX, Series};
pub use serve::{ServeError, Server};

use sidelane_collect::Error;
use sidelane_collect::collector::{Collector, Place, Settings};
use sidelane_kernel::TaskStorage;
use sidelane_smt::snapshot::{Interval, Snapshot, delta};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

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
