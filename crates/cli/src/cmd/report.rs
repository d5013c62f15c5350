//! `sidelane report`: what a recording says, and two recordings compared.

use super::{Format, write_file};
use crate::exit::BadInput;
use sidelane_interface::Kind;
use sidelane_smt::report::{Comparison, Options, Report, report};
use sidelane_topology::printable;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const ABOUT: &str = "\
Prints SMT metrics of a recording by core, and the cgroups and tasks that used most. With two \
recordings it prints what differs: throughput, utilisation, response, density, productivity. \
docs/metrics.md defines them.";

const EXAMPLES: &str = "Examples:
  sidelane report smt.rec
  sidelane report smt.rec --html smt.html
  sidelane report off.rec on.rec --transactions 739628,1007269

ETR is transactions a second, ITR transactions a second of busy lanes. Transactions are the jobs of \
critical tasks where the recording knows classes, else what --transactions says was done meanwhile.";

/// Report SMT metrics of a recording, or compare two.
#[derive(clap::Args)]
#[command(long_about = ABOUT, after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct Args {
    /// One or two files of 'sidelane record'.
    #[arg(required = true, num_args = 1..=2)]
    files: Vec<PathBuf>,
    /// Transactions that were done in each recording.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = count)]
    transactions: Vec<f64>,
    /// Cgroups and tasks that are listed.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Also write a page with figures.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// How the result is printed.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

fn count(text: &str) -> Result<f64, String> {
    let count: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    match count.is_finite() && count >= 0.0 {
        true => Ok(count),
        false => Err("expected a number of at least 0".to_owned()),
    }
}

/// Runs `sidelane report`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.transactions.len() > args.files.len() {
        return Err(BadInput("more --transactions than recordings".to_owned()).into());
    }
    let reports: anyhow::Result<Vec<Report>> = (args.files.iter().enumerate())
        .map(|(index, file)| read(file, args.transactions.get(index).copied(), args.top))
        .collect();
    match reports?.as_slice() {
        [first, second, ..] => {
            let comparison = Comparison::new(first, second);
            if let Some(html) = &args.html {
                write_file(html, &comparison.html([first, second]))?;
            }
            let text = || comparison.text();
            args.format
                .print(Kind::ReportComparison, text, &comparison)?;
        }
        [one] => {
            if let Some(html) = &args.html {
                write_file(html, &one.html())?;
            }
            args.format.print(Kind::Report, || one.text(), one)?;
        }
        [] => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn read(file: &Path, transactions: Option<f64>, top: usize) -> anyhow::Result<Report> {
    let bad = |reason: String| BadInput(format!("{}: {reason}", file.display()));
    let bytes = std::fs::read(file).map_err(|e| super::unread(file, &e))?;
    let name = file
        .file_name()
        .unwrap_or(file.as_os_str())
        .to_string_lossy();
    let options = Options { top, transactions };
    let report = report(&name, &bytes, &options);
    Ok(report.map_err(|e| bad(printable(e.to_string().as_bytes())))?)
}
