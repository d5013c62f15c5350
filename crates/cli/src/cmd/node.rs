//! `sidelane node`: the agent on a Kubernetes node. It is a program of its own: the licence of the libraries that talk with an
//! API server does not go with this program's.

use std::ffi::OsString;
use std::process::ExitCode;

const EXAMPLES: &str = "Examples:
  sidelane node --help       options, labels, exit codes
  sidelane node --once --dry-run --node \"$(hostname)\" --kubeconfig ~/.kube/config

This becomes the program sidelane-node, which has to be installed.";

/// Write the class of each pod of a Kubernetes node to its cgroup, and run the scheduler where the node says so.
#[derive(clap::Args)]
#[command(disable_help_flag = true, after_help = EXAMPLES)]
pub struct Args {
    /// What that program is to do.
    #[arg(
        value_name = "OPTION",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    rest: Vec<OsString>,
}

/// Becomes that program.
pub fn run(args: Args) -> ExitCode {
    super::become_program("node", "sidelane-node", args.rest)
}
