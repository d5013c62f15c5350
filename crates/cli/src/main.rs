//! The `sidelane` command: a subcommand a file, no logic of its own.

mod cmd;
mod exit;

use clap::Parser;
use sidelane_interface::say;
use std::process::ExitCode;

/// SMT scheduling suite: gives the second lane of every core back without the price.
#[derive(Parser)]
#[command(name = "sidelane", version, about, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: cmd::Command,
}

fn main() -> ExitCode {
    match Cli::parse().command.run() {
        Ok(code) => code,
        Err(error) => {
            say!("error: {}", exit::told(&error));
            exit::code_of(&error).into()
        }
    }
}
