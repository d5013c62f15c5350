//! `sidelane mark`: labels of cgroups.

use sidelane_control::service::mark;
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane mark nginx.service critical
  sidelane mark /kubepods.slice/kubepods-besteffort.slice batch
  sidelane mark $PID critical           the cgroup of that task
  sidelane mark nginx.service none      no label any more

In a unit: ExecStartPost=sidelane mark %n critical

A rule such as 'label:critical' in sidelane.toml says what a label means. The nearest label around a task \
counts.";

/// Label cgroups, for rules 'label:WORD' of the scheduler.
///
/// The label is the extended attribute user.sidelane.class of the cgroup's folder. It goes with the cgroup. A scheduler that runs
/// sees it within a second, without a reload. Needs the right to write that folder: root, or the owner of a delegated cgroup.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Unit, cgroup below the cgroup root, or number of a task.
    #[arg(value_name = "UNIT|CGROUP|PID")]
    target: String,
    /// The label, such as critical, normal or batch; none: take it away.
    #[arg(value_name = "WORD")]
    word: String,
}

/// Runs `sidelane mark`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let word = Some(args.word.as_str()).filter(|word| *word != "none");
    for path in mark(&args.target, word, Path::new("/"))? {
        super::write_out(&format!("{path} {}\n", args.word))?;
    }
    Ok(ExitCode::SUCCESS)
}
