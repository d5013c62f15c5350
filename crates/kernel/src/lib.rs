//! What the scheduler's loader and the collector of metrics both ask of the kernel.
//!
//! - [`prepare`], [`warnings`], [`Urgent`], [`switch_everywhere`]: around the loading of BPF programs.
//! - [`Plain`]: structures that BPF programs share, as bytes.
//! - [`attached`]: the scheduler that is attached, and its maps; [`pools`]: its pools.
//! - [`cgroups`]: which cgroups exist, and their `cpu.max`.
//! - [`TaskStorage`]: when maps of tasks may go.

pub mod attached;
pub mod cgroups;
mod loading;
mod plain;
pub mod pools;
mod task_storage;

pub use attached::Error;
pub use loading::{Urgent, prepare, switch_everywhere, warnings};
pub use plain::{Plain, bytes_of, from_bytes, zeroed};
pub use task_storage::TaskStorage;
