//! Hands the lane signal to programs, and wakes those that sleep on futexes.
//!
//! One thread. A program is told of lanes from when it asks for that until its connection ends, and the connection is
//! the service's life to the program: nothing is pinned, and nothing is left behind after `kill -9`.

use super::handle;
use super::jobs::{Boards, Owned};
use super::socket::{Socket, futex_words, greet, hand_board};
use crate::Error;
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use sidelane_runtime::wire::{ASK_BOARD, SUBSCRIBE};
use std::fs::File;
use std::io::{self, Read};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;

/// Programs at a time; more are sent away. Below the usual limit of open files, 1024, with room for
/// what else the process has open.
const PROGRAMS_MAX: usize = 768;

/// For so long nothing new is heard where there are no more descriptors, ms.
const FULL_MS: u16 = 1000;

/// The maps of `see/signal.bpf.h`, of whichever object, and that of `see/jobs.bpf.h`.
pub(crate) struct Maps {
    /// `lane_signals`
    pub lines: MapHandle,
    /// `signal_events`
    pub events: MapHandle,
    /// `signal_waiters`
    pub waiters: MapHandle,
    /// Where jobs are looked at.
    pub boards: Option<Boards>,
}

impl Maps {
    /// Handles of their own, so that they may be used from another thread.
    pub fn new(
        lines: &impl MapCore,
        events: &impl MapCore,
        waiters: &impl MapCore,
        boards: Option<Boards>,
    ) -> Result<Maps, Error> {
        let own = |e: libbpf_rs::Error| failed("share the maps", e);
        Ok(Maps {
            lines: handle(lines).map_err(own)?,
            events: handle(events).map_err(own)?,
            waiters: handle(waiters).map_err(own)?,
            boards,
        })
    }
}

fn failed(what: &str, e: impl std::fmt::Display) -> Error {
    Error::Signal(format!("{what}: {e}"))
}

/// A running service; it ends, and its socket goes, when this is dropped.
pub struct Service {
    thread: Option<JoinHandle<()>>,
    /// Dropped, it tells the thread to end.
    stop: Option<UnixStream>,
}

impl Service {
    /// Begins to serve on a socket.
    ///
    /// # Errors
    /// [`Error::Signal`]: the socket cannot be had, or the kernel refuses.
    pub(crate) fn start(maps: Maps, path: &Path) -> Result<Service, Error> {
        let socket = Socket::listen(path)?;
        let lanes = maps
            .lines
            .info()
            .map_err(|e| failed("look at the lines", e))?;
        let lanes = lanes.info.max_entries;
        // a descriptor that can only be read cannot be mapped; a frozen map can only be read
        maps.lines
            .freeze()
            .map_err(|e| failed("freeze the lines", e))?;
        let words = Words::new(lanes).map_err(|e| failed("make futex words", e))?;
        let (stop, stopped) = UnixStream::pair().map_err(|e| failed("begin to serve", e))?;
        let serve = move || {
            let server = Server {
                socket,
                lanes,
                lines: maps.lines,
                waiters: maps.waiters,
                boards: maps.boards,
                file: words.file()?,
                programs: Vec::new(),
                stopped,
                full: false,
            };
            server.serve(&maps.events, words)
        };
        let thread = std::thread::Builder::new().name("sidelane-signal".to_owned());
        // a service that fails closes its connections: programs go on without the signal
        let thread = thread.spawn(move || drop::<io::Result<()>>(serve()));
        Ok(Service {
            thread: Some(thread.map_err(|e| failed("begin to serve", e))?),
            stop: Some(stop),
        })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The futex words, one a lane, mapped.
struct Words {
    base: NonNull<AtomicU32>,
    lanes: u32,
    readable: File,
}

// SAFETY: the mapping belongs to the process and is never removed while this lives
unsafe impl Send for Words {}

impl Words {
    fn new(lanes: u32) -> io::Result<Words> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};
        let (file, readable) = futex_words(lanes)?;
        let size = NonZeroUsize::new(lanes as usize * size_of::<u32>());
        let size = size.ok_or(io::ErrorKind::InvalidInput)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a file of that size, which is sealed
        let base = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, &file, 0)? };
        Ok(Words {
            base: base.cast(),
            lanes,
            readable,
        })
    }

    /// The file for programs.
    fn file(&self) -> io::Result<File> {
        self.readable.try_clone()
    }

    /// Wakes what sleeps on a lane's word.
    fn wake(&self, lane: u32) {
        if lane >= self.lanes {
            return;
        }
        // SAFETY: within the mapping
        let word = unsafe { self.base.add(lane as usize).as_ref() };
        word.fetch_add(1, Ordering::Release);
        let all = i32::MAX;
        // SAFETY: the word outlives the call, which cannot fail for it
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, all) };
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        let size = self.lanes as usize * size_of::<u32>();
        // SAFETY: mapped by `new`, and nothing refers to it any more. It cannot fail then.
        let _ = unsafe { nix::sys::mman::munmap(self.base.cast(), size) };
    }
}

