//! `sidelane export`, `sidelane advise` and `sidelane trial`.

use super::metrics::{FILE, Recorder};
use super::support::*;
use serde_json::Value;
use sidelane_demo::batch::Batch;
use sidelane_demo::redis::Redis;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

tests! {
    #[untimed]
    what_is_exported_follows_the_load,
    #[untimed]
    the_scheduler_is_exported_while_it_is_attached,
    #[untimed]
    capabilities_do_where_root_is_not_needed,
    #[untimed]
    a_thread_that_never_pauses_beside_idle_cores_is_found,
    #[untimed]
    a_recording_tells_which_pool_lost_entitlement,
    a_service_is_told_beside_whom_it_runs,
    a_trial_shows_redis_under_three_setups,
    #[untimed]
    a_trial_that_is_ended_leaves_the_machine_as_it_was,
}

pub const ADDRESS: &str = "127.0.0.1:9754";

pub struct Exporter(Child);

/// A program that is killed when this is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Exporter {
    /// Starts it and waits until it answers.
    pub fn start() -> Exporter {
        let exporter = Command::new(SIDELANE)
            .args(["export", "--listen", ADDRESS])
            .args(["--thread-perf", "1,0.6,0.5,0.4"])
            .spawn();
        let exporter = Exporter(exporter.unwrap());
        eventually("it answers", || busy_s(&scrape(), 1).is_some());
        exporter
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the exporter says; nothing while it does not listen.
pub fn scrape() -> String {
    let mut answer = String::new();
    if let Ok(mut client) = TcpStream::connect(ADDRESS) {
        let request = "GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
        client.write_all(request.as_bytes()).unwrap();
        client.read_to_string(&mut answer).unwrap();
    }
    answer
}

/// A sample's value, by its name and labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    let named = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(named)
}

