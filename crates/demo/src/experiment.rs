//! What all experiments share: a plan is measured on this machine, or on an emulated one that is booted
//! for it, and what is found is told in messages.
//!
//! [`emulated`] and [`native`] are the reporting side; [`in_guest`] is the measuring part in the emulated
//! machine, where messages are lines on standard output and progress goes to standard error.

use crate::error::{During, Error, Result};
use crate::lines::{Lines, MachineFacts, from_line, to_line};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Spread;
use sidelane_testbed::{Job, Machine, Spec};
use std::fmt::Debug;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The controllers of cgroups that cost something.
const CONTROLLERS: [&str; 7] = ["memory", "io", "pids", "cpuset", "misc", "rdma", "dmem"];

/// How often a part is measured until its machine lives.
const TRIES: u32 = 3;

/// A plan that can be measured.
pub trait Experiment: Serialize + DeserializeOwned {
    /// What the measuring part tells.
    type Message: Serialize + DeserializeOwned + Debug;

    /// The words after `sidelane` that measure it.
    const COMMAND: &'static [&'static str];

    /// The controllers of cgroups that it needs beside `cpu`; the emulated machine has no others.
    const CONTROLLERS: &'static [&'static str] = &[];

    /// Refuses what makes no sense.
    ///
    /// # Errors
    /// [`Error::BadPlan`].
    fn validate(&self) -> Result<()>;

    /// About how long it takes on a machine with so many lanes a core, s.
    fn seconds(&self, lanes: usize) -> f64;

    /// The programs that the emulated machine needs.
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
    fn check(_messages: &[Self::Message]) -> Result<()> {
        Ok(())
    }

    /// Refuses to measure on this machine itself.
    ///
    /// # Errors
    /// It has not what is needed, or the privilege is missing.
    fn check_native(&self) -> Result<()> {
        Ok(())
    }
}

/// An experiment with its measuring part.
pub trait Measure: Experiment {
    /// Measures everything on this machine. `sidelane` is the path of the program itself, which is the
    /// servers and the scheduler, too. Raising `stop` ends it with [`Error::Interrupted`].
    ///
    /// # Errors
    /// Whatever fails.
    fn measure(
        &self,
        sidelane: &Path,
        stop: &AtomicBool,
        observer: &mut dyn Observer<Self::Message>,
    ) -> Result<()>;
}

/// Who hears of what is measured.
pub trait Observer<M> {
    /// A result.
    ///
    /// # Errors
    /// It cannot be passed on.
    fn message(&mut self, message: M) -> Result<()>;
    /// What is being done now, for people.
    fn progress(&mut self, text: &str);
}

/// What the measuring part tells, where runs are all there is to tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message<R> {
    /// First of all: the machine.
    Machine(MachineFacts),
    /// The speed of a core, measured in between; units of work a second.
    Speed(f64),
    /// A run.
    Run(R),
    /// Last of all.
    Done,
}

/// What the results of every experiment begin with.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// Release of the kernel.
    pub kernel: String,
    /// Lanes of each core, CPU numbers.
    pub cores: Vec<Vec<u32>>,
    /// Speed of a core over the whole measurement, units of work a second.
    pub units_per_core_s: Spread,
}

impl Measured {
    /// Lanes of a core.
    pub fn lanes(&self) -> usize {
        self.cores.iter().map(Vec::len).max().unwrap_or(1)
    }

    /// The machine in words.
    pub(crate) fn heading(&self, emulated_smt: bool) -> String {
        let smt = match emulated_smt {
            true => ", emulated SMT",
            false => "",
        };
        let Measured { kernel, cores, .. } = self;
        format!("Linux {kernel}, lanes of the cores: {cores:?}{smt}")
    }
}

/// The machine, and all runs.
///
/// # Errors
/// The machine or its speed is missing.
pub fn collect<R: Clone>(messages: &[Message<R>]) -> Result<(Measured, Vec<R>)> {
    let incomplete = |what: &str| Error::Incomplete(what.into());
    let (mut machine, mut speeds, mut runs) = (None, Vec::new(), Vec::new());
    for message in messages {
        match message {
            Message::Machine(facts) => machine = Some(facts.clone()),
            Message::Speed(speed) => speeds.push(*speed),
            Message::Run(run) => runs.push(run.clone()),
            Message::Done => {}
        }
    }
    let MachineFacts { kernel, cores } = machine.ok_or_else(|| incomplete("no machine"))?;
    let measured = Measured {
        kernel,
        cores,
        units_per_core_s: Spread::of(&speeds).ok_or_else(|| incomplete("no speed"))?,
    };
    Ok((measured, runs))
}

/// Measures on an emulated machine: boots it as `spec` says, with the programs that the experiment
/// needs, and hands what the guest says on standard error to `tell`, as it comes. Where the experiment has
/// parts, one machine after the other.
///
/// # Errors
/// A bad plan, a missing program, or a machine that failed.
pub fn emulated<E: Experiment>(
    plan: &E,
    spec: Spec,
    tell: &mut dyn Write,
) -> Result<Vec<E::Message>> {
    plan.validate()?;
    let parts = plan.parts();
    if parts.is_empty() {
        return booted(plan, spec, tell);
    }
    let mut messages = Vec::new();
    for part in &parts {
        let measured = retried(|| {
            let measured = booted(part, spec.clone(), tell)?;
            E::check(&measured).map(|()| measured)
        });
        messages.extend(measured?);
    }
    Ok(messages)
}

