//! What runs inside the emulated machine. Its first process: sets the machine up, runs commands for the host, reaps.
//!
//! Written in Rust and not as a shell script so that arguments, environment, output and status pass
//! unchanged. If it fails, the kernel panics, and the host reports that with the console's last
//! lines.

mod mounts;
pub mod probe;
mod relay;

use crate::wire::PORT;
use mounts::{complain, set_up};
use relay::Relay;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
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