/// Of all samples whose lines begin so.
fn sum(text: &str, begins: &str) -> f64 {
    let lines = text.lines().filter(|line| line.starts_with(begins));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// Seconds that lane `cpu` was busy, as exported.
fn busy_s(text: &str, cpu: usize) -> Option<f64> {
    sample(
        text,
        &format!("sidelane_lane_busy_seconds_total{{cpu=\"{cpu}\"}}"),
    )
}

fn what_is_exported_follows_the_load() {
    let mut exporter = Exporter::start();
    let load = Load::spin(&Traits {
        cpus: vec![1],
        ..Traits::default()
    });
    let before = busy_s(&scrape(), 1).unwrap();
    eventually("the lane is busy", || {
        busy_s(&scrape(), 1).is_some_and(|now| now > before + 2.0)
    });
    let text = scrape();
    assert!(text.contains("sidelane_thread_density "), "{text}");
    assert!(text.contains("sidelane_thread_perf{lanes=\"2\",source=\"given\"} 0.6"));
    // cgroups are charged for all that cores were busy, and no more; a hypervisor steps in at switches
    let prorated_s = sum(&text, "sidelane_cgroup_prorated_seconds_total{");
    let busy_s = sum(&text, "sidelane_core_busy_seconds_total{");
    println!("prorated {prorated_s} s of {busy_s} s");
    assert!((prorated_s / busy_s - 1.0).abs() < 0.03);
    drop(load);
    signal(exporter.0.id(), "INT");
    assert!(exporter.0.wait().unwrap().success());
}

const ATTACHED: &str = "sidelane_scheduler_attached";
const CRITICAL_S: &str = "sidelane_scheduler_run_seconds_total{class=\"critical\"}";
const EJECTED: &str = "sidelane_scheduler_exits_total{how=\"ejected\"}";

/// Attaches it beside critical work that sleeps, and batch: exported seconds that the former ran.
fn exported_critical_s() -> (Scheduler, Option<f64>) {
    let scheduler = Scheduler::attach(&RULES);
    let _loads = (Load::critical_jobs(2_000, "0.01"), Load::spin_in("batch"));
    let jobs = "sidelane_job_latency_seconds_count{class=\"critical\"}";
    eventually("critical work is exported", || {
        let text = scrape();
        let told = [ATTACHED, "sidelane_scheduler_readable"].map(|name| sample(&text, name));
        told == [Some(1.0); 2]
            && sample(&text, jobs) > Some(0.0)
            && sample(&text, CRITICAL_S) > Some(0.1)
    });
    (scheduler, sample(&scrape(), CRITICAL_S))
}

fn the_scheduler_is_exported_while_it_is_attached() {
    let exporter = Exporter::start();
    let without = |name: &str| {
        let text = scrape();
        let stale = text
            .lines()
            .find(|line| line.starts_with("sidelane_scheduler_run"));
        sample(&text, ATTACHED) == Some(0.0) && sample(&text, name) == Some(1.0) && stale.is_none()
    };
    assert_eq!(sample(&scrape(), ATTACHED), Some(0.0));
    let (scheduler, first_s) = exported_critical_s();
    let text = scrape();
    let since = sample(&text, "sidelane_scheduler_start_timestamp_seconds").unwrap();
    let now = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_secs_f64();
    assert!((0.0..600.0).contains(&(now - since)), "{since}, now {now}");
    assert!(
        text.contains("sidelane_scheduler_settings_info{scope=\"all\",borrow=\"borrow-idle\""),
        "{text}"
    );
    assert!(scheduler.stop().success(), "ejected");
    eventually("that it ended is exported", || {
        without("sidelane_scheduler_exits_total{how=\"stopped\"}")
    });
    let (mut scheduler, second_s) = exported_critical_s();
    assert!(second_s > first_s, "{second_s:?} after {first_s:?}");
    std::fs::write("/proc/sysrq-trigger", "S").unwrap();
    assert!(!scheduler.child.wait().unwrap().success());
    eventually("that it was ejected is exported", || without(EJECTED));
    let text = scrape();
    assert_eq!(
        sample(&text, "sidelane_scheduler_attaches_total"),
        Some(2.0)
    );
    let last = "sidelane_scheduler_last_exit_timestamp_seconds{how=\"ejected\",reason=\"";
    println!("{:?}", text.lines().find(|line| line.starts_with(last)));
    assert!(text.contains(last), "{text}");
    drop(exporter);
}

// numbers of linux/capability.h
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// `sidelane` as nobody, with these capabilities alone.
fn with_capabilities(capabilities: &'static [u32], args: &[&str]) -> Command {
    let prepare = move || {
        const VERSION_3: u32 = 0x2008_0522;
        let header = [VERSION_3, 0];
        let word = |word: u32| {
            let within = capabilities.iter().filter(|number| **number / 32 == word);
            within.fold(0u32, |bits, number| bits | 1 << (number % 32))
        };
        // effective, permitted and inheritable, twice
        let sets = [[word(0); 3], [word(1); 3]];
        let check = |result: i64| match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        };
        // SAFETY: system calls with numbers, and with memory that lives as long as they last
        unsafe {
            check(libc::prctl(libc::PR_SET_KEEPCAPS, 1 as libc::c_ulong).into())?;
            check(libc::setresuid(65534, 65534, 65534).into())?;
            check(libc::syscall(
                libc::SYS_capset,
                header.as_ptr(),
                sets.as_ptr(),
            ))?;
            for number in capabilities {
                let [raise, number, none] =
                    [libc::PR_CAP_AMBIENT_RAISE as u32, *number, 0].map(libc::c_ulong::from);
                check(libc::prctl(libc::PR_CAP_AMBIENT, raise, number, none, none).into())?;
            }
        }
        Ok(())
    };
    let mut command = Command::new(SIDELANE);
    command.args(args);
    // SAFETY: only makes system calls between fork and exec
    unsafe { command.pre_exec(prepare) };
    command
}

