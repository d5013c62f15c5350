//! The host's end of the conversation: one thread, one poll.

use crate::error::Interrupt;
use crate::error::{During, Error, Result};
use crate::qemu::Qemu;
use crate::spec::Spec;
use crate::wire::{Decoder, Frame};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

/// How much of the console is kept for error messages, bytes.
const CONSOLE_KEPT: usize = 64 * 1024;

/// How many of its lines an error shows.
const CONSOLE_SHOWN: usize = 25;

/// With these the kernel begins to tell why it dies.
pub const LAST_WORDS: [&str; 4] = ["Kernel panic", "Oops:", "BUG:", "sysrq: Trigger a crash"];

/// How many lines from there an error shows.
const LAST_WORDS_SHOWN: usize = 60;

/// Standard input is read only while less than this waits to be sent, bytes.
const INPUT_AHEAD: usize = 64 * 1024;

/// What came.
#[derive(Debug)]
pub enum Event {
    /// A message from the guest.
    Frame(Frame),
    /// The guest sent nonsense.
    Damaged(String),
    /// The standard input ended and the guest was told.
    StdinEnd,
    /// QEMU ended.
    Closed,
    /// The time is up.
    Deadline,
}

/// Sockets to a running machine.
pub struct Link {
    stream: UnixStream,
    decoder: Decoder,
    outgoing: VecDeque<u8>,
    console: Console,
    interrupt: Interrupt,
}

struct Console {
    stream: Option<UnixStream>,
    kept: VecDeque<u8>,
    log: Option<File>,
    show: bool,
}

/// Which descriptors are ready.
struct Ready {
    interrupt: bool,
    link: PollFlags,
    console: bool,
    stdin: bool,
}

impl Link {
    /// Takes over the sockets of a machine that was just started.
    pub fn new(qemu: &Qemu, spec: &Spec) -> Result<Self> {
        let share = |stream: &UnixStream| {
            stream.set_nonblocking(true)?;
            stream.try_clone()
        };
        let log = spec.console_log.as_ref().map(|path| {
            File::create(path).during(|| format!("create the console log {}", path.display()))
        });
        Ok(Link {
            stream: share(&qemu.link).during(|| "share a socket".into())?,
            decoder: Decoder::default(),
            outgoing: VecDeque::new(),
            console: Console {
                stream: Some(share(&qemu.console).during(|| "share a socket".into())?),
                kept: VecDeque::new(),
                log: log.transpose()?,
                show: spec.console,
            },
            interrupt: spec.interrupt.clone(),
        })
    }

    /// Queues a message; it goes out while waiting for the next event.
    pub fn send(&mut self, frame: &Frame) -> Result<()> {
        self.outgoing
            .extend(frame.encode().map_err(Error::BadSpec)?);
        Ok(())
    }

