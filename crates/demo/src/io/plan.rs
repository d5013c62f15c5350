//! What is measured.

use super::{Message, Setup};
use crate::batch;
use crate::error::{Error, Result};
use crate::experiment::Experiment;
use crate::redis;
use crate::sys::find_program;
use crate::turns::rotated;
use crate::vm;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// About how long it takes until an emulated machine has booted, and until pauses are measured.
const BOOT_S: f64 = 22.0;

/// Who works.
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
    pub fn setups(self) -> &'static [Setup] {
        match self {
            Work::Processes { .. } => &[
                Setup::Default,
                Setup::Sidelane,
                Setup::ShortSlice,
                Setup::Retain,
                Setup::Pair,
                Setup::Exclusive,
            ],
            Work::VirtualMachines { .. } => &[
                Setup::Default,
                Setup::Polling,
                Setup::Sidelane,
                Setup::Retain,
                Setup::Pair,
                Setup::Exclusive,
            ],
        }
    }

    fn problem(self) -> Option<String> {
        match self {
            Work::Processes { connections } if !(1..=1000).contains(&connections) => {
                Some(format!("{connections} connections; give 1 to 1000"))
            }
            Work::VirtualMachines {
                players, wait_us, ..
            } if players
                .is_some_and(|n| !(1..=128).contains(&n) || (wait_us.is_none() && n % 2 == 1)) =>
            {
                Some("give 1 to 128 players, an even number for ping-pong".into())
            }
            Work::VirtualMachines { turns: 0, .. } => {
                Some("players have to compute; give 1 turn or more".into())
            }
            Work::VirtualMachines {
                wait_us: Some(wait_us),
                ..
            } if !(1..=1_000_000).contains(&wait_us) => {
                Some("give a device that takes 1 us to 1 s".into())
            }
            _ => None,
        }
    }
}

/// Everything the measuring part is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IoPlan {
    /// Start of all random numbers.
    pub seed: u64,
    /// How often each setup is measured.
    pub repetitions: u32,
    /// The only repetition of these, from 0, that is measured; none: all.
    pub only: Option<u32>,
    /// Who works.
    pub work: Work,
    /// Computing processes; none: as many as lanes.
    pub computing: Option<u32>,
    /// The shortest hold, ms, which is how often timers look for holds that are over; none: the scheduler's
    /// own. Emulated timers are dear.
    pub hold_min_ms: Option<f64>,
    /// Speeds of lanes that the scheduler is told; empty: none.
    pub thread_perf: Vec<f64>,
    /// Length of a run, ms.
    pub run_ms: u64,
    /// Time after each change of the setup, under load, that does not count, ms: the retention time is
    /// found and tasks are known after a few periods.
    pub settle_ms: u64,
}

impl Default for IoPlan {
    fn default() -> IoPlan {
        IoPlan {
            seed: 1,
            repetitions: 5,
            only: None,
            work: Work::Processes { connections: 1 },
            computing: None,
            hold_min_ms: None,
            thread_perf: Vec::new(),
            run_ms: 6_000,
            settle_ms: 4_000,
        }
    }
}

impl IoPlan {
    /// The setups, in an order that rotates with each repetition.
    pub fn setups(&self, repetition: u32) -> Vec<Setup> {
        rotated(self.work.setups().to_vec(), repetition)
    }
}

