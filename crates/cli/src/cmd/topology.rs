//! `sidelane topology`: packages, caches, cores and lanes as the scheduler sees them.
//!
//! ```text
//! $ sidelane topology
//! machine   2 packages, 2 nodes, 2 last-level caches, 4 cores, 8 lanes online
//! SMT       control on, active; 2 lanes a core
//! capacity  equal on all cores
//!
//! package 0, node 0, L3 cache 0:  core 0 [0|4]  core 1 [1|5]
//! package 1, node 1, L3 cache 1:  core 2 [2|6]  core 3 [3|7]
//! ```

use super::Format;
use crate::exit::BadInput;
use anyhow::Context;
use sidelane_interface::Kind;
use sidelane_topology::{Topology, render};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Print packages, caches, cores and lanes as the scheduler sees them.
///
/// Each core is shown as `core N [CPU|CPU|...]`, its lanes by CPU number. Cores are numbered by
/// kind (fastest first), then package, NUMA node, last-level cache and CPU number. Capacities are
/// relative to 1024 for the fastest core; cores within 10 % of the fastest of their kind are of one
/// kind. What a file of the machine tells wrongly is unknown; lines with the label `unknown` name the
/// file and what it holds.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Read a captured tree: the folder that holds `sys/devices/system/` [default: this machine].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// How to print.
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

const EXAMPLES: &str = "Examples:
  sidelane topology
  sidelane topology --format json | jq '.cores[] | [.index, .lanes[].cpu]'
  sidelane topology --root /tmp/captured";

/// Runs `sidelane topology`.
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let machine = match &args.root {
        None => Topology::read(Path::new("/")).context("cannot tell this machine's topology")?,
        Some(root) => Topology::read(root)
            .with_context(|| BadInput(format!("{}: no readable machine", root.display())))?,
    };
    args.format
        .print(Kind::Topology, || render::text(&machine), &machine)?;
    Ok(ExitCode::SUCCESS)
}
