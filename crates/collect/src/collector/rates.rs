//! By what work is counted: the rates to begin with, and those from instructions, where the machine counts them.

use super::Settings;
use crate::Error;
use crate::counters::LaneCounters;
use sidelane_smt::online::{Origin, WorkRates};
use sidelane_smt::snapshot::{CoreTotals, RateSource, Rates};
use sidelane_smt::thread_perf;
use sidelane_topology::Topology;
use std::collections::BTreeMap;

/// The rates to begin with, for cores of so many lanes, and what of them was assumed, if not all was.
pub(super) fn rates(settings: &Settings, lanes: usize) -> Result<(Rates, Option<String>), Error> {
    let given = settings.rates.clone().unwrap_or_else(|| Rates {
        source: RateSource::Assumed,
        thread_perf: thread_perf::typical(lanes),
    });
    if let Some(fault) = thread_perf::fault(&given.thread_perf) {
        return Err(Error::Metrics(format!("threadPerf is not valid: {fault}")));
    }
    let known = given.thread_perf.len();
    let source = given.source;
    let thread_perf = thread_perf::extended(given.thread_perf, lanes);
    if known >= lanes {
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

/// What was seen counts half after this time.
const HALF_LIFE_S: f64 = 60.0;

/// Instructions since the reading before, by CPU number; none if they could not be counted.
type Counted = BTreeMap<u32, Option<f64>>;

/// Counts instructions on all lanes that are online, and learns the rates.
pub(super) struct Instructions {
    counters: LaneCounters,
    learner: Learner,
}

impl Instructions {
    /// Begins to count.
    pub(super) fn start(topology: &Topology) -> Result<Instructions, String> {
        let cpus: Vec<u32> = topology.online().iter().collect();
        let counters = LaneCounters::instructions(&cpus).map_err(|e| e.to_string())?;
        let learner = Learner::new(topology.lanes_per_core_max())?;
        Ok(Instructions { counters, learner })
    }

    /// Adds what was counted to the lanes. Returns threadPerf once all densities were seen enough;
    /// until then `thread_perf` holds.
    pub(super) fn count(
        &mut self,
        cores: &mut [CoreTotals],
        thread_perf: &[f64],
    ) -> Result<Option<Vec<f64>>, String> {
        let counted = self.counters.since_last().map_err(|e| e.to_string())?;
        let counted = counted.into_iter().collect();
        self.learner.learn(&counted, cores, thread_perf)
    }
}

/// Learns the rates of the cores with most lanes.
struct Learner {
    /// Totals by CPU number.
    totals: BTreeMap<u32, f64>,
    rates: WorkRates,
    /// Cores as of the reading before.
    before: BTreeMap<u32, CoreTotals>,
}

impl Learner {
    fn new(lanes: usize) -> Result<Learner, String> {
        Ok(Learner {
            totals: BTreeMap::new(),
            rates: WorkRates::new(lanes, HALF_LIFE_S).map_err(|e| e.to_string())?,
            before: BTreeMap::new(),
        })
    }

    fn learn(
        &mut self,
        counted: &Counted,
        cores: &mut [CoreTotals],
        thread_perf: &[f64],
    ) -> Result<Option<Vec<f64>>, String> {
        for (cpu, count) in counted {
            *self.totals.entry(*cpu).or_default() += count.unwrap_or(0.0);
        }
        let lone = thread_perf.first().copied().unwrap_or(1.0);
        let mut elapsed_s: f64 = 0.0;
        for core in cores.iter_mut() {
            elapsed_s = elapsed_s.max(self.observe(core, counted, lone)?);
            for lane in &mut core.lanes {
                lane.instructions = self.totals.get(&lane.cpu).map(|count| *count as u64);
            }
        }
        self.rates.forget(elapsed_s).map_err(|e| e.to_string())?;
        let estimate = (self.rates.estimate(thread_perf)).map_err(|e| e.to_string())?;
        let measured = (estimate.densities.iter()).all(|d| d.origin == Origin::Measured);
        Ok(measured.then_some(estimate.thread_perf))
    }

    /// Observes a core since the reading before; returns how long that was, s. `lone`: threadPerf of a lane alone.
    fn observe(&mut self, core: &CoreTotals, counted: &Counted, lone: f64) -> Result<f64, String> {
        let Some(before) = self.before.insert(core.core, core.clone()) else {
            return Ok(0.0);
        };
        let times: Vec<f64> = (core.by_density_ns.iter().zip(&before.by_density_ns))
            .map(|(now, before)| now.saturating_sub(*before) as f64 / 1e9)
            .collect();
        let online = core.lanes.iter().filter(|lane| lane.online);
        let work: Option<f64> = (online.map(|l| counted.get(&l.cpu).copied().flatten())).sum();
        if let Some(work) = work
            && times.len() == self.rates.lanes()
        {
            // with one lane online SMT is off: with it on the lane would have done less
            let work = if core.online_lanes() == 1 {
                work * lone
            } else {
                work
            };
            (self.rates.observe(work, &times)).map_err(|e| e.to_string())?;
        }
        Ok(core.elapsed_ns.saturating_sub(before.elapsed_ns) as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_smt::snapshot::LaneTotals;

    const SECOND_NS: u64 = 1_000_000_000;

    fn core(seconds: u64, by_density_ns: [u64; 2]) -> CoreTotals {
        let lane = |cpu| LaneTotals {
            cpu,
            online: true,
            ..LaneTotals::default()
        };
        CoreTotals {
            core: 0,
            elapsed_ns: seconds * SECOND_NS,
            by_density_ns: by_density_ns.to_vec(),
            lanes: vec![lane(0), lane(4)],
            ..CoreTotals::default()
        }
    }

    #[test]
    fn rates_are_those_by_which_instructions_were_made() {
        let mut learner = Learner::new(2).unwrap();
        let mut learnt = None;
        let mut times = [0, 0];
        for second in 0..30 {
            // alone 2 a nanosecond, together 2.6
            let both_ns = SECOND_NS * (second % 5) / 5;
            let alone_ns = if second == 0 { 0 } else { SECOND_NS - both_ns };
            times = [times[0] + alone_ns, times[1] + both_ns];
            let work = 2.0 * alone_ns as f64 + 2.6 * both_ns as f64;
            let counted = Counted::from([(0, Some(work * 0.75)), (4, Some(work * 0.25))]);
            let mut cores = [core(second, times)];
            learnt = learner.learn(&counted, &mut cores, &[1.0, 0.9]).unwrap();
            let instructions = cores[0].lanes[0].instructions.unwrap() as f64;
            assert!(instructions >= work * 0.75 - 1.0);
        }
        let learnt = learnt.unwrap();
        assert!((learnt[1] - 0.65).abs() < 0.01, "{learnt:?}");
    }

    #[test]
    fn nothing_is_learnt_of_one_density_or_without_counts() {
        for count in [Some(2e9), None] {
            let mut learner = Learner::new(2).unwrap();
            for second in 0..20 {
                let counted = Counted::from([(0, count), (4, count)]);
                let mut cores = [core(second, [second * SECOND_NS, 0])];
                let learnt = learner.learn(&counted, &mut cores, &[1.0, 0.9]).unwrap();
                assert_eq!(learnt, None);
            }
        }
    }

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
