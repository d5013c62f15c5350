//! The machine's threads on the host: where they run and how the host's scheduler treats them.

use crate::companions::Companions;
use crate::error::Result;
use crate::host;
use crate::spec::Spec;
use crate::steady::{self, Steady};

use crate::threads::{self, HostSettings, LaneThread, RunTime};
use std::time::Duration;

/// A machine's threads and what accompanies them.
pub struct Arrangement {
    /// The host CPUs that carry lanes.
    cpus: Vec<usize>,
    /// In the order of the guest's CPU numbers.
    lanes: Vec<LaneThread>,
    /// QEMU's main thread.
    main: i32,
    settings: HostSettings,
    spinners: Companions,
    metronome: Companions,
    steady: Option<Steady>,
    notice: fn(&str),
}

impl Arrangement {
    /// For a machine that just started: the threads still float, which makes booting faster.
    pub fn new(spec: &Spec, lanes: Vec<LaneThread>, main: u32) -> Result<Self> {
        let allowed = host::allowed_cpus()?;
        let cores = spec.total_cores();
        let mut arrangement = Arrangement {
            cpus: allowed.into_iter().take(cores).collect(),
            lanes,
            main: main as i32,
            settings: HostSettings::default(),
            spinners: Companions::none(),
            metronome: Companions::none(),
            steady: None,
            notice: spec.notice,
        };
        arrangement.set(spec.host)?;
        Ok(arrangement)
    }

    /// The lanes' threads, in the order of the guest's CPU numbers.
    pub fn lanes(&self) -> &[LaneThread] {
        &self.lanes
    }

    /// Pins the lanes of each core to one host CPU.
    pub fn pin(&self) -> Result<()> {
        threads::lanes(&self.lanes, &self.cpus)
    }

    /// Keeps the host CPUs awake from now on, or no longer.
    pub fn keep_awake(&mut self, keep: bool) -> Result<()> {
        self.spinners = Companions::none();
        if keep {
            self.spinners.keep_awake(&self.cpus)?;
        }
        Ok(())
    }

    /// Keeps the host CPUs, which idle now and carry a core each, at `share` of their speed from now on, less by
    /// `thread_perf`, or lets them be as fast as they are.
    pub fn keep_steady(&mut self, share: Option<f64>, thread_perf: &[f64]) -> Result<()> {
        self.steady = None;
        if let Some(share) = share {
            let numbered = self.cpus.iter().enumerate();
            let cores: Result<Vec<_>> = numbered.map(|(core, &cpu)| self.core(core, cpu)).collect();
            self.steady = Some(Steady::start(cores?, share, thread_perf)?);
        }
        Ok(())
    }

    fn core(&self, core: usize, cpu: usize) -> Result<steady::Core> {
        let of_core = self.lanes.iter().filter(|lane| lane.core == core);
        let lanes: Result<Vec<_>> = of_core
            .map(|lane| RunTime::of(self.main as u32, lane.tid))
            .collect();
        Ok(steady::Core { cpu, lanes: lanes? })
    }

    /// Says how much of the time the host was slower than it was to be kept.
    pub fn tell_steadiness(&self) {
        if let Some(slow) = self.steady.as_ref().map(Steady::slow_share) {
            (self.notice)(&format!(
                "the host was slower than the steady speed for {:.1} % of the time",
                slow * 100.0
            ));
        }
    }

    /// Changes how the host's scheduler treats the threads. What needs a privilege that is lacking
    /// is left out, with a notice.
    pub fn set(&mut self, new: HostSettings) -> Result<()> {
        if new.slice != self.settings.slice {
            let length = new.slice.unwrap_or(Duration::ZERO);
            let mut lanes = self.lanes.iter();
            lanes.try_for_each(|lane| threads::slice(lane.tid, length))?;
        }
        if new.urgent_timers != self.settings.urgent_timers {
            if new.urgent_timers {
                self.privileged(threads::real_time(self.main));
            } else {
                threads::slice(self.main, Duration::ZERO)?;
            }
        }
        if new.metronome != self.settings.metronome {
            self.metronome = Companions::none();
            if let Some(period) = new.metronome {
                let started = self.metronome.metronome(&self.cpus, period);
                self.privileged(started);
            }
        }
        self.settings = new;
        Ok(())
    }

    fn privileged(&self, done: Result<()>) {
        if let Err(error) = done {
            (self.notice)(&format!(
                "hand-overs between sibling lanes will take longer: {error}"
            ));
        }
    }
}
