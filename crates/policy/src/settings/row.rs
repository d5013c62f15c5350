//! What a setting is: a row of the table.

use super::Settings;
use crate::file::{Limits, MS, Result, Value, time_ns};
use crate::intf;
use crate::objective::Objective;
use sidelane_model::ThreadPerf;

/// A setting.
#[derive(Debug)]
pub struct Row {
    /// How it is written: a key of `[scheduler]`, or of a table below that with a dot, as `retention.min_ms`.
    pub name: &'static str,
    /// What it may be, and where it is kept.
    pub kind: Kind,
    /// Whether it can be changed while the scheduler runs.
    pub change: Change,
    /// Without this it has no effect.
    pub needs: Option<Needs>,
    /// What it is, without an end.
    pub says: &'static str,
    /// What else there is to know, for the documentation; may be empty.
    pub more: &'static str,
}

/// Of a setting that has no value.
pub(super) const NONE: &str = "none";

/// Where a setting is kept in [`intf::live_settings`]: its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The first one.
    pub offset: usize,
    /// How many.
    pub len: usize,
}

/// [`Change::Live`], kept in this field of [`intf::live_settings`] as this value.
macro_rules! live {
    ($field:ident, |$settings:ident| $value:expr) => {{
        const fn len<T>(_: fn(&crate::intf::live_settings) -> &T) -> usize {
            size_of::<T>()
        }
        let place = $crate::settings::row::Place {
            offset: std::mem::offset_of!(crate::intf::live_settings, $field),
            len: len(|it| &it.$field),
        };
        $crate::settings::row::Change::Live(place, |$settings, to| to.$field = $value)
    }};
}
pub(super) use live;

/// [`Kind::Word`] of the words of this type, kept in this field of [`Settings`].
macro_rules! word {
    ($words:ident, $($field:ident).+) => {
        $crate::settings::row::Kind::Word(
            &$words::WORDS,
            |settings| settings.$($field).+ as usize,
            |settings, word| settings.$($field).+ = $words::ALL[word],
        )
    };
}
pub(super) use word;

/// Whether a setting can be changed while the scheduler runs, and how the scheduler reads it.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// It is known before the scheduler is loaded, and stays.
    Fixed(fn(&Settings, &mut intf::fixed_settings)),
    /// The same, but the scheduler's loader reads it.
    Found,
    /// `sidelane tune` or `sidelane control` may change it; several that are kept as one have the same place.
    Live(Place, fn(&Settings, &mut intf::live_settings)),
}

/// What has to be set so that a setting has an effect.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    /// As it is written.
    pub what: &'static str,
    /// Whether it is set.
    pub is_met: fn(&Settings) -> bool,
}

/// What a setting may be, and the place where it is kept.
#[derive(Debug)]
pub enum Kind {
    /// A time, ms in files, ns in memory.
    Time(Limits, fn(&mut Settings) -> &mut u64),
    /// Any number.
    Number(Limits, fn(&mut Settings) -> &mut f64),
    /// A whole number of at least so much, and at most.
    Whole(u32, u32, fn(&mut Settings) -> &mut u32),
    /// True or false.
    Switch(fn(&mut Settings) -> &mut bool),
    /// One of some words: their index, read and written.
    Word(
        &'static [&'static str],
        fn(&Settings) -> usize,
        fn(&mut Settings, usize),
    ),
    /// A latency that few jobs exceed.
    Objective(fn(&mut Settings) -> &mut Option<Objective>),
    /// Speeds of a lane when 1, 2, ... lanes of its core run.
    Speeds(fn(&mut Settings) -> &mut Vec<f64>),
}

impl Row {
    /// The table below `[scheduler]` that it stands in, if it does not stand there itself, and its key.
    pub fn place(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((table, key)) => (Some(table), key),
            None => (None, self.name),
        }
    }

    /// Takes the value from a file.
    pub(super) fn read(&self, value: &Value, to: &mut Settings) -> Result<()> {
        match &self.kind {
            Kind::Time(limits, at) => *at(to) = time_ns(*value, MS, *limits)?,
            Kind::Number(limits, at) => *at(to) = value.number(*limits)?,
            Kind::Whole(least, most, at) => *at(to) = value.integer(*least..=*most)?,
            Kind::Switch(at) => *at(to) = value.boolean()?,
            Kind::Word(words, _, set) => set(to, value.word_of(words)?),
            Kind::Objective(at) => {
                let text = value.string("an objective such as \"p99 < 20 ms\"")?;
                let read = text.parse().map_err(|error: String| value.error(error))?;
                *at(to) = Some(read);
            }
            Kind::Speeds(at) => *at(to) = speeds(value)?,
        }
        Ok(())
    }

    /// Without effect whatever its table says: a switch that is off.
    pub(super) fn is_off(&self, settings: &mut Settings) -> bool {
        matches!(&self.kind, Kind::Switch(at) if !*at(settings))
    }

    /// The value as a file has it; `none`: it has none.
    pub fn written(&self, settings: &Settings) -> String {
        let mut copy = settings.clone();
        match &self.kind {
            Kind::Time(limits, at) => match *at(&mut copy) as f64 / MS {
                ms if limits.allow(ms) => ms.to_string(),
                _ => NONE.to_owned(),
            },
            Kind::Number(_, at) => at(&mut copy).to_string(),
            Kind::Whole(_, _, at) => at(&mut copy).to_string(),
            Kind::Switch(at) => at(&mut copy).to_string(),
            Kind::Word(words, get, _) => format!("{:?}", words[get(settings)]),
            Kind::Objective(at) => at(&mut copy).map_or(NONE.to_owned(), |objective| {
                format!("{:?}", objective.to_string())
            }),
            Kind::Speeds(at) => match at(&mut copy).as_slice() {
                [] => NONE.to_owned(),
                speeds => format!("{speeds:?}"),
            },
        }
    }
}

fn speeds(value: &Value) -> Result<Vec<f64>> {
    let elements = value.array("an array of speeds such as [1, 0.6]")?;
    let speeds = elements
        .iter()
        .map(|speed| speed.number(Limits::above(0.0, 1.0)));
    let speeds: Vec<f64> = speeds.collect::<Result<_>>()?;
    check_speeds(&speeds).map_err(|problem| value.error(problem))?;
    Ok(speeds)
}

/// Refuses what is not threadPerf; none at all is right.
///
/// # Errors
/// They are not above 0 and at most 1, increase, or are more than a core may have lanes.
pub fn check_speeds(thread_perf: &[f64]) -> std::result::Result<(), String> {
    if thread_perf.is_empty() {
        return Ok(());
    }
    let wrong = match ThreadPerf::new(thread_perf.to_vec()) {
        Ok(speeds) if speeds.lanes() <= crate::LANES_MAX => return Ok(()),
        Ok(speeds) => sidelane_model::Error::Lanes(speeds.lanes()),
        Err(wrong) => wrong,
    };
    Err(format!("thread_perf = {thread_perf:?}: {wrong}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_at_most_one_and_do_not_increase() {
        for (speeds, right) in [
            (&[][..], true),
            (&[1.0, 0.6], true),
            (&[1.0; 16], true),
            (&[1.0; crate::LANES_MAX + 1], false),
            (&[0.9, 0.6], true),
            (&[0.9], true),
            (&[0.6, 1.0], false),
            (&[1.1, 0.6], false),
            (&[0.0, 0.0], false),
            (&[1.0, 0.6, 0.7], false),
            (&[1.0, 0.0], false),
            (&[1.0, f64::NAN], false),
        ] {
            assert_eq!(check_speeds(speeds).is_ok(), right, "{speeds:?}");
        }
    }
}
