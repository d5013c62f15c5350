//! The control daemon: both actuators, crashes, hotplug.

use super::support::*;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

tests! {
    #[untimed]
    load_switches_smt_on_and_off,
    #[shared]
    load_moves_the_scheduler_s_cap,
    #[untimed]
    what_a_killed_daemon_found_comes_back,
    #[untimed]
    a_flood_of_hotplug_ends_with_the_state_it_began_with,
    #[untimed]
    a_second_daemon_is_refused,
    #[untimed]
    a_pinned_task_keeps_its_lane,
}

const CPUS: &str = "/sys/devices/system/cpu";
const STATE: &str = "/run/sidelane/control.json";
/// Decides five times a second, by the last second; on two cores the gains are small.
const QUICK: [&str; 8] = [
    "--interval",
    "0.2",
    "--window",
    "1",
    "--dwell",
    "0.4",
    "--min-gain",
    "0",
];

/// A running `sidelane control`; killed when dropped, and what it found restored.
pub struct Control {
    child: Child,
    events: Receiver<Value>,
}

impl Control {
    pub fn start(args: &[&str]) -> Control {
        let mut child = Command::new(SIDELANE)
            .args(["control", "--format", "json"])
            .args(QUICK)
            .args(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (sender, events) = channel();
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .all(|line| sender.send(parse(&line)).is_ok())
        });
        let control = Control { child, events };
        control.await_event("the start", |event| event["event"] == "started");
        control
    }

    fn await_event(&self, what: &str, wanted: impl Fn(&Value) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        let mut last = Value::Null;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(event) if wanted(&event) => return,
                Ok(event) => last = event,
                Err(error) => panic!("waiting for {what}: {error}; the last event was {last}"),
            }
        }
    }

    /// Waits until it has decided for a level.
    fn await_level(&self, level: u64) {
        self.await_event(&format!("level {level}"), |event| {
            event["level"] == level && event["event"] == "decided"
        });
    }

    /// Asks it to stop and waits.
    pub fn stop(mut self) -> ExitStatus {
        signal(self.child.id(), "TERM");
        self.child.wait().unwrap()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = sidelane(&["control", "--restore"]);
    }
}

fn spin_every_lane() -> Vec<Load> {
    (0..nr_cpus()).map(|_| Load::spin_in("critical")).collect()
}

fn smt_control() -> String {
    fs::read_to_string(format!("{CPUS}/smt/control"))
        .unwrap()
        .trim()
        .to_owned()
}

fn smt_is_as_it_was(before: &str) {
    assert_eq!((online().as_str(), smt_control().as_str()), (before, "on"));
    assert!(!fs::exists(STATE).unwrap(), "the state file is still there");
}

fn load_switches_smt_on_and_off() {
    let before = online();
    let control = Control::start(&[]);
    control.await_level(1);
    eventually("one lane a core", || {
        smt_control() == "off" && online() != before
    });
    let load = spin_every_lane();
    control.await_level(2);
    eventually("all lanes", || online() == before);
    drop(load);
    control.await_level(1);
    eventually("one lane a core again", || online() != before);
    assert!(control.stop().success());
    smt_is_as_it_was(&before);
}

fn load_moves_the_scheduler_s_cap() {
    let before = online();
    let scheduler = Scheduler::shared();
    // by default the model knows that the scheduler balances, which is never better with fewer lanes
    let control = Control::start(&["--actuator", "scheduler", "--model", "placed"]);
    control.await_level(1);
    let batch: Vec<Load> = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
    let cores = nr_cpus() as f64 / 2.0;
    eventually("batch on all lanes", || busy_lanes("1")[2] > 1.8 * cores);
    control.await_level(1); // batch is no load, and is not capped
    drop(batch);
    let load = spin_every_lane();
    control.await_level(2);
    eventually("critical work on all lanes", || {
        busy_lanes("0.5")[0] > 1.8 * cores
    });
    drop(load);
    control.await_level(1);
    let load: Vec<Load> = (0..nr_cpus()).map(|_| Load::spin_in("normal")).collect();
    control.await_level(2);
    drop(load);
    assert_eq!(online(), before, "no lane went offline");
    assert!(control.stop().success());
    // back at the level that was found
    let load = spin_every_lane();
    eventually("critical work on all lanes", || {
        busy_lanes("0.5")[0] > 1.8 * cores
    });
    drop(load);
    scheduler.leave();
}

fn what_a_killed_daemon_found_comes_back() {
    let before = online();
    for round in 0..6 {
        let mut control = Control::start(&[]);
        if round % 2 == 0 {
            control.await_level(1);
            eventually("one lane a core", || online() != before);
        } else {
            // at some moment of its first switch
            std::thread::sleep(Duration::from_millis(200 + 40 * round));
        }
        control.child.kill().unwrap();
        control.child.wait().unwrap();
        if round < 4 {
            printed(&["control", "--restore"]);
        } else {
            assert!(Control::start(&[]).stop().success());
        }
        smt_is_as_it_was(&before);
    }
}

fn a_flood_of_hotplug_ends_with_the_state_it_began_with() {
    let before = online();
    let control = Control::start(&[]);
    let end = Instant::now() + Duration::from_secs(6);
    let mut round = 0;
    while Instant::now() < end {
        round += 1;
        for cpu in 1..nr_cpus() {
            // refused where SMT is off: that, too, is part of the flood
            let online = if (round + cpu) % 3 == 0 { "0" } else { "1" };
            let _ = fs::write(format!("{CPUS}/cpu{cpu}/online"), online);
        }
        let _ = fs::write(
            format!("{CPUS}/smt/control"),
            if round % 2 == 0 { "on" } else { "off" },
        );
    }
    assert!(control.stop().success());
    smt_is_as_it_was(&before);
}

fn a_second_daemon_is_refused() {
    let _control = Control::start(&[]);
    let second = sidelane(&["control"]);
    assert_eq!(second.status.code(), Some(1));
    let says = String::from_utf8_lossy(&second.stderr);
    assert!(says.contains("another 'sidelane control'"), "{says}");
}

fn a_pinned_task_keeps_its_lane() {
    let last = nr_cpus() - 1;
    let traits = Traits {
        cpus: vec![last],
        ..Traits::default()
    };
    let pinned = Load::spawn("sleep", &["1000"], &traits);
    let control = Control::start(&[]);
    control.await_level(1);
    eventually("the others are offline", || {
        online().ends_with(&format!(",{last}")) || online().ends_with(&format!("-{last}"))
    });
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        fs::read_to_string(format!("{CPUS}/cpu{last}/online"))
            .unwrap()
            .starts_with('1')
    );
    drop(pinned);
    drop(control);
}
