//! What is unknown of the machine because a file holds something that cannot be.

use super::ReadError;

/// Collects what is wrong with facts that the machine can do without.
#[derive(Default)]
pub(super) struct Notes(Vec<String>);

impl Notes {
    /// The fact, or `None` if it is unknown: the file is absent or, which is noted, wrong.
    pub(super) fn known<T>(&mut self, fact: Result<Option<T>, ReadError>) -> Option<T> {
        fact.unwrap_or_else(|error| {
            self.add(&error);
            None
        })
    }

    /// Notes what is wrong.
    pub(super) fn add(&mut self, error: &ReadError) {
        self.0.push(error.to_string());
    }

    /// The notes, each naming the file and what it holds.
    pub(super) fn into_vec(self) -> Vec<String> {
        self.0
    }
}
