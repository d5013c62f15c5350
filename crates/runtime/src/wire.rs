//! What the service and the programs have agreed on: the lines of the lane signal, the slots of the
//! job board, and what is said on the socket.
//!
//! A program connects; the service sends a [`Hello`] with two descriptors: the map of the lines,
//! which is frozen for user space, and a file of futex words, one a CPU number. A program that sleeps on
//! those words says [`SUBSCRIBE`]. One that marks jobs says [`ASK_BOARD`], and is sent a [`BoardHello`]
//! with the map of its own board; an older service says nothing to that. The connection lasts as long
//! as both do.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// Where the service listens unless it is said otherwise.
pub const DEFAULT_SOCKET: &str = "/run/sidelane/signal.sock";

/// Names another socket, to the service's commands and to programs alike.
pub const SOCKET_VARIABLE: &str = "SIDELANE_SIGNAL_SOCKET";

/// What a program says if it wants its futex words to be woken.
pub const SUBSCRIBE: u8 = b'f';

/// What a program says if it wants a job board.
pub const ASK_BOARD: u8 = b'j';

/// Lanes that a program has room for.
pub const LANES_MAX: usize = 8192;

/// The state of a lane that runs critical work; others as `enum lane_state` of the scheduler.
pub const CRITICAL: u32 = 0;

/// One lane: layout of `struct lane_signal` (crates/policy/bpf/runtime_intf.h).
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct LaneSignal {
    /// Bit i: the core's lane i, another than this one, runs critical work.
    pub critical_beside: AtomicU64,
    reserved: u64,
    /// 0 critical, 1 normal, 2 batch, 3 idle, 4 not yet known; between two tasks that of the first.
    pub state: AtomicU32,
    /// Thread id of what runs; 0: nothing.
    pub task: AtomicU32,
    /// 1: its siblings know that it runs critical work.
    pub critical: AtomicU32,
    /// Which lane of its core it is.
    pub index: AtomicU32,
    /// CPU number of the core's next lane; the last names the first.
    pub next_lane: AtomicU32,
    pad: [u32; 7],
}

const _: () = assert!(size_of::<LaneSignal>() == LINE_SIZE as usize);

/// Slots of a job board: `enum job_board_limits` of crates/policy/bpf/runtime_intf.h.
pub const JOB_SLOTS: usize = 128;
/// A thread has one of so many slots, from `tid % JOB_SLOTS` on.
pub const JOB_PROBES: usize = 4;
/// Latencies that a slot keeps.
pub const JOB_RING: usize = 56;
/// Unit of those, ns.
pub const JOB_LATENCY_NS: u64 = 64;

/// What a thread tells of its jobs: layout of `struct job_slot`.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct JobSlot {
    /// The thread's id, as it sees itself; 0: nobody's.
    pub tid: AtomicU32,
    /// 1: the thread naps.
    pub naps: AtomicU32,
    /// When the job began that it works on, CLOCK_MONOTONIC; 0: on none.
    pub began_ns: AtomicU64,
    /// Jobs that it has ended.
    pub ended: AtomicU64,
    /// The deadline of that job, CLOCK_MONOTONIC; 0: it has none.
    pub deadline_ns: AtomicU64,
    /// Latencies of the last ones, in units of [`JOB_LATENCY_NS`]: of the nth at `n % JOB_RING`, from
    /// 0 on.
    pub latencies: [AtomicU32; JOB_RING],
}

const _: () = assert!(size_of::<JobSlot>() == 256);

const LINE_SIZE: u32 = 64;
const MAGIC: u32 = 0x5349_444c;
const BOARD_MAGIC: u32 = 0x5349_444a;
const VERSION: u32 = 1;

/// The greeting of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Lines in the map, and words in the file.
    pub lanes: u32,
}

impl Hello {
    /// Length of a greeting in bytes.
    pub const LEN: usize = 16;

    /// What is sent.
    pub fn to_bytes(self) -> [u8; Hello::LEN] {
        let words = [MAGIC, VERSION, self.lanes, LINE_SIZE];
        let mut bytes = [0; Hello::LEN];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// None if this is not a greeting of this version, or of a machine that is too large.
    pub fn from_bytes(bytes: &[u8; Hello::LEN]) -> Option<Hello> {
        let mut words = [0; 4];
        for (word, from) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes(from.try_into().ok()?);
        }
        let [magic, version, lanes, line_size] = words;
        let fits = (1..=LANES_MAX as u32).contains(&lanes);
        (magic == MAGIC && version == VERSION && line_size == LINE_SIZE && fits)
            .then_some(Hello { lanes })
    }
}

/// What comes with a job board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BoardHello;

impl BoardHello {
    /// Length in bytes.
    pub const LEN: usize = Hello::LEN;

    /// What is sent.
    pub fn to_bytes(self) -> [u8; BoardHello::LEN] {
        let words = [
            BOARD_MAGIC,
            VERSION,
            JOB_SLOTS as u32,
            size_of::<JobSlot>() as u32,
        ];
        let mut bytes = [0; BoardHello::LEN];
        for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    /// None if this is not a board of this version and size.
    pub fn from_bytes(bytes: &[u8]) -> Option<BoardHello> {
        (bytes == BoardHello.to_bytes()).then_some(BoardHello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_of_another_version_or_size_is_refused() {
        let hello = Hello { lanes: 4 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        for wrong in 0..Hello::LEN {
            let mut bytes = hello.to_bytes();
            bytes[wrong] ^= 0x80;
            let lanes_differ = (8..10).contains(&wrong);
            assert!(
                lanes_differ || Hello::from_bytes(&bytes).is_none(),
                "{wrong}"
            );
        }
        assert_eq!(Hello::from_bytes(&Hello { lanes: 0 }.to_bytes()), None);
    }
}
