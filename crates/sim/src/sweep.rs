//! Sweeps: a scenario in which values are varied. Each point of `[[sweep]]` is a scenario of its own;
//! `docs/sweeps.md` describes them.

use crate::Scenario;
use crate::scenario::{FILE, scenario};
use sidelane_policy::file::{Limits, Result, Section, Shape, Source, Value};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::io;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike};
use twox_hash::XxHash64;

/// Points of all sweeps together.
const MOST_POINTS: u64 = 10_000_000;

const SWEEP: Shape = Shape {
    title: "[[sweep]]",
    form: "tables [[sweep]]",
    keys: &["name", "key", "values", "with"],
    elsewhere: &[],
};
const WITH: Shape = Shape {
    title: "with",
    form: "an array of tables { key, values }",
    keys: &["key", "values"],
    elsewhere: &[],
};
const RANGE: Shape = Shape {
    title: "values",
    form: "an array, or { from, to, step }",
    keys: &["from", "to", "step"],
    elsewhere: &[],
};

/// Reads the text of a trace file by its name as the scenario has it.
pub type Read<'a> = &'a (dyn Fn(&str) -> io::Result<String> + Sync);

/// Values of the sweeps by their names.
pub type At = BTreeMap<String, toml::Value>;

/// A scenario, and what is varied in it.
#[derive(Debug, Clone)]
pub struct Swept {
    /// As it stands in the file.
    scenario: Scenario,
    sweeps: Vec<Sweep>,
    /// The file, to set keys in.
    document: DocumentMut,
    file: String,
    /// The only configuration that is simulated; none: all.
    only: Option<String>,
}

/// Keys of a scenario and the values they take.
#[derive(Debug, Clone)]
pub struct Sweep {
    /// One word for it.
    pub name: String,
    /// What stands there, one after the other.
    pub values: Vec<toml::Value>,
    /// Each with as many values: those of `key`, and what goes along with them.
    keys: Vec<(String, Vec<toml::Value>)>,
}

impl Swept {
    /// Reads a scenario with its sweeps, if it has some; `read` as in [`Scenario::parse_with`].
    ///
    /// # Errors
    /// The first mistake, with its place: also if a value of a sweep makes no scenario while the other sweeps have their
    /// first.
    pub fn parse_with(text: &str, file: &str, read: Read) -> Result<Swept> {
        let source = Source { file, text };
        let table = source.table()?;
        let root = Section::root(&source, &FILE, &table)?;
        let scenario = scenario(&root, file, read)?;
        let value = root.get("sweep");
        let sections = value.map_or(Ok(Vec::new()), |value| value.sections(&SWEEP))?;
        let document = text.parse::<DocumentMut>();
        let mut swept = Swept {
            scenario,
            sweeps: Vec::new(),
            document: document.map_err(|error| source.error(0, error.to_string()))?,
            file: file.to_owned(),
            only: None,
        };
        for section in &sections {
            let sweep = sweep(section)?;
            if swept.sweeps.iter().any(|other| other.name == sweep.name) {
                return Err(section.error(format!("sweep: two are called {:?}", sweep.name)));
            }
            swept.sweeps.push(sweep);
        }
        swept.check(&sections, read)?;
        Ok(swept)
    }

    /// Reads a scenario that names no trace file.
    ///
    /// # Errors
    /// As [`Swept::parse_with`].
    pub fn parse(text: &str, file: &str) -> Result<Swept> {
        Swept::parse_with(text, file, &alone)
    }

    /// Does each value make a scenario?
    fn check(&self, sections: &[Section], read: Read) -> Result<()> {
        let all = self.sweeps.iter().try_fold(1_u64, |all, sweep| {
            let all = all.checked_mul(sweep.values.len() as u64);
            all.filter(|all| *all <= MOST_POINTS)
        });
        if let (None, Some(section)) = (all, sections.first()) {
            return Err(section.error(format!("sweep: more than {MOST_POINTS} points")));
        }
        let first = self.at(0);
        for (sweep, section) in self.sweeps.iter().zip(sections) {
            for value in &sweep.values {
                let mut at = first.clone();
                at.insert(sweep.name.clone(), value.clone());
                self.scenario_at(&at, read).map_err(|mistake| {
                    section.error(format!("{} {value}: {}", sweep.name, mistake.message))
                })?;
            }
        }
        Ok(())
    }

