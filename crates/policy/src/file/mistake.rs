//! What is wrong with a file.

/// A mistake in a file. Printed as `file:line:column: what`, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct Mistake {
    /// The file, as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// What is read, or the first mistake.
pub type Result<T> = std::result::Result<T, Mistake>;
