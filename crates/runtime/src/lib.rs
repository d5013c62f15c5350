//! For batch programs that share cores with critical work: they look for themselves whether critical
//! work runs beside them, and step aside until it is over.
//!
//! [`check`] is meant for every loop of a batch program. Its fast path reads the lane's number and
//! one word, the *lane signal* that `sidelane run` or `sidelane lanes` keeps and this process maps
//! read-only. While critical work runs on another lane of the same core, it *naps*: the thread
//! sleeps in a way that gives the core's resources to the other lane. Without a service all of this
//! does nothing, and a service that starts later is found within a second.
//!
//! C programs use `include/sidelane.h`, or need no change: see [`ffi`].
//!
//! Source: Elfen (USENIX ATC 2016): the injected check, the exposed signal, and nanonap.

mod attach;
mod board;
pub mod check;
mod cpu;
pub mod ffi;
pub mod job;
pub mod nap;
mod region;
mod status;
pub mod wire;

pub use attach::start;
pub use check::{BoundLane, check, critical_beside, siblings};
pub use job::Job;
pub use status::{Status, VERBOSE_VARIABLE, status};
