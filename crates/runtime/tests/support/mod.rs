//! A stand-in for the service, in a process of its own: all lanes are told that critical work runs
//! beside them, for as long as is asked for.
#![allow(dead_code)]

use sidelane_runtime::wire::{
    ASK_BOARD, BoardHello, Hello, JOB_LATENCY_NS, JOB_RING, JOB_SLOTS, JobSlot, LaneSignal,
};
use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
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
        FakeService::start_as(socket, "new")
    }

    /// One that knows nothing of job boards.
    pub fn start_old(socket: &Path) -> FakeService {
        FakeService::start_as(socket, "old")
    }

    fn start_as(socket: &Path, kind: &str) -> FakeService {
        let _ = std::fs::remove_file(socket);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["fake_service", "--exact", "--ignored", "--nocapture"])
            .env("FAKE_SERVICE", socket)
            .env("FAKE_SERVICE_KIND", kind)
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
    let listener = UnixListener::bind(&socket).unwrap();
    let is_new = std::env::var("FAKE_SERVICE_KIND").is_ok_and(|kind| kind == "new");
    let socket = PathBuf::from(socket);
    let shared = [lines.try_clone().unwrap(), words.try_clone().unwrap()];
    std::thread::spawn(move || {
        for program in listener.incoming().map_while(Result::ok) {
            let hello = Hello { lanes: LANES }.to_bytes();
            hand(&program, &hello, &[&shared[0], &shared[1]]);
            let board = board_path(&socket, peer(&program));
            let said = said_path(&socket, peer(&program));
            std::thread::spawn(move || hear(program, is_new.then_some(board), said));
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

/// Notes what a program says, and gives it a job board if it asks for one.
fn hear(mut program: UnixStream, board: Option<PathBuf>, said: PathBuf) {
    let mut byte = [0];
    let mut said = File::options()
        .create(true)
        .append(true)
        .open(said)
        .unwrap();
    while program.read(&mut byte).is_ok_and(|length| length > 0) {
        said.write_all(&byte).unwrap();
        let Some(path) = board.as_ref().filter(|_| byte[0] == ASK_BOARD) else {
            continue;
        };
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(true);
        let board = options.open(path).unwrap();
        board.set_len(BOARD_SIZE as u64).unwrap();
        hand(&program, &BoardHello.to_bytes(), &[&board]);
    }
}

/// The process at the other end.
fn peer(program: &UnixStream) -> u32 {
    // SAFETY: zeros are a valid value; room for the structure whose length is given
    unsafe {
        let mut peer: libc::ucred = std::mem::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        let to = (&raw mut peer).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
        let result = libc::getsockopt(program.as_raw_fd(), level, name, to, &mut length);
        assert_eq!(result, 0);
        peer.pid as u32
    }
}

const BOARD_SIZE: usize = JOB_SLOTS * size_of::<JobSlot>();

/// Where the fake service keeps a process's board: a file, so that the test can read it.
pub fn board_path(socket: &Path, process: u32) -> PathBuf {
    socket.with_extension(process.to_string())
}

fn said_path(socket: &Path, process: u32) -> PathBuf {
    socket.with_extension(format!("{process}.said"))
}

/// What this process has said to the fake services so far.
pub fn said(socket: &Path) -> Vec<u8> {
    std::fs::read(said_path(socket, std::process::id())).unwrap_or_default()
}

/// A slot that is in use: thread id, begin of its job, jobs ended, and the latencies of the last ones.
pub type Slot = (u32, u64, u64, Vec<u64>);

/// Those of this process.
pub fn slots_in_use(socket: &Path) -> Vec<Slot> {
    let path = board_path(socket, std::process::id());
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |slot: &[u8], at: usize| u32::from_ne_bytes(slot[at..at + 4].try_into().unwrap());
    let long = |slot: &[u8], at: usize| u64::from_ne_bytes(slot[at..at + 8].try_into().unwrap());
    let read = |slot: &[u8]| {
        let ended = long(slot, 16);
        let latency = |i| u64::from(word(slot, 32 + 4 * i)) * JOB_LATENCY_NS;
        let latencies = (0..JOB_RING.min(ended as usize)).map(latency).collect();
        (word(slot, 0), long(slot, 8), ended, latencies)
    };
    let slots = bytes.chunks_exact(size_of::<JobSlot>()).map(read);
    slots.filter(|slot| slot.0 != 0).collect()
}

fn hand(program: &UnixStream, bytes: &[u8], files: &[&File]) {
    let mut bytes = bytes.to_vec();
    let mut control = [0u64; 8];
    // SAFETY: the header points to memory that outlives the call, and has room for the descriptors
    unsafe {
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut part;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        let size = (files.len() * size_of::<i32>()) as u32;
        header.msg_controllen = libc::CMSG_SPACE(size) as _;
        let rights = libc::CMSG_FIRSTHDR(&header);
        (*rights).cmsg_level = libc::SOL_SOCKET;
        (*rights).cmsg_type = libc::SCM_RIGHTS;
        (*rights).cmsg_len = libc::CMSG_LEN(size) as _;
        for (i, file) in files.iter().enumerate() {
            let at = libc::CMSG_DATA(rights).cast::<i32>().add(i);
            at.write_unaligned(file.as_raw_fd());
        }
        assert_eq!(libc::sendmsg(program.as_raw_fd(), &header, 0), 16);
    }
}
