//! The modules of a crate, and which of them each names.

use crate::Error;
use crate::uses::{self, Import, Named};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Path of a module below the crate's root, which is the empty one.
pub type Module = Vec<String>;

/// How many re-exports lead to a name at most.
const HOPS_MAX: u32 = 16;

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Modules {
    imports: BTreeMap<Module, Vec<Import>>,
    names: BTreeMap<Module, Vec<Named>>,
}

impl Modules {
    /// Reads the modules of the crate whose root file is `root`.
    ///
    /// # Errors
    /// If a file that a `mod` names is missing, or is no Rust.
    pub fn read(root: &Path) -> Result<Modules, Error> {
        let mut modules = Modules::default();
        let folder = root.parent().unwrap_or(Path::new("")).to_owned();
        modules.add(Vec::new(), root, &folder)?;
        Ok(modules)
    }

    fn add(&mut self, module: Module, file: &Path, folder: &Path) -> Result<(), Error> {
        let path = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let parsed = syn::parse_file(&text).map_err(|error| Error::Parse {
            path,
            what: error.to_string(),
        })?;
        let found = uses::find(&parsed);
        for (child, explicit) in &found.children {
            let mut below = module.clone();
            below.push(child.clone());
            let inside = folder.join(child);
            let child = match explicit {
                // beside the file that names it
                Some(path) => file.with_file_name(path),
                None => child_file(folder, child),
            };
            self.add(below, &child, &inside)?;
        }
        self.imports.insert(module.clone(), found.imports);
        self.names.insert(module, found.names);
        Ok(())
    }

    /// Every module that one names, as pairs of the one and the other.
    pub fn arrows(&self) -> BTreeSet<(Module, Module)> {
        let mut arrows = BTreeSet::new();
        for (module, names) in &self.names {
            for name in names {
                if let Some(target) = self.resolve(module, name, HOPS_MAX)
                    && target != *module
                {
                    arrows.insert((module.clone(), target));
                }
            }
        }
        arrows
    }

    /// The module in which stands what `name` means, seen from `module`; `None`: outside of the crate.
    fn resolve(&self, module: &Module, name: &[String], hops: u32) -> Option<Module> {
        let (mut at, mut rest) = self.start(module, name)?;
        while let Some((next, further)) = rest.split_first() {
            let mut child = at.clone();
            child.push(next.clone());
            if self.names.contains_key(&child) {
                (at, rest) = (child, further);
                continue;
            }
            return match self.exported(&at, next) {
                Some(import) if hops > 0 => self.resolve(&at, &import.path, hops - 1),
                _ => Some(at),
            };
        }
        Some(at)
    }

    /// Where a path begins, and what of it is left.
    fn start<'a>(&self, module: &Module, name: &'a [String]) -> Option<(Module, &'a [String])> {
        let (first, mut rest) = name.split_first()?;
        let mut at = match first.as_str() {
            "crate" => return Some((Vec::new(), rest)),
            "self" => module.clone(),
            "super" => module.split_last()?.1.to_vec(),
            child => {
                let mut path = module.clone();
                path.push(child.to_owned());
                return self.names.contains_key(&path).then_some((path, rest));
            }
        };
        while let Some((next, further)) = rest.split_first()
            && next == "super"
        {
            at.pop()?;
            rest = further;
        }
        Some((at, rest))
    }

    fn exported(&self, module: &Module, name: &str) -> Option<&Import> {
        let imports = self.imports.get(module)?;
        imports.iter().find(|import| import.name == name)
    }
}

fn child_file(folder: &Path, child: &str) -> PathBuf {
    let beside = folder.join(format!("{child}.rs"));
    match beside.exists() {
        true => beside,
        false => folder.join(child).join("mod.rs"),
    }
}
