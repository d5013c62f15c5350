//! What Prometheus is told: SMT metrics and the scheduler's state as OpenMetrics, and an HTTP server that hands them out.
//!
//! Cardinality is bounded: cores and lanes are as many as the machine has, cgroups at most
//! [`SERIES_MAX`] (those that ran most of late; the others are summed), pools as many, and tasks are not exported.

mod encode;
mod families;
mod scheduler;
mod series;
mod serve;

pub use encode::plain;
pub use series::SERIES_MAX;
pub use serve::{ServeError, Server};

use encode::{Exported, text};
use scheduler::{Kernel, Scheduler};
use series::{Jobs, Series};
use sidelane_collect::Error;
use sidelane_collect::collector::{Collector, Place, Settings};
use sidelane_kernel::TaskStorage;
use sidelane_smt::snapshot::{Interval, Snapshot, delta};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether the end has come, and whether another scheduler is attached.
const POLL: Duration = Duration::from_millis(50);

/// Ratios are over at least so long: two scrapers at the same time do not make them jump.
const RATIOS_MIN_NS: u64 = 1_000_000_000;

/// Answers requests for metrics until `stop`. A collector that no longer sees the whole machine is
/// replaced, `tell` hears why, and totals of cores and lanes begin at 0, as after a restart of this program.
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
    let mut lasting = Lasting {
        series: Series::default(),
        jobs: Jobs::default(),
        scheduler: Scheduler::new(Kernel),
        told: BTreeSet::new(),
        starts: 0,
    };
    while !stop.load(Ordering::Relaxed) {
        lasting.scheduler.watch(tell);
        let mut place = Place::default();
        let collector = Collector::start(settings, &mut place)?;
        let mut readings = Readings::start(collector, &mut lasting)?;
        while !stop.load(Ordering::Relaxed) {
            let answered = server.answer(POLL, || readings.text(tell));
            answered.map_err(|e| Error::Metrics(e.to_string()))?;
            storage.let_go();
            readings.lasting.scheduler.watch(tell);
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

/// What outlives a collector.
struct Lasting {
    series: Series,
    jobs: Jobs,
    scheduler: Scheduler<Kernel>,
    /// Messages of collectors: each is told once.
    told: BTreeSet<String>,
    /// Collectors that were started.
    starts: u64,
}

struct Readings<'a, 'l> {
    collector: Collector<'a>,
    last: Snapshot,
    lasting: &'l mut Lasting,
    /// Where the next ratios begin.
    ratios_from: Snapshot,
    recent: Option<Interval>,
}

impl<'a, 'l> Readings<'a, 'l> {
    fn start(
        mut collector: Collector<'a>,
        lasting: &'l mut Lasting,
    ) -> Result<Readings<'a, 'l>, Error> {
        let first = collector.read()?;
        lasting.series.count(None, &first);
        lasting.starts += 1;
        Ok(Readings {
            collector,
            last: first.clone(),
            lasting,
            ratios_from: first,
            recent: None,
        })
    }

    fn take(&mut self) -> Result<(), Error> {
        let now = self.collector.read()?;
        self.lasting.series.count(Some(&self.last), &now);
        if let Ok(interval) = delta(&self.last, &now) {
            self.lasting.jobs.count(&interval.tasks);
        }
        self.last = now;
        Ok(())
    }

    fn text(&mut self, tell: &mut dyn FnMut(&str)) -> Result<String, Error> {
        self.take()?;
        let now = &self.last;
        if now.taken_ns.saturating_sub(self.ratios_from.taken_ns) >= RATIOS_MIN_NS {
            self.recent = delta(&self.ratios_from, now).ok();
            self.ratios_from = now.clone();
        }
        let lasting = &mut *self.lasting;
        for message in &now.notes.messages {
            if lasting.told.insert(message.clone()) {
                tell(message);
            }
        }
        lasting.scheduler.look(tell);
        let exported = Exported {
            now,
            recent: self.recent.as_ref(),
            series: &lasting.series,
            jobs: lasting.scheduler.jobs(&lasting.jobs),
            scheduler: lasting.scheduler.families(),
            starts: lasting.starts,
        };
        text(exported).map_err(|e| Error::Metrics(e.to_string()))
    }
}
