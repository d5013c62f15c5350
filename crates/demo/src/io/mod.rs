//! I/O-bound work beside computation, both of the normal class: a redis-server that answers one command
//! at a time and compressors, or virtual CPUs that wait for a device or play ping-pong and others that
//! multiply matrices.
//!
//! What vSMT-IO (Jia et al., USENIX ATC 2020) does for virtual CPUs: a lane is held while its
//! I/O-bound task sleeps for a moment, and computation has the other lanes of the core.

mod kernel;
mod measure;
mod pauses;
mod results;
mod sides;

pub use kernel::LaneUse;
pub use pauses::Pauses;
pub use results::{Figures, Row};

use crate::arguments::seconds_as_ms;
use crate::figures;
use crate::plan::setups;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;

/// Time after each change of the setup, under load, that does not count, ms: the retention time is found and
/// tasks are known after a few periods.
const SETTLE_MS: u64 = 4_000;
/// Timers look so often for holds that are over. The scheduler's own 0.2 ms make thousands of interrupts a
/// second, which are dear where they are emulated.
const EMULATED_HOLD_MIN_MS: f64 = 1.0;
/// Turns of a loop, and what the device takes afterwards: both many times what they would be on a real
/// machine, as an emulated wake-up is.
const TURNS: u32 = 100_000;
const WAIT_US: u32 = 2_000;

setups! {
    /// Which scheduler, and how it is set.
    pub enum Setup {
        /// The kernel's default scheduler; virtual CPUs that halt are not polled for.
        Default = "default",
        /// The kernel's default scheduler, and its halt polling.
        Polling = "polling",
        /// Sidelane as it is without settings.
        Sidelane = "sidelane",
        /// With slices of 3 ms, like the kernel's default scheduler.
        ShortSlice = "short-slice",
        /// With retention.
        Retain = "retain",
        /// With retention and pairing.
        Pair = "pair",
        /// The same as in the source: lanes are held from other I/O-bound work, too, and as long as the search has it.
        Exclusive = "exclusive",
    }
}

/// Lanes are held where what wakes waits for the slices of others, as in the source.
const WAITS: &str = "dispatching = \"slices\"\n";

impl Setup {
    /// What the scheduler is told, the shortest hold and the speeds of lanes included; none: it is the kernel's own.
    fn settings(self, hold_min_ms: Option<f64>, thread_perf: &[f64]) -> Option<String> {
        let min = hold_min_ms.map_or(String::new(), |ms| format!("retention.min_ms = {ms}\n"));
        let speeds = match thread_perf {
            [] => String::new(),
            speeds => format!("thread_perf = {speeds:?}\n"),
        };
        let settings = match self {
            Setup::Default | Setup::Polling => None,
            Setup::Sidelane => Some(String::new()),
            Setup::ShortSlice => Some(format!("{WAITS}slice_ms = 3\n")),
            Setup::Retain => Some(format!("{WAITS}retain = true\n{min}")),
            Setup::Pair => Some(format!("{WAITS}retain = true\npair = true\n{min}")),
            Setup::Exclusive => Some(format!(
                "{WAITS}retain = true\npair = true\nretention.exclusive = true\n\
                 retention.switches_ms = 100\n{min}"
            )),
        };
        settings.map(|settings| speeds + &settings)
    }
}

/// What works.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// A redis-server beside compressors.
    Processes {
        /// Clients that each wait for one reply at a time.
        connections: u32,
    },
    /// A virtual machine that does I/O beside others that multiply matrices.
    VirtualMachines {
        /// Virtual CPUs that do I/O; none: as many as lanes.
        players: Option<u32>,
        /// Turns of a loop of two instructions that one computes each time.
        turns: u32,
        /// How long the device takes, us; none: they play ping-pong in pairs, an even number.
        wait_us: Option<u32>,
    },
}