fn capabilities_do_where_root_is_not_needed() {
    const SOME: &[u32] = &[CAP_BPF, CAP_PERFMON];
    let folder = "/tmp/nobody";
    std::fs::create_dir_all(folder).unwrap();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let file = format!("{folder}/smt.rec");
    let output =
        |capabilities, args: &[&str]| with_capabilities(capabilities, args).output().unwrap();
    let record = ["record", &file, "--seconds", "1"];
    let recorded = output(SOME, &record);
    assert!(recorded.status.success(), "{recorded:?}");
    for (capabilities, args, missing) in [
        (&[CAP_BPF] as &[u32], &record[..], "lacks CAP_PERFMON"),
        (&[CAP_PERFMON], &record, "lacks CAP_BPF"),
        (SOME, &["stat", "1", "1"], "lacks CAP_SYS_ADMIN"),
    ] {
        let refused = output(capabilities, args);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(3), "{said}");
        assert!(said.contains(missing), "{said}");
    }
    let run = with_capabilities(SOME, &["run"]).spawn();
    let mut run = Killed(run.unwrap());
    eventually("it is attached without root", attached);
    let export = with_capabilities(SOME, &["export", "--listen", ADDRESS]).spawn();
    let export = Killed(export.unwrap());
    eventually("it is exported without root", || {
        let text = scrape();
        let told = [ATTACHED, "sidelane_scheduler_readable"].map(|name| sample(&text, name));
        told == [Some(1.0), Some(0.0)] && busy_s(&text, 0) > Some(0.0)
    });
    drop(export);
    let stat = output(&[CAP_SYS_ADMIN], &["stat", "1", "1"]);
    assert!(stat.status.success(), "{stat:?}");
    let tuned = output(&[CAP_SYS_ADMIN], &["tune"]);
    assert!(tuned.status.success(), "{tuned:?}");
    signal(run.0.id(), "TERM");
    assert!(run.0.wait().unwrap().success());
}

fn a_thread_that_never_pauses_beside_idle_cores_is_found() {
    let load = Load::spin(&Traits::default());
    let advice = parse(&printed(&[
        "advise",
        "--seconds",
        "2.5",
        "--format",
        "json",
    ]));
    let found = |advice: &&Value| {
        let pid = &advice["thread"]["pid"];
        advice["finding"] == "master_thread" && *pid == load.pid()
    };
    assert!(
        advice["advice"]
            .as_array()
            .unwrap()
            .iter()
            .any(|a| found(&a)),
        "{advice}"
    );
}

fn a_recording_tells_which_pool_lost_entitlement() {
    let pool = |name: &str, charge: &str| {
        format!("[[pool]]\ncgroup = \"/{name}\"\ncapacity_cores = 0.5\ncharge = \"{charge}\"\n")
    };
    let path = "/tmp/entitled.toml";
    let speeds = "[scheduler]\nthread_perf = [1, 0.6]\n";
    fs::write(path, pool("raw", "raw") + &pool("mt1", "mt1") + speeds).unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let spin = |cgroup| {
        Load::spin(&Traits {
            cgroup,
            ..Traits::default()
        })
    };
    let cgroups = [Some("raw"), Some("raw"), Some("mt1"), Some("mt1")];
    let others = std::iter::repeat_n(None, nr_cpus());
    // before the load, beside which it takes seconds to start
    let recorder = Recorder::start();
    let loads: Vec<Load> = cgroups.into_iter().chain(others).map(spin).collect();
    std::thread::sleep(Duration::from_secs(3));
    recorder.stop();
    drop(loads);
    assert!(scheduler.stop().success(), "ejected");
    let output = sidelane(&["advise", FILE, "--format", "json"]);
    let advice = parse(str::from_utf8(&output.stdout).unwrap());
    let all = advice["advice"].as_array().unwrap().iter();
    let lost: Vec<&Value> = all
        .filter(|advice| advice["finding"] == "lost_entitlement")
        .collect();
    let [lost] = lost[..] else {
        panic!("{advice}");
    };
    println!("{lost}");
    assert_eq!(lost["cgroup"], "/raw");
    assert_eq!(lost["limit_lanes"], 0.5);
    assert!(lost["lost"].as_f64().unwrap() > 0.2, "{lost}");
    assert!(lost["throttled"].as_f64().unwrap() > 0.2, "{lost}");
}

