//! The machine that is asked for.

use crate::error::{Error, Interrupt, Result};
use crate::smt;
use crate::steady;
use crate::threads::HostSettings;
use sidelane_interface::say;
use std::path::PathBuf;
use std::time::Duration;

/// The most lanes a machine may have: what QEMU's default board takes.
const MAX_LANES: usize = 255;

/// A turn by default: see `examples/hand_over.rs` for what others do.
const LANE_TURN: Duration = Duration::from_micros(100);
/// Shorter turns would be spent on handing over.
const LANE_TURN_MIN: Duration = Duration::from_micros(10);

/// Which kernel boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// The newest one that the distribution offers.
    Newest,
    /// The oldest one.
    Oldest,
    /// One of the distribution's, by the beginning of its version: `7.0`, `6.18.15`.
    Version(String),
    /// A kernel image of one's own. Its modules are looked for in `/lib/modules`, its configuration
    /// beside it and in `/boot`.
    Path(PathBuf),
}

impl From<&str> for Kernel {
    /// A name with a slash is a path, `newest` and `oldest` are these, anything else a version.
    fn from(text: &str) -> Self {
        match text {
            "newest" => Kernel::Newest,
            "oldest" => Kernel::Oldest,
            path if path.contains('/') => Kernel::Path(path.into()),
            version => Kernel::Version(version.to_string()),
        }
    }
}

/// A machine to boot. Fill in what differs from [`Spec::new`].
#[derive(Clone, Debug)]
pub struct Spec {
    /// Sockets (packages).
    pub sockets: usize,
    /// Cores of each socket.
    pub cores: usize,
    /// Speed of one lane when 1, 2, … lanes of its core run, relative to running alone. As many
    /// numbers as a core has lanes; the first is 1. See [`crate::smt`] for what can be delivered.
    pub thread_perf: Vec<f64>,
    /// Memory, MiB.
    pub memory_mib: u64,
    /// The kernel.
    pub kernel: Kernel,
    /// Files (or folders) of this machine to have in the guest, under the same absolute path, with
    /// the libraries they need; programs are also linked from `/usr/bin`.
    pub add: Vec<PathBuf>,
    /// Kernel modules to load at boot, with those they depend on.
    pub modules: Vec<String>,
    /// Added to the kernel's command line.
    pub kernel_args: Vec<String>,
    /// The `sidelane` program: it is in the guest as `/usr/bin/sidelane`, and the guest's first
    /// process.
    pub sidelane: PathBuf,
    /// How long booting may take.
    pub boot_timeout: Duration,
    /// Copy the kernel's console to standard error as it comes.
    pub console: bool,
    /// Where the kernel's whole console log goes, if anywhere.
    pub console_log: Option<PathBuf>,
    /// Keep the host CPUs awake with idle-class spinners while the machine runs: for measurements.
    pub keep_host_awake: bool,
    /// Keep the host CPUs at this share of their speed ([`crate::steady::SHARES`]), so that neighbours of a virtual
    /// machine are not seen; none leaves them as they are. Needs privilege, and a host CPU for each core. It makes
    /// threadPerf, too, without quotas and of any shape.
    pub steady: Option<f64>,
    /// Let the guest's clock go by the instructions that are executed, a nanosecond each: the host's speed is
    /// not seen, and a measurement repeats nearly exactly. All lanes of the machine share that time, one after the
    /// other, so nothing is emulated of SMT.
    pub counted_time: bool,
    /// Let lanes run on any CPU of the host's that is free: of SMT the machine has the shape alone. For what measures no times, which
    /// is done sooner.
    pub floats: bool,
    /// How long a lane runs before it yields to a busy sibling, at least 10 µs; none leaves that to
    /// the host's scheduler, which hands over on its tick. Where QEMU cannot be made to yield
    /// (before version 9.1), the host is made to choose anew every half millisecond instead. With [`Spec::counted_time`]: before the
    /// next lane runs.
    pub lane_turn: Option<Duration>,
    /// How the host's scheduler is to treat the machine's threads.
    pub host: HostSettings,
    /// Raised from elsewhere to stop whatever goes on.
    pub interrupt: Interrupt,
    /// Is told, a sentence at a time, what takes long and what is amiss; prints on standard error
    /// unless replaced.
    pub notice: fn(&str),
}

