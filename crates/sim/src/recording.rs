//! Simulated runs as recordings, such as `sidelane record` writes.

use crate::scenario::{Configuration, Scenario};
use crate::snapshot::watch;
use sidelane_smt::recording::{Error as WritingError, Frame, Header, Writer};
use std::io::Write;

/// Longest interval of a recording.
const INTERVAL_MAX_NS: u64 = 1_000_000_000;

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The simulation could not go on.
    #[error(transparent)]
    Simulation(#[from] crate::Error),
    /// What came out cannot be written.
    #[error(transparent)]
    Writing(#[from] WritingError),
}

/// Records the measured time of the first replication of a configuration, in equal intervals of at most
/// a second. `program` is the version of the program that records.
///
/// # Errors
/// As [`run`](crate::run()); also if it cannot be written.
pub fn record<W: Write>(
    scenario: &Scenario,
    configuration: &Configuration,
    program: &str,
    out: W,
) -> Result<W, RecordError> {
    let length_ns = scenario.run.length_ns;
    let every_ns = length_ns / length_ns.div_ceil(INTERVAL_MAX_NS).max(1);
    let intervals = watch(scenario, configuration, every_ns)?;
    let online = scenario.machine_of(configuration).online;
    let header = Header {
        program: program.to_owned(),
        kernel: "none, simulated".to_owned(),
        scheduler: Some(configuration.name.clone()),
        lanes: online.iter().filter(|online| **online).count() as u32,
        wall_ms: (scenario.run.warmup_ns / 1_000_000).cast_signed(),
        interval_ms: every_ns / 1_000_000,
        command: None,
    };
    let mut writer = Writer::new(out, header)?;
    for interval in intervals {
        writer.write(&Frame::Interval(interval))?;
    }
    Ok(writer.finish(None)?)
}
