//! The tables `[[configuration]]`.

use super::Configuration;
use super::Context;
use super::control::control;
use super::pools;
use super::values::name;
use crate::simulation::Kind;
use crate::{Baseline, Behaviour, Charge, Machine, Sidelane, Workload};
use sidelane_policy::file::{Result, Section, Shape, Value, alternatives, similar};
use sidelane_policy::settings;
use sidelane_policy::{Borrow, Settings, UseCounters};
use std::sync::LazyLock;

/// Most lanes of a core that `smt` can leave.
const CORE_LANES_MAX: usize = 1024;
const IN_SETTINGS: &str = "[configuration.settings]";

pub(super) static CONFIGURATION: LazyLock<Shape> = LazyLock::new(|| Shape {
    title: "[[configuration]]",
    form: "tables [[configuration]]",
    keys: &[
        "name",
        "scheduler",
        "without",
        "only",
        "smt",
        "control",
        "pool_charge",
        "settings",
    ],
    elsewhere: settings::keys()
        .iter()
        .map(|key| (*key, IN_SETTINGS))
        .collect::<Vec<_>>()
        .leak(),
});

/// The kernel's own scheduler, as far as it is simulated.
pub(super) fn kernel_default() -> Kind {
    Kind::Baseline(Baseline::Eevdf)
}

/// What is compared when a file does not say: Sidelane as it comes, with all workloads.
pub(super) fn sole(context: &Context, workloads: &[Workload]) -> Result<Configuration> {
    let settings = settings(None, context.machine)?;
    Ok(Configuration {
        name: "sidelane".into(),
        scheduler: Kind::Sidelane(sidelane(settings, context, context.machine, None)),
        smt: None,
        control: None,
        workloads: (0..workloads.len()).collect(),
    })
}

/// Reads a `[[configuration]]`.
pub(super) fn configuration(
    section: &Section,
    context: &Context,
    workloads: &[Workload],
) -> Result<Configuration> {
    let machine = context.machine;
    let words = [
        "sidelane",
        "default",
        "sibling-first",
        "last-lane",
        "cfs",
        "cfs-groups",
        "fifo",
    ];
    let word = section.need("scheduler", &alternatives(&words))?;
    let word = word.word(&words.map(|word| (word, word)))?;
    let taking_part = taking_part(section, workloads)?;
    check_served(section, workloads, &taking_part)?;
    let smt = match section.get("smt") {
        None => None,
        Some(value) => {
            let lanes = lanes(value)?;
            if let Some(lanes) = lanes {
                check_first_lanes(value, lanes, machine, workloads, &taking_part)?;
            }
            lanes
        }
    };
    let there = smt.map_or(machine.clone(), |lanes| machine.with_lanes(lanes));
    let scheduler = scheduler(section, word, context, &there)?;
    let control = section.get("control").map(|value| {
        if matches!(&scheduler, Kind::Sidelane(it) if it.settings.smt_level > 0) {
            return Err(
                value.error("control stands beside smt_level, which it sets; leave that out")
            );
        }
        check_first_lanes(value, 1, machine, workloads, &taking_part)?;
        control(value, &there)
    });
    Ok(Configuration {
        name: section.get("name").map_or(Ok(word.to_owned()), name)?,
        scheduler,
        smt,
        control: control.transpose()?,
        workloads: taking_part,
    })
}

/// `there` is the machine with the lanes that are left.
fn scheduler(section: &Section, word: &str, context: &Context, there: &Machine) -> Result<Kind> {
    let (settings, charge) = (section.get("settings"), section.get("pool_charge"));
    if word != "sidelane"
        && let Some(value) = settings.or(charge)
    {
        return Err(value.error(format!(
            "{} is for scheduler = \"sidelane\", not for {word:?}; leave it out",
            value.key()
        )));
    }
    Ok(match word {
        "sidelane" => {
            let charge = charge.map(|value| value.word_of(&Charge::WORDS));
            let charge = charge.transpose()?.map(|index| Charge::ALL[index]);
            let settings = self::settings(settings, context.machine)?;
            Kind::Sidelane(sidelane(settings, context, there, charge))
        }
        "default" => kernel_default(),
        "sibling-first" => Kind::Baseline(Baseline::SiblingFirst),
        "cfs" => Kind::Baseline(Baseline::Cfs { groups: false }),
        "cfs-groups" => Kind::Baseline(Baseline::Cfs { groups: true }),
        "last-lane" => Kind::Baseline(Baseline::LastLane),
        _ => Kind::Baseline(Baseline::Fifo),
    })
}

