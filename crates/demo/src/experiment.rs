//! An experiment is its setups, its measure and its columns: [`Experiment`]. All else is here, or in
//! [`crate::place`]: the order of the turns, progress, Ctrl-C, and what is told of the machine.

use crate::arguments::within;
use crate::arrivals::{self, Phase};
use crate::compute::{ComputeServer, Outcome};
use crate::error::{During, Error, Result};
use crate::figures::{Facts, Run};
use crate::lines::MachineFacts;
use crate::machine::{Cgroups, Machine};
use crate::reference;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sidelane_topology::Topology;
use std::fmt::{Debug, Display};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a pause looks whether it is to end.
const LOOK: Duration = Duration::from_millis(100);

/// An experiment. The value is its plan: what the measuring part is told, and what the command line says.
pub trait Experiment: clap::Args + Serialize + DeserializeOwned {
    /// The words after `sidelane` that measure it.
    const COMMAND: &'static [&'static str];
    /// The controllers of cgroups that it needs beside `cpu`; the emulated machine has no others.
    const CONTROLLERS: &'static [&'static str] = &[];
    /// Speed of an emulated lane when 1, 2, ... lanes of its core run, where nothing else is asked for.
    const THREAD_PERF: &'static [f64] = &[1.0, 0.5];

    /// What is compared.
    type Setup: Copy + PartialEq + Display;
    /// What measuring finds.
    type Finding: Serialize + DeserializeOwned + Debug;
    /// What is alive while measuring: processes, then the cgroups in which they are.
    type Rig;
    /// What is printed as JSON.
    type Document: Serialize;

    /// How often each setup is measured.
    fn repetitions(&self) -> u32;

    /// What is compared on a machine with so many lanes a core, in the order of the report.
    fn setups(&self, lanes: usize) -> Vec<Self::Setup>;

    /// What is measured, one after the other. The order of the setups rotates by one with each repetition, so
    /// that a machine whose speed drifts favours none of them.
    fn turns(&self, lanes: usize) -> Vec<Turn<Self::Setup>> {
        turns(&self.setups(lanes), 0..self.repetitions())
    }

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::BadPlan`].
    fn validate(&self) -> Result<()>;

    /// About how long it takes on a machine with so many lanes a core, s.
    fn seconds(&self, lanes: usize) -> f64;

    /// Learns the speeds of the lanes (empty: not known), and whether they are emulated.
    fn learn(&mut self, _thread_perf: &[f64], _is_emulated: bool) {}

    /// The programs that it needs.
    ///
    /// # Errors
    /// One is not installed.
    fn programs(&self) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    /// The kernel modules that the emulated machine needs.
    fn modules(&self) -> Vec<String> {
        Vec::new()
    }

    /// Its parts, where each wants an emulated machine of its own; none: one measures everything. A part
    /// whose machine dies, or that cannot be used, is measured anew.
    fn parts(&self) -> Vec<Self> {
        Vec::new()
    }

    /// Whether what a part measured can be used. If not it is measured anew.
    ///
    /// # Errors
    /// [`Error::StoodStill`].
    fn check(_findings: &[Self::Finding]) -> Result<()> {
        Ok(())
    }

    /// Refuses to measure on this machine itself.
    ///
    /// # Errors
    /// It has not what is needed, or the privilege is missing.
    fn check_native(&self) -> Result<()> {
        self.programs().map(drop)
    }

    /// Starts what is alive all along.
    ///
    /// # Errors
    /// Whatever fails; [`Error::Unsupported`]: the machine has not what is needed.
    fn set_up(&self, site: &mut Site<'_, Self::Finding>) -> Result<Self::Rig>;

    /// Sets the machine up, measures, and puts it back; the site is told what is found.
    ///
    /// # Errors
    /// Whatever fails.
    fn measure(
        &self,
        rig: &mut Self::Rig,
        turn: Turn<Self::Setup>,
        site: &mut Site<'_, Self::Finding>,
    ) -> Result<()>;

    /// What is left to do after the last turn.
    ///
    /// # Errors
    /// Whatever fails.
    fn finish(&self, _rig: &mut Self::Rig, _site: &mut Site<'_, Self::Finding>) -> Result<()> {
        Ok(())
    }

    /// Makes figures of what was found.
    ///
    /// # Errors
    /// [`Error::Incomplete`].
    fn document(&self, facts: Facts, findings: Vec<Self::Finding>) -> Result<Self::Document>;

    /// The page for people: its tables have the columns.
    fn render(document: &Self::Document) -> String;

    /// A drawing, and where it goes.
    fn drawing(&self, _document: &Self::Document) -> Option<(&Path, String)> {
        None
    }
}

/// One setup in one repetition (from 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn<S> {
    /// Which.
    pub setup: S,
    /// From 0.
    pub repetition: u32,
}

impl<S> Turn<S> {
    /// The run in which this was found.
    pub fn run<R>(self, found: R) -> Run<S, R> {
        Run {
            setup: self.setup,
            repetition: self.repetition,
            found,
        }
    }
}

/// Setups in turn, in an order that rotates with each of the repetitions.
pub fn turns<S: Copy>(setups: &[S], repetitions: std::ops::Range<u32>) -> Vec<Turn<S>> {
    let of = |repetition: u32| {
        let from = repetition as usize % setups.len().max(1);
        let rotated = setups.iter().cycle().skip(from).take(setups.len());
        rotated.map(move |&setup| Turn { setup, repetition })
    };
    repetitions.flat_map(of).collect()
}

/// What the measuring part tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message<F> {
    /// First of all: the machine.
    Machine(MachineFacts),
    /// The speed of a core, measured in between; units of work a second.
    Speed(f64),
    /// What was found.
    Found(F),
    /// Last of all.
    Done,
}

/// Hears of what is measured.
pub trait Observer<F> {
    /// A result.
    ///
    /// # Errors
    /// It cannot be passed on.
    fn message(&mut self, message: Message<F>) -> Result<()>;
    /// What is being done now, for people.
    fn progress(&mut self, text: &str);
}

/// Where an experiment is measured: the machine, and the way to tell what is found.
pub struct Site<'a, F> {
    /// The program itself, which is the servers and the scheduler, too.
    pub sidelane: &'a Path,
    /// What sysfs says.
    pub topology: Topology,
    /// Its cores.
    pub machine: Machine,
    /// Raised by Ctrl-C.
    pub stop: &'a AtomicBool,
    name: String,
    observer: &'a mut dyn Observer<F>,
}

impl<F> Site<'_, F> {
    /// Tells what was found.
    ///
    /// # Errors
    /// It cannot be passed on.
    pub fn found(&mut self, finding: F) -> Result<()> {
        self.observer.message(Message::Found(finding))
    }

    /// Tells what is being done now.
    pub fn progress(&mut self, text: &str) {
        self.observer.progress(text);
    }

    /// Fails when it is asked to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn go_on(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted),
            false => Ok(()),
        }
    }

    /// Sleeps, unless it is asked to stop.
    ///
    /// # Errors
    /// [`Error::Interrupted`].
    pub fn sleep(&self, length: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            self.go_on()?;
            match length.saturating_sub(start.elapsed()) {
                Duration::ZERO => return Ok(()),
                left => std::thread::sleep(LOOK.min(left)),
            }
        }
    }

    /// Takes and tells the speed of a core, from which demands are made; units of work a second.
    ///
    /// # Errors
    /// Whatever fails.
    pub fn speed(&mut self) -> Result<f64> {
        let units_per_core_s = reference::steady_compute_speed(&self.machine)?;
        self.observer.message(Message::Speed(units_per_core_s))?;
        Ok(units_per_core_s)
    }

    /// Makes the cgroups of the classes, and moves in.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn cgroups(&self) -> Result<Cgroups> {
        Cgroups::enter(&self.name)
    }

    /// The same with those of two pools.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn pools(&self) -> Result<Cgroups> {
        Cgroups::enter_pools(&self.name)
    }

    /// Starts the computing server, a worker for each lane, as critical.
    ///
    /// # Errors
    /// It does not start.
    pub fn critical_server(&self, cgroups: &Cgroups) -> Result<ComputeServer> {
        let server = ComputeServer::start(self.sidelane, self.machine.lane_count())?;
        cgroups.add("critical", server.pid())?;
        Ok(server)
    }
}

/// What requests the computing server is sent.
#[derive(Debug, Clone)]
pub struct Requests {
    /// Moments and demands.
    pub schedule: Vec<arrivals::Arrival>,
    /// Mean demand, units of work.
    pub mean_units: f64,
}

impl Requests {
    /// Of phases of constant load, each a share of all cores; their demands are so many ms of a core of that speed.
    pub fn new(
        machine: &Machine,
        units_per_core_s: f64,
        mean_demand_ms: f64,
        phases: &[Phase],
    ) -> Requests {
        let rate_per_load = machine.cores.len() as f64 * 1000.0 / mean_demand_ms;
        Requests {
            schedule: arrivals::in_phases(rate_per_load, phases),
            mean_units: units_per_core_s * mean_demand_ms / 1000.0,
        }
    }

    /// Sends them.
    ///
    /// # Errors
    /// The server fails, or it is asked to stop.
    pub fn send(&self, server: &mut ComputeServer, stop: &AtomicBool) -> Result<Outcome> {
        server.run(&self.schedule, self.mean_units, stop)
    }
}

/// Refuses a plan that makes no sense.
///
/// # Errors
/// [`Error::BadPlan`].
pub fn validate<E: Experiment>(plan: &E) -> Result<()> {
    within("--repetitions", plan.repetitions().into(), 1.0..)?;
    plan.validate()
}

/// Measures everything on this machine.
///
/// # Errors
/// Whatever fails; [`Error::Interrupted`] when `stop` is raised.
pub fn measure<E: Experiment>(
    plan: &E,
    sidelane: &Path,
    stop: &AtomicBool,
    observer: &mut dyn Observer<E::Finding>,
) -> Result<()> {
    let topology = Topology::read(Path::new("/"))?;
    let machine = Machine::of(&topology);
    let facts = facts(&machine)?;
    observer.message(Message::Machine(facts))?;
    let words = ["sidelane"].iter().chain(E::COMMAND).copied();
    let mut site = Site {
        sidelane,
        topology,
        machine,
        stop,
        name: words.collect::<Vec<_>>().join("-"),
        observer,
    };
    site.progress("starting, calibrating");
    let mut rig = plan.set_up(&mut site)?;
    let of = plan.repetitions();
    for turn in plan.turns(site.machine.lanes_max()) {
        site.go_on()?;
        let Turn { setup, repetition } = &turn;
        site.progress(&format!("repetition {}/{of}: {setup}", repetition + 1));
        plan.measure(&mut rig, turn, &mut site)?;
    }
    plan.finish(&mut rig, &mut site)?;
    site.observer.message(Message::Done)
}

/// The kernel, and the lanes of each core.
fn facts(machine: &Machine) -> Result<MachineFacts> {
    let path = "/proc/sys/kernel/osrelease";
    let kernel = fs::read_to_string(path).during(|| path.into())?;
    Ok(MachineFacts {
        kernel: kernel.trim().to_owned(),
        cores: machine.cores.clone(),
    })
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use sidelane_interface::Kind;

    /// The plan that these words on the command line make.
    pub fn plan<E: Experiment>(words: &str) -> E {
        let command = E::augment_args(clap::Command::new("demo"));
        let words = ["demo"].into_iter().chain(words.split_whitespace());
        E::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    /// The plan is one as it is without words. Each of these lines of words makes one that is refused; the message
    /// names the argument, which is the first word.
    pub fn plans_make_sense<E: Experiment>(refused: &[&str]) {
        assert!(validate(&plan::<E>("")).is_ok());
        for words in ["--repetitions 0"].iter().chain(refused) {
            let message = validate(&plan::<E>(words)).unwrap_err().to_string();
            let argument = words.split_whitespace().next().unwrap();
            assert!(message.contains(argument), "{words}: {message}");
        }
    }

    /// What the driver says of an emulated machine with so many cores of two lanes.
    pub fn facts(cores: u32) -> Facts {
        Facts {
            machine: MachineFacts {
                kernel: "7.0".into(),
                cores: (0..cores)
                    .map(|core| vec![2 * core, 2 * core + 1])
                    .collect(),
            },
            speeds: vec![1e6],
            emulated: Some(vec![1.0, 0.5]),
        }
    }

    /// Printed as JSON, it is described by the published schema to the last key.
    pub fn is_described(kind: Kind, document: &impl Serialize) {
        sidelane_interface::check::result(kind, document).unwrap();
    }

    /// A page that fits, with these lines' beginnings.
    pub fn fits<'a>(page: &str, beginnings: impl IntoIterator<Item = &'a str>) {
        let too_wide = page
            .lines()
            .find(|line| line.chars().count() > crate::table::WIDTH);
        assert_eq!(too_wide, None);
        assert!(page.contains("emulated SMT"), "{page}");
        for beginning in beginnings {
            assert!(
                page.contains(&format!("\n{beginning}")),
                "{beginning}: {page}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_setup_comes_at_each_place() {
        let setups = ['a', 'b', 'c'];
        let all = turns(&setups, 0..4);
        assert_eq!(all.len(), 12);
        let of = |repetition: usize| -> String {
            let own = all.iter().skip(3 * repetition).take(3);
            own.map(|turn| {
                assert_eq!(turn.repetition as usize, repetition);
                turn.setup
            })
            .collect()
        };
        assert_eq!([of(0), of(1), of(2), of(3)], ["abc", "bca", "cab", "abc"]);
        assert!(turns::<char>(&[], 0..3).is_empty());
    }
}
