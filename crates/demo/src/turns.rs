//! Setups that are measured in turn.

use crate::error::Result;
use crate::experiment::{Message, Observer};
use crate::machine::Machine;
use crate::reference;
use std::fmt::Display;

/// `setups` in the order of one repetition (from 0): rotated by one each time, so that a machine whose
/// speed drifts favours none of them.
pub(crate) fn rotated<S>(mut setups: Vec<S>, repetition: u32) -> Vec<S> {
    let count = setups.len().max(1);
    setups.rotate_left(repetition as usize % count);
    setups
}

/// Measures each of `setups(repetition)` in each repetition by `run`, and tells everything up to the end;
/// with `only`, in that repetition (from 0) alone.
/// Before each run the speed of a core is taken, which `run` is given: units of work a second.
///
/// # Errors
/// Whatever fails.
pub(crate) fn take_turns<S: Display, R>(
    machine: &Machine,
    repetitions: u32,
    only: Option<u32>,
    setups: impl Fn(u32) -> Vec<S>,
    observer: &mut dyn Observer<Message<R>>,
    mut run: impl FnMut(S, u32, f64) -> Result<R>,
) -> Result<()> {
    for repetition in only.map_or(0..repetitions, |only| only..only + 1) {
        for setup in setups(repetition) {
            let number = repetition + 1;
            observer.progress(&format!("repetition {number}/{repetitions}: {setup}"));
            let units_per_core_s = reference::steady_compute_speed(machine)?;
            observer.message(Message::Speed(units_per_core_s))?;
            let run = run(setup, repetition, units_per_core_s)?;
            observer.message(Message::Run(run))?;
        }
    }
    observer.message(Message::Done)
}