    /// Waits for the next event, forwarding `stdin` meanwhile.
    pub fn next(&mut self, deadline: Option<Instant>, stdin: Option<&OwnedFd>) -> Result<Event> {
        loop {
            match self.decoder.next_frame() {
                Ok(Some(frame)) => return Ok(Event::Frame(frame)),
                Ok(None) => {}
                Err(why) => return Ok(Event::Damaged(format!("the guest sent {why}"))),
            }
            if deadline.is_some_and(|at| Instant::now() >= at) {
                return Ok(Event::Deadline);
            }
            let ready = self.wait(deadline, stdin)?;
            if ready.interrupt {
                return Err(Error::Interrupted);
            }
            if ready.console {
                self.console.read();
            }
            if ready.link.contains(PollFlags::POLLOUT) {
                self.flush();
            }
            if ready
                .link
                .intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR)
                && !self.receive()
            {
                return Ok(Event::Closed);
            }
            if let (true, Some(stdin)) = (ready.stdin, stdin)
                && !self.forward(stdin)?
            {
                return Ok(Event::StdinEnd);
            }
        }
    }

    fn wait(&self, deadline: Option<Instant>, stdin: Option<&OwnedFd>) -> Result<Ready> {
        let mut wanted = PollFlags::POLLIN;
        if !self.outgoing.is_empty() {
            wanted |= PollFlags::POLLOUT;
        }
        let mut fds = vec![
            PollFd::new(self.interrupt.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.stream.as_fd(), wanted),
        ];
        let console = self.console.stream.as_ref().map(|stream| {
            fds.push(PollFd::new(stream.as_fd(), PollFlags::POLLIN));
            fds.len() - 1
        });
        let stdin = stdin
            .filter(|_| self.outgoing.len() < INPUT_AHEAD)
            .map(|stdin| {
                fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
                fds.len() - 1
            });
        let timeout = deadline.map_or(PollTimeout::NONE, |at| {
            let rest = at.saturating_duration_since(Instant::now());
            PollTimeout::try_from(rest.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).during(|| "wait for the guest".into()),
        }
        let flags = |at: usize| {
            fds.get(at)
                .and_then(PollFd::revents)
                .unwrap_or(PollFlags::empty())
        };
        let any = |at: Option<usize>| at.is_some_and(|at| !flags(at).is_empty());
        Ok(Ready {
            interrupt: any(Some(0)),
            link: flags(1),
            console: any(console),
            stdin: any(stdin),
        })
    }

    /// Reads what the guest sent; false when QEMU closed the socket.
    fn receive(&mut self) -> bool {
        let mut bytes = [0; 64 * 1024];
        match (&self.stream).read(&mut bytes) {
            Ok(0) => false,
            Ok(length) => {
                self.decoder.push(&bytes[..length]);
                true
            }
            Err(error) => retry(&error),
        }
    }

    fn flush(&mut self) {
        let (head, _) = self.outgoing.as_slices();
        // A closed socket shows itself on reading.
        if let Ok(written) = (&self.stream).write(head) {
            self.outgoing.drain(..written);
        }
    }

    /// Sends on what standard input has; false at its end.
    fn forward(&mut self, stdin: &OwnedFd) -> Result<bool> {
        let mut bytes = [0; 16 * 1024];
        match nix::unistd::read(stdin, &mut bytes) {
            Ok(0) => {
                self.send(&Frame::StdinEnd)?;
                Ok(false)
            }
            Ok(length) => {
                self.send(&Frame::Stdin(bytes[..length].to_vec()))?;
                Ok(true)
            }
            Err(Errno::EINTR | Errno::EAGAIN) => Ok(true),
            Err(error) => Err(error).during(|| "read standard input".into()),
        }
    }

    /// Reads the rest of the console, after QEMU was ended.
    pub fn drain_console(&mut self) {
        let deadline = Instant::now() + std::time::Duration::from_secs(1);
        while self.console.stream.is_some() && Instant::now() < deadline {
            if !self.console.read() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
    }

    /// What the guest's console said last: its last words if it died of an error, else its last
    /// lines.
    pub fn console_tail(&self) -> String {
        let bytes: Vec<u8> = self.console.kept.iter().copied().collect();
        tail(&String::from_utf8_lossy(&bytes).replace('\r', ""))
    }
}

fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    if lines.is_empty() {
        return "(its console said nothing)".into();
    }
    let fatal = |line: &&str| LAST_WORDS.iter().any(|word| line.contains(word));
    let from = lines
        .iter()
        .position(fatal)
        .unwrap_or(lines.len().saturating_sub(CONSOLE_SHOWN));
    let shown = &lines[from..lines.len().min(from + LAST_WORDS_SHOWN)];
    format!("The end of its console:\n{}", shown.join("\n"))
}

impl Console {
    /// Takes what the console said; false when there was nothing.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 16 * 1024];
        let Some(mut stream) = self.stream.as_ref() else {
            return false;
        };
        let length = match stream.read(&mut bytes) {
            Ok(length) if length > 0 => length,
            Err(error) if retry(&error) => return false,
            Ok(_) | Err(_) => {
                self.stream = None;
                return false;
            }
        };
        let new = &bytes[..length];
        // Neither the log nor the screen may end the run.
        let _ = self.log.as_mut().map(|log| log.write_all(new));
        if self.show {
            let _ = std::io::stderr().write_all(new);
        }
        self.kept.extend(new);
        let excess = self.kept.len().saturating_sub(CONSOLE_KEPT);
        self.kept.drain(..excess);
        true
    }
}

fn retry(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_is_shown_rather_than_the_end() {
        let trace = "line\n".repeat(40);
        let shown = tail(&format!("boot\nKernel panic - not syncing: x\n{trace}"));
        assert!(shown.contains("Kernel panic - not syncing: x") && !shown.contains("boot"));
    }

    #[test]
    fn without_a_cause_the_last_lines_are_shown() {
        let console: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let shown = tail(&console);
        assert!(shown.ends_with("line 99") && !shown.contains("line 74\n"));
        assert_eq!(tail(""), "(its console said nothing)");
    }
}