    /// Sets a key of the file, which need not stand there; `value` as TOML has it, or a string without quotes.
    ///
    /// # Errors
    /// If the key leads nowhere, or the value makes no scenario.
    pub fn set(&mut self, key: &str, value: &str, read: Read) -> std::result::Result<(), String> {
        let value = value
            .parse::<toml_edit::Value>()
            .unwrap_or_else(|_| value.into());
        let mut document = self.document.clone();
        put(&mut document, key, &value)?;
        let set = Swept::parse_with(&document.to_string(), &self.file, read);
        let mut set = set.map_err(|mistake| mistake.message)?;
        self.only.iter().try_for_each(|name| set.keep_only(name))?;
        *self = set;
        Ok(())
    }

    /// Forgets all configurations but one, at all points.
    ///
    /// # Errors
    /// As [`Scenario::keep_only`].
    pub fn keep_only(&mut self, name: &str) -> std::result::Result<(), String> {
        self.scenario.keep_only(name)?;
        self.only = Some(name.to_owned());
        Ok(())
    }

    /// The scenario without what is varied.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// What is varied.
    pub fn sweeps(&self) -> &[Sweep] {
        &self.sweeps
    }

    /// How many points there are; 1 without a sweep.
    pub fn points(&self) -> u64 {
        let values = self.sweeps.iter().map(|sweep| sweep.values.len() as u64);
        values.product()
    }

    /// The values at a point, the last sweep fastest.
    pub fn at(&self, point: u64) -> At {
        let mut rest = point;
        let mut at = At::new();
        for sweep in self.sweeps.iter().rev() {
            let values = sweep.values.len() as u64;
            let value = sweep.values[(rest % values) as usize].clone();
            at.insert(sweep.name.clone(), value);
            rest /= values;
        }
        at
    }

    /// The scenario with these values; sweeps that are left out stay as the file has them.
    ///
    /// # Errors
    /// If they make no scenario.
    pub fn scenario_at(&self, at: &At, read: Read) -> Result<Scenario> {
        let wrong = |message: String| {
            let source = Source {
                file: &self.file,
                text: "",
            };
            source.error(0, message)
        };
        let mut document = self.document.clone();
        for sweep in &self.sweeps {
            if let Some(value) = at.get(&sweep.name) {
                sweep.set(&mut document, value).map_err(wrong)?;
            }
        }
        let mut scenario = Scenario::parse_with(&document.to_string(), &self.file, read)?;
        let mut only = self.only.iter();
        only.try_for_each(|name| scenario.keep_only(name))
            .map_err(wrong)?;
        Ok(scenario)
    }

    /// Tells apart what results depend on: versions of the program, files with what was set in them, and the configuration
    /// that is kept.
    ///
    /// # Errors
    /// A trace that cannot be read any more.
    pub fn digest(&self, read: Read) -> Result<u64> {
        let hasher = std::sync::Mutex::new(XxHash64::with_seed(0));
        let add = |text: &str| {
            if let Ok(mut hasher) = hasher.lock() {
                hasher.write(text.as_bytes());
                hasher.write_u8(0);
            }
        };
        add(env!("CARGO_PKG_VERSION"));
        add(self.only.as_deref().unwrap_or_default());
        add(&self.document.to_string());
        let traces = |name: &str| read(name).inspect(|text| add(text));
        Scenario::parse_with(&self.document.to_string(), &self.file, &traces)?;
        Ok(hasher.into_inner().map_or(0, |hasher| hasher.finish()))
    }
}

impl Sweep {
    /// Puts one of the values where the keys stand, and what goes with it.
    fn set(
        &self,
        document: &mut DocumentMut,
        value: &toml::Value,
    ) -> std::result::Result<(), String> {
        let index = self.values.iter().position(|other| other == value);
        let index = index.ok_or_else(|| format!("{} is never {value}", self.name))?;
        for (key, values) in &self.keys {
            let text = values[index].to_string();
            let value = text.parse::<toml_edit::Value>();
            put(document, key, &value.map_err(|error| error.to_string())?)?;
        }
        Ok(())
    }
}

/// Refuses to read files.
pub(crate) fn alone(_: &str) -> io::Result<String> {
    Err(io::Error::other(
        "this scenario is read without other files",
    ))
}

/// Reads a `[[sweep]]`.
fn sweep(section: &Section) -> Result<Sweep> {
    let name = section.need("name", "one word for what varies, such as \"load\"")?;
    let values = section.need("values", "what it takes: an array, or { from, to, step }")?;
    let mut keys = Vec::new();
    let taken = values_of(values)?;
    for key in keys_of(section)? {
        keys.push((key, taken.clone()));
    }
    let with = section.get("with");
    for with in with.map_or(Ok(Vec::new()), |with| with.sections(&WITH))? {
        let along = with.need("values", "one for each value of the sweep")?;
        let along_values = values_of(along)?;
        if along_values.len() != taken.len() {
            let (has, needs) = (along_values.len(), taken.len());
            return Err(along.error(format!("values: {has} of them for {needs} of the sweep")));
        }
        for key in keys_of(&with)? {
            keys.push((key, along_values.clone()));
        }
    }
    Ok(Sweep {
        name: name.string("a word")?.to_owned(),
        values: taken,
        keys,
    })
}

