//! Looks at all lanes from one of them, so many times a second.

use super::failed;
use crate::Error;
use libbpf_rs::{Link, ProgramMut};
use perf_event::Builder;
use perf_event::events::Software;
use sidelane_topology::Topology;
use std::os::fd::IntoRawFd;

/// How often it may look. Below, nothing is left to tell; the kernel's own limit lies above.
pub const SAMPLE_HZ: std::ops::RangeInclusive<u32> = 10..=10_000;

/// Looks as long as it lives.
pub(super) struct Sampler {
    _link: Link,
    /// The lane from which it looks.
    pub(super) cpu: u32,
}

impl Sampler {
    /// From the first lane that is online, `hz` times a second ([`SAMPLE_HZ`]).
    pub(super) fn start(
        program: &ProgramMut,
        topology: &Topology,
        hz: u32,
    ) -> Result<Sampler, Error> {
        let online = topology.online();
        let cpu = online.iter().next().unwrap_or_default();
        let clock = Builder::new(Software::CPU_CLOCK)
            .any_pid()
            .one_cpu(cpu as usize)
            .include_kernel()
            .sample_period(1_000_000_000 / u64::from(hz.max(1)))
            .enabled(true)
            .build()
            .map_err(failed("open the clock of"))?;
        // the link closes it
        let link = program.attach_perf_event(clock.into_raw_fd());
        Ok(Sampler {
            _link: link.map_err(failed("attach"))?,
            cpu,
        })
    }

    /// What is to be known of figures that it found.
    pub(super) fn note(hz: u32) -> String {
        format!(
            "Looked at the lanes {hz} times a second: times are estimates; waits, jobs, and tasks between two looks were not \
             seen and read 0."
        )
    }
}
