//! A booted machine: run commands in it, stream their output, get their status.

use crate::arrangement::Arrangement;
use crate::belongings::{Belongings, Keeper, Process};
use crate::emulator::{self, Emulator, Turns};
use crate::error::{During, Error, Result};
use crate::host;
use crate::kernel;
use crate::link::{Event, Link};
use crate::qemu::{self, Qemu};
use crate::quota::{LaneGroups, Shares};
use crate::rootfs;
use crate::spec::Spec;
use crate::steady;
use crate::threads::HostSettings;
use crate::wire::{self, Frame};
use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A guest that says nothing for this long has hung.
const SILENCE: Duration = Duration::from_secs(120);

/// The kernel's last words where the emulator has shown a lane code that another was rewriting (see [`crate::emulator`]).
const ASTRAY: &str = "Oops: int3";

/// How long the guest may take to switch off before it is ended.
const SWITCH_OFF: Duration = Duration::from_secs(10);

/// How often the host chooses anew where lanes cannot be made to take turns.
const METRONOME: Duration = Duration::from_micros(500);

/// A command for the guest.
#[derive(Debug, Default)]
pub struct Job {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<OwnedFd>,
    timeout: Option<Duration>,
}

impl Job {
    /// The program (looked up on the guest's PATH) and its arguments; no input, no time-out.
    pub fn new<S: AsRef<OsStr>>(argv: impl IntoIterator<Item = S>) -> Self {
        let argv = argv
            .into_iter()
            .map(|word| word.as_ref().to_os_string())
            .collect();
        Job {
            argv,
            ..Job::default()
        }
    }

    /// Adds a variable to the command's environment.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Forwards what can be read from this descriptor to the command's standard input.
    pub fn stdin(mut self, from: impl Into<OwnedFd>) -> Self {
        self.stdin = Some(from.into());
        self
    }

    /// Gives up after this time, counted from the command's start: [`Error::TimedOut`].
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    fn name(&self) -> String {
        self.argv
            .first()
            .map(|word| word.to_string_lossy().into_owned())
            .unwrap_or_default()
    }
}

/// A running machine. Dropping it ends it and removes all that belongs to it.
pub struct Machine {
    spec: Spec,
    link: Link,
    qemu: Qemu,
    messages: File,
    kernel: kernel::Image,
    boot_time: Duration,
    arrangement: Arrangement,
    keeper: Keeper,
}

impl Machine {
    /// Checks the specification, finds the kernel, and boots. Comes back when commands can be run.
    pub fn boot(spec: &Spec) -> Result<Machine> {
        let shares = shares(spec)?;
        host::check_architecture()?;
        if spec.steady.is_some() && shares.limit() {
            let why = "a steady host carries one emulated core a CPU: ask for no more cores than the host has CPUs, \
                       or leave out --steady";
            return Err(Error::BadSpec(why.into()));
        }
        let quotas = find_quotas(spec, shares)?;
        let kernel = kernel::find(&kernel::Wanted {
            kernel: &spec.kernel,
            modules: !spec.modules.is_empty(),
            interrupt: &spec.interrupt,
            notice: spec.notice,
        })?;
        let mut machine = match Machine::come_up(spec, kernel.clone()) {
            Err(error) if error.to_string().contains(ASTRAY) => {
                (spec.notice)("the emulator led the machine astray while it booted: once more");
                Machine::come_up(spec, kernel)
            }
            come => come,
        }?;
        if !spec.counted_time && !spec.floats {
            machine.arrangement.pin()?; // with counted time one thread carries all lanes
        }
        if let Some((place, shares)) = quotas {
            let lanes = machine.arrangement.lanes();
            let note = |all: &mut Belongings| place.belongings(lanes, shares, all);
            machine.keeper.note(note)?;
            place.apply(machine.qemu.pid(), lanes, shares)?;
        }
        machine
            .arrangement
            .keep_steady(spec.steady, &spec.thread_perf)?;
        machine.arrangement.keep_awake(spec.keep_host_awake)?;
        Ok(machine)
    }

    /// Comes back when commands can be run; an error ends the machine by dropping it.
    fn come_up(spec: &Spec, kernel: kernel::Image) -> Result<Machine> {
        let start = Instant::now();
        let mut machine = Machine::start(spec, kernel)?;
        machine.await_hello(start)?;
        machine.boot_time = start.elapsed();
        Ok(machine)
    }

