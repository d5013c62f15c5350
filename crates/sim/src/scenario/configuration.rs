//! The tables `[[configuration]]`.

use super::Configuration;
use super::control::control;
use super::error::Result;
use super::io_bound::{io_bound, symbiosis};
use super::limits::{Limits, MS, time_ns};
use super::pools;
use super::reader::{Section, Shape, Value, alternatives, similar};
use super::workload::{Context, name};
use crate::simulation::Kind;
use crate::{Baseline, Behaviour, Budget, Charge, Interference, Machine, Settings, Workload};
use sidelane_model::Objective;

const SETTING_KEYS: &[&str] = &[
    "slice_ms",
    "batch_slice_ms",
    "normal_bound_ms",
    "starvation_bound_ms",
    "overdue_slice_ms",
    "promote",
    "promote_after_ms",
    "smt_level",
    "batch_lanes",
    "borrow",
    "budget_ms",
    "objective",
    "counters",
    "polarization",
    "keep_slice",
    "steal_patience_ms",
    "retain",
    "retention",
    "pair",
    "pairing",
    "symbiotic",
    "symbiosis",
    "pool_charge",
];
/// Most lanes of a core that `smt` can leave.
const CORE_LANES_MAX: usize = 1024;
const IN_SETTINGS: &str = "[configuration.settings]";

pub(super) const CONFIGURATION: Shape = Shape {
    title: "[[configuration]]",
    form: "tables [[configuration]]",
    keys: &[
        "name",
        "scheduler",
        "without",
        "only",
        "smt",
        "control",
        "settings",
    ],
    elsewhere: &[
        ("slice_ms", IN_SETTINGS),
        ("batch_slice_ms", IN_SETTINGS),
        ("normal_bound_ms", IN_SETTINGS),
        ("starvation_bound_ms", IN_SETTINGS),
        ("overdue_slice_ms", IN_SETTINGS),
        ("promote", IN_SETTINGS),
        ("promote_after_ms", IN_SETTINGS),
        ("smt_level", IN_SETTINGS),
        ("batch_lanes", IN_SETTINGS),
        ("borrow", IN_SETTINGS),
        ("budget_ms", IN_SETTINGS),
        ("objective", IN_SETTINGS),
        ("counters", IN_SETTINGS),
        ("polarization", IN_SETTINGS),
        ("keep_slice", IN_SETTINGS),
        ("steal_patience_ms", IN_SETTINGS),
        ("retain", IN_SETTINGS),
        ("retention", IN_SETTINGS),
        ("pair", IN_SETTINGS),
        ("pairing", IN_SETTINGS),
        ("symbiotic", IN_SETTINGS),
        ("symbiosis", IN_SETTINGS),
        ("pool_charge", IN_SETTINGS),
    ],
};

const SETTINGS: Shape = Shape {
    title: IN_SETTINGS,
    form: "a table [configuration.settings]",
    keys: SETTING_KEYS,
    elsewhere: &[],
};

/// The kernel's own scheduler, as far as it is simulated.
pub(super) fn kernel_default() -> Kind {
    Kind::Baseline(Baseline::Eevdf)
}

/// What is compared when a file does not say: Sidelane as it comes, with all workloads.
pub(super) fn sole(context: &Context, workloads: &[Workload]) -> Configuration {
    Configuration {
        name: "sidelane".into(),
        scheduler: Kind::Sidelane(with_pools(
            Settings::default(),
            context,
            context.machine,
            None,
        )),
        smt: None,
        control: None,
        workloads: (0..workloads.len()).collect(),
    }
}

