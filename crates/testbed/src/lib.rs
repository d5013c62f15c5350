//! The test bed: an SMT virtual machine for everyone, including those without one.
//!
//! QEMU with multi-threaded TCG boots a stock distribution kernel that has sched_ext, with the
//! wanted topology. The lanes of an emulated core share one host CPU, so siblings really compete.
//! See [`smt`] for what that delivers, [`Spec`] for what can be asked for, and [`Machine`] for
//! running commands.
//!
//! It measures scheduling, not silicon: figures are ratios between configurations in one boot.

mod arrangement;
pub mod belongings;
mod clock;
mod companions;
mod cpio;
mod density;
mod emulator;
mod error;
pub mod guest;
mod host;
pub mod kernel;
mod libraries;
mod link;
mod machine;
pub mod probe;
mod qemu;
pub mod quota;
mod rootfs;
pub mod smt;
mod spec;
pub mod steady;
mod threads;
mod wire;

pub use error::{Error, Interrupt, Result};
pub use host::{Disturbance, standard_input};
pub use link::LAST_WORDS;
pub use machine::{Job, Machine, can_be_steady, exit_code};
pub use spec::{Kernel, Spec};
pub use threads::HostSettings;