impl Spec {
    /// Two cores with two lanes each, {1, 0.5}, 1 GiB, the newest kernel. `sidelane` is the path of
    /// the `sidelane` program (for the command itself: [`std::env::current_exe`]).
    pub fn new(sidelane: impl Into<PathBuf>) -> Result<Self> {
        Ok(Spec {
            sockets: 1,
            cores: 2,
            thread_perf: smt::even_shares(2),
            memory_mib: 1024,
            kernel: Kernel::Newest,
            add: Vec::new(),
            modules: Vec::new(),
            kernel_args: Vec::new(),
            sidelane: sidelane.into(),
            boot_timeout: Duration::from_secs(120),
            console: false,
            console_log: None,
            keep_host_awake: false,
            steady: None,
            counted_time: false,
            floats: false,
            lane_turn: Some(LANE_TURN),
            host: HostSettings::recommended(),
            interrupt: Interrupt::new()?,
            notice: |text| say!("sidelane: {text}"),
        })
    }

    /// Lanes of each core.
    pub fn lanes(&self) -> usize {
        self.thread_perf.len()
    }

    /// Cores of the whole machine.
    pub fn total_cores(&self) -> usize {
        self.sockets * self.cores
    }

    /// Lanes of the whole machine.
    pub fn total_lanes(&self) -> usize {
        self.total_cores() * self.lanes()
    }

    /// Checks everything that can be known without booting; gives each lane's quota as a share of a
    /// host CPU: all of one where a steady host makes threadPerf.
    pub fn validate(&self) -> Result<f64> {
        let bad = |text: String| Err(Error::BadSpec(text));
        if self.sockets == 0 || self.cores == 0 {
            return bad("a machine needs at least one socket and one core".into());
        }
        let lanes = self
            .sockets
            .saturating_mul(self.cores)
            .saturating_mul(self.lanes());
        if lanes > MAX_LANES {
            return bad(format!("{lanes} lanes are too many: at most {MAX_LANES}"));
        }
        if self.memory_mib < 256 {
            return bad(format!(
                "{} MiB of memory are too little: at least 256",
                self.memory_mib
            ));
        }
        if self.lane_turn.is_some_and(|turn| turn < LANE_TURN_MIN) {
            return bad("lanes cannot take turns shorter than 10 µs".into());
        }
        if (self.counted_time || self.floats)
            && (self.steady.is_some() || self.thread_perf != smt::even_shares(self.lanes()))
        {
            return bad("with --counted-time or --float there is no threadPerf and no speed of the host: leave out \
                 --thread-perf and --steady, or these"
                .into());
        }
        for path in &self.add {
            if !path.exists() {
                return bad(format!("--add {}: no such file", path.display()));
            }
            if ["/proc", "/sys", "/dev"]
                .iter()
                .any(|own| path.starts_with(own))
            {
                return bad(format!(
                    "--add {}: the guest has its own there",
                    path.display()
                ));
            }
        }
        match self.steady {
            None => smt::quota_share(&self.thread_perf),
            Some(share) => {
                smt::check(&self.thread_perf)?;
                steady::check(share, &self.thread_perf)?;
                Ok(1.0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_two_cores_of_two_lanes() {
        let spec = Spec::new("sidelane").unwrap();
        assert_eq!(
            (spec.total_cores(), spec.lanes(), spec.total_lanes()),
            (2, 2, 4)
        );
        assert_eq!(spec.validate().unwrap(), 1.0);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let refused = |change: fn(&mut Spec), word: &str| {
            let mut spec = Spec::new("sidelane").unwrap();
            change(&mut spec);
            let text = spec.validate().unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        };
        refused(|s| s.cores = 0, "one core");
        refused(|s| s.cores = usize::MAX, "too many");
        refused(|s| s.memory_mib = 10, "at least 256");
        refused(|s| s.lane_turn = Some(Duration::ZERO), "10 µs");
        refused(|s| s.add.push("/no/such/file".into()), "/no/such/file");
        refused(|s| s.add.push("/proc/version".into()), "its own there");
        refused(
            |s| (s.counted_time, s.steady) = (true, Some(0.9)),
            "--steady",
        );
        refused(|s| s.thread_perf = vec![0.5], "begins with 0.5");
    }

    #[test]
    fn a_kernel_is_named_by_version_or_path() {
        assert_eq!(Kernel::from("newest"), Kernel::Newest);
        assert_eq!(Kernel::from("oldest"), Kernel::Oldest);
        assert_eq!(Kernel::from("7.0"), Kernel::Version("7.0".into()));
        assert_eq!(Kernel::from("./vmlinuz"), Kernel::Path("./vmlinuz".into()));
    }
}
