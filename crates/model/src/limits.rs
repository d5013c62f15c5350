//! What machines are described with at most.

/// Most cores of a machine.
pub const CORES_MAX: u32 = 16_384;

/// Most lanes of a core.
pub const LANES_MAX: usize = 16;