/// What `part` measured, at the first try whose machine lived, and that can be used.
fn retried<M>(mut part: impl FnMut() -> Result<M>) -> Result<M> {
    for _ in 1..TRIES {
        match part() {
            Err(
                error @ (Error::Testbed(sidelane_testbed::Error::Machine { .. })
                | Error::StoodStill(_)),
            ) => {
                eprintln!("sidelane: {error}\nsidelane: measuring this part anew");
            }
            other => return other,
        }
    }
    part()
}

fn booted<E: Experiment>(
    plan: &E,
    mut spec: Spec,
    tell: &mut dyn Write,
) -> Result<Vec<E::Message>> {
    spec.add.extend(plan.programs()?);
    spec.modules.extend(plan.modules());
    // Host CPUs that fall asleep come back slowly, which would make `alone` look slow.
    spec.keep_host_awake = true;
    // Accounting that no configuration uses costs emulated instructions at each switch and wake-up.
    let unused = CONTROLLERS
        .iter()
        .filter(|name| !E::CONTROLLERS.contains(name));
    let unused: Vec<&str> = unused.copied().collect();
    spec.kernel_args.push("psi=0".into());
    spec.kernel_args
        .push(format!("cgroup_disable={}", unused.join(",")));
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
    lines.finish()
}

/// The measuring part in the guest; `plan` is the text that [`emulated`] passed.
///
/// # Errors
/// Whatever fails.
pub fn in_guest<E: Measure>(plan: &str, sidelane: &Path, stop: &AtomicBool) -> Result<()> {
    let plan: E = from_line(plan)?;
    plan.validate()?;
    plan.measure(sidelane, stop, &mut Printer)
}

/// Measures on this machine, as root.
///
/// # Errors
/// Whatever fails.
pub fn native<E: Measure>(
    plan: &E,
    sidelane: &Path,
    stop: &AtomicBool,
    tell: &mut dyn Write,
) -> Result<Vec<E::Message>> {
    plan.validate()?;
    plan.check_native()?;
    let mut collector = Collector {
        messages: Vec::new(),
        tell,
    };
    plan.measure(sidelane, stop, &mut collector)?;
    Ok(collector.messages)
}

/// Keeps messages and passes progress on.
struct Collector<'a, M> {
    messages: Vec<M>,
    tell: &'a mut dyn Write,
}

impl<M> Observer<M> for Collector<'_, M> {
    fn message(&mut self, message: M) -> Result<()> {
        self.messages.push(message);
        Ok(())
    }

    fn progress(&mut self, text: &str) {
        let _ = writeln!(self.tell, "{text}");
    }
}

/// Writes messages on standard output and progress on standard error.
struct Printer;

impl<M: Serialize + Debug> Observer<M> for Printer {
    fn message(&mut self, message: M) -> Result<()> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(to_line(&message)?.as_bytes())
            .and_then(|()| stdout.flush())
            .during(|| "writing a message".into())
    }

    fn progress(&mut self, text: &str) {
        eprintln!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells each of its numbers as a run.
    #[derive(Serialize, Deserialize)]
    struct Numbers(Vec<u32>);

    impl Experiment for Numbers {
        type Message = Message<u32>;
        const COMMAND: &'static [&'static str] = &["demo", "numbers"];

        fn validate(&self) -> Result<()> {
            match self.0.is_empty() {
                true => Err(Error::BadPlan("no numbers".into())),
                false => Ok(()),
            }
        }

        fn seconds(&self, _lanes: usize) -> f64 {
            0.0
        }
    }

    impl Measure for Numbers {
        fn measure(
            &self,
            _sidelane: &Path,
            _stop: &AtomicBool,
            observer: &mut dyn Observer<Message<u32>>,
        ) -> Result<()> {
            observer.progress("counting");
            observer.message(Message::Machine(MachineFacts {
                kernel: "7.0".into(),
                cores: vec![vec![0, 2], vec![1]],
            }))?;
            observer.message(Message::Speed(1e6))?;
            for number in &self.0 {
                observer.message(Message::Run(*number))?;
            }
            observer.message(Message::Done)
        }
    }

    #[test]
    fn what_is_measured_here_is_collected() {
        let (mut told, stop) = (Vec::new(), AtomicBool::new(false));
        let mut measure = |numbers: &[u32]| {
            let plan = Numbers(numbers.to_vec());
            native(&plan, Path::new("sidelane"), &stop, &mut told)
        };
        let messages = measure(&[3, 4]).unwrap();
        assert!(matches!(measure(&[]), Err(Error::BadPlan(_))));
        assert_eq!(told, b"counting\n");
        let (measured, runs) = collect(&messages).unwrap();
        assert_eq!((runs, measured.lanes()), (vec![3, 4], 2));
        assert!(collect(&messages[1..]).is_err(), "no machine");
        let no_speed = [messages[0].clone(), Message::Done];
        assert!(collect(&no_speed).is_err());
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
        assert!(refused("[]") && refused("five"));
    }
}
