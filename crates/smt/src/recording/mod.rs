//! Recordings: intervals of a collector in a compact file.
//!
//! A file is [`MAGIC`] and the version, then frames: a marker, the payload's length and its CRC-32
//! (little-endian), the payload: a [`Frame`] in postcard's encoding, compressed by deflate. A frame that
//! is damaged is left out, and reading goes on at the next marker: intervals do not build on each other.

mod read;

pub(crate) use read::no_interval;
pub use read::{Fault, Frames, intervals, open};

use crate::snapshot::Interval;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde::{Deserialize, Serialize};
use std::io::Write;

/// How a recording begins.
pub const MAGIC: &[u8; 8] = b"SIDELREC";
/// The version that is written.
pub const VERSION: u32 = 3;
/// The oldest version that is read. Its intervals have no limits of cgroups.
const OLDEST: u32 = 2;

/// How a frame begins.
const MARKER: &[u8; 4] = b"\xf5SLF";
/// Longest payload, compressed or not: hostile lengths cost no memory.
const PAYLOAD_MAX: usize = 256 << 20;

/// What a file holds, one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Frame {
    /// The first.
    Header(Header),
    /// An interval.
    Interval(Interval),
    /// The collector was started anew; what passed between is not recorded.
    Restarted(String),
    /// The last, unless the recorder was killed.
    End(End),
}

/// What was recorded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the program.
    pub program: String,
    /// The kernel's release.
    pub kernel: String,
    /// The scheduler that was attached at the beginning, if any.
    pub scheduler: Option<String>,
    /// Lanes that were online at the beginning.
    pub lanes: u32,
    /// When it began, ms since 1970.
    pub wall_ms: i64,
    /// Length of an interval, ms.
    pub interval_ms: u64,
    /// The command that was run meanwhile.
    pub command: Option<Vec<String>>,
}

/// How it ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Exit status of the command; none without one, or if a signal ended it.
    pub status: Option<i32>,
    /// Frames before this one.
    pub frames: u64,
}

/// Why a file cannot be written, or is no recording.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The system says so.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It begins otherwise.
    #[error("it is no recording of 'sidelane record'")]
    NoRecording,
    /// It was written by another version.
    #[error(
        "it has version {found} of the format, and this program reads versions {OLDEST} to {VERSION}"
    )]
    Version {
        /// That version.
        found: u32,
    },
    /// Nothing tells what was recorded.
    #[error("its beginning is damaged: {0}")]
    NoHeader(String),
    /// It ends before its first interval does, or none can be read.
    #[error("it holds no complete interval: {0}")]
    NoInterval(String),
    /// The times or rates make no sense.
    #[error("its times cannot be evaluated: {0}")]
    Times(#[from] crate::metrics::Error),
    /// Something that cannot be encoded.
    #[error("cannot encode a frame: {0}")]
    Encode(String),
}

/// Writes a recording, frame by frame.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    frames: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(mut out: W, header: Header) -> Result<Writer<W>, Error> {
        out.write_all(MAGIC)?;
        out.write_all(&VERSION.to_le_bytes())?;
        let mut writer = Writer { out, frames: 0 };
        writer.write(&Frame::Header(header))?;
        Ok(writer)
    }

    /// Adds a frame and hands it to the system, so that a recorder that is killed loses nothing more.
    ///
    /// # Errors
    /// What the system says, or a frame beyond the limits.
    pub fn write(&mut self, frame: &Frame) -> Result<(), Error> {
        let plain = postcard::to_stdvec(frame).map_err(|e| Error::Encode(e.to_string()))?;
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&plain)?;
        let payload = encoder.finish()?;
        if plain.len().max(payload.len()) > PAYLOAD_MAX {
            return Err(Error::Encode(format!("{} bytes are too many", plain.len())));
        }
        let mut bytes = Vec::with_capacity(payload.len() + 12);
        bytes.extend(MARKER);
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(crc32fast::hash(&payload).to_le_bytes());
        bytes.extend(payload);
        self.out.write_all(&bytes)?;
        self.out.flush()?;
        self.frames += 1;
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As [`Writer::write`].
    pub fn finish(mut self, status: Option<i32>) -> Result<W, Error> {
        let frames = self.frames;
        self.write(&Frame::End(End { status, frames }))?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests;
