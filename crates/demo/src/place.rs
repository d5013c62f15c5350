//! Where an experiment is measured: on this machine, or on an emulated one that is booted for it.
//!
//! [`Place::emulated`] and [`Place::native`] are the reporting side; [`in_guest`] is the measuring part in the
//! emulated machine, where messages are lines on standard output and progress goes to standard error.

use crate::error::{During, Error, Result};
use crate::experiment::{Experiment, Message, Observer, measure, validate};
use crate::figures::Facts;
use crate::lines::{Lines, MachineFacts, from_line, to_line};
use serde::Serialize;
use sidelane_interface::say;
use sidelane_testbed::{Interrupt, Job, Kernel, Machine, Spec, smt};
use sidelane_topology::Topology;
use std::fmt::Debug;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The controllers of cgroups that cost something.
const CONTROLLERS: [&str; 7] = ["memory", "io", "pids", "cpuset", "misc", "rdma", "dmem"];
/// How often a part is measured until its machine lives.
const TRIES: u32 = 3;
/// To what share of its speed the host is kept by default.
const STEADY: f64 = 0.9;

/// Which machine is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Place {
    /// Cores of the emulated machine.
    #[arg(long, default_value_t = 2, value_name = "C")]
    cores: usize,
    /// Lanes of each core [default: 2].
    #[arg(long, value_name = "T")]
    lanes: Option<usize>,
    /// Speed of a lane when 1, 2, ... lanes of its core run [default: 1, 1/2, ... 1/T; 'sidelane demo' itself, with
    /// two lanes: 1, 0.63, measured for option pricing (FOF)].
    #[arg(long, value_delimiter = ',', value_name = "1,X,...")]
    thread_perf: Vec<f64>,
    /// `newest`, `oldest`, a version, or the path of a kernel image.
    #[arg(long, default_value = "newest", value_name = "VERSION|PATH")]
    kernel: String,
    /// Keep the host CPUs at this share of their speed, 0.2 to 0.9, whatever their neighbours do; 0: do not
    /// [default: 0.9 for root, with a host CPU for each core].
    #[arg(long, value_name = "SHARE", conflicts_with = "native")]
    steady: Option<f64>,
    /// Measure on this machine's own SMT instead (needs root).
    #[arg(long)]
    native: bool,
}

impl Place {
    /// Whether it is this machine.
    pub fn is_native(&self) -> bool {
        self.native
    }

    /// Measures on an emulated machine, with the programs that the experiment needs; what the guest says on standard
    /// error is handed to `tell`, as it comes. Where the experiment has parts, one machine after the other.
    ///
    /// # Errors
    /// A bad plan, a missing program, or a machine that failed.
    pub fn emulated<E: Experiment>(
        &self,
        plan: &mut E,
        sidelane: &Path,
        interrupt: Interrupt,
        tell: &mut dyn Write,
    ) -> Result<E::Document> {
        let thread_perf = self.emulated_speeds::<E>()?;
        plan.learn(&thread_perf, true);
        begin(plan, thread_perf.len(), tell)?;
        let spec = self.spec(sidelane, &thread_perf, interrupt)?;
        let parts = plan.parts();
        let told = match parts.is_empty() {
            true => booted(plan, spec, tell)?,
            false => {
                let mut whole = Told::default();
                for part in &parts {
                    whole.append(retried(|| {
                        let told = booted(part, spec.clone(), tell)?;
                        E::check(&told.findings).map(|()| told)
                    })?);
                }
                whole
            }
        };
        told.document(plan, Some(thread_perf))
    }

    /// Measures on this machine, as root, until `stop` is raised.
    ///
    /// # Errors
    /// Whatever fails.
    pub fn native<E: Experiment>(
        &self,
        plan: &mut E,
        sidelane: &Path,
        stop: &AtomicBool,
        tell: &mut dyn Write,
    ) -> Result<E::Document> {
        plan.learn(&self.thread_perf, false);
        let cores = Topology::read(Path::new("/"))?.online_by_core();
        let lanes = cores.iter().map(Vec::len).max().unwrap_or(1);
        begin(plan, lanes, tell)?;
        plan.check_native()?;
        let mut collector = Collector {
            told: Told::default(),
            tell,
        };
        measure(plan, sidelane, stop, &mut collector)?;
        collector.told.document(plan, None)
    }

