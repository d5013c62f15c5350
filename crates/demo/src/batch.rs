//! The batch work: processes that compress, or multiply matrices, without end.
//!
//! As many as lanes. A compressor is a gzip that is given the name of the same text file so often that it
//! will not come to the end of its arguments, so that nothing has to be fed or restarted; work done is the
//! input that it has read. A multiplier ([`crate::multiply`]) counts its multiplications. The same
//! processes, mostly with the policy `SCHED_IDLE` and in the batch cgroup, live through all configurations and are
//! stopped where none is wanted.

use crate::error::{During, Error, Result};
use crate::multiply::Totals;
use crate::sys::{Guarded, find_program, make_idle_policy, pin};
use crate::vm::{Duty, Vm, VmPlan};
use nix::sys::signal::Signal;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of the text file, bytes: far more than gzip's window, little for a memory file system.
const TEXT_BYTES: usize = 1 << 20;
/// How often each process is given the file: 30 GB, minutes of work for a fast core.
const TIMES: usize = 30_000;
/// How long stopping may take to show.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What to say when the compressor is not installed.
pub const MISSING: Error = Error::MissingProgram {
    program: "gzip",
    package: "gzip",
    or: "",
};

/// The processes, stopped or running.
pub struct Batch {
    workers: Vec<Worker>,
    // Held for its files; removed with it.
    _folder: tempfile::TempDir,
}

/// A process, and how it is known what it has done.
enum Worker {
    /// That is what it has read.
    Compressor(Guarded),
    /// It keeps that in a file.
    Multiplier(Guarded, PathBuf),
    /// Its memory tells.
    Vm(Vm),
}

impl Worker {
    fn process(&self) -> &Guarded {
        match self {
            Worker::Compressor(process) | Worker::Multiplier(process, _) => process,
            Worker::Vm(vm) => vm.process(),
        }
    }

    fn work_done(&self) -> Result<u64> {
        match self {
            Worker::Compressor(process) => bytes_read_by(process.pid()),
            Worker::Multiplier(_, file) => Ok(Totals::read(file)?.multiplications),
            Worker::Vm(vm) => vm.work_done(),
        }
    }

    fn naps(&self) -> Result<u64> {
        match self {
            Worker::Multiplier(_, file) => Ok(Totals::read(file)?.naps),
            Worker::Compressor(_) | Worker::Vm(_) => Ok(0),
        }
    }
}

impl Batch {
    /// Starts `count` compressors, stopped.
    pub fn start(count: usize, seed: u64) -> Result<Batch> {
        let batch = Batch::start_normal(count, seed)?;
        batch.pids().try_for_each(make_idle_policy)?;
        Ok(batch)
    }

    /// The same with the policy and the niceness of any program.
    pub fn start_normal(count: usize, seed: u64) -> Result<Batch> {
        let gzip = find_program("gzip").ok_or(MISSING)?;
        let folder = folder_in_memory()?;
        let path = folder.path().join("t");
        fs::write(&path, text_to_compress(TEXT_BYTES, seed))
            .during(|| path.display().to_string())?;
        let start = |_| {
            let process = start_compressor(&gzip, folder.path(), &path)?;
            Ok(Worker::Compressor(process))
        };
        let workers = (0..count).map(start).collect::<Result<_>>()?;
        Batch::stopped(workers, folder)
    }

    /// Starts `count` multipliers (the program at `sidelane`), stopped.
    pub fn multiplying(count: usize, sidelane: &Path) -> Result<Batch> {
        let folder = folder_in_memory()?;
        let start_one = |number: usize| {
            let totals_file = folder.path().join(number.to_string());
            let mut command = Command::new(sidelane);
            command.args(["demo", "multiply"]).arg(&totals_file);
            let process = start(&mut command, "the matrix multiplication")?;
            Ok(Worker::Multiplier(process, totals_file))
        };
        let workers = (0..count).map(start_one).collect::<Result<_>>()?;
        let batch = Batch::stopped(workers, folder)?;
        batch.pids().try_for_each(make_idle_policy)?;
        Ok(batch)
    }

