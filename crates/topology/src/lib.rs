//! Processors as the scheduler sees them: packages, NUMA nodes, last-level caches, cores and lanes.
//!
//! A [`Topology`] is read from sysfs below a root folder ([`Topology::read`]) or built by hand
//! ([`Builder`], [`Topology::regular`]). Any number of lanes to a core, any mix of cores, and lanes that are
//! offline are described alike. Which CPUs are set apart, and by what, says [`reserved::Reserved`].
//!
//! Cores are numbered 0.. in this order: capacity descending, then package, NUMA node, last-level
//! cache and lowest CPU number ascending. A lower core index is thus never a slower core, and
//! neighbours in the numbering are near each other.
//!
//! ```
//! use sidelane_topology::{Builder, CoreSpec, Distance};
//!
//! let machine = Builder::new()
//!     .core(CoreSpec::new([4]).capacity(500).cache(2, 1))
//!     .core(CoreSpec::new([0, 2]).capacity(800).cache(2, 0))
//!     .core(CoreSpec::new([1, 3]).capacity(800).cache(2, 0))
//!     .build()?;
//! assert_eq!(machine.core_of(4).map(|core| (core.index, core.capacity)), Some((2, 640)));
//! assert_eq!(machine.siblings(0).map(|lane| lane.cpu).collect::<Vec<_>>(), [2]);
//! assert_eq!(machine.distance(0, 1), Some(Distance::SameCache));
//! # Ok::<(), sidelane_topology::BuildError>(())
//! ```

mod builder;
mod cpulist;
mod machine;
mod printable;
mod regular;
pub mod render;
pub mod reserved;
mod smt;
mod sysfs;

pub use builder::{BuildError, Builder, CoreSpec};
pub use cpulist::{CPU_MAX, CpuList, CpuListError};
pub use machine::{
    CAPACITY_MAX, Cache, CapacitySource, Core, Distance, Lane, Node, Package, Topology,
};
pub use printable::{json_mistake, printable};
pub use regular::{Numbering, Regular};
pub use smt::{Smt, SmtControl, SmtControlError};
pub use sysfs::ReadError;

/// The first `name : value` of `/proc/cpuinfo`, which has the text `cpuinfo`.
pub fn cpuinfo_field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then_some(value.trim())
    })
}