    /// Speeds of the emulated machine's lanes.
    fn emulated_speeds<E: Experiment>(&self) -> Result<Vec<f64>> {
        let given = self.thread_perf.len();
        match (self.lanes, given) {
            (Some(lanes), 1..) if lanes != given => Err(Error::BadPlan(format!(
                "--thread-perf has {given} numbers for {lanes} lanes: one for each is needed"
            ))),
            (_, 1..) => Ok(self.thread_perf.clone()),
            (Some(lanes), 0) if lanes != E::THREAD_PERF.len() => Ok(smt::even_shares(lanes)),
            (_, 0) => Ok(E::THREAD_PERF.to_vec()),
        }
    }

    fn spec(&self, sidelane: &Path, thread_perf: &[f64], interrupt: Interrupt) -> Result<Spec> {
        let mut spec = Spec::new(sidelane.to_owned())?;
        spec.cores = self.cores;
        spec.thread_perf = thread_perf.to_vec();
        spec.kernel = Kernel::from(self.kernel.as_str());
        spec.steady = match self.steady {
            Some(share) => Some(share).filter(|share| *share != 0.0),
            None => sidelane_testbed::can_be_steady(&spec, STEADY)?.then_some(STEADY),
        };
        spec.interrupt = interrupt;
        Ok(spec)
    }
}

/// Refuses a bad plan, and says how long it takes.
fn begin<E: Experiment>(plan: &E, lanes: usize, tell: &mut dyn Write) -> Result<()> {
    validate(plan)?;
    let seconds = plan.seconds(lanes);
    let _ = writeln!(tell, "sidelane: measuring for about {seconds:.0} s");
    Ok(())
}

/// What `part` measured, at the first try whose machine lived, and that can be used.
fn retried<T>(mut part: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..TRIES {
        match part() {
            Err(
                error @ (Error::Testbed(sidelane_testbed::Error::Machine { .. })
                | Error::StoodStill(_)),
            ) => {
                say!("sidelane: {error}\nsidelane: measuring this part anew");
            }
            other => return other,
        }
    }
    part()
}

/// What the measuring part told from an emulated machine booted for it.
fn booted<E: Experiment>(
    plan: &E,
    mut spec: Spec,
    tell: &mut dyn Write,
) -> Result<Told<E::Finding>> {
    spec.add.extend(plan.programs()?);
    spec.modules.extend(plan.modules());
    // Host CPUs that fall asleep come back slowly, which would make `alone` look slow.
    spec.keep_host_awake = true;
    // Accounting that no setup uses costs emulated instructions at each switch and wake-up.
    let is_unused = |name: &&str| !E::CONTROLLERS.contains(name);
    let unused: Vec<&str> = CONTROLLERS.into_iter().filter(is_unused).collect();
    let unused = format!("cgroup_disable={}", unused.join(","));
    spec.kernel_args.extend(["psi=0".into(), unused]);
    let text = serde_json::to_string(plan).map_err(|source| Error::Message {
        text: "the plan".into(),
        source,
    })?;
    let words = ["sidelane"].iter().chain(E::COMMAND).copied();
    let job = Job::new(words.chain(["--in-guest", text.as_str()]));
    let mut machine = Machine::boot(&spec)?;
    let _ = writeln!(tell, "booted in {:.1} s", machine.boot_time().as_secs_f64());
    let mut lines = Lines::default();
    let status = machine.run(job, &mut lines, tell)?;
    if !status.success() {
        return Err(Error::Guest(status));
    }
    machine.power_off()?;
    let mut told = Told::default();
    lines
        .finish()?
        .into_iter()
        .for_each(|message| told.hear(message));
    Ok(told)
}

/// The measuring part in the guest; `plan` is the text that [`Place::emulated`] passed.
///
/// # Errors
/// Whatever fails.
pub fn in_guest<E: Experiment>(plan: &str, sidelane: &Path, stop: &AtomicBool) -> Result<()> {
    let plan: E = from_line(plan)?;
    validate(&plan)?;
    measure(&plan, sidelane, stop, &mut Printer)
}

