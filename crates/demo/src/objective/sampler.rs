//! Looks at batch and at the scheduler while a server is measured.

use super::Sample;
use crate::batch::{Batch, bytes_read_by};
use crate::error::{During, Error, Result};
use crate::sys::Guarded;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two samples, s.
const INTERVAL_S: f64 = 0.5;
/// How long `sidelane stat` may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Samples until it is told to end.
pub(super) struct Sampler {
    process: Guarded,
    thread: JoinHandle<Result<Vec<Sample>>>,
}

impl Sampler {
    /// Starts to look: each line of `sidelane stat` is a moment.
    pub(super) fn start(sidelane: &Path, batch: &Batch) -> Result<Sampler> {
        let interval = INTERVAL_S.to_string();
        let mut command = Command::new(sidelane);
        // a collector of SMT metrics would take its time just as the measurement begins
        command
            .args(["stat", &interval, "--format", "json", "--no-smt"])
            .stdout(Stdio::piped());
        let mut process = Guarded::spawn(&mut command, "sidelane stat")?;
        let stdout = process.stdout.take().ok_or(Error::Process {
            who: "sidelane stat",
            reason: "has no standard output".into(),
        })?;
        let pids: Vec<Pid> = batch.pids().collect();
        let thread = std::thread::Builder::new().name("sampler".into());
        let thread = thread
            .spawn(move || sample(stdout, &pids))
            .during(|| "starting a thread".into())?;
        Ok(Sampler { process, thread })
    }

    /// What was seen.
    pub(super) fn end(mut self) -> Result<Vec<Sample>> {
        self.process.signal(Signal::SIGTERM)?;
        let failed = |reason: &str| Error::Process {
            who: "sidelane stat",
            reason: reason.into(),
        };
        if !self.process.ended_within(PATIENCE)? {
            return Err(failed("did not end after SIGTERM"));
        }
        let panicked = || Err(failed("its reader panicked"));
        match self.thread.join().unwrap_or_else(|_| panicked())? {
            none if none.is_empty() => Err(failed("said nothing")),
            samples => Ok(samples),
        }
    }
}

fn sample(stdout: ChildStdout, pids: &[Pid]) -> Result<Vec<Sample>> {
    let start = Instant::now();
    let mut samples = Vec::new();
    for line in BufReader::new(stdout).lines() {
        let line = line.during(|| "reading what 'sidelane stat' says".into())?;
        let rates: serde_json::Value =
            serde_json::from_str(&line).map_err(|source| Error::Message {
                text: line.clone(),
                source,
            })?;
        samples.push(Sample {
            at_ms: u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX),
            batch_bytes: pids
                .iter()
                .map(|pid| bytes_read_by(*pid))
                .sum::<Result<u64>>()?,
            budget_ms: rates["objectives"][0]["budget_ms"].as_f64(),
        });
    }
    Ok(samples)
}
