//! The doctor on small trees: a healthy machine, and each condition spoiled.

#![allow(clippy::unwrap_used)] // Clippy spares test functions, but not their helpers.

use sidelane_sched::Error;
use sidelane_sched::doctor::{Check, KERNEL_MIN, Report, Verdict, examine};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A tree of files that stands for a machine.
struct Tree(TempDir);

const CPU: &str = "sys/devices/system/cpu";

impl Tree {
    /// A machine of one core with two lanes on which nothing is amiss.
    fn healthy() -> Self {
        let tree = Tree(tempfile::tempdir().unwrap());
        for (path, content) in [
            ("proc/sys/kernel/osrelease", "7.0.9-test"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000"),
            ("proc/sys/net/core/bpf_jit_enable", "1"),
            (
                "proc/self/status",
                "Name:\tx\nCapEff:\t000001ffffffffff\nThreads:\t1",
            ),
            ("proc/self/uid_map", "         0          0 4294967295"),
            (
                "proc/self/limits",
                "Limit  Soft  Hard\nMax locked memory  8388608  8388608  bytes",
            ),
            (
                "proc/self/mounts",
                "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0",
            ),
            ("proc/cmdline", "quiet"),
            ("boot/config-7.0.9-test", "CONFIG_BPF=y"),
            ("sys/kernel/sched_ext/state", "disabled"),
            ("sys/kernel/btf/vmlinux", "BTF"),
            (
                "sys/kernel/security/lockdown",
                "none [integrity] confidentiality",
            ),
            ("sys/devices/system/cpu/possible", "0-1"),
            ("sys/devices/system/cpu/online", "0-1"),
            ("sys/devices/system/cpu/smt/control", "on"),
            ("sys/devices/system/cpu/isolated", ""),
            ("sys/devices/system/cpu/nohz_full", " (null)"),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "powersave",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_driver",
                "intel_pstate",
            ),
        ] {
            tree.set(path, content);
        }
        for cpu in 0..2 {
            tree.set(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list"), "0-1");
            tree.set(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"), "0");
        }
        tree.task(1, 1, "init", 0, 0);
        tree
    }

    fn set(&self, path: &str, content: &str) -> &Self {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content.to_owned() + "\n").unwrap();
        self
    }

    fn remove(&self, path: &str) -> &Self {
        fs::remove_file(self.0.path().join(path)).unwrap();
        self
    }

    /// Adds a thread with these `flags` and this `policy`, of priority 50.
    fn task(&self, pid: u32, tid: u32, name: &str, flags: u64, policy: u32) -> &Self {
        let middle = "0 ".repeat(30);
        let stat = format!("{tid} ({name}) S 0 1 1 0 -1 {flags} {middle}50 {policy} 0 0 0");
        self.set(&format!("proc/{pid}/task/{tid}/stat"), &stat)
    }

    fn examine(&self) -> Report {
        examine(self.0.path())
    }

    fn check(&self, name: &str) -> Check {
        let report = self.examine();
        let check = report
            .checks
            .iter()
            .find(|check| check.name == name)
            .unwrap();
        let is_ok = check.verdict == Verdict::Ok;
        assert_eq!(
            check.remedy.is_none(),
            is_ok,
            "a remedy, and only for what is not ok"
        );
        assert!(!check.seen.is_empty());
        check.clone()
    }

    /// Asserts the verdict of a check and a part of what was seen.
    #[track_caller]
    fn expect(&self, name: &str, verdict: Verdict, seen: &str) -> Check {
        let check = self.check(name);
        assert_eq!(check.verdict, verdict, "{check:?}");
        assert!(check.seen.contains(seen), "{check:?}");
        check
    }
}

#[test]
fn a_healthy_machine_can_run() {
    let report = Tree::healthy().examine();
    assert!(report.runnable);
    let wrong: Vec<_> = report
        .checks
        .iter()
        .filter(|c| c.verdict != Verdict::Ok)
        .collect();
    // The cookies of a captured tree cannot be told.
    assert_eq!(wrong.len(), 1, "{wrong:?}");
    assert_eq!(
        (wrong[0].name, wrong[0].verdict),
        ("core scheduling", Verdict::Unknown)
    );
}

#[test]
fn an_empty_tree_is_no_panic_and_cannot_run() {
    let report = Tree(tempfile::tempdir().unwrap()).examine();
    assert!(!report.runnable);
    assert!(
        report
            .checks
            .iter()
            .any(|check| check.verdict == Verdict::Unknown)
    );
    let nowhere = examine(Path::new("/nonexistent/folder"));
    assert_eq!(nowhere.checks.len(), report.checks.len());
}

#[test]
fn kernel_version() {
    let tree = Tree::healthy();
    const FILE: &str = "proc/sys/kernel/osrelease";
    tree.set(FILE, "7.0.0-rc1+")
        .expect("kernel", Verdict::Ok, "7.0.0-rc1+");
    tree.set(FILE, "10.1").expect("kernel", Verdict::Ok, "10.1");
    for stuck in ["6.16.0", "6.19.14"] {
        let check = tree.set(FILE, stuck).check("kernel");
        assert_eq!(check.verdict, Verdict::Warning);
        assert!(check.seen.contains("may hang"), "{check:?}");
        assert!(
            check.remedy.unwrap().starts_with("boot Linux 7.0 or later"),
            "{stuck}"
        );
    }
    for old in ["6.12.0-55.9.1.el10_0.x86_64", "6.15.9", "6.11.4"] {
        let check = tree.set(FILE, old).check("kernel");
        assert_eq!(check.verdict, Verdict::Warning);
        assert!(check.seen.contains(&oldest_kernel()), "{check:?}");
    }
    tree.set(FILE, "unheard of")
        .expect("kernel", Verdict::Unknown, "unheard of");
    tree.remove("sys/kernel/sched_ext/state")
        .set(FILE, "6.1.0-30-amd64");
    tree.expect("kernel", Verdict::Fail, "no sched_ext");
    tree.remove(FILE)
        .expect("kernel", Verdict::Unknown, "missing");
}

/// As every text names it.
fn oldest_kernel() -> String {
    let (major, minor) = KERNEL_MIN;
    format!("Linux {major}.{minor} or later")
}

#[test]
fn the_oldest_kernel_is_the_same_everywhere() {
    let tree = Tree::healthy();
    tree.remove("sys/kernel/sched_ext/state");
    for check in tree.examine().checks {
        let remedy = check.remedy.unwrap_or_default();
        assert!(
            !remedy.contains("Linux 6.") || remedy.contains(&oldest_kernel()),
            "{remedy}"
        );
    }
    assert!(Error::NoSchedExt.to_string().contains(&oldest_kernel()));
    assert!(include_str!("../../../README.md").contains(&oldest_kernel()));
}

#[test]
fn kernel_without_sched_ext() {
    let tree = Tree::healthy();
    tree.remove("sys/kernel/sched_ext/state");
    let check = tree.expect("sched_ext", Verdict::Fail, "state is missing");
    let remedy = check.remedy.unwrap();
    assert!(
        remedy.contains("new enough, but was built without CONFIG_SCHED_CLASS_EXT"),
        "{remedy}"
    );
    assert!(!tree.examine().runnable);
    let old = tree
        .set("proc/sys/kernel/osrelease", "6.1.0")
        .check("sched_ext");
    assert!(old.remedy.unwrap().contains(&oldest_kernel()));
    tree.set("proc/sys/kernel/osrelease", "7.0.9-test");
    tree.expect("other scheduler", Verdict::Ok, "none");
}

#[test]
fn kernel_without_btf_or_compiler() {
    let tree = Tree::healthy();
    tree.remove("sys/kernel/btf/vmlinux")
        .expect("BTF", Verdict::Fail, "missing");
    tree.set("proc/sys/net/core/bpf_jit_enable", "0")
        .expect("BPF JIT", Verdict::Fail, "is 0");
    tree.remove("proc/sys/net/core/bpf_jit_enable")
        .expect("BPF JIT", Verdict::Ok, "missing");
}

#[test]
fn kernel_configuration() {
    let tree = Tree::healthy();
    tree.remove("boot/config-7.0.9-test");
    tree.expect(
        "kernel config",
        Verdict::Warning,
        "neither /boot/config-7.0.9-test nor",
    );
    tree.set("proc/config.gz", "x")
        .expect("kernel config", Verdict::Ok, "/proc/config.gz");
}

#[test]
fn privileges() {
    let tree = Tree::healthy();
    let capabilities = |bits: u64| tree.set("proc/self/status", &format!("CapEff:\t{bits:016x}"));
    let (admin, perfmon, bpf) = (1 << 21, 1 << 38, 1 << 39);
    capabilities(admin).expect("privileges", Verdict::Ok, "CAP_SYS_ADMIN");
    capabilities(bpf | perfmon).expect("privileges", Verdict::Ok, "CAP_BPF and CAP_PERFMON");
    let check = capabilities(bpf).expect("privileges", Verdict::Fail, "nor CAP_PERFMON");
    assert!(!check.seen.contains("CAP_BPF"), "{check:?}");
    capabilities(0).expect("privileges", Verdict::Fail, "nor CAP_BPF nor CAP_PERFMON");
    capabilities(admin).set("proc/self/uid_map", "0 100000 65536");
    tree.expect("privileges", Verdict::Fail, "user namespace");
    tree.set("proc/self/status", "CapEff:\tfull")
        .expect("privileges", Verdict::Unknown, "no cap");
}

#[test]
fn lockdown() {
    const FILE: &str = "sys/kernel/security/lockdown";
    let tree = Tree::healthy();
    tree.expect("lockdown", Verdict::Ok, "integrity");
    tree.set(FILE, "none integrity [confidentiality]");
    tree.expect("lockdown", Verdict::Warning, "confidentiality");
    tree.set(FILE, "none")
        .expect("lockdown", Verdict::Unknown, "none");
    tree.remove(FILE)
        .expect("lockdown", Verdict::Ok, "nothing is locked down");
}

#[test]
fn locked_memory() {
    let tree = Tree::healthy();
    tree.expect(
        "memlock",
        Verdict::Ok,
        "8388608 bytes; this kernel does not count",
    );
    tree.set("proc/sys/kernel/osrelease", "5.10.0");
    tree.expect("memlock", Verdict::Warning, "8388608 bytes");
    tree.set(
        "proc/self/limits",
        "Max locked memory  unlimited  unlimited  bytes",
    );
    tree.expect("memlock", Verdict::Ok, "unlimited");
    tree.remove("proc/self/limits")
        .expect("memlock", Verdict::Unknown, "no limit");
}

#[test]
fn another_scheduler() {
    const STATE: &str = "sys/kernel/sched_ext/state";
    let tree = Tree::healthy();
    tree.set(STATE, "enabled")
        .expect("other scheduler", Verdict::Fail, "another scheduler is");
    tree.set("sys/kernel/sched_ext/root/ops", "lavd_1.0.21");
    tree.expect("other scheduler", Verdict::Fail, "lavd_1.0.21 is attached");
    tree.set("sys/kernel/sched_ext/root/ops", "sidelanes");
    tree.expect("other scheduler", Verdict::Fail, "sidelanes is attached");
    for ours in ["sidelane", "sidelane_0.1.0"] {
        tree.set("sys/kernel/sched_ext/root/ops", ours);
        tree.expect("other scheduler", Verdict::Ok, "this scheduler itself");
    }
    tree.set("sys/kernel/sched_ext/switch_all", "0").expect(
        "other scheduler",
        Verdict::Ok,
        "for batch alone",
    );
    tree.set(STATE, "disabling")
        .expect("other scheduler", Verdict::Warning, "being detached");
    tree.set(STATE, "bewildered")
        .expect("other scheduler", Verdict::Unknown, "bewildered");
}

#[test]
fn threads_of_a_killed_scheduler() {
    const LEDGER: &str = "run/sidelane/adopted";
    let tree = Tree::healthy();
    tree.expect("left behind", Verdict::Ok, "no thread");
    tree.set("proc/sys/kernel/random/boot_id", "this");
    tree.set(LEDGER, "sidelane-adopted 1 that\n+ 5 70 0 0 0");
    tree.expect("left behind", Verdict::Ok, "no thread");
    tree.set(
        LEDGER,
        "sidelane-adopted 1 this\n+ 5 70 0 0 0\n+ 6 70 0 0 1\n- 5",
    );
    let check = tree.expect("left behind", Verdict::Warning, "1 or fewer");
    assert!(check.remedy.unwrap().contains("run --restore"));
    tree.set("sys/kernel/sched_ext/root/ops", "sidelane");
    tree.expect(
        "left behind",
        Verdict::Ok,
        ": 1 are the running scheduler's",
    );
    tree.set(LEDGER, "something else")
        .expect("left behind", Verdict::Warning, "no ledger");
}

#[test]
fn cgroups() {
    const MOUNTS: &str = "proc/self/mounts";
    let tree = Tree::healthy();
    tree.expect("cgroup v2", Verdict::Ok, "/sys/fs/cgroup");
    tree.set("sys/fs/cgroup/cgroup.controllers", "cpuset cpu io");
    tree.expect("cgroup v2", Verdict::Ok, "/sys/fs/cgroup");
    tree.set("sys/fs/cgroup/a/b/cpu.max", "50000 100000");
    tree.set("sys/fs/cgroup/a/cpu.max", "max 100000");
    tree.set("sys/fs/cgroup/a/cpu.weight", "300");
    let limits = "1 cgroups with a cpu.max, 1 with a cpu.weight other than 100: both hold";
    tree.expect("cgroup v2", Verdict::Ok, limits);
    tree.set("sys/fs/cgroup/cgroup.controllers", "cpuset io");
    tree.expect("cgroup v2", Verdict::Warning, "names no cpu controller");
    let v1 = "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0";
    tree.set(
        MOUNTS,
        &format!("{v1}\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0"),
    );
    let check = tree.expect(
        "cgroup v2",
        Verdict::Warning,
        "v1 at /sys/fs/cgroup/cpu,cpuacct",
    );
    assert!(check.seen.contains("no cpu.weight"), "{check:?}");
    let set = "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0";
    tree.set(
        MOUNTS,
        &format!("{set}\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0"),
    );
    tree.expect("cgroup v2", Verdict::Ok, "/sys/fs/cgroup/unified");
    tree.set(MOUNTS, v1);
    tree.expect("cgroup v2", Verdict::Warning, "not mounted");
    tree.remove(MOUNTS)
        .expect("cgroup v2", Verdict::Unknown, "missing");
}

#[test]
fn topology() {
    let tree = Tree::healthy();
    tree.expect("topology", Verdict::Ok, "cores: 1, lanes online: 2");
    tree.set(&format!("{CPU}/possible"), "0-2");
    tree.expect("topology", Verdict::Ok, "CPUs offline: 2");
    tree.set(&format!("{CPU}/possible"), "many");
    tree.expect("topology", Verdict::Warning, "cpu/possible: holds \"many\"");
    let frequency = |cpu| format!("{CPU}/cpu{cpu}/cpufreq/cpuinfo_max_freq");
    tree.set(&frequency(0), "0").set(&frequency(1), "<unknown>");
    let check = tree.expect("topology", Verdict::Warning, "max_freq: holds \"0\"");
    assert!(
        check
            .seen
            .starts_with("cores: 1, lanes online: 2; unknown: "),
        "{check:?}"
    );
    assert!(check.remedy.unwrap().contains("runs without"));
    tree.set(&format!("{CPU}/smt/control"), "perhaps");
    tree.expect("topology", Verdict::Warning, "and 1 more");
    tree.expect("SMT", Verdict::Ok, "2 lanes");
}

#[test]
fn a_topology_that_cannot_be_read() {
    let tree = Tree::healthy();
    let fails = |seen: &str, remedy: &str| {
        let check = tree.expect("topology", Verdict::Fail, seen);
        assert!(check.remedy.unwrap().contains(remedy), "{seen}");
        tree.expect("SMT", Verdict::Unknown, "cannot be read");
    };
    tree.set(&format!("{CPU}/online"), "many");
    fails("cpu/online: holds \"many\"", "update firmware");
    tree.set(&format!("{CPU}/online"), "0-1");
    for cpu in 0..2 {
        tree.remove(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list"));
    }
    fails("thread_siblings_list: missing", "on the machine itself");
    fs::remove_dir_all(tree.0.path().join("sys/devices")).unwrap();
    fails("cpu/online: missing", "mount sysfs");
}

#[test]
fn a_core_too_large_for_the_tables() {
    let tree = Tree::healthy();
    tree.set(&format!("{CPU}/possible"), "0-69")
        .set(&format!("{CPU}/online"), "0-69");
    for cpu in 0..70 {
        tree.set(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list"), "0-69");
        tree.set(&format!("{CPU}/cpu{cpu}/topology/physical_package_id"), "0");
    }
    tree.expect("topology", Verdict::Fail, "70 lanes in one core");
}

#[test]
fn smt_state() {
    let tree = Tree::healthy();
    tree.expect("SMT", Verdict::Ok, "up to 2 lanes online in a core");
    tree.set(&format!("{CPU}/online"), "0");
    tree.set(&format!("{CPU}/cpu0/topology/core_cpus_list"), "0");
    for (control, seen, remedy) in [
        ("off", "switched off", "echo on"),
        ("forceoff", "until the next boot", "nosmt=force"),
        ("on", "CPUs 1 are offline", "cpuN/online"),
    ] {
        tree.set(&format!("{CPU}/smt/control"), control);
        let check = tree.expect("SMT", Verdict::Warning, seen);
        assert!(check.remedy.unwrap().contains(remedy), "{control}");
    }
    tree.set(&format!("{CPU}/possible"), "0")
        .set(&format!("{CPU}/smt/control"), "notsupported");
    tree.expect("SMT", Verdict::Warning, "nothing to lend");
}

#[test]
fn isolated_lanes() {
    const NAME: &str = "isolated lanes";
    const PARTITION: &str = "sys/fs/cgroup/a/cpuset.cpus.partition";
    let isolated = format!("{CPU}/isolated");
    let tree = Tree::healthy();
    tree.set(&isolated, "1");
    tree.expect(NAME, Verdict::Warning, "CPUs 1, by a cpuset partition");
    for domain in ["1", "domain,1", "nohz,domain,1"] {
        tree.set("proc/cmdline", &format!("quiet isolcpus={domain} ro"));
        tree.expect(NAME, Verdict::Fail, &format!("isolcpus={domain}"));
    }
    for harmless in ["isolcpus=managed_irq,1", "-- isolcpus=1", "x.isolcpus=1"] {
        tree.set("proc/cmdline", harmless);
        tree.expect(NAME, Verdict::Warning, "by a cpuset partition");
    }
    tree.set("proc/cmdline", "isolcpus=managed_irq,1");
    tree.set(&isolated, "").expect(NAME, Verdict::Ok, "none");
    tree.set(PARTITION, "root")
        .set("sys/fs/cgroup/a/cpuset.cpus.effective", "0");
    tree.expect(NAME, Verdict::Warning, "CPUs 0, by a cpuset partition");
    tree.set(PARTITION, "member");
    tree.set(&isolated, "some")
        .expect(NAME, Verdict::Unknown, "cpu/isolated");
}

#[test]
fn lanes_without_tick() {
    let tree = Tree::healthy();
    tree.expect("nohz_full lanes", Verdict::Ok, "none");
    let check = tree.set(&format!("{CPU}/nohz_full"), "1").expect(
        "nohz_full lanes",
        Verdict::Warning,
        "CPUs 1: ",
    );
    assert_eq!(check.remedy.as_deref(), Some("boot without nohz_full="));
}

#[test]
fn lanes_that_kubernetes_gave_away() {
    const STATE: &str = "var/lib/kubelet/cpu_manager_state";
    let tree = Tree::healthy();
    tree.expect("CPU manager", Verdict::Ok, "none");
    tree.set(STATE, r#"{"policyName":"static","defaultCpuSet":"0-1"}"#);
    tree.expect("CPU manager", Verdict::Ok, "given away no CPU");
    let given = r#"{"policyName":"static","defaultCpuSet":"0","entries":{"p":{"c":"1"}}}"#;
    let check = tree
        .set(STATE, given)
        .expect("CPU manager", Verdict::Warning, "CPUs 1 ");
    assert!(check.seen.contains(STATE), "{check:?}");
}

#[test]
fn frequencies() {
    let tree = Tree::healthy();
    tree.expect("frequency", Verdict::Ok, "governor powersave");
    tree.set(
        &format!("{CPU}/cpufreq/policy1/scaling_governor"),
        "powersave",
    );
    tree.set(
        &format!("{CPU}/cpufreq/policy1/scaling_driver"),
        "acpi-cpufreq",
    );
    tree.expect("frequency", Verdict::Warning, "1 of 2 frequency policies");
    fs::remove_dir_all(tree.0.path().join(CPU).join("cpufreq")).unwrap();
    tree.expect("frequency", Verdict::Ok, "not under the kernel's control");
}

#[test]
fn real_time_tasks() {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let (other, fifo, rr, batch, idle, deadline) = (0, 1, 2, 3, 5, 6);
    let tree = Tree::healthy();
    tree.task(20, 20, "migration/0", PF_KTHREAD, fifo);
    tree.task(21, 21, "compressor", 0, batch)
        .task(22, 22, "spinner", 0, idle);
    tree.expect("real-time tasks", Verdict::Ok, "none");
    tree.task(30, 30, "audio", 0, other)
        .task(30, 31, "a (b) c", 0, fifo);
    let check = tree.expect(
        "real-time tasks",
        Verdict::Warning,
        "a (b) c (31, SCHED_FIFO 50)",
    );
    assert!(
        !check.seen.contains("migration") && !check.seen.contains("audio"),
        "{check:?}"
    );
    tree.task(40, 40, "pump", 0, rr)
        .task(41, 41, "robot", 0, deadline);
    let seen = tree
        .expect(
            "real-time tasks",
            Verdict::Warning,
            "pump (40, SCHED_RR 50)",
        )
        .seen;
    assert!(seen.contains("robot (41, SCHED_DEADLINE)"), "{seen}");
    for pid in 50..60 {
        tree.task(pid, pid, "many", 0, fifo);
    }
    tree.expect("real-time tasks", Verdict::Warning, "and 8 more");
}

#[test]
fn tasks_that_vanish_or_are_garbled_are_left_out() {
    let tree = Tree::healthy();
    tree.set("proc/70/task/70/stat", "70 (gone");
    tree.set("proc/71/task/71/status", "no stat file");
    tree.expect("real-time tasks", Verdict::Ok, "none");
    fs::remove_dir_all(tree.0.path().join("proc")).unwrap();
    tree.expect("real-time tasks", Verdict::Unknown, "lists no tasks");
}

#[test]
fn real_time_limit() {
    const RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
    const RESERVE: &str = "sys/kernel/debug/sched/ext_server/cpu0/runtime";
    let tree = Tree::healthy();
    tree.set("proc/sys/kernel/osrelease", "6.19.14");
    tree.expect(
        "real-time limit",
        Verdict::Ok,
        "no task is a real-time one now",
    );
    tree.task(30, 30, "audio", 0, 1)
        .expect("real-time limit", Verdict::Warning, "may have none");
    tree.set(RUNTIME, "-1")
        .expect("real-time limit", Verdict::Warning, "is -1");
    tree.set(RESERVE, "50000000")
        .expect("real-time limit", Verdict::Ok, "50 ms");
    tree.set(RESERVE, "0")
        .expect("real-time limit", Verdict::Warning, "is -1");
    tree.set("proc/sys/kernel/osrelease", "7.0.4")
        .remove(RESERVE);
    tree.expect("real-time limit", Verdict::Ok, "keeps a share");
}

#[test]
fn an_unreadable_file_makes_its_check_unknown() {
    let tree = Tree::healthy();
    let file = tree.0.path().join("sys/kernel/security/lockdown");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    tree.expect("lockdown", Verdict::Unknown, "cannot read ");
}

#[test]
fn the_text_names_every_check_and_fits_the_width() {
    let tree = Tree::healthy();
    tree.set("sys/kernel/sched_ext/root/ops", &"x".repeat(200));
    tree.set("sys/kernel/sched_ext/state", "enabled");
    let report = tree.examine();
    let text = report.text();
    for check in &report.checks {
        assert!(text.contains(check.name), "{}", check.name);
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 100),
        "{text}"
    );
    assert!(text.contains("\nFAIL      other scheduler "), "{text}");
    assert!(text.contains("-> stop it first"), "{text}");
    let conclusion = "This machine cannot run the scheduler (failed: 1, warnings: 0, unknown: 1).";
    assert!(text.ends_with(&format!("\n{conclusion}\n")), "{text}");
}

#[test]
fn this_machine_can_be_examined() {
    let report = examine(Path::new("/"));
    let cookies = report
        .checks
        .iter()
        .find(|check| check.name == "core scheduling")
        .unwrap();
    assert!(!cookies.seen.contains("captured"), "{cookies:?}");
}