/// What the measuring part told.
struct Told<F> {
    machine: Option<MachineFacts>,
    speeds: Vec<f64>,
    findings: Vec<F>,
    is_done: bool,
}

impl<F> Default for Told<F> {
    fn default() -> Told<F> {
        Told {
            machine: None,
            speeds: Vec::new(),
            findings: Vec::new(),
            is_done: false,
        }
    }
}

impl<F> Told<F> {
    fn hear(&mut self, message: Message<F>) {
        match message {
            Message::Machine(machine) => self.machine = Some(machine),
            Message::Speed(speed) => self.speeds.push(speed),
            Message::Found(finding) => self.findings.push(finding),
            Message::Done => self.is_done = true,
        }
    }

    /// With what the next part told.
    fn append(&mut self, next: Told<F>) {
        self.machine = next.machine;
        self.speeds.extend(next.speeds);
        self.findings.extend(next.findings);
        self.is_done = next.is_done;
    }

    fn document<E: Experiment<Finding = F>>(
        self,
        plan: &E,
        emulated: Option<Vec<f64>>,
    ) -> Result<E::Document> {
        let incomplete = |what: &str| Error::Incomplete(what.into());
        if !self.is_done {
            return Err(incomplete("the measuring part did not come to its end"));
        }
        let machine = self.machine.ok_or_else(|| incomplete("no machine"))?;
        let facts = Facts {
            machine,
            speeds: self.speeds,
            emulated,
        };
        plan.document(facts, self.findings)
    }
}

/// Keeps messages and passes progress on.
struct Collector<'a, F> {
    told: Told<F>,
    tell: &'a mut dyn Write,
}

impl<F> Observer<F> for Collector<'_, F> {
    fn message(&mut self, message: Message<F>) -> Result<()> {
        self.told.hear(message);
        Ok(())
    }

    fn progress(&mut self, text: &str) {
        let _ = writeln!(self.tell, "{text}");
    }
}

/// Writes messages on standard output and progress on standard error.
struct Printer;

