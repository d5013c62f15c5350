//! Arguments that all of `sidelane demo` has in common.

use super::Format;
use crate::interrupt;
use anyhow::bail;
use sidelane_demo::experiment::{self, Measure};
use sidelane_testbed::{Interrupt, Kernel, Spec, smt};
use sidelane_topology::Topology;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What all experiments are told.
#[derive(clap::Args)]
pub(super) struct CommonArgs {
    #[command(flatten)]
    pub(super) machine: MachineArgs,
    /// How the results are printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(super) format: Format,
    /// The measuring part, in the emulated machine.
    #[arg(long, hide = true, value_name = "PLAN")]
    in_guest: Option<String>,
}

impl CommonArgs {
    /// Measures a plan where the arguments say. None: this is the measuring part in the guest, which has
    /// measured what it was told and printed it.
    pub(super) fn measure<E: Measure>(&self, plan: &E) -> anyhow::Result<Option<Vec<E::Message>>> {
        let sidelane = std::env::current_exe()?;
        if let Some(plan) = &self.in_guest {
            experiment::in_guest::<E>(plan, &sidelane, interrupt::flag()?)?;
            return Ok(None);
        }
        plan.validate()?;
        let lanes = self.machine.lanes_per_core()?;
        eprintln!("sidelane: measuring for about {:.0} s", plan.seconds(lanes));
        let tell = &mut std::io::stderr();
        let messages = match self.machine.native {
            true => experiment::native(plan, &sidelane, interrupt::flag()?, tell)?,
            false => experiment::emulated(plan, self.machine.spec(sidelane)?, tell)?,
        };
        Ok(Some(messages))
    }

    /// Measures a plan and prints what is made of the messages, unless this is the measuring part.
    pub(super) fn show<E: Measure, D: serde::Serialize>(
        &self,
        plan: &E,
        document: impl FnOnce(&[E::Message]) -> sidelane_demo::Result<D>,
        render: impl FnOnce(&D) -> String,
    ) -> anyhow::Result<ExitCode> {
        if let Some(messages) = self.measure(plan)? {
            let document = document(&messages)?;
            self.format.print(|| render(&document), &document)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// To what share of its speed the host is kept by default.
const STEADY: f64 = 0.9;

/// Which machine is measured.
#[derive(clap::Args)]
pub(super) struct MachineArgs {
    /// Cores of the emulated machine.
    #[arg(long, default_value_t = 2, value_name = "C")]
    cores: usize,
    /// Lanes of each core [default: 2].
    #[arg(long, value_name = "T")]
    lanes: Option<usize>,
    /// Speed of a lane when 1, 2, ... lanes of its core run [default: 1, 1/2, ... 1/T; 'sidelane demo' itself, with
    /// two lanes: 1, 0.63, measured for option pricing (FOF)].
    #[arg(long, value_delimiter = ',', value_name = "1,X,...")]
    pub(super) thread_perf: Vec<f64>,
    /// `newest`, `oldest`, a version, or the path of a kernel image.
    #[arg(long, default_value = "newest", value_name = "VERSION|PATH")]
    kernel: String,
    /// Keep the host CPUs at this share of their speed, 0.2 to 0.9, whatever their neighbours do; 0: do not
    /// [default: 0.9 for root, with a host CPU for each core].
    #[arg(long, value_name = "SHARE", conflicts_with = "native")]
    steady: Option<f64>,
    /// Measure on this machine's own SMT instead (needs root).
    #[arg(long)]
    pub(super) native: bool,
}

impl MachineArgs {
    /// Speeds of the emulated machine's lanes.
    fn thread_perf(&self) -> anyhow::Result<Vec<f64>> {
        Ok(match (self.lanes, self.thread_perf.len()) {
            (lanes, 0) => smt::even_shares(lanes.unwrap_or(2)),
            (Some(lanes), given) if lanes != given => {
                bail!("--thread-perf has {given} numbers for {lanes} lanes: one for each is needed")
            }
            _ => self.thread_perf.clone(),
        })
    }

    /// The same, which the scheduler is told. Of this machine's own SMT only those that are given: nobody knows them
    /// before 'sidelane calibrate'.
    pub(super) fn known_thread_perf(&self) -> anyhow::Result<Vec<f64>> {
        match self.native {
            true => Ok(self.thread_perf.clone()),
            false => self.thread_perf(),
        }
    }

    /// Lanes of a core of the machine that is measured.
    fn lanes_per_core(&self) -> anyhow::Result<usize> {
        if !self.native {
            return Ok(self.thread_perf()?.len());
        }
        let cores = Topology::read(Path::new("/"))?.online_by_core();
        Ok(cores.iter().map(Vec::len).max().unwrap_or(1))
    }

    /// Speeds of the emulated machine's lanes, where none are given, nor another number of lanes.
    pub(super) fn default_thread_perf(&mut self, speeds: &[f64]) {
        let lanes_fit = self.lanes.is_none_or(|lanes| lanes == speeds.len());
        if self.thread_perf.is_empty() && lanes_fit && !self.native {
            self.thread_perf = speeds.to_vec();
        }
    }

    /// The emulated machine; Ctrl-C ends it.
    fn spec(&self, sidelane: PathBuf) -> anyhow::Result<Spec> {
        let mut spec = Spec::new(sidelane)?;
        spec.cores = self.cores;
        spec.thread_perf = self.thread_perf()?;
        spec.kernel = Kernel::from(self.kernel.as_str());
        spec.steady = match self.steady {
            Some(share) => Some(share).filter(|share| *share != 0.0),
            None => sidelane_testbed::can_be_steady(&spec, STEADY)?.then_some(STEADY),
        };
        let interrupt = Interrupt::new()?;
        spec.interrupt = interrupt.clone();
        ctrlc::set_handler(move || interrupt.raise())?;
        Ok(spec)
    }
}

pub(super) fn seconds(ms: u64) -> f64 {
    ms as f64 / 1000.0
}

/// Negative and absurd lengths become 0 and the longest there is.
pub(super) fn milliseconds(seconds: f64) -> u64 {
    (seconds * 1000.0) as u64
}
