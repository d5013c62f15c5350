//! Boots machines and looks at them from inside; and quotas on real cgroups, this machine's and a guest's.

use crate::{alone, beside_others, run, shell, sidelane, spec};
use sidelane_testbed::belongings::{Belongings, Process};
use sidelane_testbed::quota::{LaneGroups, LaneThread, Shares};
use sidelane_testbed::{Error, Job, Machine, exit_code, smt};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn commands_streams_and_status() {
    let _host = alone();
    let mut spec = spec();
    spec.add = vec![std::env::current_exe().unwrap()];
    let mut machine = Machine::boot(&spec).unwrap();
    streams_are_separate_and_the_status_is_the_commands(&mut machine);
    arguments_and_environment_pass_unchanged(&mut machine);
    a_shell_can_wait_for_its_jobs(&mut machine);
    an_orphan_that_ends_hangs_nobody_up(&mut machine);
    big_binary_data_is_intact_both_ways(&mut machine);
    what_a_command_leaves_running_is_ended(&mut machine);
    the_guest_is_a_machine_that_programs_expect(&mut machine);
    siblings_are_visible_and_smt_can_be_switched(&mut machine);
    a_quota_holds_where_cgroups_are_of_version_2_only(&mut machine);
    a_command_that_takes_too_long_times_out(&mut machine);
}

fn streams_are_separate_and_the_status_is_the_commands(machine: &mut Machine) {
    let script = "echo out; echo err >&2; echo again > /dev/stdout; exit 7";
    let (status, out, err) = run(machine, Job::new(["sh", "-c", script]));
    assert_eq!(
        (exit_code(status), &out[..], &err[..]),
        (7, &b"out\nagain\n"[..], &b"err\n"[..])
    );
    let (status, ..) = run(machine, Job::new(["sh", "-c", "kill -TERM $$"]));
    assert_eq!(exit_code(status), 128 + 15);
    let (status, _, err) = run(machine, Job::new(["no-such-program"]));
    assert_eq!(exit_code(status), 127);
    assert!(String::from_utf8_lossy(&err).contains("no-such-program"));
    let (status, ..) = run(machine, Job::new(["/etc/passwd"]));
    assert_eq!(exit_code(status), 126);
}

fn arguments_and_environment_pass_unchanged(machine: &mut Machine) {
    let odd = "a b\t'c' \"d\" $e\n*ä";
    let job = Job::new(["sh", "-c", "printf '%s|%s' \"$1\" \"$VARIABLE\"", "sh", odd]);
    let (_, out, _) = run(machine, job.env("VARIABLE", odd));
    assert_eq!(String::from_utf8(out).unwrap(), format!("{odd}|{odd}"));
}

fn a_shell_can_wait_for_its_jobs(machine: &mut Machine) {
    let script = "(sleep 0.2; exit 3) & wait $!";
    let job = Job::new(["sh", "-c", script]).timeout(Duration::from_secs(20));
    let (status, ..) = run(machine, job);
    assert_eq!(exit_code(status), 3);
}

/// The kernel hangs up a process group that no other of its session controls, once one of it ends while another is stopped.
fn an_orphan_that_ends_hangs_nobody_up(machine: &mut Machine) {
    let script = "sleep 9 & kill -STOP $!; (sleep 0.1 &); sleep 0.4; kill -KILL $!; echo there";
    assert_eq!(shell(machine, script), "there\n");
}

fn big_binary_data_is_intact_both_ways(machine: &mut Machine) {
    let mut state = 1_u64;
    let data: Vec<u8> = (0..5_000_001)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&data).unwrap();
    file.rewind().unwrap();
    let (status, out, _) = run(machine, Job::new(["cat"]).stdin(file));
    assert!(status.success());
    assert!(
        out == data,
        "{} of {} bytes came back, or others",
        out.len(),
        data.len()
    );
    // A command that does not read its input is not held up by it.
    let zero = File::open("/dev/zero").unwrap();
    let (status, ..) = run(machine, Job::new(["true"]).stdin(zero));
    assert!(status.success());
    // Nobody reads: the input just ends.
    assert_eq!(run(machine, Job::new(["wc", "-c"])).1, b"0\n");
}

fn what_a_command_leaves_running_is_ended(machine: &mut Machine) {
    let start = Instant::now();
    let (status, out, _) = run(machine, Job::new(["sh", "-c", "sleep 1000 & echo done"]));
    assert!(status.success() && out == b"done\n");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(shell(machine, "pidof sleep || echo none"), "none\n");
}

fn the_guest_is_a_machine_that_programs_expect(machine: &mut Machine) {
    let version = machine.kernel().version.clone();
    assert_eq!(shell(machine, "uname -r").trim(), version);
    assert_eq!(
        shell(machine, "hostname; id -un; id -un nobody"),
        "testbed\nroot\nnobody\n"
    );
    shell(
        machine,
        "grep -q CONFIG_SCHED_CLASS_EXT=y /boot/config-$(uname -r)",
    );
    shell(
        machine,
        "test -e /sys/kernel/sched_ext/state -a -e /sys/kernel/btf/vmlinux",
    );
    shell(
        machine,
        "test -e /sys/kernel/tracing/trace_pipe; touch /tmp/a /run/a /dev/shm/a",
    );
    shell(machine, "mkdir /sys/fs/bpf/a; ping -c 1 -w 5 127.0.0.1");
    let controllers = shell(machine, "cat /sys/fs/cgroup/cgroup.subtree_control");
    for name in ["cpu", "cpuset", "memory"] {
        assert!(
            controllers.split_whitespace().any(|word| word == name),
            "{controllers}"
        );
    }
    let clock = "cat /sys/devices/system/clocksource/clocksource0/current_clocksource";
    assert_eq!(shell(machine, clock), "tsc\n");
    let help = shell(machine, "sidelane --version");
    assert!(help.starts_with("sidelane "), "{help}");
}

