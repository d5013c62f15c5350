//! The emulator: its command line, its process, and the one thing asked of its control socket.

use crate::clock;
use crate::emulator::Emulator;
use crate::error::{During, Error, Result};
use crate::kernel::Image;
use crate::spec::Spec;
use crate::threads::LaneThread;
use crate::wire;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use serde_json::Value;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long QEMU may take to answer on its control socket.
const ANSWER: Duration = Duration::from_secs(30);

/// A running emulator and this end of its sockets.
pub struct Qemu {
    process: OwnedFd,
    pid: u32,
    owner: Option<JoinHandle<()>>,
    /// Host and guest talk here (see [`crate::wire`]).
    pub link: UnixStream,
    /// The guest kernel's console.
    pub console: UnixStream,
    control: UnixStream,
}

/// The kernel's command line. See [`clock::kernel_words`] for what is about time.
///
/// - `panic=-1` with `-no-reboot`: a panic ends QEMU.
/// - `mitigations=off`: they cost emulated instructions and protect nothing here.
/// - `nokaslr`: addresses are the same in each boot.
/// - `random.trust_cpu=on`: no wait for entropy.
/// - `nowatchdog`: the lockup detectors wake every lane; sched_ext has a watchdog of its own.
/// - `noautogroup`: each command has a session of its own, whose tasks would be one group to the default scheduler.
/// - `cryptomgr.notests`: self-tests of ciphers that nobody uses take a third of a second.
pub fn kernel_arguments(spec: &Spec, kernel: &Image) -> String {
    // The host may stop the machine for longer than the 21 s after which RCU takes a CPU for stuck, upon
    // which the kernel ejects a scheduler. One that starves RCU's thread is ejected after 30 s anyway.
    let fixed = "console=ttyS0 panic=-1 mitigations=off nokaslr random.trust_cpu=on nowatchdog \
                 noautogroup cryptomgr.notests rcupdate.rcu_cpu_stall_timeout=60";
    let config = kernel
        .config
        .as_ref()
        .and_then(|path| std::fs::read_to_string(path).ok());
    let mut words = vec![fixed.to_string()];
    words.extend(clock::kernel_words(config.as_deref(), spec.counted_time));
    if !spec.console {
        // A serial console costs an exit to the emulator for every byte.
        words.push("quiet".into());
    }
    words.extend(spec.kernel_args.iter().cloned());
    words.join(" ")
}

