//! `sidelane man`: the man pages, from the same text as `--help`.

use anyhow::Context;
use clap::CommandFactory;
use std::path::PathBuf;
use std::process::ExitCode;

/// Write the man pages into a folder.
#[derive(clap::Args)]
pub struct Args {
    /// An existing folder.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `sidelane man`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    clap_mangen::generate_to(crate::Cli::command(), &args.folder)
        .with_context(|| format!("cannot write man pages into {}", args.folder.display()))?;
    Ok(ExitCode::SUCCESS)
}
