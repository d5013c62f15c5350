//! What a source file declares, imports and names.

use syn::visit::{self, Visit};

/// A path as it is written: `["crate", "engine", "Engine"]`.
pub type Named = Vec<String>;

/// `use path as name`.
#[derive(Debug)]
pub struct Import {
    pub name: String,
    pub path: Named,
}

/// What stands in a file, tests left out.
#[derive(Debug, Default)]
pub struct Found {
    /// Modules in files of their own, with the path of those that have a `#[path]`.
    pub children: Vec<(String, Option<String>)>,
    pub imports: Vec<Import>,
    pub names: Vec<Named>,
}

/// Reads a file.
pub fn find(file: &syn::File) -> Found {
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