impl Qemu {
    /// Starts the emulator, with a plug-in if one is given; what it says of itself goes to
    /// `messages`.
    pub fn start(
        spec: &Spec,
        emulator: &Emulator,
        plugin: Option<OsString>,
        kernel: &Image,
        initrd: &Path,
        messages: File,
    ) -> Result<Qemu> {
        let program = &emulator.program;
        let mut command = Command::new(program);
        for folder in &emulator.firmware {
            command.arg("-L").arg(folder);
        }
        command.args([
            "-nodefaults",
            "-no-user-config",
            "-no-reboot",
            "-display",
            "none",
        ]);
        let threads = if spec.counted_time { "single" } else { "multi" };
        command
            .arg("-accel")
            .arg(format!("tcg,thread={threads},tb-size=256"));
        if spec.counted_time {
            // while all lanes idle the clock goes on to the next timer at once
            command.args(["-icount", "shift=0,sleep=off"]);
            if let Some(turn) = spec.lane_turn {
                command.args(counted_turns(turn, spec.total_lanes()));
            }
        }
        if let Some(plugin) = plugin {
            command.arg("-plugin").arg(plugin);
        }
        command.args(["-name", "sidelane-testbed,debug-threads=on", "-cpu"]);
        command.arg(emulator.processor()?);
        command.arg("-smp").arg(format!(
            "{},sockets={},cores={},threads={}",
            spec.total_lanes(),
            spec.sockets,
            spec.cores,
            spec.lanes()
        ));
        command.arg("-m").arg(format!("{}M", spec.memory_mib));
        command
            .arg("-kernel")
            .arg(&kernel.path)
            .arg("-initrd")
            .arg(initrd);
        command.arg("-append").arg(kernel_arguments(spec, kernel));

        let (console, far_console) = pair()?;
        let (control, far_control) = pair()?;
        let (link, far_link) = pair()?;
        command
            .arg("-chardev")
            .arg(chardev("console", &far_console));
        command.args(["-serial", "chardev:console"]);
        command
            .arg("-chardev")
            .arg(chardev("control", &far_control));
        command.args(["-mon", "chardev=control,mode=control"]);
        // Without an ioeventfd the writing lane itself hands its bytes over; else it spins until
        // QEMU's main thread has a host CPU.
        command.args(["-device", "virtio-serial-pci,ioeventfd=off"]);
        command.arg("-chardev").arg(chardev("link", &far_link));
        command
            .arg("-device")
            .arg(format!("virtserialport,chardev=link,name={}", wire::PORT));

        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(messages);
        // Ctrl-C on the terminal goes to this process alone, which ends QEMU in order.
        command.process_group(0);
        prepare(
            &mut command,
            [&far_console, &far_control, &far_link].map(AsRawFd::as_raw_fd),
        );
        let (pid, process, owner) =
            spawn(command).during(|| format!("start {}", program.display()))?;
        Ok(Qemu {
            process,
            pid,
            owner: Some(owner),
            link,
            console,
            control,
        })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Ends the process and waits for its end; nothing if it ended already.
    pub fn kill(&mut self) {
        let Some(owner) = self.owner.take() else {
            return;
        };
        // By descriptor and not by number: the number may be another's by now.
        // SAFETY: the descriptor is open; no signal information is passed.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.process.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        let _ = owner.join();
    }

    /// The threads that run the lanes, in the order of the guest's CPU numbers.
    pub fn lane_threads(&mut self, spec: &Spec) -> Result<Vec<LaneThread>> {
        let silent = |what: &str| Error::Unsupported(format!("QEMU's control socket: {what}"));
        let stream = self
            .control
            .try_clone()
            .during(|| "share QEMU's control socket".into())?;
        stream
            .set_read_timeout(Some(ANSWER))
            .during(|| "set a time-out".into())?;
        let mut reader = BufReader::new(stream);
        let mut answer = |request: Option<&str>| -> Result<Value> {
            if let Some(name) = request {
                let text = format!("{{\"execute\":\"{name}\"}}\n");
                self.control
                    .write_all(text.as_bytes())
                    .map_err(|e| silent(&e.to_string()))?;
            }
            loop {
                let mut line = String::new();
                let length = reader
                    .read_line(&mut line)
                    .map_err(|e| silent(&e.to_string()))?;
                if length == 0 {
                    return Err(silent("closed"));
                }
                let value: Value =
                    serde_json::from_str(&line).map_err(|e| silent(&e.to_string()))?;
                if value.get("event").is_none() {
                    return Ok(value);
                }
            }
        };
        answer(None)?;
        answer(Some("qmp_capabilities"))?;
        let cpus = answer(Some("query-cpus-fast"))?;
        parse_lanes(&cpus, spec.cores).ok_or_else(|| silent(&format!("unexpected answer {cpus}")))
    }
}

/// Reads the answer to `query-cpus-fast`.
fn parse_lanes(answer: &Value, cores_per_socket: usize) -> Option<Vec<LaneThread>> {
    let mut lanes = Vec::new();
    for cpu in answer.get("return")?.as_array()? {
        let number = |name: &str| cpu.get("props")?.get(name)?.as_u64();
        let index = cpu.get("cpu-index")?.as_u64()?;
        let core = number("socket-id")? * cores_per_socket as u64 + number("core-id")?;
        let tid = i32::try_from(cpu.get("thread-id")?.as_i64()?).ok()?;
        lanes.push((
            index,
            LaneThread {
                tid,
                core: core as usize,
            },
        ));
    }
    lanes.sort_by_key(|(index, _)| *index);
    Some(lanes.into_iter().map(|(_, lane)| lane).collect())
}

/// Arguments for turns of this length where time is counted. All lanes run one after the other then, each for its part of the time until
/// the emulator's next timer, which may be the guest's next tick. So a timer rings once a round, that of a network filter on which
/// nothing is sent.
fn counted_turns(turn: Duration, lanes: usize) -> [String; 4] {
    let round_us = turn.as_micros() * lanes as u128;
    let filter = format!("filter-buffer,id=turns,netdev=nothing,interval={round_us}");
    ["-netdev", "hubport,id=nothing,hubid=0", "-object", &filter].map(str::to_string)
}

fn chardev(id: &str, fd: &OwnedFd) -> String {
    format!("socket,id={id},fd={}", fd.as_raw_fd())
}

fn pair() -> Result<(UnixStream, OwnedFd)> {
    let (near, far) = socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )
    .during(|| "create a socket".into())?;
    Ok((UnixStream::from(near), far))
}

