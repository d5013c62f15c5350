//! Runs the host's commands and carries their streams, in one thread.

use super::complain;
use crate::wire::{Command, Decoder, Frame, HEARTBEAT, MAX_PAYLOAD, VERSION};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::setsid;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

/// The port, and the command that runs.
pub struct Relay {
    port: File,
    decoder: Decoder,
    children: SignalFd,
    running: Option<Running>,
    last_heartbeat: Instant,
}

/// A command and what is left of its streams.
struct Running {
    pid: i32,
    stdin: Option<ChildStdin>,
    /// Input that came and that the command has not taken.
    input: Vec<u8>,
    input_ended: bool,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The wait status, once it ended.
    status: Option<i32>,
}

/// What became ready.
#[derive(Default)]
struct Ready {
    port: bool,
    children: bool,
    stdin: bool,
    stdout: bool,
    stderr: bool,
}

impl Relay {
    /// Says hello to the host.
    pub fn new(port: File) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let mut relay = Relay {
            port,
            decoder: Decoder::default(),
            children: SignalFd::with_flags(&mask, flags)?,
            running: None,
            last_heartbeat: Instant::now(),
        };
        relay.send(&Frame::Hello(VERSION))?;
        Ok(relay)
    }

    /// Serves until the host says to switch off.
    pub fn serve(&mut self) -> io::Result<()> {
        loop {
            let ready = self.wait()?;
            if ready.port && !self.receive()? {
                return Ok(());
            }
            if ready.children {
                self.reap();
            }
            self.carry(&ready)?;
            if self.last_heartbeat.elapsed() >= HEARTBEAT {
                self.send(&Frame::Heartbeat)?;
                self.last_heartbeat = Instant::now();
            }
        }
    }

    fn wait(&self) -> io::Result<Ready> {
        // Input that the command does not take is left with the host.
        let full = self
            .running
            .as_ref()
            .is_some_and(|r| r.input.len() > MAX_PAYLOAD);
        let mut fds = vec![(self.children.as_fd(), PollFlags::POLLIN, 'c')];
        if !full {
            fds.push((self.port.as_fd(), PollFlags::POLLIN, 'p'));
        }
        if let Some(running) = &self.running {
            if let (Some(stdin), false) = (&running.stdin, running.input.is_empty()) {
                fds.push((stdin.as_fd(), PollFlags::POLLOUT, 'i'));
            }
            fds.extend(
                running
                    .stdout
                    .iter()
                    .map(|s| (s.as_fd(), PollFlags::POLLIN, 'o')),
            );
            fds.extend(
                running
                    .stderr
                    .iter()
                    .map(|s| (s.as_fd(), PollFlags::POLLIN, 'e')),
            );
        }
        let mut polled: Vec<PollFd> = fds.iter().map(|(fd, f, _)| PollFd::new(*fd, *f)).collect();
        let rest = HEARTBEAT.saturating_sub(self.last_heartbeat.elapsed());
        let timeout = PollTimeout::try_from(rest.as_millis() + 1).unwrap_or(PollTimeout::MAX);
        match poll(&mut polled, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = Ready::default();
        for ((_, _, name), poll) in fds.iter().zip(&polled) {
            let any = poll.any().unwrap_or(false);
            match name {
                'c' => ready.children = any,
                'p' => ready.port = any,
                'i' => ready.stdin = any,
                'o' => ready.stdout = any,
                _ => ready.stderr = any,
            }
        }
        Ok(ready)
    }

    /// Takes what the host sent; false when it says to switch off.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 32 * 1024];
        match self.port.read(&mut bytes) {
            // The host is not connected (yet): do not spin on it.
            Ok(0) => std::thread::sleep(std::time::Duration::from_millis(2)),
            Ok(length) => self.decoder.push(&bytes[..length]),
            Err(error) if retry(&error) => {}
            Err(error) => return Err(error),
        }
        while let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
            match frame {
                Frame::Run(command) => self.start(&command)?,
                Frame::Stdin(bytes) => {
                    if let Some(running) = self.running.as_mut().filter(|r| r.stdin.is_some()) {
                        running.input.extend(bytes);
                    }
                }
                Frame::StdinEnd => {
                    if let Some(running) = &mut self.running {
                        running.input_ended = true;
                    }
                }
                Frame::PowerOff => return Ok(false),
                other => complain(&format!("the host sent {other:?}")),
            }
        }
        Ok(true)
    }

    fn start(&mut self, command: &Command) -> io::Result<()> {
        let Some((program, args)) = command.argv.split_first() else {
            return self.send(&Frame::Exit(127 << 8));
        };
        let mut child = std::process::Command::new(program);
        child
            .args(args)
            .envs(command.env.iter().map(|(k, v)| (k, v)))
            .current_dir("/root")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // In a session of its own: in this process's the end of any orphan would hang the command up while it has a stopped child.
        // This process has SIGCHLD blocked, which commands would inherit: a shell's `wait` then never ends.
        let prepare = || {
            setsid()?;
            Ok(SigSet::empty().thread_set_mask()?)
        };
        // SAFETY: both are async-signal-safe.
        unsafe { child.pre_exec(prepare) };
        let mut child = match child.spawn() {
            Ok(child) => child,
            Err(error) => return self.refuse(&program.to_string_lossy(), &error),
        };
        if let Some(stdin) = &child.stdin {
            fcntl(stdin, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        }
        self.running = Some(Running {
            pid: child.id() as i32,
            stdin: child.stdin.take(),
            input: Vec::new(),
            input_ended: false,
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            status: None,
        });
        Ok(())
    }

    /// The status and message that a shell gives for a program that cannot be started.
    fn refuse(&mut self, program: &str, error: &io::Error) -> io::Result<()> {
        let code = if error.kind() == ErrorKind::NotFound {
            127
        } else {
            126
        };
        let message = format!("sidelane testbed: {program}: {error}\n");
        self.send(&Frame::Stderr(message.into_bytes()))?;
        self.send(&Frame::Exit(code << 8))
    }

    /// Collects every process that ended; the command's end ends what it left behind.
    fn reap(&mut self) {
        while matches!(self.children.read_signal(), Ok(Some(_))) {}
        loop {
            let mut status = 0;
            // SAFETY: the status is a valid place to write to.
            let pid = unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if let Some(running) = self.running.as_mut().filter(|r| r.pid == pid) {
                running.status = Some(status);
                // Everything but this process: what holds the streams open would hold up the end.
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), Signal::SIGKILL);
            }
        }
    }

    /// Moves bytes between the command and the port; sends the status when all output went.
    fn carry(&mut self, ready: &Ready) -> io::Result<()> {
        let Some(running) = &mut self.running else {
            return Ok(());
        };
        if ready.stdin {
            running.feed();
        }
        if running.input_ended && running.input.is_empty() {
            running.stdin = None;
        }
        let out = if ready.stdout {
            take(&mut running.stdout)
        } else {
            Vec::new()
        };
        let err = if ready.stderr {
            take(&mut running.stderr)
        } else {
            Vec::new()
        };
        let silent = running.stdout.is_none() && running.stderr.is_none();
        let ended = running.status.filter(|_| silent);
        if !out.is_empty() {
            self.send(&Frame::Stdout(out))?;
        }
        if !err.is_empty() {
            self.send(&Frame::Stderr(err))?;
        }
        if let Some(status) = ended {
            self.running = None;
            self.send(&Frame::Exit(status))?;
        }
        Ok(())
    }

    /// Writes a whole frame, waiting for the host where it must.
    fn send(&mut self, frame: &Frame) -> io::Result<()> {
        let bytes = frame.encode().map_err(io::Error::other)?;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            match self.port.write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if retry(&error) => {
                    let mut fds = [PollFd::new(self.port.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut fds, PollTimeout::from(1000u16));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Running {
    /// Gives the command input; one that takes no more loses the rest.
    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.input) {
            Ok(written) => drop(self.input.drain(..written)),
            Err(error) if retry(&error) => {}
            Err(_) => {
                self.stdin = None;
                self.input.clear();
            }
        }
    }
}

/// Reads what is there; the stream goes when it ended.
fn take<R: Read>(stream: &mut Option<R>) -> Vec<u8> {
    let Some(reader) = stream else {
        return Vec::new();
    };
    let mut bytes = vec![0; 32 * 1024 - 64];
    match reader.read(&mut bytes) {
        Ok(length) if length > 0 => {
            bytes.truncate(length);
            bytes
        }
        Err(error) if retry(&error) => Vec::new(),
        Ok(_) | Err(_) => {
            *stream = None;
            Vec::new()
        }
    }
}

fn retry(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
