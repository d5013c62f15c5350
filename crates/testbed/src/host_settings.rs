//! How the host's scheduler is to treat the machine's threads.

use std::time::Duration;

/// Settings that can be changed while the machine runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostSettings {
    /// The slice that the host's scheduler gives a lane's thread, 0.1 to 100 ms; none is the host's
    /// default.
    pub slice: Option<Duration>,
    /// How often the host's scheduler is made to choose anew between sibling lanes; none leaves it
    /// to its tick. Dear on a virtual machine, and coarser than [`crate::Spec::lane_turn`].
    pub metronome: Option<Duration>,
    /// Lets QEMU's main thread, which fires the guest's timers, run as soon as it wants to
    /// (real-time class).
    pub urgent_timers: bool,
}

impl HostSettings {
    /// What serves a machine with several lanes to a core best (see `examples/hand_over.rs`).
    pub fn recommended() -> Self {
        HostSettings {
            slice: Some(Duration::from_micros(100)),
            metronome: None,
            urgent_timers: true,
        }
    }
}