struct Program {
    stream: UnixStream,
    subscribed: bool,
    board: Option<Owned>,
}

struct Server {
    socket: Socket,
    lanes: u32,
    lines: MapHandle,
    waiters: MapHandle,
    boards: Option<Boards>,
    file: File,
    programs: Vec<Program>,
    /// Closed by the other side when it is time to end.
    stopped: UnixStream,
    /// There are no more descriptors: what connects waits for a moment.
    full: bool,
}

impl Server {
    fn serve(mut self, events: &MapHandle, words: Words) -> io::Result<()> {
        let ring = ring(events, words).map_err(io::Error::other)?;
        loop {
            let ready = self.wait(ring.epoll_fd())?;
            let [stopped, ended, connecting, ..] = ready[..] else {
                return Ok(());
            };
            if stopped {
                return Ok(());
            }
            if ended {
                // whatever it answers: what is missed is found by time-out
                let _ = ring.consume();
            }
            self.hear(&ready[3..]);
            if connecting {
                self.accept();
            }
        }
    }

    /// Waits until something is ready: the end, events, a new program, then each program.
    fn wait(&mut self, events: i32) -> io::Result<Vec<bool>> {
        let full = std::mem::take(&mut self.full);
        // SAFETY: the ring buffer outlives the borrow, which ends here
        let events = unsafe { BorrowedFd::borrow_raw(events) };
        let fixed = [self.stopped.as_fd(), events, self.socket.listener.as_fd()];
        let programs = self.programs.iter().map(|program| program.stream.as_fd());
        let mut fds: Vec<_> = fixed
            .into_iter()
            .chain(programs)
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let mut timeout = PollTimeout::NONE;
        if full {
            fds[2].set_events(PollFlags::empty());
            timeout = FULL_MS.into();
        }
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(e) => return Err(e.into()),
        }
        Ok(fds.iter().map(|fd| fd.any() == Some(true)).collect())
    }

    fn accept(&mut self) {
        let accepted = self.socket.listener.accept();
        let refused = accepted.as_ref().err().and_then(io::Error::raw_os_error);
        self.full = matches!(refused, Some(libc::EMFILE | libc::ENFILE));
        let Ok((stream, _)) = accepted else {
            return;
        };
        if self.programs.len() >= PROGRAMS_MAX {
            return;
        }
        if greet(&stream, self.lanes, self.lines.as_fd(), &self.file).is_ok() {
            self.programs.push(Program {
                stream,
                subscribed: false,
                board: None,
            });
        }
    }

    /// Reads what programs say, and forgets those that are gone.
    fn hear(&mut self, ready: &[bool]) {
        if !ready.contains(&true) {
            return;
        }
        let mut ready = ready.iter().copied();
        let boards = &mut self.boards;
        self.programs
            .retain_mut(|program| !ready.next().unwrap_or(false) || program.hear(boards));
        let waiters = self.programs.iter().filter(|program| program.subscribed);
        let waiters = waiters.count() as u32;
        let key = 0u32.to_ne_bytes();
        // without events, futex naps end by time-out
        let _ = self
            .waiters
            .update(&key, &waiters.to_ne_bytes(), MapFlags::ANY);
    }
}

impl Program {
    /// Reads what it says. False: it is gone, and its board with it.
    fn hear(&mut self, boards: &mut Option<Boards>) -> bool {
        let mut said = [0; 16];
        let here = match self.stream.read(&mut said) {
            Ok(0) => false,
            Ok(length) => {
                self.subscribed |= said[..length].contains(&SUBSCRIBE);
                if said[..length].contains(&ASK_BOARD) {
                    self.give_board(boards);
                }
                true
            }
            Err(e) => matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ),
        };
        if let (false, Some(boards), Some(board)) = (here, boards, self.board) {
            boards.remove(board);
        }
        here
    }

    /// Gives it a job board, once. Without one its marks are not seen, and it goes on.
    fn give_board(&mut self, boards: &mut Option<Boards>) {
        let Some(boards) = boards.as_mut().filter(|_| self.board.is_none()) else {
            return;
        };
        if let Ok((owned, board)) = boards.make(&self.stream) {
            self.board = Some(owned);
            let _ = hand_board(&self.stream, board.as_fd());
        }
    }
}

fn ring(events: &MapHandle, words: Words) -> libbpf_rs::Result<RingBuffer<'_>> {
    let mut builder = RingBufferBuilder::new();
    builder.add(events, move |bytes| {
        if let Ok(lane) = bytes.try_into() {
            words.wake(u32::from_ne_bytes(lane));
        }
        0
    })?;
    builder.build()
}
