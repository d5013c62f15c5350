//! Renders a [`Topology`]: a picture in text for people, a document for programs.

mod groups;
mod text;

use crate::{Cache, CapacitySource, Core, CpuList, Node, Package, Smt, Topology};
use serde::{Serialize, Serializer};

pub use text::{WIDTH, text};

/// What a serialised topology holds. CPU lists are strings in the kernel's list form; packages,
/// nodes, caches and cores refer to each other by `index`; `id` is the kernel's number.
#[derive(Serialize)]
struct Document<'a> {
    possible: &'a CpuList,
    present: &'a CpuList,
    online: &'a CpuList,
    offline: CpuList,
    unplaced: CpuList,
    nr_cpu_ids: usize,
    lanes_per_core_max: usize,
    smt: Smt,
    capacity_source: CapacitySource,
    notes: &'a [String],
    packages: &'a [Package],
    nodes: &'a [Node],
    caches: &'a [Cache],
    cores: &'a [Core],
}

impl Serialize for Topology {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Document {
            possible: self.possible(),
            present: self.present(),
            online: self.online(),
            offline: self.offline(),
            unplaced: self.unplaced(),
            nr_cpu_ids: self.nr_cpu_ids(),
            lanes_per_core_max: self.lanes_per_core_max(),
            smt: self.smt(),
            capacity_source: self.capacity_source(),
            notes: self.notes(),
            packages: self.packages(),
            nodes: self.nodes(),
            caches: self.caches(),
            cores: self.cores(),
        }
        .serialize(serializer)
    }
}
