//! The result: a file that other commands read.

use super::error::{Error, Result};
use super::kernels::Footprint;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Spread;
use sidelane_smt::thread_perf;
use sidelane_topology::{Topology, cpuinfo_field, json_mistake};
use std::fs;
use std::path::Path;

/// The version of the file's layout that is written and read.
pub const VERSION: u32 = 1;

/// threadPerf as measured on a machine, with how it was found.
///
/// Serialised, it is the calibration file. Only `version` and `thread_perf` must be in a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// The layout's [`VERSION`].
    pub version: u32,
    /// threadPerf of the fastest kind of core that has several lanes; valid: `[n - 1]` with n lanes
    /// running, the first 1, not increasing, above 0.
    pub thread_perf: Vec<f64>,
    /// Whether it can be relied on, and why not.
    #[serde(default)]
    pub confidence: Confidence,
    /// What could mislead: each a sentence.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The machine.
    #[serde(default)]
    pub machine: Machine,
    /// How it was measured.
    #[serde(default)]
    pub method: Method,
    /// The kinds of core that were measured, fastest first.
    #[serde(default)]
    pub groups: Vec<Group>,
}

/// Whether a result can be relied on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// Nothing speaks against it.
    #[default]
    High,
    /// The spread is larger than the effect, or others disturbed the measurement.
    Low,
}

/// The machine that was measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name as the kernel tells it.
    pub model: String,
    /// The kernel's release.
    pub kernel: String,
    /// Cores.
    pub cores: usize,
    /// Lanes online.
    pub lanes: usize,
    /// Whether it is a virtual machine: what it calls a core may be none.
    pub virtual_machine: bool,
}

/// How was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Method {
    /// Length of a run, ms; runs of a command last at least as long as the command.
    pub duration_ms: f64,
    /// Runs of each work at each density on each core.
    pub repetitions: u32,
    /// The user's command; nothing: the representative mix.
    pub command: Option<Vec<String>>,
}

/// Cores of one kind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// Kind of core by speed, 0 the fastest.
    pub tier: usize,
    /// Capacity of the fastest of them, of 1024.
    pub capacity: u32,
    /// Lanes of each.
    pub lanes: usize,
    /// Indices of the cores that were measured.
    pub cores: Vec<usize>,
    /// The valid threadPerf that is nearest to what was measured.
    pub thread_perf: Vec<f64>,
    /// By lanes running.
    pub densities: Vec<Density>,
    /// By kind of work.
    pub work: Vec<WorkSpeeds>,
    /// Memory of the kernels; nothing for a command.
    pub footprint: Option<Footprint>,
    /// Runs.
    pub runs: usize,
    /// Runs that others disturbed, also when repeated.
    pub disturbed_runs: usize,
    /// The most that others took of a lane in a run that counts, 0 to 1.
    pub taken_max: f64,
}

/// Speeds with some lanes of a core running.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Density {
    /// How many run.
    pub lanes: usize,
    /// Mean speed of these lanes relative to one alone, over repetitions and cores; all kinds of
    /// work weighted equally.
    pub measured: Spread,
    /// Whether threadPerf differs from the median, so that it is valid.
    pub clipped: bool,
    /// Whether the spread (max - min) is at most the effect (1 - median).
    pub clear: bool,
}

/// Speeds of one kind of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkSpeeds {
    /// Its name.
    pub name: String,
    /// `[n - 1]`: mean speed of a lane with n running relative to one alone, over repetitions and
    /// cores.
    pub speeds: Vec<Spread>,
}

impl Calibration {
    /// Lanes of a core.
    pub fn lanes(&self) -> usize {
        self.thread_perf.len()
    }

    /// Reads a calibration file.
    ///
    /// # Errors
    /// A file that cannot be read, is no JSON of this layout, or whose threadPerf is not valid.
    pub fn read(path: &Path) -> Result<Calibration> {
        let text = fs::read_to_string(path).map_err(|cause| Error::Unreadable {
            path: path.to_owned(),
            cause,
        })?;
        Calibration::parse(&text, path)
    }

