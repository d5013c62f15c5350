//! The machine's monotonic clock, shared by all processes, and sleeping until a moment of it.

use crate::error::{During, Result};
use nix::errno::Errno;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Now, in ns of `CLOCK_MONOTONIC`: comparable between processes of one machine.
pub fn now_ns() -> Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).during(|| "reading the clock".into())?;
    Ok(now.num_nanoseconds().unsigned_abs())
}

/// Sleeps until a moment of [`now_ns`]; returns at once when it has passed.
pub fn sleep_until_ns(moment_ns: u64) -> Result<()> {
    let moment = TimeSpec::nanoseconds(i64::try_from(moment_ns).unwrap_or(i64::MAX));
    loop {
        let flags = ClockNanosleepFlags::TIMER_ABSTIME;
        match clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &moment) {
            Err(Errno::EINTR) => {}
            other => return other.map(drop).during(|| "sleeping".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_ends_after_the_moment() {
        let until_ns = now_ns().unwrap() + 5_000_000;
        sleep_until_ns(until_ns).unwrap();
        let woken_ns = now_ns().unwrap();
        assert!(woken_ns >= until_ns);
        sleep_until_ns(until_ns).unwrap();
        assert!(now_ns().unwrap() >= woken_ns);
    }
}
