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
    key: String,
    /// What may stand there.
    pub values: Vec<toml::Value>,
}

impl Sweep {
    /// Puts a value where the key stands. False if there is no such key.
    pub fn set(&self, document: &mut DocumentMut, value: &toml::Value) -> bool {
        let text = value.to_string();
        let Ok(value) = text.parse::<Value>() else {
            return false;
        };
        let keys: Vec<&str> = self.key.split('.').collect();
        match place(document.as_table_mut(), &keys) {
            Some(item) => {
                *item = Item::Value(value);
                true
            }
            None => false,
        }
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
