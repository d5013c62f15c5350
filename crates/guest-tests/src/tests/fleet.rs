//! A node of a cluster: the agent, with a real API server beside it, on cgroups as the kubelet makes them. By `make
//! test-fleet`, which builds the programs.

use super::support::*;
use serde_json::{Value, json};
use sidelane_demo::arrivals::Phase;
use sidelane_demo::batch::Batch;
use sidelane_demo::compute::ComputeServer;
use sidelane_demo::experiment::Requests;
use sidelane_demo::machine::Machine;
use sidelane_demo::reference;
use sidelane_label::label;
use sidelane_label::node::NodeState;
use sidelane_smt::latency::{Quantile, quantile};
use sidelane_topology::Topology;
use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

tests! {
    a_labelled_pod_is_protected_and_a_label_of_the_node_gives_it_back,
}

/// Variables inside: the cache that has the cluster's programs, the script that starts it, and the agent.
const CACHE: &str = "XDG_CACHE_HOME";
const SCRIPT: &str = "CHECK_CHART";
const AGENT: &str = "SIDELANE_NODE";

/// Of `sidelane testbed run`: what `scripts/setup fleet` and `make test-fleet` have built.
pub fn arguments() -> Vec<String> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let top = top.canonicalize().unwrap();
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = env::var_os(CACHE).map_or_else(home, PathBuf::from);
    let script = top.join("scripts/check-chart");
    let built = || top.join("target/release/sidelane-node");
    let agent = env::var_os(AGENT).map_or_else(built, PathBuf::from);
    let programs = ["etcd", "kube-apiserver", "kubectl"]
        .map(|name| cache.join("sidelane/fleet/bin").join(name));
    let files =
        programs
            .into_iter()
            .chain([script.clone(), agent.clone(), "/usr/bin/openssl".into()]);
    let added = files.flat_map(|file| ["--add".to_owned(), file.display().to_string()]);
    let variables = [(CACHE, cache), (SCRIPT, script), (AGENT, agent)];
    let told =
        variables.map(|(name, path)| ["--env".to_owned(), format!("{name}={}", path.display())]);
    added.chain(told.into_iter().flatten()).collect()
}

const NODE: &str = "guest";
const FOLDER: &str = "/run/cluster";
const CONFIG: &str = r#"
[[rule]]
class = "critical"
match = "label:critical"
[[rule]]
class = "normal"
match = "label:normal"
[[rule]]
class = "batch"
match = "label:batch"
[scheduler]
thread_perf = [1, 0.63]
"#;
/// What a container of the chart has beside root.
const CHART: &str = include_str!("../../../../packaging/chart/templates/node.yaml");

/// etcd and the API server. It takes a minute or two to start here.
struct Cluster(Child);

impl Cluster {
    fn start() -> Cluster {
        let began = Instant::now();
        let child = Command::new("sh")
            .arg(env::var(SCRIPT).unwrap())
            .args(["--cluster", FOLDER, "sh", "-c"])
            .arg(format!("touch {FOLDER}/ready; exec sleep 100000"))
            .spawn();
        let mut cluster = Cluster(child.unwrap());
        while !fs::exists(format!("{FOLDER}/ready")).unwrap() {
            assert!(cluster.0.try_wait().unwrap().is_none(), "no cluster");
            std::thread::sleep(Duration::from_millis(200));
        }
        println!("etcd and the API server: {:.0?}", began.elapsed());
        cluster
    }

