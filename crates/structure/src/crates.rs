//! The crates of the workspace and what they need of each other, from their Cargo.toml.

use crate::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// A crate of the workspace.
#[derive(Debug)]
pub struct Member {
    /// Folder, as the workspace names it: `crates/sim`.
    pub folder: String,
    /// Its library's or program's root file.
    pub root: PathBuf,
    /// Names of the crates of the workspace that it needs to run, not those that only its tests need.
    pub needs: Vec<String>,
    /// Its own name.
    pub name: String,
}

fn table(path: &Path) -> Result<toml::Table, Error> {
    let shown = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| Error::Read {
        path: shown.clone(),
        source,
    })?;
    text.parse().map_err(|error: toml::de::Error| Error::Parse {
        path: shown,
        what: error.to_string(),
    })
}

fn keys(table: &toml::Table, key: &str) -> Vec<String> {
    let entries = table.get(key).and_then(toml::Value::as_table);
    entries
        .map(|entries| entries.keys().cloned().collect())
        .unwrap_or_default()
}

/// The members of the workspace whose root is `workspace`, in its order.
///
/// # Errors
/// If a Cargo.toml cannot be read or names no crate.
pub fn members(workspace: &Path) -> Result<Vec<Member>, Error> {
    let manifest = table(&workspace.join("Cargo.toml"))?;
    let folders = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("members"))
        .and_then(toml::Value::as_array);
    let mut members = Vec::new();
    for folder in folders
        .into_iter()
        .flatten()
        .filter_map(toml::Value::as_str)
    {
        let path = workspace.join(folder).join("Cargo.toml");
        let manifest = table(&path)?;
        let name = manifest
            .get("package")
            .and_then(|package| package.get("name"))
            .and_then(toml::Value::as_str)
            .ok_or_else(|| Error::Parse {
                path: path.display().to_string(),
                what: "names no package".to_owned(),
            })?;
        let src = workspace.join(folder).join("src");
        let library = src.join("lib.rs");
        members.push(Member {
            folder: folder.to_owned(),
            root: match library.exists() {
                true => library,
                false => src.join("main.rs"),
            },
            needs: keys(&manifest, "dependencies"),
            name: name.to_owned(),
        });
    }
    let names: Vec<String> = members.iter().map(|member| member.name.clone()).collect();
    for member in &mut members {
        member.needs.retain(|need| names.contains(need));
    }
    Ok(members)
}
