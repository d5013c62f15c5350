//! `sidelane export` and `sidelane advise`.

use super::metrics::{FILE, Recorder};
use super::support::*;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::time::Duration;

tests! {
    #[untimed]
    what_is_exported_follows_the_load,
    #[untimed]
    a_thread_that_never_pauses_beside_idle_cores_is_found,
    #[untimed]
    a_recording_tells_which_pool_lost_entitlement,
}

pub const ADDRESS: &str = "127.0.0.1:9754";

pub struct Exporter(Child);

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

/// Seconds that lane `cpu` was busy, as exported.
fn busy_s(text: &str, cpu: usize) -> Option<f64> {
    let name = format!("sidelane_lane_busy_seconds_total{{cpu=\"{cpu}\"}} ");
    let line = text.lines().find_map(|line| line.strip_prefix(&name));
    line?.parse().ok()
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
    drop(load);
    signal(exporter.0.id(), "INT");
    assert!(exporter.0.wait().unwrap().success());
}

fn a_thread_that_never_pauses_beside_idle_cores_is_found() {
    let load = Load::spin(&Traits::default());
    let output = sidelane(&["advise", "--seconds", "2.5", "--format", "json"]);
    assert!(output.status.success(), "{output:?}");
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = |advice: &&Value| {
        let pid = &advice["thread"]["pid"];
        advice["finding"] == "master_thread" && *pid == load.pid()
    };
    assert!(
        advice.as_array().unwrap().iter().any(|a| found(&a)),
        "{advice}"
    );
}

fn a_recording_tells_which_pool_lost_entitlement() {
    let pool = |name: &str, charge: &str| {
        format!("[[pool]]\ncgroup = \"/{name}\"\ncapacity_cores = 0.5\ncharge = \"{charge}\"\n")
    };
    let path = "/tmp/entitled.toml";
    let speeds = "[scheduler]\nthread_perf = [1, 0.6]\n";
    std::fs::write(path, pool("raw", "raw") + &pool("mt1", "mt1") + speeds).unwrap();
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
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = advice.as_array().unwrap().iter();
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