impl Experiment for IoPlan {
    type Message = Message;
    const COMMAND: &'static [&'static str] = &["demo", "io"];

    fn validate(&self) -> Result<()> {
        let wrong = |problem: String| Err(Error::BadPlan(problem));
        if self.repetitions == 0 {
            return wrong("at least one repetition is needed".into());
        }
        if self.only.is_some_and(|only| only >= self.repetitions) {
            return wrong("there is no such repetition".into());
        }
        if let Some(problem) = self.work.problem() {
            return wrong(problem);
        }
        if self
            .computing
            .is_some_and(|count| !(1..=1000).contains(&count))
        {
            return wrong("give 1 to 1000 computing processes".into());
        }
        if self
            .hold_min_ms
            .is_some_and(|ms| !(0.05..=3.0).contains(&ms))
        {
            return wrong("the shortest hold is 0.05 to 3 ms".into());
        }
        if !(100..=600_000).contains(&self.run_ms) || self.settle_ms > 600_000 {
            return wrong(format!(
                "runs of {} ms after {} ms; give 0.1 to 600 s, after at most 600 s",
                self.run_ms, self.settle_ms
            ));
        }
        Ok(())
    }

    fn seconds(&self, _lanes: usize) -> f64 {
        let runs = self.work.setups().len() as f64 * f64::from(self.repetitions);
        let boots = self.parts().len().max(1) as f64;
        boots * BOOT_S + runs * ((self.run_ms + self.settle_ms) as f64 / 1000.0 + 2.5)
    }

    fn programs(&self) -> Result<Vec<PathBuf>> {
        match self.work {
            Work::Processes { .. } => {
                let redis = find_program("redis-server").ok_or(redis::MISSING)?;
                let gzip = find_program("gzip").ok_or(batch::MISSING)?;
                Ok(vec![redis, gzip])
            }
            Work::VirtualMachines { .. } => Ok(Vec::new()),
        }
    }

    fn modules(&self) -> Vec<String> {
        match self.work {
            Work::Processes { .. } => Vec::new(),
            // the emulator has AMD's virtualization
            Work::VirtualMachines { .. } => vec!["kvm-amd".into()],
        }
    }

    /// The emulator's nested virtualization now and then keeps a translation of code that the guest's kernel
    /// has rewritten, and the kernel dies of it ("Oops: int3").
    fn parts(&self) -> Vec<Self> {
        let part = |only| IoPlan {
            only: Some(only),
            ..self.clone()
        };
        match self.work {
            Work::Processes { .. } => Vec::new(),
            Work::VirtualMachines { .. } => (0..self.repetitions).map(part).collect(),
        }
    }

    /// Now and then the timers of nested virtual CPUs end, whoever schedules.
    fn check(messages: &[Message]) -> Result<()> {
        let stood_still = messages.iter().find_map(|message| match message {
            Message::Run(run) if run.round_trips_per_s == 0.0 => Some(run.setup),
            _ => None,
        });
        stood_still.map_or(Ok(()), |setup| {
            let who = format!("repetition with {setup}: the I/O-bound side");
            Err(Error::StoodStill(who))
        })
    }

    fn check_native(&self) -> Result<()> {
        match self.work {
            Work::Processes { .. } => self.programs().map(drop),
            Work::VirtualMachines { .. } => vm::check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused() {
        let refused = |change: fn(&mut IoPlan)| {
            let mut plan = IoPlan::default();
            change(&mut plan);
            plan.validate().is_err()
        };
        assert!(!refused(|_| {}));
        assert!(refused(|plan| plan.repetitions = 0));
        assert!(refused(|plan| plan.computing = Some(0)));
        assert!(refused(
            |plan| plan.work = Work::Processes { connections: 0 }
        ));
        let vms = |players, turns| Work::VirtualMachines {
            players,
            turns,
            wait_us: None,
        };
        let device = |wait_us| Work::VirtualMachines {
            players: Some(3),
            turns: 1,
            wait_us: Some(wait_us),
        };
        let valid = |work| {
            let plan = IoPlan {
                work,
                ..IoPlan::default()
            };
            plan.validate().is_ok()
        };
        assert!(valid(vms(None, 1)) && valid(vms(Some(4), 9)));
        assert!(valid(device(2000)) && !valid(device(0)));
        assert!(!valid(vms(Some(3), 9)) && !valid(vms(Some(0), 9)) && !valid(vms(None, 0)));
        assert!(refused(|plan| plan.hold_min_ms = Some(10.0)));
        assert!(refused(|plan| plan.run_ms = 0));
        assert!(refused(|plan| plan.settle_ms = 6_000_000));
        assert!(refused(|plan| plan.only = Some(plan.repetitions)));
    }

    #[test]
    fn virtual_machines_are_measured_a_repetition_a_boot() {
        let mut plan = IoPlan::default();
        assert!(plan.parts().is_empty());
        plan.work = Work::VirtualMachines {
            players: None,
            turns: 1,
            wait_us: None,
        };
        let parts = plan.parts();
        let only: Vec<Option<u32>> = parts.iter().map(|part| part.only).collect();
        assert_eq!(only, (0..plan.repetitions).map(Some).collect::<Vec<_>>());
        assert!(parts.iter().all(|part| part.validate().is_ok()));
    }
}
