//! Circles among modules: each can be understood only with the others.

use crate::Module;
use std::collections::{BTreeMap, BTreeSet};

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