fn siblings_are_visible_and_smt_can_be_switched(machine: &mut Machine) {
    let siblings = "cat /sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list";
    assert_eq!(shell(machine, siblings), "0-1\n0-1\n2-3\n2-3\n");
    let online = "cat /sys/devices/system/cpu/online";
    let control = "/sys/devices/system/cpu/smt/control";
    assert_eq!(
        shell(machine, &format!("echo off > {control}; {online}")),
        "0,2\n"
    );
    assert_eq!(
        shell(machine, &format!("echo on > {control}; {online}")),
        "0-3\n"
    );
}

fn a_quota_holds_where_cgroups_are_of_version_2_only(machine: &mut Machine) {
    let me = std::env::current_exe().unwrap();
    let switch = "/sys/fs/cgroup/cgroup.subtree_control";
    let test = format!(
        "{} --exact machine::a_quota_holds_on_this_machine",
        me.display()
    );
    let passed = |text: String| assert!(text.contains("1 passed"), "{text}");
    passed(shell(machine, &test));
    // Where nobody handed the controller down it is switched on, and off again afterwards.
    passed(shell(
        machine,
        &format!("echo -cpu > {switch}; {test}; ! grep -w cpu {switch}"),
    ));
}

fn a_command_that_takes_too_long_times_out(machine: &mut Machine) {
    let start = Instant::now();
    let job = Job::new(["sleep", "1000"]).timeout(Duration::from_secs(2));
    let ended = machine.run(job, &mut std::io::sink(), &mut std::io::sink());
    assert!(matches!(ended, Err(Error::TimedOut { .. })), "{ended:?}");
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn four_lanes_added_files_and_modules() {
    let _host = beside_others();
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/file"), "content").unwrap();
    let me = std::env::current_exe().unwrap();
    let mut spec = spec();
    spec.cores = 1;
    spec.thread_perf = smt::even_shares(4);
    spec.add = vec![me.clone(), folder.path().into()];
    spec.modules = vec!["kvm-amd".into()];
    let mut machine = Machine::boot(&spec).unwrap();
    let siblings = "cat /sys/devices/system/cpu/cpu3/topology/thread_siblings_list";
    assert_eq!(shell(&mut machine, siblings), "0-3\n");
    assert_eq!(
        shell(&mut machine, "cat /sys/devices/system/cpu/smt/control"),
        "on\n"
    );
    // A dynamic program, found by its name and by its path.
    let name = me.file_name().unwrap().to_string_lossy();
    for program in [name.as_ref(), &me.to_string_lossy()] {
        let tests = shell(&mut machine, &format!("{program} --list"));
        assert!(
            tests.contains("four_lanes_added_files_and_modules"),
            "{tests}"
        );
    }
    let path = folder.path().join("sub/file");
    assert_eq!(
        shell(&mut machine, &format!("cat {}", path.display())),
        "content"
    );
    assert!(shell(&mut machine, "cat /proc/modules").contains("kvm_amd"));
    shell(&mut machine, "test -c /dev/kvm");
    machine.power_off().unwrap();
}

#[test]
fn what_cannot_be_booted_is_refused_before_booting() {
    let text = |change: fn(&mut sidelane_testbed::Spec)| {
        let mut spec = spec();
        change(&mut spec);
        Machine::boot(&spec)
            .err()
            .map(|e| e.to_string())
            .unwrap_or_default()
    };
    assert!(text(|s| s.thread_perf = vec![1.0, 0.3]).contains("nearest is 1,0.5"));
    assert!(text(|s| s.kernel = "/etc/passwd".into()).contains("no x86 kernel image"));
    assert!(text(|s| s.add.push("/no/such".into())).contains("/no/such"));
    assert!(sidelane().exists());
}

/// Run time so far, s.
fn run_time_s(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    text.split_whitespace()
        .next()
        .unwrap()
        .parse::<f64>()
        .unwrap()
        / 1e9
}

/// A busy process gets the share of a CPU that its quota and that of its core allow, and nothing stays of their
/// groups.
#[test]
fn a_quota_holds_on_this_machine() {
    let name = format!("sidelane-test-{}", std::process::id());
    let place = LaneGroups::find(Path::new("/"), &name).unwrap();
    let mut busy = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let mut belongings = Belongings {
        process: Process::of(busy.id()),
        ..Belongings::default()
    };
    let lanes = [LaneThread {
        tid: busy.id() as i32,
        core: 0,
    }];
    let shares = Shares {
        lane: 0.6,
        core: 0.5,
    };
    place.belongings(&lanes, shares, &mut belongings);
    assert_eq!(belongings.cgroups.len(), 3);
    let applied = place.apply(busy.id(), &lanes, shares);
    let (start, before) = (Instant::now(), run_time_s(busy.id()));
    std::thread::sleep(Duration::from_secs(2));
    let share = (run_time_s(busy.id()) - before) / start.elapsed().as_secs_f64();
    let collect = std::thread::spawn(move || busy.wait());
    let left = belongings.remove();
    collect.join().unwrap().unwrap();
    applied.unwrap();
    assert!(left.is_empty(), "{left:?}");
    assert!(belongings.cgroups.iter().all(|group| !group.exists()));
    // Never more; less where others want the CPU too.
    assert!((0.15..0.36).contains(&share), "0.6 of 0.5 gave {share}");
}
