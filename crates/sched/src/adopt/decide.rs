//! What is done with a task, by what is known of it.

use super::policy::{BATCH, EXT, IDLE, NORMAL};
use crate::bpf::intf;

/// How a task came to the scheduler (`enum adoption` in `intf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It did not, or was given back.
    Not,
    /// It was adopted.
    Adopted,
    /// Its parent was, and the ledger does not have it.
    Born,
    /// It is with the kernel's scheduler for a while.
    Lent,
    /// Its parent is, and the ledger does not have it.
    LentBorn,
    /// It chose its policy itself.
    Left,
}

impl State {
    /// All of them, by the number that they have in `intf.h`.
    pub const ALL: [State; 6] = [
        State::Not,
        State::Adopted,
        State::Born,
        State::Lent,
        State::LentBorn,
        State::Left,
    ];

    pub fn native(self) -> u32 {
        self as u32
    }

    pub fn of_native(native: u32) -> State {
        State::ALL
            .get(native as usize)
            .copied()
            .unwrap_or(State::Not)
    }
}

const _: () = {
    assert!(State::Adopted as u32 == intf::adoption_ADOPTED);
    assert!(State::Born as u32 == intf::adoption_ADOPTED_BORN);
    assert!(State::Lent as u32 == intf::adoption_ADOPTED_LENT);
    assert!(State::LentBorn as u32 == intf::adoption_ADOPTED_LENT_BORN);
    assert!(State::Left as u32 == intf::adoption_ADOPTED_LEFT);
};

/// What is known of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub state: State,
    /// Its policy now.
    pub policy: u32,
    /// Rules call it batch.
    pub batch: bool,
    /// Others keep it from its lanes for too long.
    pub waits: bool,
    /// It was lent for long enough.
    pub due: bool,
}

/// What is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    Nothing,
    /// It becomes the scheduler's.
    Adopt,
    /// It is the scheduler's, and nobody knows since when.
    Find,
    /// It comes into the ledger, as what its parent was.
    Enter,
    /// It gets back what it had.
    GiveBack,
    /// It chose its policy itself: that stays, and it is said.
    Respect,
    /// The same, and it is batch no longer.
    Forget,
    /// It goes to the kernel's scheduler for a while.
    Lend,
    /// It comes back from there.
    TakeBack,
}

/// May a task of this policy be adopted?
fn adoptable(policy: u32) -> bool {
    [NORMAL, BATCH, IDLE].contains(&policy)
}

/// What is done with a task.
pub(crate) fn decide(known: Known) -> Action {
    let Known { policy, batch, .. } = known;
    let chose = match batch {
        true => Action::Respect,
        false => Action::Forget,
    };
    match known.state {
        State::Left => Action::Nothing,
        State::Not if policy == EXT => Action::Find,
        State::Not if batch && adoptable(policy) => Action::Adopt,
        State::Not => Action::Nothing,
        State::Adopted | State::Born if policy != EXT => chose,
        State::Lent if policy == EXT => Action::TakeBack,
        State::Lent | State::LentBorn if policy != IDLE => chose,
        _ if !batch => Action::GiveBack,
        State::Born | State::LentBorn => Action::Enter,
        State::Adopted if known.waits => Action::Lend,
        State::Lent if known.due => Action::TakeBack,
        State::Adopted | State::Lent => Action::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIFO: u32 = 1;
    const DEADLINE: u32 = 6;

    fn of(state: State, policy: u32, batch: bool, (waits, due): (bool, bool)) -> Action {
        decide(Known {
            state,
            policy,
            batch,
            waits,
            due,
        })
    }

    #[test]
    fn what_is_done_goes_by_the_state_the_policy_and_the_class() {
        use Action::*;
        // by policy: normal, batch, idle, SCHED_EXT, FIFO; each as batch, and as anything else
        #[rustfmt::skip]
        let table = [
            (State::Not, [Adopt, Nothing, Adopt, Nothing, Adopt, Nothing, Find, Find, Nothing, Nothing]),
            (State::Adopted, [Respect, Forget, Respect, Forget, Respect, Forget, Nothing, GiveBack, Respect, Forget]),
            (State::Born, [Respect, Forget, Respect, Forget, Respect, Forget, Enter, GiveBack, Respect, Forget]),
            (State::Lent, [Respect, Forget, Respect, Forget, Nothing, GiveBack, TakeBack, TakeBack, Respect, Forget]),
            (State::LentBorn, [Respect, Forget, Respect, Forget, Enter, GiveBack, Respect, Forget, Respect, Forget]),
            (State::Left, [Nothing; 10]),
        ];
        for (state, row) in table {
            let policies = [NORMAL, BATCH, IDLE, EXT, FIFO].into_iter();
            let cases = policies.flat_map(|policy| [(policy, true), (policy, false)]);
            for ((policy, batch), wanted) in cases.zip(row) {
                let case = format!("{state:?}, policy {policy}, batch: {batch}");
                assert_eq!(of(state, policy, batch, (false, false)), wanted, "{case}");
            }
        }
    }

    #[test]
    fn real_time_tasks_are_never_adopted() {
        for policy in [FIFO, 2, DEADLINE] {
            assert_eq!(
                of(State::Not, policy, true, (false, false)),
                Action::Nothing
            );
        }
    }

    #[test]
    fn only_what_is_the_scheduler_s_is_lent_and_only_what_is_lent_comes_back() {
        for state in State::ALL {
            for policy in [NORMAL, BATCH, IDLE, EXT, FIFO] {
                for batch in [true, false] {
                    let with = |waits, due| of(state, policy, batch, (waits, due));
                    let lends = state == State::Adopted && policy == EXT && batch;
                    assert_eq!(with(true, false) == Action::Lend, lends);
                    let comes = state == State::Lent && policy == IDLE && batch;
                    let unlike = with(false, true) != with(false, false);
                    assert_eq!(unlike, comes, "{state:?} {policy} {batch}");
                }
            }
        }
    }

    #[test]
    fn states_have_the_numbers_of_the_scheduler() {
        for state in State::ALL {
            assert_eq!(State::of_native(state.native()), state);
        }
        assert_eq!(State::of_native(99), State::Not);
    }
}
