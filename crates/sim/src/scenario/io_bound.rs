//! Retention, pairing and symbiosis of a configuration's settings.

use super::error::Result;
use super::limits::{Limits, MS, time_ns};
use super::reader::{Section, Shape, Value};
use crate::{Pairing, Retention, Symbiosis};

const RETENTION: Shape = Shape {
    title: "retention",
    form: "a table such as { start_ms = 3 }",
    keys: &[
        "start_ms",
        "min_ms",
        "max_ms",
        "period_ms",
        "switches_ms",
        "exclusive",
    ],
    elsewhere: &[],
};

const PAIRING: Shape = Shape {
    title: "pairing",
    form: "a table such as { period_ms = 1000 }",
    keys: &["period_ms", "uniform"],
    elsewhere: &[],
};

const SYMBIOSIS: Shape = Shape {
    title: "symbiosis",
    form: "a table such as { base_base = 1 }",
    keys: &[
        "base_base",
        "base_miss",
        "miss_base",
        "miss_miss",
        "miss_cycles",
    ],
    elsewhere: &[],
};

/// `symbiotic` and `symbiosis`.
pub(super) fn symbiosis(settings: &Section) -> Result<Option<Symbiosis>> {
    let on = (settings.get("symbiotic")).map_or(Ok(false), |value| value.boolean())?;
    let table = table(settings, "symbiosis", "symbiotic", on)?;
    let symbiosis = table.map_or(Ok(Symbiosis::default()), symbiosis_of)?;
    Ok(on.then_some(symbiosis))
}

fn symbiosis_of(value: Value) -> Result<Symbiosis> {
    let section = value.section(&SYMBIOSIS)?;
    let mut symbiosis = Symbiosis::default();
    let coefficient = |key, default| match section.get(key) {
        Some(value) => value.number(Limits::from(0.0, 10.0)),
        None => Ok(default),
    };
    symbiosis.base_base = coefficient("base_base", symbiosis.base_base)?;
    symbiosis.base_miss = coefficient("base_miss", symbiosis.base_miss)?;
    symbiosis.miss_base = coefficient("miss_base", symbiosis.miss_base)?;
    symbiosis.miss_miss = coefficient("miss_miss", symbiosis.miss_miss)?;
    if let Some(value) = section.get("miss_cycles") {
        symbiosis.miss_cycles = value.integer(1..=10_000)?;
    }
    Ok(symbiosis)
}

/// `retain`, `retention`, `pair` and `pairing`; the ranges are those of `sidelane run`.
pub(super) fn io_bound(settings: &Section) -> Result<(Option<Retention>, Option<Pairing>)> {
    let switched_on = |key| settings.get(key).map_or(Ok(false), |value| value.boolean());
    let (retain, pair) = (switched_on("retain")?, switched_on("pair")?);
    if let Some(value) = settings.get("pair")
        && pair
        && !retain
    {
        return Err(value.error(
            "pair = true needs retain = true: tasks are paired by how long lanes are held for them",
        ));
    }
    let retention = table(settings, "retention", "retain", retain)?;
    let pairing = table(settings, "pairing", "pair", pair)?;
    let retention = retention.map_or(Ok(Retention::default()), retention_of)?;
    let pairing = pairing.map_or(Ok(Pairing::default()), pairing_of)?;
    Ok((retain.then_some(retention), pair.then_some(pairing)))
}

/// The table `key`, which says nothing unless `switch` is on.
fn table<'a>(
    settings: &Section<'a>,
    key: &str,
    switch: &str,
    on: bool,
) -> Result<Option<Value<'a>>> {
    match settings.get(key) {
        Some(value) if !on => Err(value.error(format!("{key} stands beside {switch} = true"))),
        other => Ok(other),
    }
}

fn retention_of(value: Value) -> Result<Retention> {
    let section = value.section(&RETENTION)?;
    let mut retention = Retention::default();
    let time = |key, min, max, default| match section.get(key) {
        Some(value) => time_ns(value, MS, Limits::from(min, max)),
        None => Ok(default),
    };
    retention.min_ns = time("min_ms", 0.05, 100.0, retention.min_ns)?;
    let min_ms = retention.min_ns as f64 / MS;
    retention.max_ns = time("max_ms", min_ms, 100.0, retention.max_ns)?;
    let max_ms = retention.max_ns as f64 / MS;
    retention.start_ns = time("start_ms", min_ms, max_ms, retention.start_ns)?;
    if let Some(value) = section.get("period_ms") {
        let fixed = matches!(value.number(Limits::from(0.0, 10_000.0)), Ok(0.0));
        let least = if fixed { 0.0 } else { 20.0 };
        retention.period_ns = time_ns(value, MS, Limits::from(least, 10_000.0))?;
    }
    retention.switches_ns = time("switches_ms", 0.0, 100.0, retention.switches_ns)?;
    if let Some(value) = section.get("exclusive") {
        retention.exclusive = value.boolean()?;
    }
    let order = [retention.min_ns, retention.start_ns, retention.max_ns];
    match order.is_sorted() {
        true => Ok(retention),
        false => Err(value.error("retention: start_ms is between min_ms (0.2) and max_ms (10)")),
    }
}

fn pairing_of(value: Value) -> Result<Pairing> {
    let section = value.section(&PAIRING)?;
    let mut pairing = Pairing::default();
    if let Some(value) = section.get("period_ms") {
        pairing.period_ns = time_ns(value, MS, Limits::from(20.0, 10_000.0))?;
    }
    if let Some(value) = section.get("uniform") {
        pairing.uniform = value.number(Limits::from(0.0, 1.0))?;
    }
    Ok(pairing)
}
