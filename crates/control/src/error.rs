//! What can go wrong; each message names the place and the remedy.

use sidelane_collect::proc_stat;
use std::path::{Path, PathBuf};

/// An error of the control daemon.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder that cannot be used.
    #[error("{}: cannot {what} it: {source}{}", path.display(), remedy(source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// `/proc/stat` holds something else.
    #[error(transparent)]
    ProcStat(proc_stat::Error),
    /// A state file that this program did not write.
    #[error(
        "{place}: no state file of this version: {problem}; see that SMT is as it should be, then remove the file"
    )]
    State {
        /// The file, line and column.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// Another daemon is at work.
    #[error("another 'sidelane {}' holds {}; stop it first", command(path), path.display())]
    Running {
        /// The lock.
        path: PathBuf,
    },
    /// Lanes that would not go online or offline as asked.
    #[error("CPUs {cpus} are not {wanted} as asked: {problem}")]
    Refused {
        /// Which.
        cpus: sidelane_topology::CpuList,
        /// "online" or "offline".
        wanted: &'static str,
        /// The first refusal.
        problem: String,
    },
    /// Tasks that are not seen may be pinned to lanes that would be taken.
    #[error(
        "{} does not show all tasks (hidepid, or a PID namespace), so that pinned ones could lose their CPUs; run \
         outside the container and with CAP_SYS_PTRACE, mount it without hidepid, or use --actuator scheduler", proc.display()
    )]
    TasksHidden {
        /// The folder.
        proc: PathBuf,
    },
    /// It is not known where a task may run.
    #[error(
        "no lane is taken, as {} does not tell where the task may run: {problem}",
        shown(path)
    )]
    TaskUnknown {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A CPU manager counts on lanes that would be taken.
    #[error(
        "CPUs {cpus} must stay online: kubelet's static CPU manager counts on them ({}), and does not start again \
         without; use --actuator scheduler or kubelet's cpuManagerPolicy none (where kubelet is gone, remove the file)",
        shown(path)
    )]
    CpuManager {
        /// Its state file, or the folder of its cgroups.
        path: PathBuf,
        /// Lanes that would be taken.
        cpus: sidelane_topology::CpuList,
    },
    /// Cpusets that would lose for good the lanes that are taken.
    #[error(
        "no lane is taken, as cgroups below {} would lose it for good: cpusets of cgroup v1 do not get back what was \
         offline; use --actuator scheduler, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1)",
        shown(mount)
    )]
    CpusetsV1 {
        /// Where they are mounted.
        mount: PathBuf,
    },
    /// `/proc/stat` numbers CPUs otherwise than sysfs.
    #[error(
        "/proc/stat counts CPUs {counted}, and sysfs has {online} online: one of them shows a container's numbers \
         ({why}); run outside the container"
    )]
    ForeignNumbers {
        /// CPUs of `/proc/stat`.
        counted: sidelane_topology::CpuList,
        /// CPUs of sysfs.
        online: sidelane_topology::CpuList,
        /// How that was seen.
        why: &'static str,
    },
    /// threadPerf is not known for a machine like this.
    #[error(
        "no typical threadPerf is known for {0} lanes a core; measure it with 'sidelane calibrate', or give --thread-perf"
    )]
    ThreadPerfUnknown(usize),
    /// An objective that is none.
    #[error("{0}")]
    Objective(String),
    /// No lane for batch.
    #[error(
        "no core has more than one lane that is online and not reserved: there is no lane for batch"
    )]
    NoSecondLane,
    /// One cgroup holds the other.
    #[error("the cgroups {critical} and {batch} have to be apart; neither may hold the other")]
    Overlap {
        /// Of critical work.
        critical: String,
        /// Of batch.
        batch: String,
    },
    /// The machine cannot be read.
    #[error(transparent)]
    Topology(#[from] sidelane_topology::ReadError),
    /// Values that make no sense.
    #[error(transparent)]
    Model(#[from] sidelane_model::Error),
    /// Instructions cannot be counted any more.
    #[error(transparent)]
    Counters(#[from] sidelane_collect::counters::Error),
    /// What was counted makes no sense.
    #[error(transparent)]
    Rates(#[from] sidelane_smt::online::Error),
    /// The scheduler cannot be reached.
    #[error(transparent)]
    Scheduler(#[from] sidelane_kernel::Error),
    /// The lane signal cannot be kept, the scheduler cannot be attached, or a rule cannot be understood.
    #[error(transparent)]
    Signal(#[from] sidelane_sched::Error),
    /// Nothing can be counted.
    #[error(transparent)]
    Collector(#[from] sidelane_collect::Error),
    /// A rule that finds nothing.
    #[error(
        "'{rule}' finds no cgroup now; 'systemd-cgls' shows which there are, and only services that run have one"
    )]
    NoCgroup {
        /// The rule.
        rule: String,
    },
    /// A rule that finds several cgroups where one is wanted.
    #[error("'{rule}' finds several cgroups ({found}); name one of them")]
    SeveralCgroups {
        /// The rule.
        rule: String,
        /// Their paths.
        found: String,
    },
    /// The command that was to print latencies.
    #[error(
        "the latency command '{command}' {problem}; it is to print one number a line, in ms, and to end within the slot"
    )]
    LatencyCommand {
        /// As it was given.
        command: String,
        /// What is wrong.
        problem: String,
    },
    /// A rule that names no cgroups.
    #[error(
        "'{rule}': this command counts by cgroups; name unit:NAME, user-unit:NAME or cgroup:GLOB, and start other work \
         below one ('systemd-run --slice=batch.slice COMMAND')"
    )]
    NotByCgroup {
        /// The rule.
        rule: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Who holds a lock: its file is named after the command.
fn command(lock: &Path) -> String {
    lock.file_stem()
        .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned())
}

/// A path of any bytes, without harm to a terminal.
fn shown(path: &Path) -> String {
    sidelane_topology::printable(path.as_os_str().as_encoded_bytes())
}

fn remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied => "; run as root",
        std::io::ErrorKind::ReadOnlyFilesystem => {
            "; make it writable (in a container: run outside)"
        }
        _ => "",
    }
}

impl From<proc_stat::Error> for Error {
    fn from(error: proc_stat::Error) -> Error {
        match error {
            proc_stat::Error::Unreadable { path, cause } => Error::io("read", &path, cause),
            malformed @ proc_stat::Error::Malformed { .. } => Error::ProcStat(malformed),
        }
    }
}

impl Error {
    pub(crate) fn io(what: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        match self {
            Error::Scheduler(error) => error.is_machine(),
            Error::Signal(error) => error.is_machine(),
            Error::Collector(error) => error.is_machine(),
            Error::NoSecondLane
            | Error::TasksHidden { .. }
            | Error::TaskUnknown { .. }
            | Error::CpuManager { .. }
            | Error::CpusetsV1 { .. }
            | Error::ForeignNumbers { .. } => true,
            Error::Io { source, .. } => matches!(
                source.kind(),
                std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem
            ),
            _ => false,
        }
    }

    /// Is what the user gave at fault?
    pub fn is_input(&self) -> bool {
        match self {
            Error::Signal(error) => error.is_input(),
            _ => matches!(
                self,
                Error::Model(_)
                    | Error::ThreadPerfUnknown(_)
                    | Error::ProcStat(_)
                    | Error::State { .. }
                    | Error::Overlap { .. }
                    | Error::NoCgroup { .. }
                    | Error::SeveralCgroups { .. }
                    | Error::LatencyCommand { .. }
                    | Error::NotByCgroup { .. }
            ),
        }
    }
}
