//! When to change the SMT level: the model's choice for the peak of the last minute, without flapping.
//!
//! Source: Inoue and Nakatani 2014, section IV: utilisation every 5 s, the peak of the last 12
//! intervals as the model's input. Hysteresis, dwell time and the memory of loads are added here.
//!
//! How busy lanes are tells the load only within bounds, except at level 1: the estimate changes with the level
//! though the load does not. Each level alone then looks like a reason for the other. So a lower level is taken
//! only after the load has fallen since the present one was taken ([`GovernorConfig::memory`]).

use crate::{Error, Evaluation, Load, Machine, Model, Options, Result, Utilization, evaluate};
use serde::Serialize;
use std::collections::VecDeque;

/// A level whose expected response is this many times that of the best one is left at once, whatever
/// the dwell time: work is piling up.
const URGENT: f64 = 1.5;

/// How a governor decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GovernorConfig {
    /// How to predict.
    pub options: Options,
    /// Intervals whose peak counts, at least 1.
    pub window: usize,
    /// Another level is taken only if the best one is on the same side of the present one also at a
    /// load that is nearer to the other side by this share; 0 to below 1.
    pub hysteresis: f64,
    /// A level is kept for this many intervals, unless it is overloaded.
    pub dwell: u32,
    /// Another level is taken only if its expected response is lower by this share, 0 to below 1: less
    /// than the model's own error is no gain.
    pub min_gain: f64,
    /// A lower level is taken only if the load has fallen, by more than the hysteresis, since the present one was
    /// taken. One that is left upwards soon after, at a load that may be the old one, was taken by mistake: the
    /// level before comes back, and counts as taken at the load at which it was left.
    pub memory: bool,
}

impl Default for GovernorConfig {
    /// The source's window, and what keeps the level from flapping.
    fn default() -> GovernorConfig {
        GovernorConfig {
            hysteresis: 0.05,
            dwell: 6,
            min_gain: 0.02,
            memory: true,
            ..GovernorConfig::published()
        }
    }
}

impl GovernorConfig {
    /// The source's: its model, 12 intervals, the best level at once.
    pub fn published() -> GovernorConfig {
        GovernorConfig {
            options: Options::new(Model::Source),
            window: 12,
            hysteresis: 0.0,
            dwell: 0,
            min_gain: 0.0,
            memory: false,
        }
    }

    fn check(&self) -> Result<()> {
        let is_share = |share: f64| (0.0..1.0).contains(&share);
        match self {
            GovernorConfig { window: 0, .. } => Err(Error::Window),
            config if !is_share(config.hysteresis) => Err(Error::Hysteresis(config.hysteresis)),
            config if !is_share(config.min_gain) => Err(Error::MinGain(config.min_gain)),
            _ => Ok(()),
        }
    }
}

/// Why a level was taken or kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// It is the best already.
    Best,
    /// Another is better, and was taken.
    Better,
    /// Another is better, but at a load that is a little different it is not.
    Hysteresis,
    /// Another is better, but this one was taken only lately.
    Dwell,
    /// Another is better, but by too little.
    Gain,
    /// A lower one seems better, but the load has not fallen since this one was taken.
    Steady,
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Reason::Best => "best",
            Reason::Better => "better",
            Reason::Hysteresis => "hysteresis",
            Reason::Dwell => "dwell",
            Reason::Gain => "gain",
            Reason::Steady => "steady",
        })
    }
}

/// What was decided in an interval, and from what.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Decision {
    /// The level to have now.
    pub level: usize,
    /// The level before.
    pub previous: usize,
    /// Why.
    pub reason: Reason,
    /// Normalised utilisation of the interval.
    pub utilization: f64,
    /// Its peak over the window: the model's input.
    pub peak: f64,
    /// What the model expects at the peak.
    pub expected: Evaluation,
}

impl Decision {
    /// Whether the level is another now.
    pub fn changed(&self) -> bool {
        self.level != self.previous
    }
}

/// How the present level was come to.
#[derive(Debug, Clone, Copy)]
enum Entry {
    /// It was there in the beginning.
    Found,
    /// It was the best one; the highest load since, and, of a higher level, that for which it was taken.
    Taken { highest: f64 },
    /// It was left by mistake, at this load. What is measured after the return, with work piled up, says nothing.
    Returned { load: f64 },
}

/// Decides the SMT level, one interval after the other.
#[derive(Debug, Clone)]
pub struct Governor {
    machine: Machine,
    config: GovernorConfig,
    level: usize,
    /// Intervals since the level was taken; a level found is old enough.
    age: u32,
    /// Of the last intervals: the level, and the load that was expected.
    recent: VecDeque<(usize, f64)>,
    entry: Entry,
    /// The level that was left for this lower one, and the load then.
    left: Option<(usize, Load)>,
}