    /// Puts the files together and starts QEMU.
    fn start(spec: &Spec, kernel: kernel::Image) -> Result<Machine> {
        let mut keeper = Keeper::start(&spec.sidelane)?;
        let folder = std::env::temp_dir().join(unique_name());
        keeper.note(|all| all.folders.push(folder.clone()))?;
        // what goes into the machine others may not be allowed to read
        (DirBuilder::new().mode(0o700).create(&folder))
            .during(|| format!("create {}", folder.display()))?;
        let initrd = folder.join("initrd");
        std::fs::write(&initrd, rootfs::build(spec, &kernel)?)
            .during(|| format!("write {}", initrd.display()))?;
        let mut messages = tempfile::tempfile().during(|| "create a temporary file".into())?;
        let copy = messages
            .try_clone()
            .during(|| "share a temporary file".into())?;
        let emulator = emulator::find(&spec.interrupt, spec.notice)?;
        let mut spec = spec.clone();
        let plugin = take_turns(&mut spec, &folder, &emulator)?;
        let mut qemu = Qemu::start(&spec, &emulator, plugin, &kernel, &initrd, copy)?;
        keeper.note(|all| all.process = Process::of(qemu.pid()))?;
        let lanes = qemu.lane_threads(&spec).map_err(|error| {
            let console = format!("QEMU said:\n{}", qemu::messages(&mut messages));
            Error::Machine {
                reason: error.to_string(),
                console,
            }
        })?;
        Ok(Machine {
            link: Link::new(&qemu, &spec)?,
            arrangement: Arrangement::new(&spec, lanes, qemu.pid())?,
            spec,
            qemu,
            messages,
            kernel,
            boot_time: Duration::ZERO,
            keeper,
        })
    }

    /// Keeps the host CPUs awake from now on, or no longer.
    pub fn set_keep_awake(&mut self, keep: bool) -> Result<()> {
        self.arrangement.keep_awake(keep)
    }

    /// Changes how the host's scheduler treats the machine's threads.
    pub fn set_host(&mut self, host: HostSettings) -> Result<()> {
        self.arrangement.set(host)
    }

    /// The kernel that booted.
    pub fn kernel(&self) -> &kernel::Image {
        &self.kernel
    }

    /// QEMU's process number.
    pub fn pid(&self) -> u32 {
        self.qemu.pid()
    }

    /// From the start of QEMU until the guest could run commands.
    pub fn boot_time(&self) -> Duration {
        self.boot_time
    }

    fn await_hello(&mut self, start: Instant) -> Result<()> {
        let deadline = start + self.spec.boot_timeout;
        loop {
            match self.link.next(Some(deadline), None)? {
                Event::Frame(Frame::Hello(version)) if version == wire::VERSION => return Ok(()),
                Event::Frame(other) => {
                    return Err(self.failure(&format!("the guest began with {other:?}")));
                }
                Event::StdinEnd => {}
                Event::Damaged(why) => return Err(self.failure(&why)),
                Event::Closed => return Err(self.failure("the machine did not come up")),
                Event::Deadline => {
                    let seconds = self.spec.boot_timeout.as_secs_f64();
                    return Err(
                        self.failure(&format!("the machine did not come up within {seconds} s"))
                    );
                }
            }
        }
    }

    /// Runs a command to its end. Output goes to the sinks as it comes; a sink's error ends the
    /// run. When the command ends, what it left running in the guest is ended too. Several commands
    /// can be run one after another.
    ///
    /// Fails with [`Error::Machine`] when the guest panics, switches off, or falls silent. After an
    /// error the machine is of no more use.
    pub fn run(
        &mut self,
        job: Job,
        stdout: &mut dyn Write,
        stderr: &mut dyn Write,
    ) -> Result<ExitStatus> {
        let name = job.name();
        let deadline = job.timeout.map(|limit| Instant::now() + limit);
        self.link.send(&Frame::Run(wire::Command {
            argv: job.argv,
            env: job.env,
        }))?;
        let mut stdin = job.stdin;
        if stdin.is_none() {
            self.link.send(&Frame::StdinEnd)?;
        }
        let mut heard = Instant::now();
        loop {
            let silence = heard + SILENCE;
            let until = deadline.map_or(silence, |limit| limit.min(silence));
            match self.link.next(Some(until), stdin.as_ref())? {
                Event::Frame(Frame::Stdout(bytes)) => sink(stdout, &bytes, "standard output")?,
                Event::Frame(Frame::Stderr(bytes)) => sink(stderr, &bytes, "standard error")?,
                Event::Frame(Frame::Exit(status)) => return Ok(ExitStatus::from_raw(status)),
                Event::Frame(Frame::Heartbeat) => {}
                Event::Frame(other) => {
                    return Err(self.failure(&format!("the guest sent {other:?}")));
                }
                Event::StdinEnd => stdin = None,
                Event::Damaged(why) => return Err(self.failure(&why)),
                Event::Closed => {
                    return Err(self.failure(&format!("the machine ended before `{name}` did")));
                }
                Event::Deadline if deadline.is_some_and(|limit| Instant::now() >= limit) => {
                    let seconds = job.timeout.unwrap_or_default().as_secs_f64();
                    return Err(Error::TimedOut {
                        command: name,
                        seconds,
                    });
                }
                Event::Deadline => {
                    let seconds = SILENCE.as_secs();
                    return Err(self.failure(&format!("the guest said nothing for {seconds} s")));
                }
            }
            // Not before the sinks took it: the time that they need is not the guest's silence.
            heard = Instant::now();
        }
    }

