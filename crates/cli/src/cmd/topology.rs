//! `sidelane topology`: packages, caches, cores and lanes as the scheduler sees them.

use std::process::ExitCode;

/// Print packages, caches, cores and lanes as the scheduler sees them.
#[derive(clap::Args)]
pub struct Args {}

/// Runs `sidelane topology`.
pub fn run(_args: Args) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
