//! The modules of a crate, what their sources declare, import and name, which of them each names, and circles among them: each can be understood only
//! with the others.

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

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
        let found = find(&parsed);
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

/// A path as it is written: `["crate", "engine", "Engine"]`.
type Named = Vec<String>;

/// `use path as name`.
#[derive(Debug)]
struct Import {
    name: String,
    path: Named,
}

/// What stands in a file, tests left out.
#[derive(Debug, Default)]
struct Found {
    /// Modules in files of their own, with the path of those that have a `#[path]`.
    children: Vec<(String, Option<String>)>,
    imports: Vec<Import>,
    names: Vec<Named>,
}

/// Reads a file.
fn find(file: &syn::File) -> Found {
    let mut found = Found::default();
    found.visit_file(file);
    found
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && attribute
                    .parse_args::<syn::Path>()
                    .is_ok_and(|condition| condition.is_ident("test")))
    })
}

fn path_of(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
                syn::Expr::Lit(literal) => match &literal.lit {
                    syn::Lit::Str(text) => Some(text.value()),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
}

impl Found {
    fn import(&mut self, mut path: Named, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.import(path, &part.tree);
            }
            syn::UseTree::Name(last) if last.ident == "self" => self.imported(None, path),
            syn::UseTree::Name(last) => {
                path.push(last.ident.to_string());
                self.imported(None, path);
            }
            syn::UseTree::Rename(last) => {
                path.push(last.ident.to_string());
                self.imported(Some(last.rename.to_string()), path);
            }
            syn::UseTree::Glob(_) => self.names.push(path),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(path.clone(), tree);
                }
            }
        }
    }

    fn imported(&mut self, name: Option<String>, path: Named) {
        self.names.push(path.clone());
        if let Some(name) = name.or_else(|| path.last().cloned()) {
            self.imports.push(Import { name, path });
        }
    }
}

impl<'ast> Visit<'ast> for Found {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if is_test(&item.attrs) {
            return;
        }
        match item.content {
            Some(_) => visit::visit_item_mod(self, item),
            None => self
                .children
                .push((item.ident.to_string(), path_of(&item.attrs))),
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        if !is_test(&item.attrs) {
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test(&item.attrs) {
            self.import(Vec::new(), &item.tree);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|part| part.ident.to_string());
            self.names.push(names.collect());
        }
        visit::visit_path(self, path);
    }
}

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The circles among the modules of one folder, for each folder: sets of modules of which each leads to all
/// others. What a module does with the one around it is no circle.
pub fn circles(arrows: &BTreeSet<(Module, Module)>) -> Vec<Vec<Module>> {
    let mut folders: BTreeMap<Module, Arrows> = BTreeMap::new();
    for (from, to) in arrows {
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        if common < from.len() && common < to.len() {
            let folder = folders.entry(from[..common].to_vec()).or_default();
            let targets = folder.entry(from[common].clone()).or_default();
            targets.insert(to[common].clone());
        }
    }
    let mut found = Vec::new();
    for (folder, arrows) in &folders {
        let reached: BTreeMap<_, _> = arrows
            .keys()
            .map(|name| (name, reach(arrows, name)))
            .collect();
        let mut seen = BTreeSet::new();
        for (&name, targets) in &reached {
            if !targets.contains(name) || seen.contains(name) {
                continue;
            }
            let circle: Vec<_> = targets
                .iter()
                .filter(|&other| reached.get(other).is_some_and(|back| back.contains(name)))
                .collect();
            seen.extend(circle.iter().copied());
            let full = |name: &String| [folder.as_slice(), std::slice::from_ref(name)].concat();
            found.push(circle.into_iter().map(full).collect());
        }
    }
    found
}

/// The modules to which arrows lead from `start`.
fn reach(arrows: &Arrows, start: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start.to_owned()];
    while let Some(name) = open.pop() {
        for target in arrows.get(&name).into_iter().flatten() {
            if reached.insert(target.clone()) {
                open.push(target.clone());
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrows(pairs: &[(&str, &str)]) -> BTreeSet<(Module, Module)> {
        let module = |path: &str| path.split("::").map(str::to_owned).collect();
        pairs
            .iter()
            .map(|&(from, to)| (module(from), module(to)))
            .collect()
    }

    fn shown(pairs: &[(&str, &str)]) -> Vec<String> {
        circles(&arrows(pairs))
            .iter()
            .map(|circle| {
                let names: Vec<String> = circle.iter().map(|module| module.join("::")).collect();
                names.join(" ")
            })
            .collect()
    }

    #[test]
    fn a_circle_is_found_where_it_closes_and_once() {
        assert!(shown(&[("a", "b"), ("b", "c"), ("a", "c")]).is_empty());
        assert_eq!(
            shown(&[("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")]),
            ["a b c"]
        );
    }

    #[test]
    fn files_of_two_folders_make_the_folders_a_circle() {
        assert_eq!(shown(&[("a::x", "b::y"), ("b::z", "a")]), ["a b"]);
        assert_eq!(shown(&[("a::x", "a::y"), ("a::y", "a::x")]), ["a::x a::y"]);
    }

    #[test]
    fn a_module_and_the_one_around_it_are_none() {
        assert!(shown(&[("a::x", "a"), ("a", "a::x")]).is_empty());
    }
}
