//! Job boards: memory in which programs tell the scheduler of their jobs (`see/jobs.bpf.h`).
//!
//! A program gets one that it alone can write, and the scheduler looks there for that program's
//! threads only. Which program it is, the kernel tells: the process that connected.

use super::handle;
use crate::Error;
use crate::adopt;
use crate::bpf::{bytes_of, intf};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, libbpf_sys};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use sidelane_runtime::wire;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::{offset_of, size_of};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

// what programs write is what BPF reads
const _: () = {
    use intf::job_slot as read;
    use wire::JobSlot as written;
    assert!(size_of::<written>() == size_of::<read>());
    assert!(offset_of!(written, tid) == offset_of!(read, tid));
    assert!(offset_of!(written, naps) == offset_of!(read, naps));
    assert!(offset_of!(written, began_ns) == offset_of!(read, began_ns));
    assert!(offset_of!(written, ended) == offset_of!(read, ended));
    assert!(offset_of!(written, deadline_ns) == offset_of!(read, deadline_ns));
    assert!(offset_of!(written, latencies) == offset_of!(read, latencies));
    assert!(wire::JOB_SLOTS == intf::job_board_limits_JOB_SLOTS as usize);
    assert!(wire::JOB_PROBES == intf::job_board_limits_JOB_PROBES as usize);
    assert!(wire::JOB_RING == intf::job_board_limits_JOB_RING as usize);
    assert!(wire::JOB_LATENCY_NS == intf::job_board_limits_JOB_LATENCY_NS as u64);
};

/// In `/proc/PID/stat`, counted from after the name: when the process started, in hundredths of a
/// second after boot.
const START_FIELD: usize = 19;

/// The boards of the programs that are connected.
pub struct Boards {
    /// `job_boards`
    map: MapHandle,
    /// `job_boards_kept`
    kept: MapHandle,
    /// Whose board it is, by key: the last connection of that process that asked.
    owners: BTreeMap<(u32, u32), u64>,
    /// Boards so far.
    made: u64,
}

/// A program's claim to its board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owned {
    key: (u32, u32),
    number: u64,
}

impl Boards {
    /// The scheduler's table, which is empty, and where it looks how many are there.
    pub fn new(map: &impl MapCore, kept: &impl MapCore) -> libbpf_rs::Result<Boards> {
        Ok(Boards {
            map: handle(map)?,
            kept: handle(kept)?,
            owners: BTreeMap::new(),
            made: 0,
        })
    }

    /// Makes a board for the program at the other end, in place of an earlier one.
    pub fn make(&mut self, program: &UnixStream) -> Result<(Owned, MapHandle), Error> {
        let failed = |e: io::Error| Error::Signal(format!("make a job board: {e}"));
        let key = peer(program, Path::new("/proc")).map_err(failed)?;
        let board = new_board().map_err(|e| failed(io::Error::other(e)))?;
        let fd = board.as_fd().as_raw_fd() as u32;
        self.map
            .update(bytes_of(&native(key)), &fd.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| failed(io::Error::other(e)))?;
        self.made += 1;
        let number = self.made;
        self.owners.insert(key, number);
        let owned = Owned { key, number };
        if let Err(error) = self.count() {
            self.remove(owned);
            return Err(failed(io::Error::other(error)));
        }
        Ok((owned, board))
    }

    /// Takes a board away, unless a later one is in its place.
    pub fn remove(&mut self, board: Owned) {
        if self.owners.get(&board.key) == Some(&board.number) {
            self.owners.remove(&board.key);
            // it goes with the scheduler at the latest
            let _ = self.map.delete(bytes_of(&native(board.key)));
            // with one too many it looks in vain
            let _ = self.count();
        }
    }

    /// Tells the scheduler how many there are.
    fn count(&self) -> libbpf_rs::Result<()> {
        let many = self.owners.len() as u32;
        let only = 0_u32.to_ne_bytes();
        self.kept.update(&only, &many.to_ne_bytes(), MapFlags::ANY)
    }
}

fn native((tgid, start): (u32, u32)) -> intf::job_board_key {
    intf::job_board_key { tgid, start }
}

/// As the scheduler declares it.
fn new_board() -> libbpf_rs::Result<MapHandle> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        map_flags: libbpf_sys::BPF_F_MMAPABLE,
        ..Default::default()
    };
    let (key, slot) = (size_of::<u32>(), size_of::<intf::job_slot>());
    MapHandle::create(
        MapType::Array,
        Some("sidelane_jobs"),
        key as u32,
        slot as u32,
        intf::job_board_limits_JOB_SLOTS,
        &options,
    )
}

/// The process that connected: its number and when it started.
fn peer(program: &UnixStream, proc: &Path) -> io::Result<(u32, u32)> {
    if !adopt::numbers_are_the_scheduler_s(proc)? {
        return Err(io::Error::other("the service runs in a PID namespace"));
    }
    let handle = peer_handle(program)?;
    let number = getsockopt(program, PeerCredentials)?.pid();
    let stat = fs::read(proc.join(number.to_string()).join("stat"))?;
    let start = start_of(&String::from_utf8_lossy(&stat)).ok_or(io::ErrorKind::InvalidData)?;
    // had it ended before, this would be another process of its number
    let mut ended = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
    match poll(&mut ended, PollTimeout::ZERO)? {
        0 => Ok((number as u32, start)),
        _ => Err(io::ErrorKind::NotConnected.into()),
    }
}

/// A descriptor of the process that connected.
fn peer_handle(program: &UnixStream) -> io::Result<OwnedFd> {
    let mut fd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: room for the descriptor whose size is given
    let result = unsafe {
        let to = (&raw mut fd).cast();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_PEERPIDFD);
        libc::getsockopt(program.as_raw_fd(), level, name, to, &mut length)
    };
    match result {
        // SAFETY: new, and ours
        0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// When a process started, from its `stat`; the key has the low 32 bits.
fn start_of(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let start = after_name.split_whitespace().nth(START_FIELD)?;
    start.parse::<u64>().ok().map(|start| start as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_number_and_start() {
        let (one, _other) = UnixStream::pair().unwrap();
        let Ok((number, start)) = peer(&one, Path::new("/proc")) else {
            return; // a container, or a kernel before 6.5
        };
        assert_eq!(number, std::process::id());
        let stat = fs::read_to_string("/proc/self/stat").unwrap();
        assert_eq!(start_of(&stat), Some(start));
    }

    #[test]
    fn the_start_stands_behind_names_of_any_kind() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4294967301 20";
        assert_eq!(start_of(&format!("7 (a) b (c) {fields}")), Some(5));
        assert_eq!(start_of("7 (a) S 1"), None);
        assert_eq!(start_of(""), None);
    }
}
