//! Files of tables: what they may hold, and where a mistake in them is.

mod limits;
mod mistake;
mod reader;
mod times;

pub use limits::Limits;
pub use mistake::{Mistake, Place, Result};
pub use reader::{Section, Shape, Source, Value, alternatives, similar, with_keys};
pub use times::{LONGEST_MS, MS, SECOND, US, time_ns};