/// One key, or several that take the same value.
fn keys_of(section: &Section) -> Result<Vec<String>> {
    let form =
        "keys joined by dots, such as \"machine.cores\"; a workload or configuration by its name";
    let value = section.need("key", form)?;
    let one = |value: &Value| value.string(form).map(str::to_owned);
    match value.is_array() {
        true => value.array(form)?.iter().map(one).collect(),
        false => Ok(vec![one(&value)?]),
    }
}

fn values_of(value: Value) -> Result<Vec<toml::Value>> {
    let values = match value.is_array() {
        true => value
            .array("an array")?
            .iter()
            .map(plain)
            .collect::<Result<Vec<_>>>()?,
        false => range(&value.section(&RANGE)?)?,
    };
    match values.is_empty() {
        true => Err(value.error("values: give one at least")),
        false => Ok(values),
    }
}

/// `from`, a step further, and so on up to `to`; whole numbers if all three are.
fn range(section: &Section) -> Result<Vec<toml::Value>> {
    let need = |key: &str| section.need(key, "values from it on, up to `to`, by `step`");
    let [from, to, step] = [need("from")?, need("to")?, need("step")?];
    let whole = |value: &Value| value.integer(i32::MIN..=i32::MAX).ok();
    let all_whole = whole(&from).zip(whole(&to)).and(whole(&step)).is_some();
    let any = Limits::from(-1e9, 1e9);
    let (first, last) = (from.number(any)?, to.number(any)?);
    let width = step.number(Limits::above(0.0, 1e9))?;
    if last < first {
        return Err(to.expected("no less than `from`"));
    }
    // a last one that rounding puts beyond the end counts
    let steps = ((last - first) / width + 1e-9).floor();
    if steps >= MOST_POINTS as f64 {
        return Err(step.error(format!("step: more than {MOST_POINTS} values")));
    }
    let value = |n: u64| {
        let value = first + n as f64 * width;
        match all_whole {
            true => toml::Value::Integer(value as i64),
            false => toml::Value::Float((value * 1e9).round() / 1e9), // 0.3, not 0.30000000000000004
        }
    };
    Ok((0..=steps as u64).map(value).collect())
}

/// A value without its place.
fn plain(value: &Value) -> Result<toml::Value> {
    let table = format!("value = {}", value.text()).parse::<toml::Table>();
    let mut table = table.map_err(|error| value.error(error.to_string()))?;
    let plain = table.remove("value");
    plain.ok_or_else(|| value.error("values: cannot be read"))
}

/// Puts a value where keys joined by dots lead to; elements of arrays of tables go by their `name`. Makes tables on the way.
fn put(
    document: &mut DocumentMut,
    key: &str,
    value: &toml_edit::Value,
) -> std::result::Result<(), String> {
    let keys: Vec<&str> = key.split('.').map(str::trim).collect();
    if keys.iter().any(|key| key.is_empty()) {
        return Err(format!(
            "{key:?} is no key: join keys by dots, such as machine.cores"
        ));
    }
    put_below(document.as_table_mut(), &keys, value)
}

fn put_below(
    table: &mut dyn TableLike,
    keys: &[&str],
    value: &toml_edit::Value,
) -> std::result::Result<(), String> {
    let Some((key, rest)) = keys.split_first() else {
        return Ok(());
    };
    if rest.is_empty() {
        table.insert(key, Item::Value(value.clone()));
        return Ok(());
    }
    let new = || Item::Value(InlineTable::new().into());
    let item = table.entry(key).or_insert_with(new);
    match item.as_array_of_tables_mut() {
        Some(tables) => {
            let (name, rest) = rest.split_first().unwrap_or((&"", &[]));
            let named = |table: &&mut Table| table.get("name").and_then(Item::as_str) == Some(name);
            let Some(table) = tables.iter_mut().find(named) else {
                return Err(format!("no [[{key}]] is called {name:?}"));
            };
            match rest.is_empty() {
                true => Err(format!("{key}.{name} is a table: name a key of it")),
                false => put_below(table, rest, value),
            }
        }
        None => match item.as_table_like_mut() {
            Some(table) => put_below(table, rest, value),
            None => Err(format!(
                "{key} is no table, so there is no {key}.{}",
                rest.join(".")
            )),
        },
    }
}
