//! `sidelane man` and `sidelane completions`: what a shell and man(1) know of the program.

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::Shell;
use sidelane_interface::{man, visible};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane man /usr/local/share/man/man1 --configuration /usr/local/share/man/man5
  man -l /usr/local/share/man/man1/sidelane-run.1";

/// Write the manual pages into a folder.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A folder for the pages of commands; it is made if it is not there.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Another one, for sidelane.toml(5) [default: the same].
    #[arg(long, value_name = "DIR")]
    configuration: Option<PathBuf>,
}

const COMPLETIONS: &str = "Examples:
  sidelane completions bash > /etc/bash_completion.d/sidelane
  sidelane completions zsh > /usr/local/share/zsh/site-functions/_sidelane
  sidelane completions fish > ~/.config/fish/completions/sidelane.fish

'make install' and packages install them.";

/// Print what a shell needs to complete commands and options.
#[derive(clap::Args)]
#[command(after_help = COMPLETIONS)]
pub struct CompletionArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Runs `sidelane man`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let failed = |folder: &Path| format!("{}: cannot write manual pages", folder.display());
    let make = |folder: &Path| std::fs::create_dir_all(folder).with_context(|| failed(folder));
    make(&args.folder)?;
    man::generate(crate::Cli::command(), &args.folder).with_context(|| failed(&args.folder))?;
    let folder = args.configuration.unwrap_or(args.folder);
    make(&folder)?;
    std::fs::write(folder.join("sidelane.toml.5"), man::configuration())
        .with_context(|| failed(&folder))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `sidelane completions`.
pub fn complete(args: CompletionArgs) -> anyhow::Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut visible(&crate::Cli::command()),
        "sidelane",
        &mut text,
    );
    super::write_out(&String::from_utf8(text)?)?;
    Ok(ExitCode::SUCCESS)
}
