//! Layouts and numbers that the scheduler's source shares with Rust, by `intf.h`, and what is done with its counters.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unsafe_op_in_unsafe_fn,
    clippy::all
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/intf.rs"));
}

pub use bindings::*;

/// How many timers the scheduler has on so many cores.
pub fn timers(nr_cores: u32) -> u32 {
    let a_core = timer_TIMERS_A_CORE.count_ones();
    a_core * nr_cores + (timer_NR_TIMERS - a_core)
}

/// Numbers of a set of counters.
const COUNTERS: usize = size_of::<counters>() / size_of::<u64>();

impl counters {
    /// The sum of two sets.
    pub fn plus(&self, other: &counters) -> counters {
        self.with(other, u64::wrapping_add)
    }

    /// What was added to an earlier set.
    pub fn since(&self, earlier: &counters) -> counters {
        self.with(earlier, u64::saturating_sub)
    }

    fn with(&self, other: &counters, join: fn(u64, u64) -> u64) -> counters {
        let (a, b) = (self.as_numbers(), other.as_numbers());
        let joined: [u64; COUNTERS] = std::array::from_fn(|i| join(a[i], b[i]));
        // SAFETY: as many numbers as the structure has, of which any are a valid one
        unsafe { std::mem::transmute(joined) }
    }

    fn as_numbers(&self) -> &[u64; COUNTERS] {
        // SAFETY: the structure consists of numbers of 64 bits alone; a shared view as long as the reference
        unsafe { &*std::ptr::from_ref(self).cast() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_timers_are_one_a_core() {
        assert_eq!((timers(1), timers(5)), (6, 14));
        const { assert!(timer_TIMERS_A_CORE < 1 << timer_NR_TIMERS) };
    }

    #[test]
    fn each_counter_is_joined_with_its_like() {
        let one = counters {
            run_ns: [1, 2, 3],
            symbiotic: 4,
            ..counters::default()
        };
        let sum = one.plus(&one);
        assert_eq!((sum.run_ns, sum.symbiotic, sum.swaps), ([2, 4, 6], 8, 0));
        assert_eq!(sum.since(&one).run_ns, [1, 2, 3]);
        assert_eq!(counters::default().since(&one).symbiotic, 0);
    }
}