/// Reads a `[[configuration]]`.
pub(super) fn configuration(
    section: &Section,
    context: &Context,
    workloads: &[Workload],
) -> Result<Configuration> {
    let machine = context.machine;
    let words = ["sidelane", "default", "sibling-first", "fifo"];
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
        if matches!(&scheduler, Kind::Sidelane(settings) if settings.smt_level.is_some()) {
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
    let machine = context.machine;
    let settings = section.get("settings");
    if word != "sidelane"
        && let Some(value) = settings
    {
        return Err(value.error(format!(
            "settings are for scheduler = \"sidelane\", not for {word:?}; leave them out"
        )));
    }
    Ok(match word {
        "sidelane" => Kind::Sidelane(match settings {
            Some(value) => self::settings(value, context, there)?,
            None => {
                let settings = Settings {
                    thread_perf: thread_perf(machine, false),
                    ..Settings::default()
                };
                with_pools(settings, context, there, None)
            }
        }),
        "default" => kernel_default(),
        "sibling-first" => Kind::Baseline(Baseline::SiblingFirst),
        _ => Kind::Baseline(Baseline::Fifo),
    })
}

/// What the scheduler knows of shared lanes: it matters where cores are not equally fast, or lanes are held.
fn thread_perf(machine: &Machine, held: bool) -> Vec<f64> {
    let mut capacities = machine.cores.iter().map(|core| core.tier_capacity);
    let first = capacities.next();
    match &machine.interference {
        Interference::ThreadPerf(speeds)
            if held || capacities.any(|capacity| Some(capacity) != first) =>
        {
            speeds.clone()
        }
        _ => Vec::new(),
    }
}

/// Adds the pools, and what is needed to charge them.
fn with_pools(
    settings: Settings,
    context: &Context,
    there: &Machine,
    charge: Option<Charge>,
) -> Settings {
    let pools = pools::on_machine(context.pools, there, charge);
    let thread_perf = match &context.machine.interference {
        Interference::ThreadPerf(speeds) if !pools.is_empty() => speeds.clone(),
        _ => settings.thread_perf,
    };
    Settings {
        pools,
        thread_perf,
        ..settings
    }
}

/// The settings and their ranges are those of `sidelane run`.
fn settings(value: Value, context: &Context, there: &Machine) -> Result<Settings> {
    let machine = context.machine;
    let mut settings = Settings::default();
    let section = value.section(&SETTINGS)?;
    settings.budget = budget(&section, machine)?;
    for (key, value) in section.those(SETTING_KEYS) {
        let time = |min, max| time_ns(value, MS, Limits::from(min, max));
        match key {
            "slice_ms" => settings.slice_ns = time(0.1, 1000.0)?,
            "batch_slice_ms" => settings.batch_slice_ns = time(0.1, 1000.0)?,
            "normal_bound_ms" => settings.normal_bound_ns = time(1.0, 10_000.0)?,
            "starvation_bound_ms" => settings.starvation_bound_ns = time(10.0, 10_000.0)?,
            "overdue_slice_ms" => settings.overdue_slice_ns = time(0.1, 100.0)?,
            "borrow" | "budget_ms" | "objective" => {} // together, above
            // below
            "retain" | "retention" | "pair" | "pairing" | "symbiotic" | "symbiosis"
            | "pool_charge" => {}
            "keep_slice" => settings.keep_slice = value.boolean()?,
            "steal_patience_ms" => settings.steal_patience_ns = time(0.0, 1000.0)?,
            "polarization" => {
                settings.vertical = value.word(&[("horizontal", false), ("vertical", true)])?;
            }
            "batch_lanes" => {
                let lanes = value.integer(0..=u32::MAX)?;
                settings.batch_lanes = Some(lanes).filter(|lanes| *lanes > 0);
            }
            "counters" => settings.counters = value.boolean()?,
            "promote" => settings.promote = value.boolean()?,
            "promote_after_ms" => settings.promote_after_ns = time(0.0, 1000.0)?,
            _ => settings.smt_level = Some(value.integer(0..=u32::MAX)?).filter(|level| *level > 0),
        }
    }
    (settings.retention, settings.pairing) = io_bound(&section)?;
    settings.thread_perf = thread_perf(machine, settings.retention.is_some());
    settings.symbiosis = symbiosis(&section)?;
    let charge = section.get("pool_charge").map(pools::charge).transpose()?;
    Ok(with_pools(settings, context, there, charge))
}

/// How long batch may run beside critical work.
fn budget(section: &Section, machine: &Machine) -> Result<Budget> {
    let words = ["borrow-idle", "fixed", "refresh", "dynamic", "slo", "off"];
    let Some(value) = section.get("borrow") else {
        return match section.get("budget_ms") {
            Some(value) => Err(value
                .error("budget_ms stands beside borrow = \"fixed\", \"refresh\" or \"dynamic\"")),
            None => Ok(Budget::BorrowIdle),
        };
    };
    let word = value.word(&words.map(|word| (word, word)))?;
    let budget_ns = match (section.get("budget_ms"), word) {
        (Some(value), "borrow-idle" | "slo" | "off") => {
            return Err(value.error(format!(
                "borrow = {word:?} has no budget; leave budget_ms out"
            )));
        }
        (None, "fixed" | "refresh" | "dynamic") => {
            return Err(value.error(format!("borrow = {word:?} needs budget_ms")));
        }
        (Some(value), _) => time_ns(value, MS, Limits::from(0.001, 10_000.0))?,
        (None, _) => 0,
    };
    let objective = objective(section, word, value)?;
    Ok(match word {
        "slo" => Budget::Objective {
            objective_ns: objective.map_or(0, |objective| objective.latency_ns),
            beyond: objective.map_or(0, |objective| objective.beyond),
        },
        "borrow-idle" => Budget::BorrowIdle,
        "fixed" => Budget::Fixed(budget_ns),
        "refresh" => Budget::Refresh(budget_ns),
        "dynamic" => match &machine.interference {
            Interference::ThreadPerf(speeds) => Budget::Dynamic {
                budget_ns,
                thread_perf: speeds.clone(),
            },
            // all of it is charged until counters show what is lost
            Interference::Kinds(_) if has_counters(section)? => Budget::Dynamic {
                budget_ns,
                thread_perf: Vec::new(),
            },
            Interference::Kinds(_) => {
                return Err(value.error(
                    "borrow = \"dynamic\" needs a machine with thread_perf, or counters = true",
                ));
            }
        },
        _ => Budget::Off,
    })
}

/// Have lanes counters of instructions and cycles?
fn has_counters(section: &Section) -> Result<bool> {
    (section.get("counters")).map_or(Ok(false), |value| value.boolean())
}

/// The objective, which stands with `borrow = "slo"` only.
fn objective(section: &Section, word: &str, borrow: Value) -> Result<Option<Objective>> {
    match (section.get("objective"), word) {
        (Some(value), "slo") => {
            let text = value.string("an objective such as \"p99 < 20 ms\"")?;
            text.parse().map(Some).map_err(|e: String| value.error(e))
        }
        (Some(value), _) => {
            Err(value.error("objective stands beside borrow = \"slo\"; leave it out"))
        }
        (None, "slo") => Err(borrow
            .error("borrow = \"slo\" needs an objective, such as objective = \"p99 < 20 ms\"")),
        (None, _) => Ok(None),
    }
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
