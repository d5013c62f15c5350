//! What a seed stands for: random numbers (SplitMix64, Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
//! OOPSLA 2014; integers only, so that a seed means the same everywhere), and by them a machine, settings, tasks and faults.

use crate::machine::{Interference, Machine};
use crate::random::{GOLDEN, mix};
use crate::sched_ext::Sidelane;
use crate::task::TaskSpec;
use sidelane_policy::Settings;
use sidelane_policy::settings::rows;
use std::fmt;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Draws(u64);

impl Draws {
    pub fn new(seed: u64) -> Draws {
        Draws(seed)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// One of 0..n; 0 if n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// From one to another, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from).saturating_add(1))
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// From one to another, every order of magnitude about as likely as the next.
    pub fn magnitude(&mut self, from: u64, to: u64) -> u64 {
        let (low, high) = (from.max(1), to.max(1));
        let bits = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        let least = 1_u64 << bits;
        let most = least.wrapping_mul(2).wrapping_sub(1);
        self.between(least.max(low), most.min(high)).max(from)
    }

    /// In (0, 1], in steps of 1/1000.
    pub fn share(&mut self, least: u64) -> f64 {
        self.between(least.max(1), 1000) as f64 / 1000.0
    }

    /// One of several; none of none.
    pub fn one<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len() as u64) as usize)
    }
}

/// A generated scenario.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub machine: Machine,
    pub sidelane: Sidelane,
    pub tasks: Vec<PlannedTask>,
    /// Loads and faults go on for so long; then the machine has to come to rest.
    pub length_ns: u64,
    /// All moments are multiples of this: ties are as likely as wanted.
    pub quantum_ns: u64,
    /// Mean time between two faults; none: there are none.
    pub fault_gap_ns: Option<u64>,
    /// Which faults occur.
    pub faults: Vec<Fault>,
}

/// A task and what it does.
#[derive(Debug, Clone)]
pub(super) struct PlannedTask {
    pub spec: TaskSpec,
    pub behaviour: Behaviour,
}

/// A range of times, drawn from by magnitude, ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub from_ns: u64,
    pub to_ns: u64,
}

/// What a task does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Behaviour {
    /// It never pauses.
    Spin,
    /// It works, pauses, works again: a client, or a device.
    Loop { demand: Span, pause: Span },
    /// Work comes, whether it is done with earlier work or not.
    Open { demand: Span, gap: Span },
    /// When it is done, it gives the task of that index work and sleeps.
    Chain { demand: Span, next: usize },
}

/// What happens to a running system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A lane goes, or comes back.
    Lane,
    /// All lanes of a core go, or come back.
    Core,
    /// All lanes of each core but one go, or all come back.
    Smt,
    /// A task may use other CPUs.
    Affinity,
    /// A task changes its class.
    Class,
    /// A task ends.
    Exit,
    /// A task appears.
    Create,
}

impl Fault {
    pub const ALL: [Fault; 7] = [
        Fault::Lane,
        Fault::Core,
        Fault::Smt,
        Fault::Affinity,
        Fault::Class,
        Fault::Exit,
        Fault::Create,
    ];
}

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_machine(f)?;
        self.write_settings(f)?;
        for (index, task) in self.tasks.iter().enumerate() {
            writeln!(f, "  task {index}: {task}")?;
        }
        match self.fault_gap_ns {
            Some(gap_ns) => write!(f, "faults about every {} ms: {:?}", ms(gap_ns), self.faults)?,
            None => write!(f, "no faults")?,
        }
        write!(
            f,
            "; loads for {} ms, moments are multiples of {} ns",
            ms(self.length_ns),
            self.quantum_ns
        )
    }
}

impl Plan {
    fn write_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let lanes: usize = machine.cores.iter().map(|core| core.lanes.len()).sum();
        writeln!(f, "{} cores, {lanes} lanes", machine.cores.len())?;
        const SHOWN: usize = 16;
        for (index, core) in machine.cores.iter().take(SHOWN).enumerate() {
            write!(
                f,
                "  core {index}: lanes {:?}, capacity {}, cache {}, node {}",
                core.lanes, core.capacity, core.cache, core.node
            )?;
            let is_offline = |cpu: &&u32| !machine.online[**cpu as usize];
            let offline: Vec<_> = core.lanes.iter().filter(is_offline).collect();
            if !offline.is_empty() {
                write!(f, ", offline {offline:?}")?;
            }
            writeln!(f)?;
        }
        if machine.cores.len() > SHOWN {
            writeln!(f, "  and so on")?;
        }
        match &machine.interference {
            Interference::ThreadPerf(speeds) => writeln!(f, "threadPerf {speeds:?}")?,
            Interference::Kinds(table) => writeln!(f, "speeds by kind {table:?}")?,
        }
        writeln!(f, "{:?}", machine.costs)
    }

    fn write_settings(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sidelane { settings, pools } = &self.sidelane;
        let defaults = Settings::default();
        for row in rows() {
            let (written, default) = (row.written(settings), row.written(&defaults));
            if written != default {
                writeln!(f, "  {} = {written}", row.name)?;
            }
        }
        for (index, pool) in pools.iter().enumerate() {
            writeln!(
                f,
                "pool {index}: {} ms of {:?} time each {} ms, within {:?}",
                ms(pool.allowance_ns),
                pool.charge,
                ms(pool.period_ns),
                pool.parent
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for PlannedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spec = &self.spec;
        write!(f, "{}, nice {}", spec.class.name(), spec.nice)?;
        if spec.kernel_thread {
            write!(f, ", kernel thread")?;
        }
        if spec.naps {
            write!(f, ", naps")?;
        }
        if spec.kind > 0 {
            write!(f, ", kind {}", spec.kind)?;
        }
        if let Some(pool) = spec.pool {
            write!(f, ", pool {pool}")?;
        }
        if let Some(cpus) = &spec.cpus {
            write!(f, ", on {cpus:?}")?;
        }
        match self.behaviour {
            Behaviour::Spin => write!(f, ", never pauses"),
            Behaviour::Loop { demand, pause } => write!(f, ", works {demand}, pauses {pause}"),
            Behaviour::Open { demand, gap } => write!(f, ", gets {demand} every {gap}"),
            Behaviour::Chain { demand, next } => write!(f, ", gets {demand}, wakes task {next}"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{} ns", self.from_ns, self.to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First numbers of the reference implementation for seed 1234567.
        let mut draws = Draws::new(1_234_567);
        assert_eq!(draws.bits(), 6_457_827_717_110_365_317);
        assert_eq!(draws.bits(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_between_their_limits() {
        let mut draws = Draws::new(1);
        for _ in 0..10_000 {
            assert!((5..=900_000).contains(&draws.magnitude(5, 900_000)));
            assert!((3..=4).contains(&draws.between(3, 4)));
            assert!(draws.share(300) >= 0.3);
        }
        assert_eq!(draws.below(0), 0);
        assert_eq!(draws.one::<u8>(&[]), None);
    }
}
