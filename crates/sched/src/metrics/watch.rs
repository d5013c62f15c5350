//! The metrics of the machine, reading after reading.

use super::{Collector, LANES_CAME, Place, Settings};
use crate::Error;
use sidelane_metrics::smt::SmtMetrics;
use sidelane_metrics::snapshot::{RateSource, Snapshot, delta};

/// The metrics of all cores, reading after reading.
pub struct Watch<'a> {
    collector: Collector<'a>,
    before: Snapshot,
}

impl<'a> Watch<'a> {
    /// Starts a collector.
    ///
    /// # Errors
    /// As [`Collector::start`].
    pub fn start(settings: &Settings, place: &'a mut Place) -> Result<Watch<'a>, Error> {
        let mut collector = Collector::start(settings, place)?;
        let before = collector.read()?;
        Ok(Watch { collector, before })
    }

    /// The metrics since the last call, and where the work rates are from; none where nothing can be
    /// said, as after lanes came online.
    pub fn since_last(&mut self) -> Option<(SmtMetrics, RateSource)> {
        let after = self.collector.read().ok()?;
        let interval = delta(&self.before, &after).ok()?;
        self.before = after;
        let seen = self.collector.outdated() != Some(LANES_CAME);
        let metrics = interval.metrics().ok().filter(|_| seen)?;
        Some((metrics, interval.rates.source))
    }
}
