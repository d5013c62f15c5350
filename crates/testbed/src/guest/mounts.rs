//! Makes the guest's root file system into a machine that programs expect.

use crate::rootfs;
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::Path;

/// What is mounted: type, folder, options.
const MOUNTS: [(&str, &str, Option<&str>); 9] = [
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devtmpfs", "/dev", None),
    ("devpts", "/dev/pts", Some("mode=620,ptmxmode=666")),
    ("tmpfs", "/dev/shm", Some("mode=1777")),
    ("cgroup2", "/sys/fs/cgroup", None),
    ("debugfs", "/sys/kernel/debug", None),
    ("tracefs", "/sys/kernel/tracing", None),
    ("bpf", "/sys/fs/bpf", None),
];

/// The cgroup controllers that the root hands down.
const CONTROLLERS: [&str; 4] = ["cpu", "cpuset", "memory", "pids"];

/// Mounts, host name, loopback, cgroup controllers, modules. What a kernel lacks is said on the
/// console and left out: a program that needs it will say so itself.
pub fn set_up() {
    for (kind, folder, options) in MOUNTS {
        let _ = fs::create_dir_all(folder);
        let flags = MsFlags::empty();
        if let Err(error) = mount(Some(kind), folder, Some(kind), flags, options) {
            complain(&format!("mount {kind} on {folder}: {error}"));
        }
    }
    for controller in CONTROLLERS {
        write(
            "/sys/fs/cgroup/cgroup.subtree_control",
            &format!("+{controller}"),
        );
    }
    write("/proc/sys/kernel/hostname", "testbed");
    for (link, target) in [
        ("fd", ""),
        ("stdin", "/0"),
        ("stdout", "/1"),
        ("stderr", "/2"),
    ] {
        let _ =
            std::os::unix::fs::symlink(format!("/proc/self/fd{target}"), format!("/dev/{link}"));
    }
    let loopback = std::process::Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    if !loopback.is_ok_and(|status| status.success()) {
        complain("the loopback interface stays down");
    }
    load_modules(Path::new(rootfs::MODULES));
}

fn write(path: &str, text: &str) {
    if let Err(error) = fs::write(path, text) {
        complain(&format!("write {text} to {path}: {error}"));
    }
}

fn load_modules(list: &Path) {
    for path in fs::read_to_string(list).unwrap_or_default().lines() {
        if let Err(error) = load_module(path) {
            complain(&format!("load {path}: {error}"));
        }
    }
}

fn load_module(path: &str) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let file = fs::File::open(path)?;
    // SAFETY: the descriptor is open and the parameter string is static and terminated.
    let done = unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match (done, std::io::Error::last_os_error()) {
        (0, _) => Ok(()),
        (_, error) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        (_, error) => Err(error),
    }
}

/// Says something on the console.
pub fn complain(text: &str) {
    eprintln!("sidelane testbed: {text}");
}
