//! Files of tables: what they may hold, and where a mistake in them is.

mod limits;
mod mistake;
mod reader;

pub use limits::{LONGEST_MS, Limits, MS, SECOND, US, time_ns};
pub use mistake::{Mistake, Place, Result};
pub use reader::{Section, Shape, Source, Value, alternatives, similar};
