//! What the kernel tells, where the time of the lanes goes; and its setting of halt polling.

use crate::error::{During, Result};
use crate::sys::{KernelSetting, cpu_time_ns};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// How many lanes were busy with what, on the mean of a run; the first three are all lanes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LaneUse {
    /// With I/O-bound processes or virtual CPUs, and their clients.
    pub io: f64,
    /// With computing ones.
    pub computing: f64,
    /// With nothing, lanes that are held, too; and with the kernel and whatever else runs.
    pub rest: f64,
    /// In all of these: with the scheduler's programs but its timers, which the kernel does not measure. 0 of the
    /// kernel's own scheduler, which is not told apart.
    pub scheduler: f64,
    /// How long one of these ran, us; none: none ran.
    pub scheduler_run_us: Option<f64>,
}

/// Totals, ns and a number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct LaneTime {
    pub io_ns: u64,
    pub computing_ns: u64,
    pub scheduler_ns: u64,
    pub scheduler_runs: u64,
}

impl LaneTime {
    /// Of these processes, up to now; `scheduler` holds the programs.
    pub fn read(
        io: &[Pid],
        computing: impl Iterator<Item = Pid>,
        scheduler: Option<Pid>,
    ) -> Result<LaneTime> {
        let (scheduler_ns, scheduler_runs) = scheduler.map_or(Ok((0, 0)), programs)?;
        Ok(LaneTime {
            io_ns: io
                .iter()
                .map(|pid| cpu_time_ns(*pid))
                .sum::<Result<u64>>()?,
            computing_ns: computing.map(cpu_time_ns).sum::<Result<u64>>()?,
            scheduler_ns,
            scheduler_runs,
        })
    }

    /// What was added to an earlier value, within a time, on so many lanes.
    pub fn since(&self, earlier: &LaneTime, passed_ns: u64, nr_lanes: usize) -> LaneUse {
        let lanes = |total: fn(&LaneTime) -> u64| {
            total(self).saturating_sub(total(earlier)) as f64 / passed_ns as f64
        };
        let runs = self.scheduler_runs.saturating_sub(earlier.scheduler_runs);
        let ran_ns = self.scheduler_ns.saturating_sub(earlier.scheduler_ns);
        let (io, computing) = (lanes(|time| time.io_ns), lanes(|time| time.computing_ns));
        LaneUse {
            io,
            computing,
            rest: nr_lanes as f64 - io - computing,
            scheduler: lanes(|time| time.scheduler_ns),
            scheduler_run_us: (runs > 0).then(|| ran_ns as f64 / runs as f64 / 1e3),
        }
    }
}

/// Lets the kernel measure how long BPF programs run, until the value goes.
pub(super) fn measure_programs() -> Result<KernelSetting> {
    let setting = KernelSetting::at(Path::new("/proc/sys/kernel/bpf_stats_enabled"))?;
    setting.set("1").map(|()| setting)
}

/// How long the BPF programs that a process holds ran, ns, and how often.
fn programs(pid: Pid) -> Result<(u64, u64)> {
    let folder = PathBuf::from(format!("/proc/{pid}/fdinfo"));
    let entries = std::fs::read_dir(&folder).during(|| folder.display().to_string())?;
    let (mut seen, mut ns, mut runs) = (Vec::new(), 0, 0);
    for entry in entries {
        let path = entry.during(|| folder.display().to_string())?.path();
        // A descriptor may be closed meanwhile.
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let field = |name| number(&text, name);
        let (Some(id), Some(ran_ns)) = (field("prog_id:"), field("run_time_ns:")) else {
            continue;
        };
        if !seen.contains(&id) {
            seen.push(id);
            ns += ran_ns;
            runs += field("run_cnt:").unwrap_or(0);
        }
    }
    Ok((ns, runs))
}

fn number(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim().parse().ok()
}

/// Halt polling: for so long the kernel's KVM watches a virtual CPU that halted, before it gives the lane away.
const PARAMETER: &str = "/sys/module/kvm/parameters/halt_poll_ns";
/// The kernel's default on x86, where it was switched off.
const USUAL_NS: u64 = 200_000;

/// Halt polling's setting, as it was when this value goes.
pub(super) struct HaltPolling(KernelSetting);

impl HaltPolling {
    pub(super) fn new() -> Result<HaltPolling> {
        HaltPolling::at(Path::new(PARAMETER))
    }

    fn at(file: &Path) -> Result<HaltPolling> {
        KernelSetting::at(file).map(HaltPolling)
    }

    /// Switches it on, with the time that it had if it had any, or off.
    pub(super) fn set(&self, on: bool) -> Result<()> {
        let usual = USUAL_NS.to_string();
        self.0.set(match (on, self.0.before()) {
            (false, _) => "0",
            (true, "0") => &usual,
            (true, before) => before,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn totals_become_lanes() {
        let before = LaneTime {
            io_ns: 5,
            ..LaneTime::default()
        };
        let after = LaneTime {
            io_ns: 1_000_000_005,
            computing_ns: 3_000_000_000,
            scheduler_ns: 100_000_000,
            scheduler_runs: 5_000,
        };
        let lanes = after.since(&before, 2_000_000_000, 4);
        assert_eq!((lanes.io, lanes.computing, lanes.rest), (0.5, 1.5, 2.0));
        assert_eq!(
            (lanes.scheduler, lanes.scheduler_run_us),
            (0.05, Some(20.0))
        );
        assert_eq!(before.since(&before, 1, 4).scheduler_run_us, None);
    }

    #[test]
    fn programs_are_told_by_their_descriptors() {
        let text = "pos:\t0\nprog_type:\t27\nprog_id:\t7\nrun_time_ns:\t1234\nrun_cnt:\t5\n";
        assert_eq!(number(text, "run_time_ns:"), Some(1234));
        assert_eq!(number("pos:\t0\n", "run_time_ns:"), None);
        assert_eq!(programs(Pid::this()).unwrap(), (0, 0));
    }

    #[test]
    fn it_is_restored() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let now = || fs::read_to_string(file.path()).unwrap();
        for (before, on) in [("0\n", "200000"), ("50000\n", "50000")] {
            fs::write(file.path(), before).unwrap();
            let polling = HaltPolling::at(file.path()).unwrap();
            polling.set(false).unwrap();
            assert_eq!(now(), "0");
            polling.set(true).unwrap();
            assert_eq!(now(), on);
            drop(polling);
            assert_eq!(now(), before.trim());
        }
        assert!(HaltPolling::at(Path::new("/nowhere")).is_err());
    }
}
