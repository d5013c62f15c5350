//! `control` of a configuration.

use crate::control::{Control, Measure};
use crate::{Error, Machine};
use sidelane_model::{GovernorConfig, LaneOrder, Model, Options};
use sidelane_policy::file::{Limits, Result, SECOND, Section, Shape, Value, time_ns};

const KEYS: &[&str] = &[
    "interval_s",
    "window",
    "model",
    "iterations",
    "hysteresis",
    "min_gain",
    "dwell",
    "memory",
    "utilization",
];

const CONTROL: Shape = Shape {
    title: "control",
    form: "a table such as { interval_s = 5 }",
    keys: KEYS,
    elsewhere: &[],
};

/// Most intervals.
const MANY: u32 = 1_000_000;

/// Reads what sets the SMT level of a machine.
pub(super) fn control(value: Value, machine: &Machine) -> Result<Control> {
    let section = value.section(&CONTROL)?;
    let mut control = Control {
        interval_ns: 5_000_000_000,
        governor: GovernorConfig::default(),
        measure: Measure::Counted,
    };
    let mut given = None;
    for (key, value) in section.those(KEYS) {
        let governor = &mut control.governor;
        match key {
            "interval_s" => {
                control.interval_ns = time_ns(value, SECOND, Limits::from(0.001, 1e6))?;
            }
            "window" => governor.window = value.integer(1..=MANY)? as usize,
            "min_gain" => governor.min_gain = value.number(Limits::from(0.0, 0.99))?,
            "hysteresis" => governor.hysteresis = value.number(Limits::from(0.0, 0.99))?,
            "dwell" => governor.dwell = value.integer(0..=MANY)?,
            "memory" => governor.memory = value.boolean()?,
            "utilization" => given = Some(measure(value)?),
            _ => {}
        }
    }
    control.governor.options = options(&section, control.governor.options)?;
    control.measure = given.unwrap_or(Measure::of(control.governor.options.model()));
    match control.governor(machine, false) {
        Ok(_) => Ok(control),
        Err(Error::BadMachine(reason)) => Err(value.error(format!("control: {reason}"))),
        Err(error) => Err(value.error(format!("control: {error}"))),
    }
}

fn measure(value: Value) -> Result<Measure> {
    value.word(&[
        ("independent", Measure::Lanes(LaneOrder::Independent)),
        ("lower-first", Measure::Lanes(LaneOrder::LowerFirst)),
        ("model", Measure::Model),
        ("counted", Measure::Counted),
    ])
}

fn options(section: &Section, default: Options) -> Result<Options> {
    let options = match section.get("model") {
        Some(value) => Options::new(value.word(&Model::ALL.map(|model| (model.name(), model)))?),
        None => default,
    };
    let Some(value) = section.get("iterations") else {
        return Ok(options);
    };
    options
        .with_iterations(value.integer(1..=1_000_000)?)
        .map_err(|error| value.error(format!("iterations: {error}")))
}