    /// Reads the text of a calibration file.
    fn parse(text: &str, path: &Path) -> Result<Calibration> {
        /// What is looked at before the rest.
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let json = |error: serde_json::Error| {
            let (place, reason) = json_mistake(path, &error);
            Error::Malformed { place, reason }
        };
        let wrong = |reason: String| Error::Malformed {
            place: path.display().to_string(),
            reason,
        };
        let found: Versioned = serde_json::from_str(text).map_err(json)?;
        if found.version != VERSION {
            return Err(wrong(format!(
                "it is of version {}, and this program reads version {VERSION}",
                found.version
            )));
        }
        let read: Calibration = serde_json::from_str(text).map_err(json)?;
        match thread_perf::fault(&read.thread_perf) {
            None => Ok(read),
            Some(fault) => Err(wrong(format!("thread_perf is not valid: {fault}"))),
        }
    }

    /// The text of a calibration file.
    ///
    /// # Errors
    /// A number that JSON cannot hold.
    pub fn to_json(&self) -> Result<String> {
        match serde_json::to_string_pretty(self) {
            Ok(text) => Ok(text + "\n"),
            Err(error) => Err(Error::system("write the calibration", error)),
        }
    }
}

/// The machine below a root folder.
pub(super) fn machine(root: &Path, topology: &Topology) -> Machine {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let cpuinfo = read("proc/cpuinfo");
    let tree_model = || read("sys/firmware/devicetree/base/model");
    let model = cpuinfo_field(&cpuinfo, "model name").map_or_else(tree_model, str::to_owned);
    let model = model.trim_matches(['\0', '\n', ' ']);
    Machine {
        model: if model.is_empty() { "unknown" } else { model }.to_owned(),
        kernel: read("proc/sys/kernel/osrelease").trim().to_owned(),
        cores: topology.cores().len(),
        lanes: topology.online().len(),
        virtual_machine: cpuinfo_field(&cpuinfo, "flags")
            .is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_topology::{Builder, CoreSpec};

    fn read(text: &str) -> Result<Calibration> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("c.json");
        fs::write(&path, text).unwrap();
        Calibration::read(&path)
    }

    #[test]
    fn the_least_file_is_read_and_goes_round() {
        let least = read(r#"{"version": 1, "thread_perf": [1.0, 0.6]}"#).unwrap();
        assert_eq!((least.lanes(), least.confidence), (2, Confidence::High));
        assert_eq!(read(&least.to_json().unwrap()).unwrap(), least);
    }

    #[test]
    fn wrong_files_are_told_apart() {
        for (text, said) in [
            (
                "",
                "c.json:1:0: no calibration: EOF while parsing a value; write",
            ),
            (r#"{"thread_perf": [1.0]}"#, "missing field `version`"),
            (r#"{"version": 2, "thread_perf": [1.0]}"#, "reads version 1"),
            (r#"{"version": 1}"#, "missing field `thread_perf`"),
            (
                r#"{"version": 1, "thread_perf": [1, 1.2]}"#,
                "with 2 lanes is 1.2",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.is_input() && error.to_string().contains(said),
                "{error}"
            );
        }
        let error = Calibration::read(Path::new("/no/such")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/no/such: cannot read it: No such file"),
            "{error}"
        );
    }

    #[test]
    fn the_processor_is_named() {
        let root = tempfile::tempdir().unwrap();
        let cores = Builder::new().core(CoreSpec::new([0, 1]));
        let topology = cores.build().unwrap();
        assert_eq!(super::machine(root.path(), &topology).model, "unknown");
        fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/osrelease"), "6.12.1\n").unwrap();
        let cpuinfo = "processor\t: 0\nmodel name\t: A B: C\nflags\t\t: fpu hypervisor lm\n";
        fs::write(root.path().join("proc/cpuinfo"), cpuinfo).unwrap();
        let machine = super::machine(root.path(), &topology);
        assert_eq!(
            (machine.model.as_str(), machine.kernel.as_str()),
            ("A B: C", "6.12.1")
        );
        assert_eq!(
            (machine.cores, machine.lanes, machine.virtual_machine),
            (1, 2, true)
        );
    }
}
