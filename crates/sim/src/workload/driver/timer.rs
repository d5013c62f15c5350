//! Timers of the driver, and how a simulation carries them.

/// A timer of the driver, as a simulation's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next request of an open loop or a trace.
    Arrival { group: usize },
    /// A client has thought.
    Client { group: usize, client: usize },
    /// A device has answered.
    Device { group: usize, task: usize },
    /// The time of the request in a slot is up.
    Deadline { slot: usize, generation: u32 },
    /// The request in a slot has waited beside the CPU.
    Delay { slot: usize, generation: u32 },
}

/// Layout of a token: 3 bits what, then two numbers of 29 and 32 bits.
impl Timer {
    pub fn token(self) -> u64 {
        let (what, a, b) = match self {
            Timer::Arrival { group } => (0, group as u64, 0),
            Timer::Client { group, client } => (1, group as u64, client as u64),
            Timer::Device { group, task } => (2, group as u64, task as u64),
            Timer::Deadline { slot, generation } => (3, slot as u64, u64::from(generation)),
            Timer::Delay { slot, generation } => (4, slot as u64, u64::from(generation)),
        };
        what << 61 | a << 32 | b
    }

    pub fn of(token: u64) -> Timer {
        let (a, b) = ((token >> 32 & 0x1fff_ffff) as usize, token as u32);
        match token >> 61 {
            0 => Timer::Arrival { group: a },
            1 => Timer::Client {
                group: a,
                client: b as usize,
            },
            2 => Timer::Device {
                group: a,
                task: b as usize,
            },
            3 => Timer::Deadline {
                slot: a,
                generation: b,
            },
            _ => Timer::Delay {
                slot: a,
                generation: b,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_as_timers() {
        for timer in [
            Timer::Arrival { group: 7 },
            Timer::Client {
                group: 3,
                client: 1_000_000,
            },
            Timer::Device { group: 0, task: 12 },
            Timer::Deadline {
                slot: 123_456_789,
                generation: u32::MAX,
            },
            Timer::Delay {
                slot: 500_000_000,
                generation: u32::MAX,
            },
        ] {
            assert_eq!(Timer::of(timer.token()), timer);
        }
    }
}