    /// Starts `count` virtual machines of one virtual CPU (the program at `sidelane`), stopped; with the
    /// policy and the niceness of any program.
    pub fn virtual_machines(count: usize, sidelane: &Path) -> Result<Batch> {
        let folder = folder_in_memory()?;
        let start_one = |number: usize| {
            let plan = VmPlan {
                vcpus: 1,
                duty: Duty::Multiply,
                memory: folder.path().join(number.to_string()),
            };
            Vm::start(sidelane, &plan).map(Worker::Vm)
        };
        let workers = (0..count).map(start_one).collect::<Result<_>>()?;
        Batch::stopped(workers, folder)
    }

    fn stopped(workers: Vec<Worker>, folder: tempfile::TempDir) -> Result<Batch> {
        let batch = Batch {
            workers,
            _folder: folder,
        };
        batch.stop()?;
        Ok(batch)
    }

    /// The process identifiers.
    pub fn pids(&self) -> impl Iterator<Item = nix::unistd::Pid> + '_ {
        self.workers.iter().map(|worker| worker.process().pid())
    }

    /// Lets the first `count` processes go on.
    pub fn resume(&self, count: usize) -> Result<()> {
        let mut first = self.workers.iter().take(count);
        first.try_for_each(|worker| worker.process().signal(Signal::SIGCONT))
    }

    /// Stops all processes, and waits until they have stopped.
    pub fn stop(&self) -> Result<()> {
        self.workers
            .iter()
            .try_for_each(|worker| worker.process().signal(Signal::SIGSTOP))?;
        let deadline = Instant::now() + STOP_PATIENCE;
        for pid in self.pids() {
            while state_of(pid)? != 'T' {
                if Instant::now() > deadline {
                    let reason =
                        format!("process {pid} is in state {} after SIGSTOP", state_of(pid)?);
                    return Err(Error::Process {
                        who: "batch",
                        reason,
                    });
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Pins process n to the n-th of these lanes, in turn.
    pub fn pin_each(&self, lanes: &[u32]) -> Result<()> {
        self.pids()
            .zip(lanes.iter().cycle())
            .try_for_each(|(pid, &lane)| pin(pid, &[lane]))
    }

    /// Lets all processes run on all these lanes.
    pub fn unpin(&self, lanes: &[u32]) -> Result<()> {
        self.pids().try_for_each(|pid| pin(pid, lanes))
    }

    /// What all processes have done since they started: bytes of input, or multiplications.
    ///
    /// gzip reads 32 KiB at a time: so exact is each process's figure.
    pub fn work_done(&self) -> Result<u64> {
        Ok(self.work_done_each()?.iter().sum())
    }

    /// The same of each process.
    pub fn work_done_each(&self) -> Result<Vec<u64>> {
        self.workers.iter().map(Worker::work_done).collect()
    }

    /// How often all processes have left a lane since they started, asleep or not.
    pub fn switches(&self) -> Result<u64> {
        self.pids().map(crate::sys::switches).sum()
    }

    /// How often all processes have stepped aside by themselves since they started; compressors never do.
    pub fn naps(&self) -> Result<u64> {
        self.workers.iter().map(Worker::naps).sum()
    }
}

fn start_compressor(gzip: &Path, folder: &Path, text: &Path) -> Result<Guarded> {
    let mut command = Command::new(gzip);
    // A short relative name: the whole list must fit into an argument area.
    // The fastest level: the finer is work counted in time.
    command.current_dir(folder).args(["-1", "-c"]);
    command.args(std::iter::repeat_n(
        text.file_name().unwrap_or_default(),
        TIMES,
    ));
    start(&mut command, "gzip")
}

/// Starts a process that reads nothing and whose output goes nowhere.
fn start(command: &mut Command, who: &'static str) -> Result<Guarded> {
    let null = File::options()
        .write(true)
        .open("/dev/null")
        .during(|| "/dev/null".into())?;
    command.stdin(Stdio::null()).stdout(null);
    Guarded::spawn(command, who)
}

/// A folder in memory, where there is one.
pub(crate) fn folder_in_memory() -> Result<tempfile::TempDir> {
    let shared = Path::new("/dev/shm");
    let folder = match shared.is_dir() {
        true => tempfile::tempdir_in(shared),
        false => tempfile::tempdir(),
    };
    folder.during(|| "making a folder in memory".into())
}

/// The one-letter state in `/proc/PID/stat`.
fn state_of(pid: nix::unistd::Pid) -> Result<char> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).during(|| path.clone())?;
    stat.rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next())
        .ok_or_else(|| Error::Unsupported(format!("{path}: no state in {stat:?}")))
}

