//! An option pricing server with deadlines and partial results, and its load generator: an example of an
//! interactive service whose answers are worth less if they come incomplete, and nothing if they come late.
//!
//! A request asks for the price of an option from so many random paths, by a deadline. A worker computes
//! path after path; at the deadline it answers with the price that it has then, and says how many paths
//! that rests on. It is what the finance server of Fast Old and First (Ren, He, Elnikety and McKinley,
//! ICAC 2013) does. Requests and answers are datagrams of one line of text ([`protocol`]).

pub mod load;
pub mod pricing;
pub mod protocol;
pub mod requests;
pub mod server;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A value that makes no sense.
    #[error("{0}")]
    Value(String),
    /// The server does not speak this protocol.
    #[error("the server sent {0:?}, which is no answer")]
    Answer(String),
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
}

/// The crate's result.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was being done.
fn during<E: Into<std::io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |source| Error::Io {
        what,
        source: source.into(),
    }
}
