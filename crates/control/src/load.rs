//! From how busy CPUs are to the load of the machine that the model is about.

use crate::Result;
use sidelane_model::{Load, Machine, Normalization, Options, load};
use std::collections::BTreeMap;

/// The load of a machine.
///
/// `cores`: the lanes of each core. `busy`: the share of time that a CPU was busy; CPUs of which
/// nothing is known are not there. `level`: how many lanes of each core may run. None if nothing is
/// known of any core.
///
/// # Errors
/// More lanes than the machine has.
pub fn normalized(
    machine: &Machine,
    cores: &[Vec<u32>],
    busy: &BTreeMap<u32, f64>,
    level: usize,
    (normalization, options): (Normalization, Options),
) -> Result<Option<Load>> {
    let known = |core: &Vec<u32>| -> Vec<f64> {
        let shares = core.iter().map(|cpu| busy.get(cpu).copied());
        shares.flatten().collect()
    };
    let cores: Vec<Vec<f64>> = cores.iter().map(known).collect();
    Ok(load(machine, &cores, level, normalization, options)?)
}