/// `rchar` of `/proc/PID/io`.
pub(crate) fn bytes_read_by(pid: nix::unistd::Pid) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).during(|| path.clone())?;
    text.lines()
        .find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
        .ok_or_else(|| Error::Unsupported(format!("{path}: no rchar in {text:?}")))
}

/// Different words.
const WORDS: usize = 8192;

/// Words of a made-up language, as uneven in frequency as a real one's: at least `bytes` of text, always the same for the same seed.
fn text_to_compress(bytes: usize, seed: u64) -> String {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let words: Vec<String> = (0..WORDS).map(|_| word(&mut random)).collect();
    let mut text = String::with_capacity(bytes + 16);
    // Natural language: the n-th most frequent word has about 1/n of the first one's frequency.
    let Ok(ranks) = Zipf::new(WORDS as f64, 1.0) else {
        return text;
    };
    let mut in_sentence = 0;
    while text.len() < bytes {
        let rank = ranks.sample(&mut random) as usize;
        text.push_str(words.get(rank.saturating_sub(1)).map_or("", String::as_str));
        in_sentence += 1;
        if in_sentence >= 8 && random.random_bool(0.2) {
            text.push_str(".\n");
            in_sentence = 0;
        } else {
            text.push(' ');
        }
    }
    text
}

/// A word of one to five syllables.
fn word(random: &mut Pcg64Mcg) -> String {
    let mut word = String::new();
    for _ in 0..random.random_range(1..=5) {
        for letters in ["bcdfghklmnprstvw", "aeiou"] {
            let letters: Vec<char> = letters.chars().collect();
            let index = random.random_range(0..letters.len());
            word.extend(letters.get(index));
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_only_while_not_stopped() {
        let batch = Batch::start(2, 1).unwrap();
        let stopped = batch.work_done().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(batch.work_done().unwrap(), stopped);
        batch.resume(2).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while batch.work_done().unwrap() < stopped + (4 << 20) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        batch.stop().unwrap();
        let done = batch.work_done().unwrap();
        // More than the file's own size was read: it goes on from one file to the next.
        assert!(done >= stopped + (4 << 20));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(batch.work_done().unwrap(), done);
    }

    #[test]
    fn the_processes_go_with_the_value() {
        let batch = Batch::start(1, 1).unwrap();
        let pid = batch.pids().next().unwrap();
        drop(batch);
        assert!(nix::sys::signal::kill(pid, None).is_err());
    }

    #[test]
    fn it_is_long_enough_and_reproducible() {
        let text = text_to_compress(100_000, 1);
        assert!((100_000..100_100).contains(&text.len()));
        assert_eq!(text, text_to_compress(100_000, 1));
        assert_ne!(text, text_to_compress(100_000, 2));
    }

    #[test]
    fn frequent_words_are_much_more_frequent() {
        let text = text_to_compress(200_000, 1);
        let mut counts = std::collections::HashMap::new();
        for word in text.split([' ', '.', '\n']).filter(|word| !word.is_empty()) {
            *counts.entry(word).or_insert(0usize) += 1;
        }
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        assert!(counts.len() > 1000);
        assert!(
            counts[0] > 50 * counts[999],
            "{} {}",
            counts[0],
            counts[999]
        );
    }
}
