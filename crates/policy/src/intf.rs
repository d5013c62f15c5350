//! Layouts and numbers that the scheduler's source shares with Rust, by `intf.h`.
#![allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all
)]

/// How many timers the scheduler has on so many cores.
pub fn timers(nr_cores: u32) -> u32 {
    let a_core = timer_TIMERS_A_CORE.count_ones();
    a_core * nr_cores + (timer_NR_TIMERS - a_core)
}

include!(concat!(env!("OUT_DIR"), "/intf.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_timers_are_one_a_core() {
        assert_eq!((timers(1), timers(5)), (6, 14));
        assert!(timer_TIMERS_A_CORE < 1 << timer_NR_TIMERS);
    }
}
