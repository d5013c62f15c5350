//! What runs inside the emulated machine. Its first process: sets the machine up, runs commands for the host, reaps.
//!
//! Written in Rust and not as a shell script so that arguments, environment, output and status pass
//! unchanged. If it fails, the kernel panics, and the host reports that with the console's last
//! lines.

pub mod probe;
mod relay;

use crate::rootfs;
use crate::wire::PORT;
use nix::mount::{MsFlags, mount};
use relay::Relay;
use sidelane_interface::say;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the kernel may take to bring up the port.
const PORT_DEADLINE: Duration = Duration::from_secs(30);

/// Runs as process 1; comes back only when it failed.
pub fn run() -> io::Error {
    if std::process::id() != 1 {
        return io::Error::other("only the first process of a test bed may do this");
    }
    set_up();
    let ended = open_port()
        .and_then(Relay::new)
        .and_then(|mut relay| relay.serve());
    match ended {
        Ok(()) => power_off(),
        Err(error) => {
            complain(&error.to_string());
            error
        }
    }
}

fn power_off() -> io::Error {
    nix::unistd::sync();
    match nix::sys::reboot::reboot(nix::sys::reboot::RebootMode::RB_POWER_OFF) {
        Ok(never) => match never {},
        Err(error) => error.into(),
    }
}

/// Waits for the host's port and opens it.
fn open_port() -> io::Result<File> {
    let start = Instant::now();
    loop {
        if let Some(device) = find_port() {
            return OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(device);
        }
        if start.elapsed() > PORT_DEADLINE {
            return Err(io::Error::other(format!("no port named {PORT}")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn find_port() -> Option<PathBuf> {
    for entry in fs::read_dir("/sys/class/virtio-ports").ok()?.flatten() {
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        let device = PathBuf::from("/dev").join(entry.file_name());
        if name.trim() == PORT && device.exists() {
            return Some(device);
        }
    }
    None
}

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
fn set_up() {
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
fn complain(text: &str) {
    say!("sidelane testbed: {text}");
}
