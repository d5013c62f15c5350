//! What the scheduler's source is known to do against its own rules. Each weakens one rule, or keeps
//! the scenarios away from what strands a task. When the source is mended, set it to false: seeds
//! that show it fail then if it is not.

/// A batch run by the starvation bound that is allowed to go on keeps `lane->overdue`, so that nobody
/// asks it to leave when the core closes: it stays for up to a slice and a tick. Seed 49.
pub const OVERDUE_STAYS: bool = false;

/// A core has one claim. The first critical task that begins to run, of two that were sent there,
/// clears it (`critical_arrived`), and batch is let in before the second. Seed 84.
pub const ONE_CLAIM: bool = false;

/// A tick sends only the idle lanes of the first core with room to look (`missed_check`). Batch that
/// wakes in a burst all goes to one vector, since it takes no lane over, and then waits for one tick
/// a core; for good, if the first core with room may not take it. Seeds 26 and 821.
pub const ONE_ROOM: bool = false;

/// Where the SMT level is below a core's lanes: the lane that falls idle is told of work that waits,
/// but only its sibling may use that. Seed 2.
pub const LEVEL_STRANDS: bool = false;

/// A lane that ran critical work and falls idle does not look again (`update_idle`), not even for the
/// task that just left it, because it is no longer critical. Seed 800.
pub const CLASS_STRANDS: bool = false;

/// If the first task of a vector is beyond its bound, a lane that it may not use takes another task
/// instead and uses up the core's turn (`vector_take_overdue`); a tick asks idle lanes, which may
/// not either (`overdue_check`). Seed 7122, with all of these false.
pub const PINNED_HEAD: bool = false;