impl Governor {
    /// At a level, 1 to the lanes of a core.
    ///
    /// # Errors
    /// A configuration or a level out of range.
    pub fn new(machine: Machine, config: GovernorConfig, level: usize) -> Result<Governor> {
        config.check()?;
        let lanes = machine.thread_perf().lanes();
        match (1..=lanes).contains(&level) {
            true => Ok(Governor {
                machine,
                config,
                level,
                age: u32::MAX,
                recent: VecDeque::new(),
                entry: Entry::Found,
                left: None,
            }),
            false => Err(Error::Level { level, lanes }),
        }
    }

    /// The machine, as the model sees it.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The level.
    pub fn level(&self) -> usize {
        self.level
    }

    /// Measured values of threadPerf from now on, for as many lanes as before.
    ///
    /// # Errors
    /// Another number of lanes.
    pub fn set_machine(&mut self, machine: Machine) -> Result<()> {
        let (given, lanes) = (
            machine.thread_perf().lanes(),
            self.machine.thread_perf().lanes(),
        );
        match given == lanes {
            true => {
                self.machine = machine;
                (self.entry, self.left) = (Entry::Found, None); // the loads were another machine's
                Ok(())
            }
            false => Err(Error::LaneCount { given, lanes }),
        }
    }

    /// An interval with this load has ended: which level now.
    pub fn decide(&mut self, load: impl Into<Load>) -> Decision {
        let load = load.into();
        while self.recent.len() >= self.config.window {
            self.recent.pop_front();
        }
        self.recent.push_back((self.level, load.expected.get()));
        let peak = self.peak(load, |_| true);
        if let Entry::Taken { highest } = &mut self.entry {
            *highest = highest.max(load.expected.get());
        }
        let expected = evaluate(&self.machine, peak, self.config.options);
        let (previous, reason) = (self.level, self.reason(&expected, peak));
        self.age = self.age.saturating_add(1);
        if reason == Reason::Better {
            self.take(expected.best, peak, load);
        }
        Decision {
            level: self.level,
            previous,
            reason,
            utilization: load.expected.get(),
            peak: peak.get(),
            expected,
        }
    }

    /// The peak of the recent intervals at these levels; the present one had this load.
    fn peak(&self, load: Load, levels: impl Fn(usize) -> bool) -> Utilization {
        let recent = self.recent.iter().filter(|(level, _)| levels(*level));
        let peak = recent.map(|(_, load)| *load).fold(0.0, f64::max);
        // a maximum of utilisations is one
        Utilization::new(peak).unwrap_or(load.expected)
    }

    /// Takes another level, or the one before if that was left by mistake.
    fn take(&mut self, best: usize, peak: Utilization, load: Load) {
        let mistaken = self.left.filter(|_| best > self.level);
        let mistaken = mistaken.filter(|(_, then)| self.is_same_load(*then, load));
        let taken = |highest| Entry::Taken { highest };
        (self.level, self.entry, self.left) = match mistaken {
            Some((before, then)) => {
                let load = then.expected.get();
                (before, Entry::Returned { load }, None)
            }
            // what it is at the lower level shows there
            None if best < self.level => {
                // what other levels told of the load is no measure for this one
                let own = self.peak(load, |level| level == self.level);
                let left = (self.level, load.with_peak(own));
                (best, taken(0.0), Some(left))
            }
            None => (best, taken(peak.get()), None),
        };
        self.age = 0;
    }

    /// Whether the load may be the same as when the level before was left, which was not long ago.
    fn is_same_load(&self, then: Load, now: Load) -> bool {
        let soon = self.config.window.max(self.config.dwell as usize);
        self.config.memory
            && self.age as usize <= soon.saturating_add(1)
            && now.expected.get() <= then.most.get() * (1.0 + self.config.hysteresis)
    }

    /// Whether the load is no lower than it was at this level.
    fn is_steady(&self, peak: Utilization) -> bool {
        let before = match self.entry {
            Entry::Found => return false,
            Entry::Taken { highest } => highest,
            Entry::Returned { load } => load,
        };
        self.config.memory && peak.get() >= before * (1.0 - self.config.hysteresis)
    }

    fn reason(&self, expected: &Evaluation, peak: Utilization) -> Reason {
        if expected.best == self.level {
            return Reason::Best;
        }
        let current = expected.levels.iter().find(|l| l.level == self.level);
        // both infinite where nothing can do the work: then the one that does most
        let ratio = match (expected.best_level(), current) {
            (Some(best), Some(current)) if current.stable => current.response / best.response,
            _ => f64::INFINITY,
        };
        if expected.best < self.level && self.is_steady(peak) {
            Reason::Steady
        } else if ratio >= URGENT {
            Reason::Better
        } else if ratio * (1.0 - self.config.min_gain) < 1.0 {
            Reason::Gain
        } else if !self.is_clear(expected.best, peak) {
            Reason::Hysteresis
        } else if self.age < self.config.dwell {
            Reason::Dwell
        } else {
            Reason::Better
        }
    }

