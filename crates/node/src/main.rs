//! The program `sidelane-node`, which `sidelane node` becomes: an agent on a Kubernetes node. It is a program of its own
//! because of the licence of the libraries that talk with the API server.

/// Tells on standard error, as `eprintln!`. That it goes nowhere, as where the reader of a pipe has ended, is no reason to end.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($text)*);
    }};
}

mod agent;
mod api;

use agent::Agent;
use anyhow::{Context, anyhow};
use api::{NodeObject, PodObject};
use clap::{Parser, ValueEnum};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use sidelane_node::class::{Class, Rules, priority_class};
use sidelane_node::{Comparison, Mode, batch_cpu, cgroups};
use std::error::Error;
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "Examples:
  sidelane node --once --dry-run --node \"$(hostname)\" --kubeconfig ~/.kube/config
  sidelane node --config /etc/sidelane.toml --best-effort-batch      in a pod with NODE_NAME
  sidelane node --priority-class web=critical,reports=batch
  kubectl label node NODE sidelane.dev/mode=enforce                  observe: the way back

A pod's class is that of its annotation sidelane.dev/class, else of its label of this name: critical, normal or batch. \
Else that of its label koordinator.sh/qosClass (LSE, LSR and LS are critical, BE is batch, SYSTEM is normal), else that of \
its PriorityClass by --priority-class, else batch if it is BestEffort, with --best-effort-batch. The attribute \
user.sidelane.class of the pod's cgroup says it to rules 'label:critical', 'label:normal' and 'label:batch' of the scheduler. \
Where nothing gives a class no attribute is written: rules for paths and what tasks say of themselves count.

The node's label sidelane.dev/mode says what is done. enforce: cgroups are labelled, 'sidelane run --config FILE' runs. \
observe, or no such label: neither, and attributes of pods' cgroups are taken away. The node's condition SidelaneAttached says what \
'sidelane status' knows; its labels sidelane.dev/lanes-per-core and sidelane.dev/thread-perf what is known of the machine.

With --batch-cpu the node offers batch an extended resource, sidelane.dev/batch-cpu, in thousandths of a core with SMT off: \
threadPerf x (lanes - lanes of a core x lanes with critical work - other busy lanes), a low quantile of the last intervals. Pods \
request it; the cluster's scheduler places them by it. It needs --calibration where cores have several lanes, and is taken away \
when the scheduler is not attached.

While the API server is away, what holds is kept. SIGTERM detaches the scheduler.

Exit codes:
  0    done: stopped by SIGTERM or Ctrl-C, or --once
  1    failed, such as an API server that does not answer --once
  2    wrong usage
  3    this machine cannot do it (no cgroup v2, or none with extended attributes)
  4    bad input (kubeconfig, calibration)";

/// Write the class of each pod of a Kubernetes node to its cgroup, and run the scheduler where the node says so.
#[derive(Parser)]
#[command(name = "sidelane-node", bin_name = "sidelane node", version, after_help = EXAMPLES, max_term_width = 100)]
struct Args {
    /// Name of the node.
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node: String,
    /// How to reach the API server [default: the pod's service account, else ~/.kube/config].
    #[arg(long, value_name = "FILE", env = "KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Where cgroups are [default: where cgroup v2 is mounted].
    #[arg(long, value_name = "DIR")]
    cgroup_root: Option<PathBuf>,
    /// Configuration of 'sidelane run', with rules 'label:WORD'. What it says next is read while it runs.
    #[arg(long, value_name = "FILE", default_value = "/etc/sidelane.toml")]
    config: PathBuf,
    /// File of 'sidelane calibrate', for the label sidelane.dev/thread-perf.
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Class of the pods of a PriorityClass.
    #[arg(long, value_name = "NAME=CLASS", env = "SIDELANE_PRIORITY_CLASSES", value_delimiter = ',', value_parser = priority_class)]
    priority_class: Vec<(String, Class)>,
    /// Pods of the QoS class BestEffort are batch.
    #[arg(long)]
    best_effort_batch: bool,
    /// Seconds between full comparisons, beside those that changes bring about.
    #[arg(long, value_name = "S", default_value = "30", value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    /// The program that has the scheduler.
    #[arg(long, value_name = "PROGRAM", default_value = "sidelane")]
    sidelane: OsString,
    /// Keeps the node's mode for a start while the API server is away; names pods for 'sidelane export'.
    #[arg(long, value_name = "FILE", default_value = "/run/sidelane/node.json")]
    state: PathBuf,
    /// Offer batch what critical and other work leaves: the extended resource sidelane.dev/batch-cpu of the node.
    #[arg(long)]
    batch_cpu: bool,
    /// Seconds over which that is measured.
    #[arg(long, value_name = "S", default_value = "600", requires = "batch_cpu", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    batch_cpu_window: u64,
    /// Of the intervals within them, the quantile that is offered: 0.1 was there in nine of ten.
    #[arg(long, value_name = "Q", default_value = "0.1", requires = "batch_cpu", value_parser = quantile)]
    batch_cpu_quantile: f64,
    /// Compare once, write attributes, print, and end; leave the scheduler and the node as they are.
    #[arg(long)]
    once: bool,
    /// With --once: write nothing.
    #[arg(long, requires = "once")]
    dry_run: bool,
    /// How --once prints.
    #[arg(long, value_enum, default_value = "text", requires = "once")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: a table.
    Text,
    /// For programs: one JSON document.
    Json,
}

