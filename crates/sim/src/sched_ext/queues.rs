//! Dispatch queues: first in, first out, or by virtual time.

use crate::task::TaskId;
use std::collections::{BTreeMap, VecDeque};

/// The queues that the scheduler created, by their identifiers.
///
/// A scheduler numbers the queues of a kind from 0, in the lower half of the identifier: they stand
/// side by side, since schedulers ask for the lengths of many queues in a row.
#[derive(Debug, Default)]
pub struct Queues {
    /// By the upper and the lower half.
    rows: Vec<Vec<Dsq>>,
    others: BTreeMap<u64, Dsq>,
}

/// Upper halves below this have a row.
const ROWS: usize = 256;

impl Queues {
    /// Forgets all queues.
    pub fn clear(&mut self) {
        *self = Queues::default();
    }

    /// Adds an empty queue; false if there is one already.
    pub fn create(&mut self, id: u64) -> bool {
        if self.get(id).is_some() {
            return false;
        }
        let (row, column) = halves(id);
        if row < ROWS && self.rows.len() <= row {
            self.rows.resize_with(row + 1, Vec::new);
        }
        match self.rows.get_mut(row) {
            Some(queues) if queues.len() == column => queues.push(Dsq::default()),
            _ => drop(self.others.insert(id, Dsq::default())),
        }
        true
    }

    /// A queue.
    pub fn get(&self, id: u64) -> Option<&Dsq> {
        let (row, column) = halves(id);
        let queue = self.rows.get(row).and_then(|queues| queues.get(column));
        queue.or_else(|| self.other(id))
    }

    #[cold]
    fn other(&self, id: u64) -> Option<&Dsq> {
        self.others.get(&id)
    }

    /// All queues and their identifiers, in the order of those.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Dsq)> {
        let rows = (0_u64..).zip(&self.rows).flat_map(|(row, queues)| {
            let queues = (0_u64..).zip(queues);
            queues.map(move |(column, queue)| (row << 32 | column, queue))
        });
        rows.chain(self.others.iter().map(|(&id, queue)| (id, queue)))
    }

    /// A queue, to change.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut Dsq> {
        let (row, column) = halves(id);
        let queues = self.rows.get_mut(row);
        match queues.and_then(|queues| queues.get_mut(column)) {
            Some(queue) => Some(queue),
            None => self.others.get_mut(&id),
        }
    }
}

fn halves(id: u64) -> (usize, usize) {
    ((id >> 32) as usize, id as u32 as usize)
}

/// A queue of the kernel. Each task has a place: what it is ordered by, and a number that only
/// counts up.
#[derive(Debug, Default)]
pub struct Dsq {
    /// In the order of their places. Nearly all tasks come at the end and leave at the front.
    tasks: VecDeque<(Place, TaskId)>,
    came: i64,
}

/// Where a task stands in its queue.
pub type Place = (i64, i64);

impl Dsq {
    /// Puts a task at the end, or before all others.
    pub fn insert(&mut self, task: TaskId, first: bool) -> Place {
        self.came += 1;
        self.put((0, if first { -self.came } else { self.came }), task)
    }

    /// Puts a task by virtual time, ns; equal ones in the order of their coming. Times are compared
    /// as the kernel does, by the sign of their difference: they may wrap.
    pub fn insert_vtime(&mut self, task: TaskId, vtime_ns: u64) -> Place {
        self.came += 1;
        self.put((vtime_ns as i64, self.came), task)
    }

    fn put(&mut self, place: Place, task: TaskId) -> Place {
        if self.tasks.back().is_none_or(|(last, _)| *last < place) {
            self.tasks.push_back((place, task));
        } else {
            let index = self.tasks.partition_point(|(other, _)| *other < place);
            self.tasks.insert(index, (place, task));
        }
        place
    }

    /// Removes the task at a place.
    pub fn remove(&mut self, place: Place) {
        if let Ok(index) = self.tasks.binary_search_by_key(&place, |(other, _)| *other) {
            self.tasks.remove(index);
        }
    }

    /// The tasks in order.
    pub fn iter(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.tasks.iter().map(|&(_, task)| task)
    }

    /// The first task.
    pub fn first(&self) -> Option<TaskId> {
        self.tasks.front().map(|&(_, task)| task)
    }

    /// How many tasks there are.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_found_by_their_identifiers() {
        let ids = [
            2 << 32,
            2 << 32 | 1,
            0,
            2 << 32 | 7,
            u64::MAX,
            1 << 40,
            2 << 32 | 2,
        ];
        let mut queues = Queues::default();
        for (task, &id) in (0..).zip(&ids) {
            assert!(queues.get(id).is_none());
            assert!(queues.create(id));
            queues.get_mut(id).unwrap().insert(TaskId(task), false);
        }
        for (task, &id) in (0..).zip(&ids) {
            assert!(!queues.create(id));
            assert_eq!(queues.get(id).and_then(Dsq::first), Some(TaskId(task)));
        }
        assert!(queues.get(2 << 32 | 3).is_none() && queues.get_mut(7).is_none());
        queues.clear();
        assert!(ids.iter().all(|&id| queues.get(id).is_none()));
    }

    #[test]
    fn queues_keep_their_order() {
        let mut queue = Dsq::default();
        let [a, b, c] = [0, 1, 2].map(TaskId);
        queue.insert(a, false);
        let place = queue.insert(b, false);
        queue.insert(c, true);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [c, a, b]);
        queue.remove(place);
        assert_eq!((queue.len(), queue.first()), (2, Some(c)));
    }

    #[test]
    fn virtual_times_may_wrap() {
        let mut queue = Dsq::default();
        let [late, early, tie] = [0, 1, 2].map(TaskId);
        queue.insert_vtime(late, 5);
        queue.insert_vtime(early, 0_u64.wrapping_sub(5));
        queue.insert_vtime(tie, 5);
        assert_eq!(queue.iter().collect::<Vec<_>>(), [early, late, tie]);
    }
}