    /// Whether a level on the same side of the present one is best at a load nearer to the other side.
    fn is_clear(&self, best: usize, peak: Utilization) -> bool {
        let factor = match best > self.level {
            true => 1.0 - self.config.hysteresis,
            false => 1.0 + self.config.hysteresis,
        };
        let Ok(nearer) = Utilization::new(peak.get() * factor) else {
            return true;
        };
        let nearer = evaluate(&self.machine, nearer, self.config.options).best;
        nearer.cmp(&self.level) == best.cmp(&self.level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThreadPerf;
    use proptest::prelude::*;

    fn machine(speeds: &[f64]) -> Machine {
        Machine::new(16, ThreadPerf::new(speeds.to_vec()).unwrap()).unwrap()
    }

    fn governor(config: GovernorConfig, level: usize) -> Governor {
        Governor::new(machine(&[1.0, 0.6]), config, level).unwrap()
    }

    fn at(utilization: f64) -> Utilization {
        Utilization::new(utilization).unwrap()
    }

    #[test]
    fn rises_at_once_and_falls_when_the_peak_is_out_of_the_window() {
        let mut governor = governor(GovernorConfig::published(), 2);
        assert_eq!(governor.decide(at(0.3)).level, 1);
        let up = governor.decide(at(0.97));
        assert_eq!((up.level, up.previous, up.reason), (2, 1, Reason::Better));
        for _ in 0..11 {
            let kept = governor.decide(at(0.3));
            assert_eq!((kept.level, kept.peak), (2, 0.97));
        }
        assert_eq!(governor.decide(at(0.3)).level, 1);
    }

    #[test]
    fn near_crossings_and_quick_returns_are_left() {
        // The levels cross at 0.914.
        for (level, load) in [(2, 0.89), (1, 0.93)] {
            let mut governor = governor(GovernorConfig::default(), level);
            assert_eq!(governor.decide(at(load)).reason, Reason::Hysteresis);
        }
        // At 0.02 a lane more costs less than 1 %.
        let mut governor = governor(GovernorConfig::default(), 2);
        assert_eq!(governor.decide(at(0.02)).reason, Reason::Gain);
        let config = GovernorConfig {
            window: 1,
            ..GovernorConfig::default()
        };
        let mut governor = Governor::new(machine(&[1.0, 0.6]), config, 2).unwrap();
        assert_eq!(governor.decide(at(0.2)).level, 1);
        assert_eq!(governor.decide(at(0.99)).level, 2); // overloaded
        for _ in 0..config.dwell {
            assert_eq!(governor.decide(at(0.2)).reason, Reason::Dwell);
        }
        assert_eq!(governor.decide(at(0.2)).level, 1);
    }

    #[test]
    fn an_overloaded_level_is_left_before_its_time() {
        for load in [0.99, 1.0, 1.1, 5.0] {
            let mut governor = governor(GovernorConfig::default(), 2);
            assert_eq!(governor.decide(at(0.2)).level, 1);
            assert_eq!(governor.decide(at(load)).level, 2, "{load}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let machine = || machine(&[1.0, 0.6]);
        let with = |change: fn(&mut GovernorConfig)| {
            let mut config = GovernorConfig::default();
            change(&mut config);
            Governor::new(machine(), config, 1).unwrap_err()
        };
        assert_eq!(with(|c| c.window = 0), Error::Window);
        assert_eq!(with(|c| c.hysteresis = 1.0), Error::Hysteresis(1.0));
        assert!(
            with(|c| c.hysteresis = f64::NAN)
                .to_string()
                .contains("NaN")
        );
        for level in [0, 3] {
            let error = Governor::new(machine(), GovernorConfig::default(), level).unwrap_err();
            assert_eq!(error, Error::Level { level, lanes: 2 });
        }
    }

    proptest! {
        /// Whatever the load does: a level stays for its dwell time unless it is overloaded.
        #[test]
        fn never_flaps(loads in prop::collection::vec(0.0..1.3f64, 1..200)) {
            let config = GovernorConfig { window: 1, ..GovernorConfig::default() };
            let machine = machine(&[1.0, 0.75, 0.57, 0.45]);
            let mut governor = Governor::new(machine, config, 1).unwrap();
            let mut taken: Option<usize> = None;
            for (now, load) in loads.iter().enumerate() {
                let decision = governor.decide(at(*load));
                let before = decision.expected.levels[decision.previous - 1];
                let best = decision.expected.best_level().unwrap();
                if decision.changed() {
                    let overloaded = !before.stable || before.response >= best.response * URGENT;
                    let rested = taken.is_none_or(|then| now - then > config.dwell as usize);
                    prop_assert!(overloaded || rested);
                    prop_assert!(best.response <= before.response);
                    taken = Some(now);
                }
                prop_assert_eq!(decision.level, governor.level());
            }
        }
    }
}
