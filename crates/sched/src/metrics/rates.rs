//! By what work is counted to begin with.

use super::Settings;
use crate::Error;
use sidelane_smt::snapshot::{RateSource, Rates};
use sidelane_smt::thread_perf;

/// The rates to begin with, for cores of so many lanes, and what of them was assumed, if not all was.
pub(super) fn rates(settings: &Settings, lanes: usize) -> Result<(Rates, Option<String>), Error> {
    let given = settings.rates.clone().unwrap_or_else(|| Rates {
        source: RateSource::Assumed,
        thread_perf: typical(lanes),
    });
    if let Some(fault) = thread_perf::fault(&given.thread_perf) {
        return Err(Error::Metrics(format!("threadPerf is not valid: {fault}")));
    }
    let known = given.thread_perf.len();
    let last = given.thread_perf.last().copied().unwrap_or(1.0);
    // further lanes add nothing: the core's rate stays
    let further = (known + 1..=lanes).map(|n| last * known as f64 / n as f64);
    let speeds = given.thread_perf.iter().copied().chain(further);
    let thread_perf = speeds.collect();
    if known >= lanes {
        let source = given.source;
        return Ok((
            Rates {
                source,
                thread_perf,
            },
            None,
        ));
    }
    let source = RateSource::Assumed;
    let tail = format!(
        "threadPerf is assumed beyond {known} lanes of a core, which has up to {lanes}: that further lanes add nothing"
    );
    Ok((
        Rates {
            source,
            thread_perf,
        },
        Some(tail),
    ))
}

/// Published values: of a Xeon with two lanes, of POWER7 with four.
fn typical(lanes: usize) -> Vec<f64> {
    match lanes {
        1 | 2 => vec![1.0, 0.6],
        _ => vec![1.0, 0.75, 0.57, 0.45],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_continued_and_labelled() {
        let given = |source, thread_perf: &[f64]| Settings {
            rates: Some(Rates {
                source,
                thread_perf: thread_perf.to_vec(),
            }),
            ..Settings::default()
        };
        let (assumed, tail) = rates(&Settings::default(), 2).unwrap();
        assert_eq!(tail, None);
        assert_eq!(assumed.source, RateSource::Assumed);
        assert_eq!(assumed.thread_perf, [1.0, 0.6]);
        let (eight, tail) = rates(&Settings::default(), 8).unwrap();
        assert!(tail.unwrap().contains("beyond 4 lanes"));
        assert_eq!(thread_perf::fault(&eight.thread_perf), None);
        assert_eq!((eight.thread_perf.len(), eight.thread_perf[7]), (8, 0.225));
        let of_two = given(RateSource::Calibrated, &[1.0, 0.7]);
        let (calibrated, tail) = rates(&of_two, 2).unwrap();
        assert_eq!((calibrated.source, tail), (RateSource::Calibrated, None));
        // what nobody measured is not of a calibration
        let (wider, tail) = rates(&of_two, 4).unwrap();
        assert_eq!(wider.source, RateSource::Assumed);
        assert!(tail.unwrap().contains("beyond 2 lanes"));
        assert!(rates(&given(RateSource::Given, &[1.0, 1.7]), 2).is_err());
    }
}