/// What ends the program early.
struct Failure {
    code: u8,
    error: anyhow::Error,
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Failure {
        Failure { code: 1, error }
    }
}

const CANNOT: u8 = 3;
const BAD_INPUT: u8 = 4;

/// Makes an error one with an exit code.
fn failing<E: Into<anyhow::Error>>(code: u8) -> impl Fn(E) -> Failure {
    move |error| Failure {
        code,
        error: error.into(),
    }
}

/// An error with its reasons, each once: some tell theirs themselves.
fn told(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.contains(&told) {
            text = format!("{text}: {told}");
        }
        cause = error.source();
    }
    text
}

// one thread: what ends with the thread that began it, as the scheduler, ends with the program
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, error }) => {
            say!("error: {}", told(error.as_ref()));
            code.into()
        }
    }
}

async fn run(args: Args) -> Result<(), Failure> {
    let cgroup_root = match &args.cgroup_root {
        Some(root) => root.clone(),
        None => cgroups::mount_point().map_err(failing(CANNOT))?,
    };
    cgroups::check(&cgroup_root).map_err(failing(CANNOT))?;
    let calibration = args.calibration.as_deref();
    let thread_perf = calibration.map(thread_perf).transpose();
    let thread_perf = thread_perf.map_err(failing(BAD_INPUT))?;
    let client = client(&args).await?;
    let rules = Rules {
        priority_classes: args.priority_class.iter().cloned().collect(),
        best_effort_batch: args.best_effort_batch,
    };
    if args.once {
        let comparison = compare(&args, client, &rules, &cgroup_root).await?;
        if !args.dry_run {
            for row in &comparison.pods {
                let failed = || format!("cannot label {}", row.cgroup.as_deref().unwrap_or("-"));
                row.apply(&cgroup_root).with_context(failed)?;
            }
        }
        return print(&args, &comparison).map_err(Failure::from);
    }
    let batch_cpu = batch_cpu::Settings {
        window: Duration::from_secs(args.batch_cpu_window),
        quantile: args.batch_cpu_quantile,
    };
    let settings = agent::Settings {
        node: args.node,
        cgroup_root,
        rules,
        thread_perf,
        sidelane: args.sidelane,
        config: args.config,
        state: args.state,
        every: Duration::from_secs(args.every),
        batch_cpu: args.batch_cpu.then_some(batch_cpu),
    };
    Ok(Agent::new(settings, client).run().await?)
}

fn quantile(text: &str) -> Result<f64, String> {
    let quantile = text.parse().ok().filter(|q| *q > 0.0 && *q <= 1.0);
    quantile.ok_or_else(|| "give a number above 0, at most 1".to_owned())
}

/// threadPerf of a core whose lanes all run, from a file of `sidelane calibrate`.
fn thread_perf(file: &Path) -> anyhow::Result<f64> {
    #[derive(serde::Deserialize)]
    struct Calibration {
        thread_perf: Vec<f64>,
    }
    let read = || -> anyhow::Result<f64> {
        let read: Calibration = serde_json::from_slice(&std::fs::read(file)?)?;
        let last = read.thread_perf.last().copied();
        last.ok_or_else(|| anyhow!("thread_perf is empty"))
    };
    read().with_context(|| file.display().to_string())
}

async fn client(args: &Args) -> Result<Client, Failure> {
    let config = match &args.kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(failing(BAD_INPUT))?;
            Config::from_custom_kubeconfig(read, &KubeConfigOptions::default())
                .await
                .map_err(failing(BAD_INPUT))?
        }
        None => Config::infer().await.map_err(failing(BAD_INPUT))?,
    };
    Client::try_from(config).map_err(failing(BAD_INPUT))
}

/// What the API server says now, beside what cgroups have now.
async fn compare(
    args: &Args,
    client: Client,
    rules: &Rules,
    cgroup_root: &Path,
) -> anyhow::Result<Comparison> {
    let nodes = Api::<NodeObject>::all(client.clone());
    let node = nodes
        .get_opt(&args.node)
        .await
        .context("cannot read the node")?;
    let node = node.ok_or_else(|| anyhow!("the API server knows no node {}", args.node))?;
    let mode = node.mode().unwrap_or_else(|fault| {
        say!("sidelane: node {}: {fault}", args.node);
        Mode::Observe
    });
    let selected = ListParams::default().fields(&agent::of_node(&args.node));
    let listed = Api::<PodObject>::all(client).list(&selected).await;
    let pods = listed.context("cannot list pods")?.items.into_iter();
    let pods = pods.filter_map(|pod| Some((pod.uid()?.clone(), pod.pod(rules))));
    let found = cgroups::of_pods(cgroup_root);
    Ok(Comparison::new(&args.node, mode, &pods.collect(), &found))
}

/// Prints on standard output; a reader that has gone away is no error.
fn print(args: &Args, comparison: &Comparison) -> anyhow::Result<()> {
    let text = match args.format {
        Format::Text => comparison.to_string(),
        Format::Json => comparison.json()?,
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