    /// Switches the guest off.
    pub fn power_off(mut self) -> Result<()> {
        self.link.send(&Frame::PowerOff)?;
        let deadline = Instant::now() + SWITCH_OFF;
        while !matches!(
            self.link.next(Some(deadline), None)?,
            Event::Closed | Event::Deadline
        ) {}
        Ok(())
    }

    /// What happened, with all that helps to understand it.
    fn failure(&mut self, reason: &str) -> Error {
        self.qemu.kill();
        self.link.drain_console();
        let mut console = self.link.console_tail();
        let said = qemu::messages(&mut self.messages);
        if !said.is_empty() {
            console.push_str(&format!("\nQEMU said:\n{said}"));
        }
        Error::Machine {
            reason: reason.to_string(),
            console,
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.qemu.kill();
        self.arrangement.tell_steadiness();
        for left in self.keeper.remove() {
            (self.spec.notice)(&format!("could not remove {left}"));
        }
    }
}

/// Whether the host can be kept at this share of its speed for this machine ([`Spec::steady`]).
///
/// # Errors
/// The host's CPUs cannot be told.
pub fn can_be_steady(spec: &Spec, share: f64) -> Result<bool> {
    let possible = steady::check(share, &spec.thread_perf).is_ok();
    Ok(nix::unistd::geteuid().is_root() && core_share(spec)? >= 1.0 && possible)
}

/// What quotas are to leave each lane of its core, and each core of a host CPU.
fn shares(spec: &Spec) -> Result<Shares> {
    let lane = spec.validate()?;
    let core = core_share(spec)?;
    Ok(Shares { lane, core })
}

/// What each core has of a host CPU: all of one, or as much as every other core.
fn core_share(spec: &Spec) -> Result<f64> {
    let cpus = host::allowed_cpus()?.len().max(1);
    Ok(1.0 / spec.total_cores().div_ceil(cpus).max(1) as f64)
}

/// Where quotas are to be set, and which; none where there is nothing to limit. A machine whose cores only
/// share host CPUs does without where that is impossible, with a notice.
fn find_quotas(spec: &Spec, shares: Shares) -> Result<Option<(LaneGroups, Shares)>> {
    if spec.counted_time || !shares.limit() {
        return Ok(None);
    }
    let place = LaneGroups::find(Path::new("/"), &unique_name());
    let cores = spec.total_cores();
    match place {
        Err(Error::Unsupported(why)) if shares.lane >= 1.0 => {
            (spec.notice)(&format!(
                "{cores} emulated cores share the host's CPUs and slow each other down: {why}"
            ));
            Ok(None)
        }
        place => {
            if shares.core < 1.0 {
                (spec.notice)(&format!(
                    "{cores} emulated cores share the host's CPUs: each gets {:.2} of one",
                    shares.core
                ));
            }
            Ok(Some((place?, shares)))
        }
    }
}

/// Makes sibling lanes take turns: the plug-in's argument, or a metronome where there is none.
fn take_turns(spec: &mut Spec, folder: &Path, emulator: &Emulator) -> Result<Option<OsString>> {
    let Some(turn) = spec
        .lane_turn
        .filter(|_| spec.lanes() > 1 && !spec.counted_time && !spec.floats)
    else {
        return Ok(None);
    };
    let turns = Turns::write(folder)?;
    if turns.loads_into(&emulator.program) {
        return Ok(Some(turns.argument(turn, spec.lanes())));
    }
    (spec.notice)(&format!(
        "hand-overs between sibling lanes will take longer: {} takes no plug-in (9.1 or later does)",
        emulator.program.display()
    ));
    spec.host.metronome.get_or_insert(METRONOME);
    Ok(None)
}

/// A name that no other machine has.
fn unique_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("sidelane-testbed-{}-{count}", std::process::id())
}

/// A command's status as a shell gives it: the exit status, or 128 and the number of the signal
/// that ended it.
pub fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn sink(to: &mut dyn Write, bytes: &[u8], name: &str) -> Result<()> {
    to.write_all(bytes)
        .and_then(|()| to.flush())
        .during(|| format!("write the guest's {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(libc::SIGKILL)), 137);
    }
}
