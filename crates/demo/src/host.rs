//! The reporting side: boots the emulated machine, has everything measured in it, collects messages.

use crate::batch;
use crate::driver::{self, Observer};
use crate::error::{During, Error, Result};
use crate::message::{Lines, Message, from_line, to_line};
use crate::plan::{Configuration, Plan, Workload};
use crate::redis;
use crate::sys::find_program;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sidelane_testbed::{Job, Machine, Spec};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Measures everything in the plan on an emulated machine: boots it as `spec` says (the programs
/// that the workloads need are added), and hands what the guest says
/// on standard error to `tell`, as it comes.
pub fn measure_emulated(plan: &Plan, mut spec: Spec, tell: &mut dyn Write) -> Result<Vec<Message>> {
    plan.validate()?;
    spec.add.extend(programs(plan)?);
    emulated(plan, &["demo", "--in-guest"], spec, tell)
}

/// Boots the emulated machine, runs `sidelane` there with arguments of which the plan is the last, and
/// collects the messages that it writes on standard output.
pub(crate) fn emulated<M: DeserializeOwned>(
    plan: &impl Serialize,
    arguments: &[&str],
    mut spec: Spec,
    tell: &mut dyn Write,
) -> Result<Vec<M>> {
    // Host CPUs that fall asleep come back slowly, which would make `alone` look slow.
    spec.keep_host_awake = true;
    // Accounting that no configuration uses costs emulated instructions at each switch and wake-up.
    spec.kernel_args.extend(
        [
            "psi=0",
            "cgroup_disable=memory,io,pids,cpuset,misc,rdma,dmem",
        ]
        .map(String::from),
    );
    let text = serde_json::to_string(plan).map_err(|source| Error::Message {
        text: "the plan".into(),
        source,
    })?;
    let words = ["sidelane"].iter().chain(arguments).copied();
    let mut machine = Machine::boot(&spec)?;
    let _ = writeln!(tell, "booted in {:.1} s", machine.boot_time().as_secs_f64());
    let mut lines = Lines::default();
    let job = Job::new(words.chain([text.as_str()]));
    let status = machine.run(job, &mut lines, tell)?;
    if !status.success() {
        return Err(Error::Guest(status));
    }
    machine.power_off()?;
    lines.finish()
}

/// Measures everything in the plan on this machine, which must have SMT.
pub fn measure_native(
    plan: &Plan,
    sidelane: &Path,
    stop: &AtomicBool,
    tell: &mut dyn Write,
) -> Result<Vec<Message>> {
    plan.validate()?;
    check_native(plan)?;
    let mut collector = Collector {
        messages: Vec::new(),
        tell,
    };
    driver::measure(plan, sidelane, stop, &mut collector)?;
    Ok(collector.messages)
}

fn check_native(plan: &Plan) -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::Unsupported(
            "--native needs root: for cgroups, SMT control, tracing".into(),
        ));
    }
    let machine = crate::machine::Machine::of(&sidelane_topology::Topology::read(Path::new("/"))?);
    let needs_smt = plan
        .configurations
        .iter()
        .any(|c| *c != Configuration::Alone);
    if needs_smt && !machine.has_smt() {
        return Err(Error::Unsupported(
            "no core of this machine has more than one lane online: nothing to show; leave out \
             --native to use the emulated machine"
                .into(),
        ));
    }
    Ok(())
}

/// The programs to have in the guest.
fn programs(plan: &Plan) -> Result<Vec<PathBuf>> {
    let mut programs = vec![find_program("gzip").ok_or(batch::MISSING)?];
    if plan.workloads.contains(&Workload::Redis) {
        programs.push(find_program("redis-server").ok_or(redis::MISSING)?);
    }
    Ok(programs)
}

/// Keeps messages and passes progress on.
struct Collector<'a> {
    messages: Vec<Message>,
    tell: &'a mut dyn Write,
}

impl Observer for Collector<'_> {
    fn message(&mut self, message: Message) -> Result<()> {
        self.messages.push(message);
        Ok(())
    }

    fn progress(&mut self, text: &str) {
        let _ = writeln!(self.tell, "{text}");
    }
}

/// Writes messages on standard output and progress on standard error: the measuring part in the
/// guest.
pub struct Printer;

impl Observer for Printer {
    fn message(&mut self, message: Message) -> Result<()> {
        print(&message)
    }

    fn progress(&mut self, text: &str) {
        eprintln!("{text}");
    }
}

/// Writes a message on standard output.
pub(crate) fn print<M: Serialize + std::fmt::Debug>(message: &M) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(to_line(message)?.as_bytes())
        .and_then(|()| stdout.flush())
        .during(|| "writing a message".into())
}

/// The measuring part in the guest; `plan` is the text that the reporting part passed.
pub fn measure_in_guest(plan: &str, sidelane: &Path, stop: &AtomicBool) -> Result<()> {
    driver::measure(&from_line(plan)?, sidelane, stop, &mut Printer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_are_real_files() {
        let plan = Plan {
            workloads: vec![Workload::Compute],
            ..Plan::default()
        };
        let programs = programs(&plan).unwrap();
        assert!(programs.iter().all(|path| path.is_file()));
    }
}
