//! What is wrong with a scenario file.

/// A mistake in a scenario file, or in a trace that it names. Printed as `file:line:column: what`,
/// with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ScenarioError {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

pub(super) type Result<T> = std::result::Result<T, ScenarioError>;