/// Settings as the table has them, if there is one. Unless it says otherwise, lanes have no counters that the
/// scheduler reads, and it is told how fast shared lanes are where that matters: where cores are not equally
/// fast, lanes are held, or a budget is dynamic.
fn settings(value: Option<Value>, machine: &Machine) -> Result<Settings> {
    let mut settings = Settings::default();
    let section = value.map(|value| value.section(&settings::SHAPE));
    let section = section.transpose()?;
    if let Some(section) = &section {
        settings::read(section, &mut settings)?;
    }
    let says = |key| section.as_ref().and_then(|section| section.get(key));
    if says("counters").is_none() {
        settings.counters = UseCounters::Off;
    }
    let dynamic = settings.budget.borrow == Borrow::Dynamic;
    if says("thread_perf").is_none() && (settings.retain || dynamic || is_hybrid(machine)) {
        settings.thread_perf = machine.thread_perf().to_vec();
    }
    match says("borrow") {
        // all of it is charged until counters show what is lost
        Some(value)
            if dynamic
                && settings.thread_perf.is_empty()
                && settings.counters == UseCounters::Off =>
        {
            Err(value.error(format!("borrow = \"dynamic\" {}", settings::NEEDS_SPEEDS)))
        }
        _ => Ok(settings),
    }
}

/// Are there cores that the scheduler does not take as equally fast?
fn is_hybrid(machine: &Machine) -> bool {
    let mut capacities = machine.cores.iter().map(|core| core.tier_capacity);
    let first = capacities.next();
    capacities.any(|capacity| Some(capacity) != first)
}

/// With the pools, and what is needed to charge them.
fn sidelane(
    settings: Settings,
    context: &Context,
    there: &Machine,
    charge: Option<Charge>,
) -> Sidelane {
    let pools = match settings.only_batch() {
        true => Vec::new(), // the kernel's scheduler has most of their tasks
        false => pools::on_machine(context.pools, there, charge),
    };
    let thread_perf = match settings.thread_perf.is_empty() && !pools.is_empty() {
        true => context.machine.thread_perf().to_vec(),
        false => settings.thread_perf,
    };
    let settings = Settings {
        thread_perf,
        ..settings
    };
    Sidelane { settings, pools }
}

/// Indices of the workloads that take part.
fn taking_part(section: &Section, workloads: &[Workload]) -> Result<Vec<usize>> {
    let all = 0..workloads.len();
    let (value, keep) = match (section.get("only"), section.get("without")) {
        (None, None) => return Ok(all.collect()),
        (Some(_), Some(value)) => {
            return Err(value.error("without stands beside only; one of them is enough"));
        }
        (Some(value), None) => (value, true),
        (None, Some(value)) => (value, false),
    };
    let named = named(value, workloads)?;
    let taking_part: Vec<usize> = all.filter(|index| named.contains(index) == keep).collect();
    match taking_part.is_empty() {
        true => Err(value.error(format!(
            "{}: no workload is left; leave at least one",
            value.key()
        ))),
        false => Ok(taking_part),
    }
}

/// Who serves a stage takes part, too.
fn check_served(section: &Section, workloads: &[Workload], taking_part: &[usize]) -> Result<()> {
    for workload in taking_part.iter().map(|index| &workloads[*index]) {
        let Behaviour::Requests { stages, .. } = &workload.behaviour else {
            continue;
        };
        let missing = |by: &usize| !taking_part.contains(by);
        if let Some(by) = stages.iter().filter_map(|stage| stage.by).find(missing) {
            return Err(section.error(format!(
                "[[configuration]]: workload {:?} has a stage by {:?}, which does not take part; let it, or \
                 leave both out",
                workload.task.name, workloads[by].task.name
            )));
        }
    }
    Ok(())
}

/// The workloads that a list names.
fn named(value: Value, workloads: &[Workload]) -> Result<Vec<usize>> {
    let elements = value.array("an array of workloads such as [\"batch\"]")?;
    let index = |element: &Value| {
        let name = element.string("the name of a workload")?;
        let found = workloads
            .iter()
            .position(|workload| workload.task.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = workloads
                .iter()
                .map(|other| other.task.name.as_str())
                .collect();
            let remedy = match similar(name, known.iter().copied()) {
                Some(meant) => format!("did you mean {meant:?}?"),
                None => format!("there is {}", alternatives(&known).replace(" or ", " and ")),
            };
            element.error(format!(
                "{}: no workload is called {name:?}; {remedy}",
                value.key()
            ))
        })
    };
    elements.iter().map(index).collect()
}

/// Lanes of each core that are there; none: all.
fn lanes(value: Value) -> Result<Option<usize>> {
    if value.is_number() {
        return value.integer(1..=CORE_LANES_MAX).map(Some);
    }
    value
        .word(&[("on", None), ("off", Some(1))])
        .map_err(|_| value.expected("\"on\", \"off\" or how many lanes of each core are there"))
}

/// With fewer lanes each workload that is bound to CPUs still needs one that is there.
fn check_first_lanes(
    value: Value,
    lanes: usize,
    machine: &Machine,
    workloads: &[Workload],
    taking_part: &[usize],
) -> Result<()> {
    let online = machine.with_lanes(lanes).online;
    let tasks = taking_part
        .iter()
        .flat_map(|index| workloads[*index].tasks());
    for task in tasks {
        let stuck = |cpus: &Vec<u32>| !cpus.iter().any(|cpu| online[*cpu as usize]);
        if task.cpus.as_ref().is_some_and(stuck) {
            return Err(value.error(format!(
                "{}: none of the cpus of workload {:?} is among the first {lanes} online lanes of \
                 each core; give it one of these, or leave it out",
                value.key(),
                task.name
            )));
        }
    }
    Ok(())
}
