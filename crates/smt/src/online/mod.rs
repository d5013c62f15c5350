//! threadPerf while the machine works: from how much work its cores do at each density.
//!
//! A caller brings, for each core and interval, the work done (instructions, or
//! any other count that grows with work) and the time during which 1, 2, ... lanes ran. [`rates`]
//! finds the work rate of a core at each density and with it threadPerf\[n\] = (r_n / n) / r_1.
//! Where a density was hardly seen, its rate stays unknown and the calibrated value stands in,
//! labelled.
//!
//! Instructions are work only while the kind of work stays the same: a lane that spins for a lock
//! counts many and does none. What is found so holds for the load that ran.

mod linear;
pub mod rates;
