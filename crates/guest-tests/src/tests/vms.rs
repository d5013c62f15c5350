//! Real virtual CPUs, of KVM, under retention and pairing.

use super::support::*;
use serde_json::Value;
use sidelane_demo::vm::{Duty, Vm, VmPlan};
use std::fs;
use std::path::Path;

tests! {
    virtual_machines_come_move_and_go_and_leave_nothing,
}

/// A virtual machine; its memory is a file of that name.
fn start(name: &str, vcpus: u32, duty: Duty) -> Vm {
    let plan = VmPlan {
        vcpus,
        duty,
        memory: Path::new("/tmp").join(name),
    };
    Vm::start(Path::new(SIDELANE), &plan).unwrap()
}

/// Waits for a device most of the time.
fn start_players(name: &str) -> Vm {
    let duty = Duty::Device {
        turns: 50_000,
        wait_us: 2_000,
    };
    start(name, 2, duty)
}

fn goes_on(vm: &Vm) {
    let before = vm.work_done().unwrap();
    eventually("more is done", || vm.work_done().unwrap() > before + 20);
}

/// Moves all its threads to these lanes.
fn migrate(vm: &Vm, cpus: &[usize]) {
    let tasks = format!("/proc/{}/task", vm.process().pid());
    for thread in fs::read_dir(tasks).unwrap() {
        let name = thread.unwrap().file_name();
        let tid = name.to_str().unwrap().parse().unwrap();
        set_cpus(tid, cpus).unwrap();
    }
}

fn of(name: &str) -> f64 {
    rates("2")[name].as_f64().unwrap()
}

/// `sidelane tasks` has each virtual machine, with the rates of its virtual CPUs.
fn virtual_cpus_are_known(players: &Vm, computing: &[Vm]) {
    let seen = tasks("3");
    assert_eq!(seen["notes"].as_array().unwrap().len(), 0, "{seen}");
    let machine = |vm: &Vm| {
        let mut machines = seen["virtual_machines"].as_array().unwrap().iter();
        let machine = machines.find(|machine| machine["process"] == vm.process().pid().as_raw());
        machine.unwrap().clone()
    };
    let rate = |machine: &Value| machine["retention_rate"].as_f64().unwrap();
    let player = machine(players);
    println!("{player}");
    assert_eq!(player["vcpus"], 2);
    for vm in computing {
        let one = machine(vm);
        println!("{one}");
        assert_eq!(one["vcpus"], 1);
        assert!(rate(&player) > rate(&one));
    }
}

fn virtual_machines_come_move_and_go_and_leave_nothing() {
    let path = "/tmp/pair.toml";
    let text =
        "[scheduler]\ndispatching = \"slices\"\nretain = true\npair = true\nretention.min_ms = 1\n";
    fs::write(path, text).unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let computing: Vec<Vm> = (0..nr_cpus())
        .map(|n| start(&format!("multiply{n}"), 1, Duty::Multiply))
        .collect();
    let players = start_players("players");
    eventually("computation makes room for virtual CPUs", || {
        of("hand_backs") > 20.0
    });
    eventually("lanes are held for them", || of("retentions") > 5.0);
    virtual_cpus_are_known(&players, &computing);
    let all: Vec<usize> = (0..nr_cpus()).collect();
    for lanes in [&all[..1], &all[nr_cpus() - 1..], &all[..]] {
        migrate(&players, lanes);
        goes_on(&players);
        computing.iter().for_each(goes_on);
    }
    for n in 0..5 {
        let brief = start_players(&format!("brief{n}"));
        goes_on(&brief);
    }
    goes_on(&players);
    drop(players);
    computing.iter().for_each(goes_on);
    eventually("computation has all lanes", || {
        let rates = rates("2");
        let (held, busy) = (&rates["held_lanes"], &rates["busy_lanes"]["normal"]);
        println!("{held} lanes held, {busy} busy");
        held.as_f64().unwrap() < 0.1 && busy.as_f64().unwrap() > nr_cpus() as f64 - 0.5
    });
    drop(computing);
    assert!(scheduler.stop().success(), "ejected");
}
