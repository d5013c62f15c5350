//! `sidelane mark`: labels of cgroups.

use crate::exit::BadInput;
use sidelane_control::service::{Label, mark};
use std::path::Path;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane mark nginx.service critical
  sidelane mark /kubepods.slice/kubepods-besteffort.slice batch
  sidelane mark $PID critical           the cgroup of that task
  sidelane mark web.service critical --objective 'p99 < 20 ms'
  sidelane mark nginx.service none      no label any more

In a unit: ExecStartPost=sidelane mark %n critical

A rule such as 'label:critical' in sidelane.toml says what a label means. The nearest label around a task \
counts, with its objective.";

/// Label cgroups, for rules 'label:WORD' of the scheduler.
///
/// The label is the extended attribute user.sidelane.class of the cgroup's folder, its objective user.sidelane.objective. They go with
/// the cgroup. A scheduler that runs sees them within a second, without a reload. Needs the right to write that folder: root, or the owner of a delegated cgroup.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Unit, cgroup below the cgroup root, or number of a task.
    #[arg(value_name = "UNIT|CGROUP|PID")]
    target: String,
    /// The label, such as critical, normal or batch; none: take it away.
    #[arg(value_name = "WORD")]
    word: String,
    /// The latency that few jobs of the critical tasks may exceed, such as "p99 < 20 ms": batch may run beside them as long as that
    /// holds. Without it the rule's, or that of the configuration.
    #[arg(long)]
    objective: Option<String>,
}

/// Runs `sidelane mark`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.target.parse::<u32>().is_ok() && !Path::new("/proc").join(&args.target).exists() {
        let none = format!(
            "no task {}; 'ps -e' lists those that there are",
            args.target
        );
        return Err(BadInput(none).into());
    }
    let label = Label {
        word: args.word,
        objective: args.objective,
    };
    let wanted = Some(&label).filter(|label| label.word != "none");
    for path in mark(&args.target, wanted, Path::new("/"))? {
        super::write_out(&format!("{path} {label}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}