/// `sidelane advise SERVICE`, as JSON.
fn advise_service(more: &[&str]) -> Value {
    let args = [
        "advise",
        "cgroup:/service",
        "--seconds",
        "2.5",
        "--format",
        "json",
    ];
    serde_json::from_str(&printed(&[&args, more].concat())).unwrap()
}

/// Two lanes of a core, with the kernel's scheduler.
fn a_service_is_told_beside_whom_it_runs() {
    let core = first_core();
    let (first, second) = (core[0], core[1]);
    let service = Load::spin(&Traits::on("service", first));
    let alone = advise_service(&[]);
    println!("{alone}");
    assert!(alone["by_density"][0].as_f64().unwrap() > 0.8, "{alone}");
    let beside = Load::spin(&Traits::on("other", second));
    let rival = Load::spin(&Traits::on("service/below", first));
    let shared = advise_service(&[]);
    println!("{shared}");
    assert!(shared["by_density"][1].as_f64().unwrap() > 0.9, "{shared}");
    let most = &shared["beside"][0];
    assert_eq!(most["cgroup"], "/other");
    assert!(most["share"].as_f64().unwrap() > 0.85, "{shared}");
    // two that share a lane wait half of the time each
    let wait = shared["waits"]["share"].as_f64().unwrap();
    assert!((0.35..0.65).contains(&wait), "{shared}");
    assert!(
        shared["waits"]["p99_ms"].as_f64().unwrap() > 0.5,
        "{shared}"
    );
    // the emulator counts no instructions
    assert_eq!(shared["verdict"]["cost"], "unknown");
    assert_eq!(shared["verdict"]["confidence"], "none");
    let told = advise_service(&["--thread-perf", "1,0.6"]);
    let cost = told["speed"]["cost"].as_f64().unwrap();
    assert!((0.35..0.41).contains(&cost), "{told}");
    drop((service, rival, beside));
}

/// redis at the demonstration's load, in the cgroup /redis, beside a compressor for each lane in /batch. Latencies of its
/// client, ms, go to a file.
pub struct RedisBesideBatch {
    _batch: Batch,
    stop: Arc<AtomicBool>,
    client: Option<JoinHandle<()>>,
}

/// Share of a core that commands take, as in `sidelane demo`.
const REDIS_LOAD: f64 = 0.3;
const LATENCIES: &str = "/run/latencies";
/// Of the slot that it runs in.
pub const LATENCY_COMMAND: &str =
    ": > /run/latencies; sleep $SIDELANE_SLOT_SECONDS; cat /run/latencies";

impl RedisBesideBatch {
    pub fn start() -> RedisBesideBatch {
        let join =
            |name: &str, pid: String| fs::write(cgroup(name).join("cgroup.procs"), pid).unwrap();
        let batch = Batch::start(nr_cpus(), 1).unwrap();
        batch.pids().for_each(|pid| join("batch", pid.to_string()));
        let mut redis = Redis::start().unwrap();
        join("redis", redis.pid().to_string());
        // as long as a command takes beside batch
        batch.resume(nr_cpus()).unwrap();
        let rate_per_s = REDIS_LOAD * 1e9 / redis.calibrate(1).unwrap();
        println!("{rate_per_s:.0} commands/s");
        fs::write(LATENCIES, "").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let run_ns = 300_000_000;
        let client = std::thread::spawn(move || {
            for seed in 0.. {
                let Ok(outcome) = redis.run(rate_per_s, run_ns, seed, &stopped) else {
                    return;
                };
                let lines = outcome
                    .latency_ns
                    .iter()
                    .map(|ns| format!("{}\n", *ns as f64 / 1e6));
                let mut file = fs::OpenOptions::new().append(true).open(LATENCIES).unwrap();
                file.write_all(lines.collect::<String>().as_bytes())
                    .unwrap();
            }
        });
        RedisBesideBatch {
            _batch: batch,
            stop,
            client: Some(client),
        }
    }
}

impl Drop for RedisBesideBatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.client.take().map(JoinHandle::join);
    }
}