impl Work {
    /// What it is measured under, in the order of the report.
    fn setups(self) -> Vec<Setup> {
        let left_out = match self {
            Work::Processes { .. } => Setup::Polling,
            Work::VirtualMachines { .. } => Setup::ShortSlice,
        };
        let all = Setup::ALL.iter().copied();
        all.filter(|setup| *setup != left_out).collect()
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct IoPlan {
    /// Virtual CPUs of KVM instead of processes.
    #[arg(long)]
    virtual_machines: bool,
    /// How often each setup is measured.
    #[arg(long, default_value_t = 5, value_name = "N")]
    repetitions: u32,
    /// Clients of redis, each of which waits for one reply at a time.
    #[arg(
        long,
        default_value_t = 1,
        value_name = "N",
        conflicts_with = "virtual_machines"
    )]
    connections: u32,
    /// Virtual CPUs that do I/O; without it as many as lanes.
    #[arg(long, value_name = "N", requires = "virtual_machines")]
    players: Option<u32>,
    /// Turns of a loop of two instructions that one of them computes before it waits.
    #[arg(long, default_value_t = TURNS, value_name = "N", requires = "virtual_machines")]
    turns: u32,
    /// How long the device takes.
    #[arg(long, default_value_t = WAIT_US, value_name = "US", requires = "virtual_machines")]
    wait_us: u32,
    /// They wait for each other instead of a device, in pairs.
    #[arg(long, conflicts_with = "wait_us", requires = "virtual_machines")]
    ping_pong: bool,
    /// Processes that compute; without it as many as lanes.
    #[arg(long, value_name = "N")]
    computing: Option<u32>,
    /// The shortest hold with retention, ms [default: 1 where timers are emulated, else the scheduler's own].
    #[arg(long, value_name = "MS")]
    hold_min_ms: Option<f64>,
    /// Length of a run.
    #[arg(long = "seconds", default_value = "6", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    /// Start of all random numbers: same seed, same text to compress.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    // the only repetition, from 0, that is measured; none: all
    #[arg(skip)]
    only: Option<u32>,
    // speeds of lanes that the scheduler is told; empty: none
    #[arg(skip)]
    thread_perf: Vec<f64>,
}

/// A run.
pub type Run = figures::Run<Setup, Found>;

/// What is found in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Commands that were answered, or round trips of all players, 1/s.
    pub round_trips_per_s: f64,
    /// Of a command, from sending it to having the whole reply; none of players.
    pub latency: Option<Summary>,
    /// Input compressed, bytes a second, or multiplications a second.
    pub computed_per_s: f64,
    /// The same of one process that has a core to itself, just before.
    pub core_computed_per_s: f64,
    /// Context switches of the whole machine, those to the idle task too, 1/s.
    pub switches_per_s: f64,
    /// Context switches by which a computing process lost its lane, 1/s.
    pub computing_switches_per_s: f64,
    /// Where the lanes' time went.
    pub lanes: LaneUse,
    /// What a pause costs on this machine, measured before the first run; none: no core has two lanes.
    pub pauses: Option<Pauses>,
}

impl IoPlan {
    /// What works.
    fn work(&self) -> Work {
        match self.virtual_machines {
            true => Work::VirtualMachines {
                players: self.players,
                turns: self.turns,
                wait_us: (!self.ping_pong).then_some(self.wait_us),
            },
            false => Work::Processes {
                connections: self.connections,
            },
        }
    }

    /// How many processes compute in a run.
    fn computing_count(&self, lanes: usize) -> usize {
        self.computing.map_or(lanes, |count| count as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{plan, plans_make_sense};
    use crate::experiment::validate;

    #[test]
    fn nonsense_is_refused() {
        plans_make_sense::<IoPlan>(&[
            "--computing 0",
            "--connections 0",
            "--wait-us 0 --virtual-machines",
            "--players 3 --virtual-machines --ping-pong",
            "--players 0 --virtual-machines",
            "--turns 0 --virtual-machines",
            "--hold-min-ms 10",
            "--seconds 0",
        ]);
        let valid = |words| validate(&plan::<IoPlan>(words)).is_ok();
        assert!(valid("--virtual-machines --players 3"));
        assert!(valid("--virtual-machines --players 4 --ping-pong"));
        let mut plan: IoPlan = plan("");
        plan.only = Some(plan.repetitions);
        assert!(validate(&plan).is_err());
    }

    #[test]
    fn a_hold_is_longer_where_timers_are_emulated() {
        let learnt = |words, is_emulated| {
            let mut plan: IoPlan = plan(words);
            crate::experiment::Experiment::learn(&mut plan, &[1.0, 0.5], is_emulated);
            assert_eq!(plan.thread_perf, [1.0, 0.5]);
            plan.hold_min_ms
        };
        assert_eq!(learnt("", true), Some(EMULATED_HOLD_MIN_MS));
        assert_eq!(learnt("", false), None);
        assert_eq!(learnt("--hold-min-ms 0.5", true), Some(0.5));
    }
}
