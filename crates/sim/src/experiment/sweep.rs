//! What is varied: keys of the scenario and their values.

use serde::Deserialize;
use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// A key of the scenario and the values it takes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sweep {
    /// One word for it.
    pub name: String,
    /// Keys joined by dots; an element of an array of tables by its `name`.
    key: Keys,
    /// What may stand there.
    pub values: Vec<toml::Value>,
    /// Keys that change along with it.
    #[serde(default)]
    with: Vec<With>,
}

/// Keys that change along with a sweep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    key: Keys,
    /// One for each value of the sweep.
    values: Vec<toml::Value>,
}

/// One key, or several that take the same value.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Keys {
    One(String),
    Several(Vec<String>),
}

impl Sweep {
    /// Puts one of the values where the keys stand, and what goes with it. False if a key does not
    /// stand there, or nothing goes with the value.
    pub fn set(&self, document: &mut DocumentMut, value: &toml::Value) -> bool {
        let index = self.values.iter().position(|other| other == value);
        let along = |with: &With| {
            let value = index.and_then(|index| with.values.get(index));
            with.values.len() == self.values.len()
                && value.is_some_and(|value| with.key.set(document, value))
        };
        self.with.iter().all(along) && self.key.set(document, value)
    }
}

impl Keys {
    /// Puts a value where the keys stand. False if one of them does not.
    fn set(&self, document: &mut DocumentMut, value: &toml::Value) -> bool {
        let text = value.to_string();
        let Ok(value) = text.parse::<Value>() else {
            return false;
        };
        let keys = match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Several(keys) => keys,
        };
        let mut set = |key: &String| {
            let keys: Vec<&str> = key.split('.').collect();
            let item = place(document.as_table_mut(), &keys);
            item.map(|item| *item = Item::Value(value.clone()))
                .is_some()
        };
        !keys.is_empty() && keys.iter().all(&mut set)
    }
}

/// The item that keys lead to.
fn place<'a>(table: &'a mut dyn TableLike, keys: &[&str]) -> Option<&'a mut Item> {
    let (key, rest) = keys.split_first()?;
    let item = table.get_mut(key)?;
    if rest.is_empty() {
        return Some(item);
    }
    if item.is_array_of_tables() {
        let (name, rest) = rest.split_first()?;
        let tables = item.as_array_of_tables_mut()?;
        let named = |table: &&mut Table| table.get("name").and_then(Item::as_str) == Some(name);
        return place(tables.iter_mut().find(named)?, rest);
    }
    place(item.as_table_like_mut()?, rest)
}
