//! The guest's clock: the host's time stamp counter, whose frequency it is told.
//!
//! Under multi-threaded TCG reading the counter is cheap and the same on all lanes, while the HPET
//! and the ACPI timer cost an exit under a global lock. Left alone, the guest calibrates the
//! counter against emulated timers, fails when the host is busy, and may take the counter for
//! broken.

use std::time::{Duration, Instant};

/// How long the counter is watched.
const WATCH: Duration = Duration::from_millis(30);

/// The counter's frequency where it counts instructions, a nanosecond each, kHz.
const COUNTED_KHZ: u64 = 1_000_000;

/// Words for the kernel's command line. `config` is the kernel's build configuration, where known; `counted`:
/// time goes by instructions.
///
/// - `tsc=reliable`: no watchdog compares it with slower clocks and takes a busy host for a broken
///   counter.
/// - `clocksource=tsc`: not a matter of rating.
/// - `tsc_early_khz`, `lpj`: the frequency, and what the kernel would make of it, instead of
///   calibrations.
pub fn kernel_words(config: Option<&str>, counted: bool) -> Vec<String> {
    let mut words = vec!["tsc=reliable".to_string(), "clocksource=tsc".to_string()];
    let khz = match counted {
        true => Some(COUNTED_KHZ),
        false => counter_khz(),
    };
    if let Some(khz) = khz {
        words.push(format!("tsc_early_khz={khz}"));
        words.extend(
            config
                .and_then(tick_hz)
                .map(|hz| format!("lpj={}", khz * 1000 / hz)),
        );
    }
    words
}

/// The kernel's ticks a second.
fn tick_hz(config: &str) -> Option<u64> {
    let value = config
        .lines()
        .find_map(|line| line.strip_prefix("CONFIG_HZ="))?;
    value.parse().ok().filter(|hz| *hz > 0)
}

/// The frequency of this machine's counter, kHz; none where it is not constant.
fn counter_khz() -> Option<u64> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = flags.lines().find(|line| line.starts_with("flags"))?;
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    if !has("constant_tsc") || !has("nonstop_tsc") {
        return None;
    }
    let (start, from) = read_both()?;
    std::thread::sleep(WATCH);
    let (end, to) = read_both()?;
    let khz = (to - from) as f64 / (end - start).as_secs_f64() / 1e3;
    Some(khz.round() as u64)
}

/// Clock and counter at one moment: the closest of a few readings.
fn read_both() -> Option<(Instant, u64)> {
    let readings = (0..20).map(|_| {
        let before = counter();
        let now = Instant::now();
        let after = counter();
        (after.wrapping_sub(before), now, before / 2 + after / 2)
    });
    readings
        .min_by_key(|(width, _, _)| *width)
        .map(|(_, now, middle)| (now, middle))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> u64 {
    // SAFETY: the instruction is always there on x86-64 and reads a counter.
    unsafe { std::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tick_is_read_from_the_configuration() {
        assert_eq!(tick_hz("CONFIG_HZ_250=y\nCONFIG_HZ=250\n"), Some(250));
        assert_eq!(tick_hz("CONFIG_HZ=0\n"), None);
        assert_eq!(tick_hz(""), None);
    }

    #[test]
    fn two_looks_at_the_counter_agree() {
        // None on a machine without a constant counter, and then both times.
        let (one, two) = (counter_khz(), counter_khz());
        match (one, two) {
            (Some(one), Some(two)) => assert!(one.abs_diff(two) * 1000 < one, "{one} {two}"),
            both => assert_eq!(both, (None, None)),
        }
    }
}
