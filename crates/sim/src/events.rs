//! The queue of events: earliest first, and first in, first out among equal times.
//!
//! A radix heap: since time only goes on, an event need not be compared with others. It waits in the bucket of the
//! highest bit in which its time differs from the one that was reached; the first bucket that is not empty has
//! the earliest events.

use std::collections::VecDeque;

/// Events of a kind, and the time that has been reached.
#[derive(Debug)]
pub struct Events<E> {
    now_ns: u64,
    /// Events of one time, the earliest, and that time.
    due: VecDeque<E>,
    due_ns: u64,
    /// Later ones and their times, by the highest bit in which these differ from `due_ns`. Of one time all are in
    /// one bucket, in the order of their coming.
    later: [Vec<(u64, E)>; u64::BITS as usize],
    /// A bit for each bucket that is not empty.
    filled: u64,
}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Events {
            now_ns: 0,
            due: VecDeque::new(),
            due_ns: 0,
            later: std::array::from_fn(|_| Vec::new()),
            filled: 0,
        }
    }
}

impl<E> Events<E> {
    /// The time of the last event that was taken, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Adds an event, not before now.
    pub fn add(&mut self, at_ns: u64, event: E) {
        self.put(at_ns.max(self.now_ns), event);
    }

    fn put(&mut self, at_ns: u64, event: E) {
        match (at_ns ^ self.due_ns).checked_ilog2() {
            Some(bucket) => {
                self.later[bucket as usize].push((at_ns, event));
                self.filled |= 1 << bucket;
            }
            None => self.due.push_back(event),
        }
    }

    /// Takes the next event if it is not after `until_ns`; otherwise time passes until then.
    pub fn take(&mut self, until_ns: u64) -> Option<E> {
        if self.due.is_empty() {
            self.advance(until_ns);
        }
        let next = match self.due_ns <= until_ns {
            true => self.due.pop_front(),
            false => None,
        };
        self.now_ns = match next {
            Some(_) => self.due_ns,
            None => self.now_ns.max(until_ns),
        };
        next
    }

    /// The earliest of the later events become due, unless they are after `until_ns`.
    fn advance(&mut self, until_ns: u64) {
        let first = self.filled.trailing_zeros() as usize;
        let Some(bucket) = self.later.get_mut(first) else {
            return;
        };
        let earliest_ns = bucket.iter().map(|&(at_ns, _)| at_ns).min();
        let Some(earliest_ns) = earliest_ns.filter(|&at_ns| at_ns <= until_ns) else {
            return;
        };
        let mut events = std::mem::take(bucket);
        self.filled &= self.filled - 1;
        self.due_ns = earliest_ns;
        for (at_ns, event) in events.drain(..) {
            self.put(at_ns, event);
        }
        self.later[first] = events; // its room is used again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_leave_by_time_then_in_the_order_of_their_coming() {
        let mut events = Events::default();
        for (at_ns, event) in [(20, 1), (10, 2), (20, 3), (10, 4)] {
            events.add(at_ns, event);
        }
        let order: Vec<_> = std::iter::from_fn(|| events.take(15)).collect();
        assert_eq!(order, [2, 4]);
        assert_eq!(events.now_ns(), 15);
        // An event cannot be added to the past.
        events.add(3, 5);
        let rest: Vec<_> = std::iter::from_fn(|| events.take(100)).collect();
        assert_eq!(rest, [5, 1, 3]);
        assert_eq!(events.now_ns(), 100);
    }
    /// Times of all magnitudes, some more than once, with pauses: as if all were sorted.
    #[test]
    fn events_leave_as_if_they_were_sorted() {
        let mut random: u64 = 1;
        let mut below = |bits: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random >> 33 & ((1 << bits) - 1)
        };
        let (mut events, mut sorted) = (Events::default(), Vec::new());
        for number in 0..20_000 {
            let bits = below(5);
            let at_ns = events.now_ns() + below(bits);
            events.add(at_ns, number);
            sorted.push((at_ns, number));
            if below(1) == 1 {
                let until_ns = events.now_ns() + below(12);
                sorted.sort_unstable();
                let first = sorted.first().filter(|(at_ns, _)| *at_ns <= until_ns);
                let reached_ns = first.map_or(until_ns, |(at_ns, _)| *at_ns);
                assert_eq!(events.take(until_ns), first.map(|(_, number)| *number));
                assert_eq!(events.now_ns(), reached_ns);
                if first.is_some() {
                    sorted.remove(0);
                }
            }
        }
        sorted.sort_unstable();
        let rest: Vec<_> = std::iter::from_fn(|| events.take(u64::MAX)).collect();
        assert!(rest.iter().eq(sorted.iter().map(|(_, number)| number)));
        assert!(rest.len() > 1_000);
    }
}
