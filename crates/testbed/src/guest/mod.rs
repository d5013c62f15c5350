//! What runs inside the emulated machine: its first process.

pub mod init;
mod mounts;
pub mod probe;

mod relay;
