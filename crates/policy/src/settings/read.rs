//! Reading settings from a file.

use super::order::DISPATCHING;
use super::{Budget, Dispatching, Row, Settings, UseCounters, budget, retention, rows, scope};
use crate::file::{Result, Section, Shape, Value};
use std::sync::LazyLock;

/// What a policy lacks that is charged by the speeds of shared lanes.
pub const NEEDS_SPEEDS: &str =
    "needs thread_perf, the speeds of 'sidelane calibrate', such as thread_perf = [1, 0.6]";

/// Settings of a rule's own.
pub const BUDGET_KEYS: [&str; 3] = ["borrow", "budget_ms", "objective"];

/// The table that holds settings, wherever it stands.
pub static SHAPE: LazyLock<Shape> = LazyLock::new(|| Shape {
    title: "the scheduler's settings",
    form: "a table of the scheduler's settings",
    keys: keys(),
    elsewhere: rows()
        .filter_map(|row| match row.place() {
            (Some(table), key) => Some((key, table)),
            (None, _) => None,
        })
        .collect::<Vec<_>>()
        .leak(),
});

/// The tables below it.
static TABLES: LazyLock<Vec<Shape>> = LazyLock::new(|| {
    let mut tables: Vec<Shape> = Vec::new();
    for row in rows() {
        let (Some(table), key) = row.place() else {
            continue;
        };
        if tables.iter().any(|shape| shape.title == table) {
            continue;
        }
        let example = row.written(&Settings::default());
        tables.push(Shape {
            title: table,
            form: format!("a table such as {{ {key} = {example} }}").leak(),
            keys: in_table(Some(table)).collect::<Vec<_>>().leak(),
            elsewhere: &[],
        });
    }
    tables
});

/// The keys of the table that holds settings, those of tables among them.
pub fn keys() -> &'static [&'static str] {
    static KEYS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let tables = TABLES.iter().map(|shape| shape.title);
        in_table(None).chain(tables).collect()
    });
    &KEYS
}

fn in_table(table: Option<&'static str>) -> impl Iterator<Item = &'static str> {
    let places = rows().map(Row::place);
    places.filter_map(move |(of, key)| (of == table).then_some(key))
}

/// Reads settings; what the table does not say stays as it is.
///
/// # Errors
/// The first mistake: a key that is not known, a value out of its range, a setting without effect, or
/// settings that do not go together.
pub fn read(section: &Section, settings: &mut Settings) -> Result<()> {
    let tables = tables(section)?;
    let mut given = Vec::new();
    for row in rows() {
        let (table, key) = row.place();
        let within = match table {
            None => Some(section),
            Some(table) => tables
                .iter()
                .find(|(title, _)| *title == table)
                .map(|it| &it.1),
        };
        given.extend(
            within
                .and_then(|within| within.get(key))
                .map(|it| (row, it)),
        );
    }
    // it may stand for others, which the table may say otherwise
    given.sort_by_key(|(row, _)| row.name != DISPATCHING);
    for (row, value) in &given {
        row.read(value, settings)?;
        if row.name == DISPATCHING && settings.dispatching == Dispatching::Zvm {
            settings.of_zvm();
        }
    }
    for (row, value) in &given {
        check_needs(row, value, settings)?;
    }
    budget::check(section, &settings.budget)?;
    scope::check(section, settings)?;
    retention::check(section, settings)?;
    match section.get("symbiotic") {
        Some(value) if settings.symbiotic && settings.counters == UseCounters::Off => {
            Err(value.error("symbiotic = true needs counters; leave counters = \"off\" out"))
        }
        _ => Ok(()),
    }
}

fn tables<'a>(section: &Section<'a>) -> Result<Vec<(&'static str, Section<'a>)>> {
    let shapes = TABLES.iter();
    let there = shapes.filter_map(|shape| Some((shape, section.get(shape.title)?)));
    there
        .map(|(shape, value)| Ok((shape.title, value.section(shape)?)))
        .collect()
}

fn check_needs(row: &Row, value: &Value, settings: &mut Settings) -> Result<()> {
    if row.is_off(settings) {
        return Ok(());
    }
    if !settings.are_asked_for(row) {
        return Err(value.error(scope::no_effect(row.name)));
    }
    match row.needs {
        Some(needs) if !(needs.is_met)(settings) => Err(value.error(format!(
            "{} has no effect without {}; set that, or leave it out",
            row.name, needs.what
        ))),
        _ => Ok(()),
    }
}

/// Reads a budget of a rule's own, by [`BUDGET_KEYS`]; none: it says nothing of that.
///
/// # Errors
/// As [`read`].
pub fn budget_of(section: &Section) -> Result<Option<Budget>> {
    let mut settings = Settings::default();
    let given = budget::ROWS.iter();
    let given: Vec<_> = given
        .filter_map(|row| Some((row, section.get(row.name)?)))
        .collect();
    for (row, value) in &given {
        row.read(value, &mut settings)?;
    }
    for (row, value) in &given {
        check_needs(row, value, &mut settings)?;
    }
    budget::check(section, &settings.budget)?;
    Ok((!given.is_empty()).then_some(settings.budget))
}