impl Drop for Qemu {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts the process from a thread that lives as long as it does: the kernel sends the "parent
/// died" signal when the starting *thread* ends.
fn spawn(mut command: Command) -> std::io::Result<(u32, OwnedFd, JoinHandle<()>)> {
    let (tell, told) = std::sync::mpsc::channel();
    let owner = std::thread::Builder::new()
        .name("qemu-owner".into())
        .spawn(move || {
            let started = command.spawn().and_then(|child| {
                let process = open_process(child.id())?;
                Ok((child, process))
            });
            // This end's copies of the descriptors stay open until here.
            drop(command);
            match started {
                Ok((mut child, process)) => {
                    let _ = tell.send(Ok((child.id(), process)));
                    let _ = child.wait();
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        })?;
    let (pid, process) = told.recv().map_err(std::io::Error::other)??;
    Ok((pid, process, owner))
}

/// A descriptor of a process that was not collected yet.
fn open_process(pid: u32) -> std::io::Result<OwnedFd> {
    // SAFETY: a plain system call; what it returns is a new descriptor or negative.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    match i32::try_from(fd) {
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Lets the child keep these descriptors, and end with the thread that starts it.
fn prepare(command: &mut Command, fds: [i32; 3]) {
    let parent = std::process::id();
    let before_exec = move || {
        for fd in fds {
            // SAFETY: a plain system call on a descriptor that the parent holds open until after
            // the spawn.
            if unsafe { libc::fcntl(fd, libc::F_SETFD, 0) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
        if nix::unistd::getppid().as_raw() as u32 != parent {
            return Err(std::io::Error::other("the parent ended"));
        }
        Ok(())
    };
    // SAFETY: only async-signal-safe calls between fork and exec.
    unsafe { command.pre_exec(before_exec) };
}

/// What QEMU said, without the warning that every boot brings: the guest's kernel sees the siblings
/// all the same.
pub fn messages(file: &mut File) -> String {
    use std::io::Seek;
    let mut text = String::new();
    let _ = file.rewind().and_then(|()| file.read_to_string(&mut text));
    let known = |line: &&str| {
        !line.contains("doesn't support hyperthreading")
            && !line.contains("try enabling topoext feature")
    };
    text.lines().filter(known).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_told_by_socket_core_and_number() {
        let cpu = |index: u32, socket: u32, core: u32| {
            serde_json::json!({"cpu-index": index, "thread-id": 100 + index,
                "props": {"socket-id": socket, "core-id": core, "thread-id": index % 2}})
        };
        let answer = serde_json::json!({"return": [cpu(1, 0, 0), cpu(0, 0, 0), cpu(2, 1, 1)]});
        let lanes = parse_lanes(&answer, 2).unwrap();
        let got: Vec<_> = lanes.iter().map(|l| (l.tid, l.core)).collect();
        assert_eq!(got, [(100, 0), (101, 0), (102, 3)]);
        assert!(parse_lanes(&serde_json::json!({"error": {}}), 2).is_none());
    }
}
