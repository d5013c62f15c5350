//! A stand-in for the service, in a process of its own: all lanes are told that critical work runs
//! beside them, for as long as is asked for.
#![allow(dead_code)]

use sidelane_runtime::wire::{Hello, LaneSignal};
use std::fs::File;
use std::io::{BufRead, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LANES: u32 = 512;
const PATIENCE: Duration = Duration::from_secs(20);

pub fn eventually(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The process; killed when dropped.
pub struct FakeService(Child);

impl FakeService {
    pub fn start(socket: &Path) -> FakeService {
        let _ = std::fs::remove_file(socket);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["fake_service", "--exact", "--ignored", "--nocapture"])
            .env("FAKE_SERVICE", socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the service listens", || socket.exists());
        FakeService(child)
    }

    /// Critical work runs beside every lane from now on.
    pub fn critical_for(&mut self, time: Duration) {
        let pipe = self.0.stdin.as_mut().unwrap();
        writeln!(pipe, "{}", time.as_millis()).unwrap();
    }
}

impl Drop for FakeService {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process's own part; does nothing where nobody started it as such.
pub fn serve() {
    let Some(socket) = std::env::var_os("FAKE_SERVICE") else {
        return;
    };
    let (lines, words) = (memory(64), memory(4));
    for lane in 0..LANES {
        let next = (lane ^ 1).to_ne_bytes();
        let at = std::mem::offset_of!(LaneSignal, next_lane) as u64;
        lines
            .write_all_at(&next, u64::from(lane) * 64 + at)
            .unwrap();
    }
    let listener = UnixListener::bind(socket).unwrap();
    let shared = [lines.try_clone().unwrap(), words.try_clone().unwrap()];
    std::thread::spawn(move || {
        let mut programs = Vec::new();
        for program in listener.incoming().map_while(Result::ok) {
            greet(&program, [shared[0].as_raw_fd(), shared[1].as_raw_fd()]);
            programs.push(program);
        }
    });
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        tell(&lines, 1);
        std::thread::sleep(Duration::from_millis(line.parse().unwrap()));
        tell(&lines, 0);
    }
}

fn tell(lines: &File, critical: u64) {
    for lane in 0..u64::from(LANES) {
        lines
            .write_all_at(&critical.to_ne_bytes(), lane * 64)
            .unwrap();
    }
}

fn memory(each: u64) -> File {
    // SAFETY: a name that ends; the descriptor is new, and ours
    let file = unsafe { File::from_raw_fd(libc::memfd_create(c"fake".as_ptr(), 0)) };
    file.set_len(u64::from(LANES) * each).unwrap();
    file
}

fn greet(program: &UnixStream, fds: [i32; 2]) {
    let mut hello = Hello { lanes: LANES }.to_bytes();
    let mut control = [0u64; 8];
    // SAFETY: the header points to memory that outlives the call, and has room for two descriptors
    unsafe {
        let mut part = libc::iovec {
            iov_base: hello.as_mut_ptr().cast(),
            iov_len: hello.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(8) as _;
        let rights = libc::CMSG_FIRSTHDR(&header);
        (*rights).cmsg_level = libc::SOL_SOCKET;
        (*rights).cmsg_type = libc::SCM_RIGHTS;
        (*rights).cmsg_len = libc::CMSG_LEN(8) as _;
        libc::CMSG_DATA(rights)
            .cast::<[i32; 2]>()
            .write_unaligned(fds);
        assert_eq!(libc::sendmsg(program.as_raw_fd(), &header, 0), 16);
    }
}
