//! Values that stand in tables of several kinds: names, classes, CPUs.

use super::machine::cpu_list;
use crate::{Class, Machine};
use sidelane_policy::file::{Result, Value};
use sidelane_topology::printable;

/// A name that can stand in a table.
pub(super) fn name(value: Value) -> Result<String> {
    let what = "a name of 1 to 40 characters without control characters";
    let name = value.string(what)?;
    let shown = name.replace('\\', ""); // which is shown twice, and harmless
    match (1..=40).contains(&name.chars().count()) && printable(shown.as_bytes()) == shown {
        true => Ok(name.to_owned()),
        false => Err(value.expected(what)),
    }
}

/// CPUs of which at least one is online.
pub(super) fn usable(value: Value, machine: &Machine) -> Result<Vec<u32>> {
    let cpus = cpu_list(value, machine)?;
    match cpus.iter().any(|&cpu| machine.online[cpu as usize]) {
        true => Ok(cpus),
        false => Err(value.error("cpus: none of them is online; name one that is")),
    }
}

/// A class by its name.
pub(super) fn class(value: Value) -> Result<Class> {
    value.word(&Class::ALL.map(|class| (class.name(), class)))
}
