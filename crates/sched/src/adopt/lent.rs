//! For how long tasks are with the kernel's scheduler that others' work kept from their lanes.

use super::policy::Tid;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// At first, and at most.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(60);
/// Who is lent again within so many times its last loan is lent for twice as long.
const AGAIN: u32 = 4;

#[derive(Clone, Copy, Debug)]
struct Loan {
    pause: Duration,
    since: Instant,
    /// It came back then.
    returned: Option<Instant>,
}

impl Loan {
    fn is_due(&self, now: Instant) -> bool {
        self.returned.is_none() && now >= self.since + self.pause
    }

    /// Does it still say for how long the next one is?
    fn counts(&self, now: Instant) -> bool {
        self.returned.is_none_or(|at| now < at + AGAIN * self.pause)
    }
}

/// Tasks that are lent, or were not long ago.
#[derive(Default)]
pub(crate) struct Loans(HashMap<Tid, Loan>);

impl Loans {
    pub fn lend(&mut self, tid: Tid) {
        self.lend_at(tid, Instant::now());
    }

    fn lend_at(&mut self, tid: Tid, now: Instant) {
        let before = self.0.get(&tid).filter(|loan| loan.counts(now));
        let pause = before.map_or(SHORTEST, |loan| LONGEST.min(2 * loan.pause));
        let loan = Loan {
            pause,
            since: now,
            returned: None,
        };
        self.0.insert(tid, loan);
    }

    pub fn returned(&mut self, tid: Tid) {
        if let Some(loan) = self.0.get_mut(&tid) {
            loan.returned = Some(Instant::now());
        }
    }

    pub fn forget(&mut self, tid: Tid) {
        self.0.remove(&tid);
    }

    /// A loan of which nothing is known was of an earlier attachment.
    pub fn is_due(&self, tid: Tid) -> bool {
        let loan = self.0.get(&tid);
        loan.is_none_or(|loan| loan.is_due(Instant::now()))
    }

    /// Who is to come back.
    pub fn due(&mut self) -> Vec<Tid> {
        let now = Instant::now();
        self.0.retain(|_, loan| loan.counts(now));
        let due = self.0.iter().filter(|(_, loan)| loan.is_due(now));
        due.map(|(tid, _)| *tid).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_lent_again_soon_is_lent_for_longer() {
        let (mut loans, mut now) = (Loans::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..8 {
            loans.lend_at(1, now);
            let loan = loans.0.get_mut(&1).unwrap();
            pauses.push(loan.pause.as_secs());
            assert!(!loan.is_due(now) && loan.is_due(now + loan.pause));
            now += loan.pause;
            loan.returned = Some(now);
            now += Duration::from_secs(3);
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 60, 60, 60]);
        loans.lend_at(1, now + LONGEST * AGAIN);
        assert_eq!(loans.0[&1].pause, SHORTEST);
    }

    #[test]
    fn who_came_back_or_ended_is_not_due() {
        let mut loans = Loans::default();
        let early = Instant::now().checked_sub(SHORTEST).unwrap();
        loans.lend_at(1, early);
        loans.lend_at(2, early);
        loans.lend_at(3, early);
        assert!(loans.is_due(1));
        loans.returned(2);
        loans.forget(3);
        assert_eq!(loans.due(), [1]);
    }
}
