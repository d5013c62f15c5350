use super::*;
use std::fs;
use tempfile::TempDir;

/// Files below a root.
fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let online = ("sys/devices/system/cpu/online", "0-15\n");
    for (file, content) in files.iter().chain([&online]) {
        let path = root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root
}

fn read(files: &[(&str, &str)]) -> Reserved {
    Reserved::read(machine(files).path())
}

fn found(reserved: &Reserved) -> Vec<(Reason, String)> {
    let by_reason = reserved.by_reason();
    by_reason
        .map(|(reason, cpus)| (reason, cpus.to_string()))
        .collect()
}

#[test]
fn a_machine_that_reserves_nothing() {
    let pool = "sys/fs/cgroup/kubepods/pod1/a/cpuset.cpus";
    for files in [
        &[][..],
        &[
            ("sys/devices/system/cpu/isolated", "\n"),
            ("sys/devices/system/cpu/nohz_full", " (null)\n"),
        ],
        &[("sys/fs/cgroup/cpuset.cpus.isolated", "\n")],
        &[(pool, "\n")],
        &[(pool, "0-15\n")],
        &[(
            "var/lib/kubelet/cpu_manager_state",
            r#"{"policyName":"none","defaultCpuSet":"","checksum":1}"#,
        )],
    ] {
        assert_eq!(read(files), Reserved::default(), "{files:?}");
    }
}

#[test]
fn boot_parameters() {
    let reserved = read(&[
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/devices/system/cpu/nohz_full", "3-4\n"),
    ]);
    assert_eq!(reserved.cpus().to_string(), "2-4");
    let reasons: Vec<Reason> = reserved.reasons(3).collect();
    assert_eq!(reasons, [Reason::Isolated, Reason::NohzFull]);
    assert_eq!(reserved.reasons(5).count(), 0);
    assert_eq!(reserved.by(Reason::Partition), CpuList::new());
}

#[test]
fn partitions_at_any_depth_and_on_kernels_old_and_new() {
    let reserved = read(&[
        ("sys/fs/cgroup/cpuset.cpus.isolated", "8\n"),
        ("sys/fs/cgroup/a/cpuset.cpus.partition", "root\n"),
        ("sys/fs/cgroup/a/cpuset.cpus.effective", "0-1\n"),
        ("sys/fs/cgroup/b/cpuset.cpus.partition", "member\n"),
        ("sys/fs/cgroup/b/cpuset.cpus.effective", "5-7\n"),
        ("sys/fs/cgroup/b/c/cpuset.cpus.partition", "isolated\n"),
        ("sys/fs/cgroup/b/c/cpuset.cpus.effective", "\n"),
        ("sys/fs/cgroup/b/c/cpuset.cpus.exclusive.effective", "2\n"),
        (
            "sys/fs/cgroup/d/cpuset.cpus.partition",
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
        ),
        ("sys/fs/cgroup/d/cpuset.cpus.effective", "3\n"),
        ("sys/fs/cgroup/unified/e/cpuset.cpus.partition", "isolated"),
        ("sys/fs/cgroup/unified/e/cpuset.cpus.effective", "4"),
    ]);
    assert_eq!(
        found(&reserved),
        [(Reason::Partition, "0-2,4,8".to_owned())]
    );
}

#[test]
fn the_state_file_of_kubelet_old_and_new() {
    for (file, entries) in [
        (
            "var/lib/kubelet/cpu_manager_state",
            r#"{"pod":{"a":"1,5","b":"2"}}"#,
        ),
        (
            "var/lib/k0s/kubelet/cpu_manager_state",
            r#"{"container":"1-2","other":"5"}"#,
        ),
    ] {
        let text = format!(
            r#"{{"policyName":"static","defaultCpuSet":"0,3-4","entries":{entries},"checksum":1}}"#
        );
        let reserved = read(&[(file, &text)]);
        let expected = [(Reason::StaticCpuManager, "1-2,5".to_owned())];
        assert_eq!(found(&reserved), expected);
        let manager = reserved.cpu_manager().unwrap();
        assert!(manager.path.ends_with(file));
        assert_eq!(manager.counted_on.to_string(), "0-5");
    }
    // at work, though no CPU is given away yet
    let text = r#"{"policyName":"static","defaultCpuSet":"0-7","checksum":1}"#;
    let reserved = read(&[("var/lib/kubelet/cpu_manager_state", text)]);
    assert!(reserved.cpus().is_empty());
    assert_eq!(
        reserved.cpu_manager().unwrap().counted_on.to_string(),
        "0-7"
    );
}

#[test]
fn cgroups_of_pods_where_the_state_file_is_not_to_be_seen() {
    for pods in [
        "sys/fs/cgroup/kubepods.slice",
        "sys/fs/cgroup/cpuset/kubepods",
    ] {
        let file = |path: &str| format!("{pods}/{path}/cpuset.cpus");
        let (pod, given, inside) = (file("pod1"), file("pod1/a"), file("pod1/a/init"));
        let (one, other) = (file("pod2/b"), file("pod3/c"));
        let all = if pods.contains("cpuset/") { "0-15" } else { "" };
        let reserved = read(&[
            (&pod, all),
            (&given, "1,5"),
            (&inside, "1"),
            (&one, "0,2-4"),
            (&other, "0,2-4"),
        ]);
        let expected = [(Reason::StaticCpuManager, "1,5".to_owned())];
        assert_eq!(found(&reserved), expected);
        assert_eq!(
            reserved.cpu_manager().unwrap().counted_on.to_string(),
            "0-5"
        );
    }
}

#[test]
fn what_cannot_be_read_is_noted_with_its_file() {
    let isolated = "sys/devices/system/cpu/isolated";
    let state = "var/lib/kubelet/cpu_manager_state";
    for (file, content) in [
        (isolated, "all"),
        (state, "{"),
        (state, r#"{"entries":{}}"#),
        (state, r#"{"policyName":"static","entries":{"a":"x"}}"#),
    ] {
        let reserved = read(&[(file, content)]);
        assert_eq!(reserved.notes().len(), 1, "{:?}", reserved.notes());
        assert!(reserved.notes()[0].contains(file), "{:?}", reserved.notes());
        assert!(reserved.cpus().is_empty());
    }
    let root = machine(&[]);
    fs::create_dir_all(root.path().join(isolated)).unwrap();
    let notes = Reserved::read(root.path()).notes;
    assert!(notes.len() == 1 && notes[0].contains(isolated), "{notes:?}");
}

#[test]
fn names_of_cgroups_are_bytes() {
    use std::os::unix::ffi::OsStrExt;
    let root = machine(&[]);
    let name = std::ffi::OsStr::from_bytes(b"a\xff\x1b[2J");
    let folder = root.path().join("sys/fs/cgroup").join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cpuset.cpus.partition"), "isolated\n").unwrap();
    fs::write(folder.join("cpuset.cpus.effective"), "3\n").unwrap();
    assert_eq!(Reserved::read(root.path()).cpus(), CpuList::from([3]));
    fs::write(folder.join("cpuset.cpus.effective"), "x\n").unwrap();
    let notes = Reserved::read(root.path()).notes;
    assert!(notes[0].contains(r"a\xff\x1b[2J"), "{notes:?}");
}
