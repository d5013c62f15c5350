//! The queue of events: earliest first, and first in, first out among equal times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Events of a kind, and the time that has been reached.
#[derive(Debug)]
pub struct Events<E> {
    now_ns: u64,
    /// Counts up, so that ties leave in the order in which they came.
    sequence: u64,
    heap: BinaryHeap<Entry<E>>,
}

#[derive(Debug)]
struct Entry<E> {
    at_ns: u64,
    sequence: u64,
    event: E,
}

impl<E> Entry<E> {
    /// One number to compare: a heap compares a lot.
    fn key(&self) -> u128 {
        u128::from(self.at_ns) << 64 | u128::from(self.sequence)
    }
}

impl<E> Ord for Entry<E> {
    /// The greatest leaves the heap first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> Default for Events<E> {
    fn default() -> Self {
        Events {
            now_ns: 0,
            sequence: 0,
            heap: BinaryHeap::new(),
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
        self.sequence += 1;
        self.heap.push(Entry {
            at_ns: at_ns.max(self.now_ns),
            sequence: self.sequence,
            event,
        });
    }

    /// Takes the next event if it is not after `until_ns`; otherwise time passes until then.
    pub fn take(&mut self, until_ns: u64) -> Option<E> {
        if self.heap.peek().is_none_or(|next| next.at_ns > until_ns) {
            self.now_ns = self.now_ns.max(until_ns);
            return None;
        }
        let next = self.heap.pop()?;
        self.now_ns = next.at_ns;
        Some(next.event)
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
}
