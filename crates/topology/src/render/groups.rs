//! The picture's outline: packages, nodes, caches and capacities as nested headings over cores,
//! and the runs of like parts that a large machine's picture folds.

use crate::{Core, Topology};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// A heading and what stands below it.
pub(super) struct Group<'a> {
    /// For instance "package 0, node 0".
    pub(super) heading: String,
    /// The heading without numbers, to tell like groups.
    kind: String,
    pub(super) below: Below<'a>,
}

/// What stands below a heading.
pub(super) enum Below<'a> {
    Groups(Vec<Group<'a>>),
    Cores(Vec<&'a Core>),
}

/// What cores are grouped by, outermost first.
#[derive(Clone, Copy)]
enum Level {
    Package,
    Node,
    Cache,
    Capacity,
}

/// The whole machine as nested groups. Capacity is a level only if cores differ in it.
pub(super) fn outline(machine: &Topology) -> Vec<Group<'_>> {
    const LEVELS: [Level; 4] = [Level::Package, Level::Node, Level::Cache, Level::Capacity];
    let levels = if machine.capacities_equal() {
        &LEVELS[..3]
    } else {
        &LEVELS[..]
    };
    split(machine, machine.cores().iter().collect(), levels)
}

/// Groups cores by the first of `levels`, and each group by the rest.
fn split<'a>(machine: &Topology, cores: Vec<&'a Core>, levels: &[Level]) -> Vec<Group<'a>> {
    let [level, inner @ ..] = levels else {
        return Vec::new();
    };
    let mut parts: BTreeMap<usize, Vec<&Core>> = BTreeMap::new();
    for core in cores {
        parts.entry(level.key(core)).or_default().push(core);
    }
    parts
        .into_values()
        .map(|cores| {
            let (kind, heading) = level.heading(machine, cores[0]);
            let below = match inner {
                [] => Below::Cores(cores),
                _ => Below::Groups(split(machine, cores, inner)),
            };
            Group {
                heading,
                kind,
                below,
            }
            .merged_with_only_child()
        })
        .collect()
}

impl Level {
    /// The sort key: capacities descend, the rest ascends.
    fn key(self, core: &Core) -> usize {
        match self {
            Level::Package => core.package,
            Level::Node => core.node,
            Level::Cache => core.cache,
            Level::Capacity => usize::MAX - core.capacity as usize,
        }
    }

    /// The kind of group that `core` is in, and its heading.
    fn heading(self, machine: &Topology, core: &Core) -> (String, String) {
        let numbered = |kind: String, id: String| (kind.clone(), format!("{kind} {id}"));
        match self {
            Level::Package => match machine.packages()[core.package].id {
                -1 => numbered("package".into(), "unknown".into()),
                id => numbered("package".into(), id.to_string()),
            },
            Level::Node => numbered("node".into(), machine.nodes()[core.node].id.to_string()),
            Level::Cache => match machine.caches()[core.cache].level {
                Some(level) => numbered(format!("L{level} cache"), core.cache.to_string()),
                None => ("cache unknown".into(), "cache unknown".into()),
            },
            Level::Capacity => {
                let capacity = format!("capacity {}", core.capacity);
                (capacity.clone(), capacity)
            }
        }
    }
}

impl<'a> Group<'a> {
    /// Puts this heading and that of the only group below on one line.
    fn merged_with_only_child(mut self) -> Group<'a> {
        if let Below::Groups(groups) = &mut self.below
            && groups.len() == 1
            && let Some(child) = groups.pop()
        {
            return Group {
                heading: format!("{}, {}", self.heading, child.heading),
                kind: format!("{}, {}", self.kind, child.kind),
                below: child.below,
            };
        }
        self
    }

    fn first_core(&self) -> Option<&'a Core> {
        match &self.below {
            Below::Groups(groups) => groups.first()?.first_core(),
            Below::Cores(cores) => cores.first().copied(),
        }
    }
}

/// Something that may look like its neighbour but for its numbers.
pub(super) trait Alike {
    /// The lowest core index and CPU number.
    fn base(&self) -> (i64, i64);

    /// Writes everything that is seen of it, numbers relative to `base`.
    fn shape(&self, base: (i64, i64), shape: &mut String);
}

impl Alike for &Core {
    fn base(&self) -> (i64, i64) {
        (self.index as i64, i64::from(self.lanes[0].cpu))
    }

    fn shape(&self, base: (i64, i64), shape: &mut String) {
        // Writing to a string cannot fail.
        let _ = write!(shape, "{} {}:", self.index as i64 - base.0, self.capacity);
        for lane in &self.lanes {
            let _ = write!(shape, " {} {}", i64::from(lane.cpu) - base.1, lane.online);
        }
        shape.push(';');
    }
}

impl Alike for Group<'_> {
    fn base(&self) -> (i64, i64) {
        self.first_core().map_or((0, 0), |core| core.base())
    }

    fn shape(&self, base: (i64, i64), shape: &mut String) {
        shape.push_str(&self.kind);
        shape.push('{');
        match &self.below {
            Below::Groups(groups) => groups.iter().for_each(|group| group.shape(base, shape)),
            Below::Cores(cores) => cores.iter().for_each(|core| core.shape(base, shape)),
        }
        shape.push('}');
    }
}

/// Cuts `items` into the longest runs of like items whose numbers advance by equal steps, so that
/// the first and the last of a run tell the rest.
pub(super) fn runs<T: Alike>(items: &[T]) -> Vec<Range<usize>> {
    let shapes: Vec<String> = items
        .iter()
        .map(|item| {
            let mut shape = String::new();
            item.shape(item.base(), &mut shape);
            shape
        })
        .collect();
    let step = |at: usize| {
        let (before, after) = (items[at - 1].base(), items[at].base());
        (after.0 - before.0, after.1 - before.1)
    };
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..items.len() {
        match runs.last_mut() {
            Some(run)
                if shapes[at] == shapes[run.start]
                    && (run.len() == 1 || step(at) == step(run.start + 1)) =>
            {
                run.end = at + 1;
            }
            _ => runs.push(at..at + 1),
        }
    }
    runs
}