impl<F: Serialize + Debug> Observer<F> for Printer {
    fn message(&mut self, message: Message<F>) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(to_line(&message)?.as_bytes())
            .and_then(|()| stdout.flush())
            .during(|| "writing a message".into())
    }

    fn progress(&mut self, text: &str) {
        say!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Site, Turn, testing};
    use serde::Deserialize;

    /// Tells each of its numbers, in each repetition, times the number of the repetition.
    #[derive(Debug, Serialize, Deserialize, clap::Args)]
    struct Numbers {
        #[arg(long, default_value_t = 2)]
        repetitions: u32,
        #[arg(long, value_delimiter = ',', default_values_t = [3, 4])]
        numbers: Vec<u32>,
    }

    impl Experiment for Numbers {
        const COMMAND: &'static [&'static str] = &["demo", "numbers"];
        type Setup = u32;
        type Finding = u32;
        type Rig = u32;
        type Document = (usize, Vec<u32>);

        fn repetitions(&self) -> u32 {
            self.repetitions
        }

        fn setups(&self, _lanes: usize) -> Vec<u32> {
            self.numbers.clone()
        }

        fn validate(&self) -> Result<()> {
            match self.numbers.contains(&0) {
                true => Err(Error::BadPlan("--numbers has a 0".into())),
                false => Ok(()),
            }
        }

        fn seconds(&self, _lanes: usize) -> f64 {
            0.0
        }

        fn set_up(&self, site: &mut Site<'_, u32>) -> Result<u32> {
            site.progress("set up");
            Ok(0)
        }

        fn measure(&self, rig: &mut u32, turn: Turn<u32>, site: &mut Site<'_, u32>) -> Result<()> {
            *rig += 1;
            site.found(turn.setup * (1 + turn.repetition))
        }

        fn finish(&self, rig: &mut u32, site: &mut Site<'_, u32>) -> Result<()> {
            site.found(*rig)
        }

        fn document(&self, facts: Facts, findings: Vec<u32>) -> Result<(usize, Vec<u32>)> {
            Ok((facts.machine.cores.len(), findings))
        }

        fn render(_document: &(usize, Vec<u32>)) -> String {
            String::new()
        }
    }

    /// A place as words on the command line have it.
    fn place(words: &str) -> Place {
        use clap::{Args, FromArgMatches};
        let command = Place::augment_args(clap::Command::new("demo"));
        let words = ["demo"].into_iter().chain(words.split_whitespace());
        Place::from_arg_matches(&command.try_get_matches_from(words).unwrap()).unwrap()
    }

    #[test]
    fn setups_take_turns_and_what_is_found_is_collected() {
        let (mut told, stop) = (Vec::new(), AtomicBool::new(false));
        let mut measure = |words| {
            let mut plan: Numbers = testing::plan(words);
            place("--native").native(&mut plan, Path::new("sidelane"), &stop, &mut told)
        };
        let (cores, found) = measure("").unwrap();
        assert!(cores > 0);
        assert_eq!(found, [3, 4, 8, 6, 4]);
        assert!(measure("--numbers 0").is_err() && measure("--repetitions 0").is_err());
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("set up\nrepetition 1/2: 3\n"), "{told}");
        assert!(
            told.ends_with("repetition 2/2: 4\nrepetition 2/2: 3\n"),
            "{told}"
        );
    }

    #[test]
    fn an_interrupt_ends_it() {
        let stop = AtomicBool::new(true);
        let mut plan: Numbers = testing::plan("");
        let place = place("--native");
        let result = place.native(&mut plan, Path::new("sidelane"), &stop, &mut Vec::new());
        assert!(matches!(result, Err(Error::Interrupted)));
    }

    #[test]
    fn what_did_not_come_to_its_end_is_no_result() {
        let of = |messages: &[Message<u32>]| {
            let mut told = Told::default();
            messages
                .iter()
                .cloned()
                .for_each(|message| told.hear(message));
            told.document(&testing::plan::<Numbers>(""), None)
        };
        let machine = Message::Machine(testing::facts(2).machine);
        let all = [
            machine,
            Message::Speed(1e6),
            Message::Found(5),
            Message::Done,
        ];
        assert_eq!(of(&all).unwrap(), (2, vec![5]));
        assert!(of(&all[..3]).is_err() && of(&all[1..]).is_err());
    }

    #[test]
    fn an_emulated_machine_has_the_speeds_asked_for() {
        let speeds = |words| place(words).emulated_speeds::<Numbers>().ok();
        assert_eq!(speeds(""), Some(vec![1.0, 0.5]));
        assert_eq!(speeds("--lanes 4"), Some(smt::even_shares(4)));
        assert_eq!(speeds("--thread-perf 1,0.7"), Some(vec![1.0, 0.7]));
        assert_eq!(
            speeds("--thread-perf 1,0.7 --lanes 2"),
            Some(vec![1.0, 0.7])
        );
        assert_eq!(speeds("--thread-perf 1,0.7 --lanes 3"), None);
    }

    #[test]
    fn a_part_is_tried_anew_only_if_its_machine_died() {
        let died = || {
            Error::Testbed(sidelane_testbed::Error::Machine {
                reason: "it ended".into(),
                console: String::new(),
            })
        };
        let tries = |fails: u32, error: &dyn Fn() -> Error| {
            let mut tried = 0;
            let result = retried(|| {
                tried += 1;
                if tried > fails { Ok(()) } else { Err(error()) }
            });
            (result.is_ok(), tried)
        };
        assert_eq!(tries(0, &died), (true, 1));
        assert_eq!(tries(2, &died), (true, 3));
        assert_eq!(tries(9, &died), (false, TRIES));
        assert_eq!(tries(1, &|| Error::StoodStill("all".into())), (true, 2));
        assert_eq!(
            tries(1, &|| Error::Incomplete("no runs".into())),
            (false, 1)
        );
    }

    #[test]
    fn a_plan_that_is_none_is_not_measured_in_the_guest() {
        let stop = AtomicBool::new(false);
        let refused = |plan| in_guest::<Numbers>(plan, Path::new("sidelane"), &stop).is_err();
        assert!(refused(r#"{"repetitions":0,"numbers":[1]}"#) && refused("five"));
    }
}