/// `sidelane trial` of that.
pub fn trial_of_redis(more: &[&str]) -> Command {
    let mut command = Command::new(SIDELANE);
    command
        .args(["trial", "cgroup:/redis", "--batch", "cgroup:/batch"])
        .args(["--thread-perf", "1,0.5"])
        .args(more);
    command
}

const JSON: [&str; 2] = ["--format", "json"];

fn report_of(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{said}");
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Lanes, and whether a scheduler is attached.
fn as_found() -> (String, bool) {
    (online(), attached())
}

/// One round.
fn a_trial_shows_redis_under_three_setups() {
    let found = as_found();
    let load = RedisBesideBatch::start();
    let slots = [
        "--slot",
        "2",
        "--minutes",
        "0.1",
        "--guard",
        "off",
        "--latency-command",
        LATENCY_COMMAND,
    ];
    let report = report_of(&trial_of_redis(&slots).args(JSON).output().unwrap());
    drop(load);
    println!("{report}");
    assert_eq!(as_found(), found);
    assert_eq!(report["rounds"], 1);
    let slots: Vec<&str> = report["slots"]
        .as_array()
        .unwrap()
        .iter()
        .map(|slot| slot["setup"].as_str().unwrap())
        .collect();
    assert_eq!(slots, ["default", "smt-off", "sidelane"]);
    let figure = |name: &str| {
        let figures = report["figures"].as_array().unwrap();
        let figure = figures
            .iter()
            .find(|figure| figure["name"] == name)
            .unwrap();
        let setups = figure["setups"].as_array().unwrap().iter();
        let medians: Vec<f64> = setups
            .map(|s| s["value"]["median"].as_f64().unwrap())
            .collect();
        medians
    };
    // with SMT off nothing is beside it, and Sidelane keeps batch away; two cores have two lanes then
    let [default, smt_off, sidelane] = figure("beside_share")[..] else {
        panic!("{report}");
    };
    assert!(
        default > 0.5 && smt_off < 0.01 && sidelane < 0.5 * default,
        "{report}"
    );
    assert!(figure("batch_lanes")[1] < 2.01, "{report}");
    assert!(figure("batch_lanes")[0] > 2.5, "{report}");
    assert_eq!(figure("latency_p99_ms").len(), 3);
    // one round proves nothing
    assert_eq!(report["recommendation"]["setup"], Value::Null);
    assert_eq!(report["recommendation"]["confidence"], "none");
}

/// A line a slot.
const SLOTS: &str = "/run/slots";

/// By SIGTERM while the scheduler is attached, and by a guard.
fn a_trial_that_is_ended_leaves_the_machine_as_it_was() {
    let found = as_found();
    let spin = |cgroup| Load::spin_in(cgroup);
    let load = [
        spin("redis"),
        spin("redis"),
        spin("redis"),
        spin("batch"),
        spin("batch"),
        spin("batch"),
    ];
    let trial = trial_of_redis(&["--slot", "2", "--guard", "off"])
        .args(JSON)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("SMT is off", || online() != found.0);
    eventually("the scheduler is attached", || {
        let status =
            parse(str::from_utf8(&sidelane(&["status", "--format", "json"]).stdout).unwrap());
        status["attachment"]["pid"] == trial.id()
    });
    signal(trial.id(), "TERM");
    let output = trial.wait_with_output().unwrap();
    assert_eq!(as_found(), found);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rounds"], 0);
    let left = parse(str::from_utf8(&sidelane(&["status", "--format", "json"]).stdout).unwrap());
    assert_eq!(left["last_exit"]["outcome"], "stopped", "{left}");
    // in each slot a longer latency: the second one, with SMT off, is too long
    let _ = fs::remove_file(SLOTS);
    let longer = "echo >> /run/slots; wc -l < /run/slots";
    let guarded = ["--slot", "1", "--guard", "1.5", "--latency-command", longer];
    let output = trial_of_redis(&guarded).args(JSON).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(as_found(), found);
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["slots"].as_array().unwrap().len(), 2);
    assert!(
        report["guarded"]
            .as_str()
            .unwrap()
            .contains("99th percentile"),
        "{report}"
    );
    drop(load);
}