    /// Stops its programs, or lets them go on: emulated they take whole lanes.
    fn signal(&self, name: &str) {
        for program in ["etcd", "kube-apiserver"] {
            let status = Command::new("killall")
                .args([&format!("-{name}"), program])
                .status();
            assert!(status.unwrap().success(), "{program}");
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for word in ["-CONT", "-KILL"] {
            let _ = Command::new("killall")
                .args([word, "etcd", "kube-apiserver"])
                .status();
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What kubectl prints; with the object that it is handed.
fn kubectl(args: &[&str], object: Option<&Value>) -> String {
    let program = PathBuf::from(env::var(CACHE).unwrap()).join("sidelane/fleet/bin/kubectl");
    let mut child = Command::new(program)
        .args(["--kubeconfig", &format!("{FOLDER}/kubeconfig")])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    if let Some(object) = object {
        input.write_all(object.to_string().as_bytes()).unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "kubectl {args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Capabilities of the agent's container, by their numbers.
fn capabilities_of_the_chart() -> Vec<u32> {
    let of = |name: &str| match name {
        "BPF" => 39,
        "PERFMON" => 38,
        "SYS_ADMIN" => 21,
        "SYS_NICE" => 23,
        "SYS_PTRACE" => 19,
        "DAC_READ_SEARCH" => 2,
        other => panic!("no number for {other}"),
    };
    let first = CHART.split("add:\n").nth(1).unwrap();
    let lines = first
        .lines()
        .map_while(|line| line.trim().strip_prefix("- "));
    lines
        .map(|line| of(line.split_whitespace().next().unwrap()))
        .collect()
}

/// The agent, with no more capabilities than in its container, and in a namespace of cgroups as there.
struct Agent(Child);

impl Agent {
    /// With these settings beside its defaults.
    fn start(settings: &[&str]) -> Agent {
        fs::write("/run/rules.toml", CONFIG).unwrap();
        fs::write("/run/calibration.json", r#"{"thread_perf": [1, 0.63]}"#).unwrap();
        let kept = capabilities_of_the_chart();
        assert_eq!(kept.len(), 6);
        let procs = cgroup("agent").join("cgroup.procs");
        let prepare = move || {
            fs::write(&procs, "0")?;
            // SAFETY: system calls between fork and exec
            unsafe {
                for number in (0..41).filter(|number| !kept.contains(number)) {
                    if libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(number), 0, 0, 0) != 0
                    {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                match libc::unshare(libc::CLONE_NEWCGROUP) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            }
        };
        let mut command = Command::new(env::var(AGENT).unwrap());
        command
            .args(["--node", NODE, "--config", "/run/rules.toml"])
            .args(["--kubeconfig", &format!("{FOLDER}/kubeconfig")])
            .args(["--sidelane", SIDELANE])
            .args(["--batch-cpu", "--calibration", "/run/calibration.json"])
            .args(settings);
        // SAFETY: as above
        unsafe { command.pre_exec(prepare) };
        Agent(command.spawn().unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sets the mode by the label of the node, and waits until it holds.
fn set_mode(mode: &str) {
    let began = Instant::now();
    kubectl(
        &[
            "label",
            "node",
            NODE,
            "--overwrite",
            &format!("sidelane.dev/mode={mode}"),
        ],
        None,
    );
    eventually(mode, || attached() == (mode == "enforce"));
    println!("{mode}: {:.1?}", began.elapsed());
}

/// A pod of this node, and the folder of its container as the kubelet makes it, by the cgroup driver.
fn pod(name: &str, driver: &str) -> PathBuf {
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "nodeName": NODE,
            "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "500m" } } }],
        },
    });
    kubectl(&["create", "-f", "-"], Some(&object));
    let uid = kubectl(
        &["get", "pod", name, "-o", "jsonpath={.metadata.uid}"],
        None,
    );
    let container = "0123456789abcdef".repeat(4);
    let path = match driver {
        "systemd" => format!(
            "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-containerd-{container}.scope",
            uid.replace('-', "_")
        ),
        _ => format!("kubepods/burstable/pod{uid}/{container}"),
    };
    cgroup(&path)
}

/// Says the class of a pod by a label, and waits until it is that in the running scheduler: its load is alone.
fn classify(name: &str, label: &str, class: usize) {
    let began = Instant::now();
    kubectl(&["label", "pod", name, "--overwrite", label], None);
    eventually(label, || busy_lanes("0.5")[class] > 0.5);
    println!(
        "{name}, {label}: {:.1?} until it is counted so",
        began.elapsed()
    );
}

/// Of values in any order, by nearest rank.
fn quantile_of<T: Copy + PartialOrd>(mut values: Vec<T>, q: Quantile) -> T {
    values.sort_by(|a, b| a.partial_cmp(b).unwrap());
    quantile(&values, q).unwrap()
}

fn a_labelled_pod_is_protected_and_a_label_of_the_node_gives_it_back() {
    let cluster = Cluster::start();
    kubectl(
        &["create", "-f", "-"],
        Some(&json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE } })),
    );
    // it looks often, so that the test need not wait
    let mut agent = Agent::start(&["--every", "5", "--batch-cpu-window", "20"]);
    set_mode("enforce");
    let [server, batch] = both_drivers();
    offered(&cluster, &server);
    given_back(&server);
    drop(agent);
    agent = Agent::start(&[]);
    protected(&cluster, &server, &batch);
    set_mode("enforce");
    signal(agent.0.id(), "TERM");
    assert!(agent.0.wait().unwrap().success());
    assert!(!attached(), "it was left attached");
}

/// A server's container by one driver, and batch's by the other; what their pods say counts.
fn both_drivers() -> [PathBuf; 2] {
    let server = pod("server", "systemd");
    let load = spin_in(&server);
    eventually("no label yet", || {
        let [critical, normal, _] = busy_lanes("0.5");
        critical < 0.1 && normal > 0.5
    });
    classify("server", "sidelane.dev/class=critical", 0);
    drop(load);
    let batch = pod("batch", "cgroupfs");
    let load = spin_in(&batch);
    classify("batch", "sidelane.dev/class=critical", 0);
    kubectl(&["label", "pod", "batch", "sidelane.dev/class-"], None);
    classify("batch", "koordinator.sh/qosClass=BE", 2);
    drop(load);
    [server, batch]
}

fn spin_in(container: &Path) -> Load {
    let load = Load::spin(&Traits::default());
    fs::write(container.join("cgroup.procs"), load.pid().to_string()).unwrap();
    load
}

const ROUNDS: u64 = 5;
const SETUPS: [(&str, &str, bool); 3] = [
    ("alone", "observe", false),
    ("default", "observe", true),
    ("enforce", "enforce", true),
];

/// The demonstration's server in the critical pod, without and with compressors in the batch pod: in turn, all setups of
/// a round with the same arrivals. The API server stands still meanwhile: what holds, holds without it.
fn protected(cluster: &Cluster, server: &Path, batch: &Path) {
    let machine = Machine::of(&Topology::read(Path::new("/")).unwrap());
    let mut computing = ComputeServer::start(Path::new(SIDELANE), machine.lane_count()).unwrap();
    let join =
        |container: &Path, pid: String| fs::write(container.join("cgroup.procs"), pid).unwrap();
    join(server, computing.pid().to_string());
    let compressors = Batch::start(machine.lane_count(), 1).unwrap();
    compressors
        .pids()
        .for_each(|pid| join(batch, pid.to_string()));
    let mut p99_ms = [const { Vec::new() }; SETUPS.len()];
    for round in 0..ROUNDS {
        cluster.signal("STOP");
        let units_per_core_s = reference::steady_compute_speed(&machine).unwrap();
        cluster.signal("CONT");
        let phase = Phase {
            load: 0.24,
            run_ms: 20_000,
            seed: round,
        };
        let requests = Requests::new(&machine, units_per_core_s, 8.0, &[phase]);
        for turn in 0..SETUPS.len() {
            let which = (turn + round as usize) % SETUPS.len();
            let (name, mode, has_batch) = SETUPS[which];
            set_mode(mode);
            cluster.signal("STOP");
            if has_batch {
                compressors.resume(machine.lane_count()).unwrap();
            }
            std::thread::sleep(Duration::from_secs(1));
            let outcome = requests
                .send(&mut computing, &AtomicBool::new(false))
                .unwrap();
            compressors.stop().unwrap();
            assert_eq!(attached(), mode == "enforce");
            cluster.signal("CONT");
            let ms = quantile_of(outcome.latency_ns, Quantile::P99) as f64 / 1e6;
            println!("round {round}, {name}: p99 {ms:.2} ms");
            p99_ms[which].push(ms);
        }
    }
    let over_alone = |which: usize| {
        let pairs = p99_ms[which].iter().zip(&p99_ms[0]);
        quantile_of(
            pairs.map(|(beside, alone)| beside / alone).collect(),
            Quantile::P50,
        )
    };
    let [default, enforce] = [1, 2].map(over_alone);
    println!(
        "p99 over alone, medians of {ROUNDS} rounds: default {default:.3}, enforce {enforce:.3}"
    );
    assert!(enforce <= 1.15 && enforce < default);
}

/// What the agent offers to batch, thousandths of a core. By its file: each question to the API server takes a lane.
fn offer() -> Option<u64> {
    NodeState::read(Path::new("/run/sidelane/node.json"))
        .ok()?
        .batch_cpu
}

/// Batch is offered what is idle, less once a critical task closes a core, and nothing where the node observes. While it is
/// measured the API server stands still.
fn offered(cluster: &Cluster, server: &Path) {
    let capacity = || {
        let path = "jsonpath={.status.capacity.sidelane\\.dev/batch-cpu}";
        kubectl(&["get", "node", NODE, "-o", path], None)
    };
    let most = |lanes: f64| (lanes * 630.0) as u64;
    cluster.signal("STOP");
    eventually("more than a core", || offer() > Some(most(2.0)));
    let idle = offer().unwrap();
    assert!(idle <= most(4.0), "{idle}");
    cluster.signal("CONT");
    eventually("the API server knows", || !capacity().is_empty());
    cluster.signal("STOP");
    let load = spin_in(server);
    eventually("a core less", || {
        offer().is_some_and(|now| now <= idle - most(1.5))
    });
    println!(
        "offered: {idle}, beside a critical task {:?}",
        offer().unwrap()
    );
    drop(load);
    cluster.signal("CONT");
    set_mode("observe");
    eventually("nothing", || offer().is_none() && capacity().is_empty());
}

/// Observing leaves nothing on the machine, and is told.
fn given_back(server: &Path) {
    set_mode("enforce");
    let pod = server.parent().unwrap();
    eventually("its label", || {
        label(pod, "/").is_some_and(|label| label.word == "critical")
    });
    set_mode("observe");
    assert_eq!(state(), "disabled");
    eventually("the label is gone", || label(pod, "/").is_none());
    eventually("the condition", || {
        let path = "jsonpath={.status.conditions[?(@.type==\"SidelaneAttached\")].reason}";
        kubectl(&["get", "node", NODE, "-o", path], None) == "Observing"
    });
}
