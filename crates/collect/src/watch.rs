//! Intervals of a collector, one after the other: the loop that all who watch share.

use crate::Error;
use crate::collector::{Collector, LANES_CAME, Place, Settings};
use sidelane_kernel::TaskStorage;
use sidelane_smt::metrics::SmtMetrics;
use sidelane_smt::snapshot::{Interval, RateSource, Snapshot, delta};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often [`watch`] looks whether the end has come.
const POLL: Duration = Duration::from_millis(50);

/// A running collector, interval after interval.
pub struct Watch<'a> {
    collector: Collector<'a>,
    before: Snapshot,
}

impl<'a> Watch<'a> {
    /// Starts a collector; the first interval begins now.
    ///
    /// # Errors
    /// As [`Collector::start`].
    pub fn start(settings: &Settings, place: &'a mut Place) -> Result<Watch<'a>, Error> {
        let mut collector = Collector::start(settings, place)?;
        let before = collector.read()?;
        Ok(Watch { collector, before })
    }

    /// What passed since the last call that succeeded.
    ///
    /// # Errors
    /// The collector cannot be read, or totals went back.
    pub fn interval(&mut self) -> Result<Interval, Error> {
        let after = self.collector.read()?;
        let interval = delta(&self.before, &after).map_err(|e| Error::Metrics(e.to_string()))?;
        self.before = after;
        Ok(interval)
    }

    /// The metrics of all cores since the last call, and where the work rates are from; none where
    /// nothing can be said, as after lanes came online.
    pub fn since_last(&mut self) -> Option<(SmtMetrics, RateSource)> {
        let interval = self.interval().ok()?;
        let seen = self.collector.outdated() != Some(LANES_CAME);
        let metrics = interval.metrics().ok().filter(|_| seen)?;
        Some((metrics, interval.rates.source))
    }
}

/// What follows a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The interval, and then another one.
    More,
    /// The interval, which is the last.
    Last,
    /// Nothing more.
    Nothing,
}

/// Who is told intervals.
pub trait Listener {
    /// What can fail there.
    type Error: From<Error>;

    /// A collector has begun: the first, or one in the place of another, and why.
    ///
    /// # Errors
    /// Whatever ends the loop.
    fn begun(&mut self, instead: Option<&str>) -> Result<(), Self::Error>;

    /// Waits for the end of an interval.
    ///
    /// # Errors
    /// Whatever ends the loop.
    fn wait(&mut self) -> Result<Wanted, Self::Error>;

    /// Takes the interval that has passed.
    ///
    /// # Errors
    /// Whatever ends the loop.
    fn take(&mut self, interval: Interval) -> Result<(), Self::Error>;
}

/// Tells intervals until no more are wanted. A collector that no longer sees the whole machine, or cannot
/// be read, is replaced; what passes meanwhile is in no interval.
///
/// # Errors
/// A collector cannot be started, the last interval cannot be read, or the listener fails.
pub fn tell<L: Listener>(settings: &Settings, listener: &mut L) -> Result<(), L::Error> {
    let mut instead: Option<String> = None;
    let mut storage = TaskStorage::default();
    loop {
        let mut place = Place::default();
        let mut watch = Watch::start(settings, &mut place)?;
        listener.begun(instead.as_deref())?;
        let reason = loop {
            let wanted = listener.wait()?;
            storage.let_go();
            if wanted == Wanted::Nothing {
                return Ok(());
            }
            match watch.interval() {
                Ok(interval) => listener.take(interval)?,
                Err(error) if wanted == Wanted::Last => return Err(error.into()),
                Err(error) => break error.to_string(),
            }
            if wanted == Wanted::Last {
                return Ok(());
            }
            if let Some(reason) = watch.collector.outdated() {
                break reason.to_owned();
            }
        };
        storage.retire(watch.collector.into_storage());
        instead = Some(reason);
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
