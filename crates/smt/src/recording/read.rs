//! Reading recordings, damaged ones included.

use super::{Error, Frame, Header, MAGIC, MARKER, OLDEST, PAYLOAD_MAX, VERSION};
use crate::snapshot::Interval;
use flate2::read::DeflateDecoder;
use std::io::Read;

/// Bytes before a payload: marker, length, CRC.
const FRAME_HEAD: usize = 12;

/// Something that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Bytes that are no whole frame.
    #[error("{bytes} bytes from byte {at} on are damaged: {reason}; what they held is missing")]
    Damaged {
        /// Where they begin.
        at: usize,
        /// How many.
        bytes: usize,
        /// What is wrong.
        reason: String,
    },
    /// The file ends within a frame.
    #[error("the file ends within a frame that begins at byte {at}; its interval is missing")]
    Truncated {
        /// Where the frame begins.
        at: usize,
    },
}

/// The frames of a recording after its header.
#[derive(Debug, Clone)]
pub struct Frames<'a> {
    bytes: &'a [u8],
    at: usize,
    version: u32,
}

/// Opens a recording that was read whole.
///
/// # Errors
/// It is none, of another version, or its header is damaged.
pub fn open(bytes: &[u8]) -> Result<(Header, Frames<'_>), Error> {
    let after = bytes.strip_prefix(MAGIC).ok_or(Error::NoRecording)?;
    let version = after.first_chunk::<4>().ok_or(Error::NoRecording)?;
    let found = u32::from_le_bytes(*version);
    if !(OLDEST..=VERSION).contains(&found) {
        return Err(Error::Version { found });
    }
    let at = MAGIC.len() + version.len();
    let mut frames = Frames {
        bytes,
        at,
        version: found,
    };
    match frames.next() {
        Some(Ok(Frame::Header(header))) => Ok((header, frames)),
        Some(Ok(_)) => Err(Error::NoHeader("another frame is first".to_owned())),
        Some(Err(fault)) => Err(Error::NoHeader(fault.to_string())),
        None => Err(Error::NoHeader("the file ends".to_owned())),
    }
}

/// The intervals of a recording, and notes on what is missing. Where the collector was started anew, the
/// longest stretch in between: intervals of two collectors do not add up.
///
/// # Errors
/// As [`open`]; [`Error::NoInterval`].
pub fn intervals(bytes: &[u8]) -> Result<(Vec<Interval>, Vec<String>), Error> {
    let (_, frames) = open(bytes)?;
    let (mut longest, mut stretch, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    for frame in frames {
        match frame {
            Ok(Frame::Interval(interval)) => stretch.push(interval),
            Ok(Frame::Restarted(reason)) => {
                notes.push(format!(
                    "the collector was started anew: {reason}; only the longest stretch counts"
                ));
                keep_longer(&mut longest, std::mem::take(&mut stretch));
            }
            Ok(Frame::Header(_) | Frame::End(_)) => {}
            Err(fault) => notes.push(fault.to_string()),
        }
    }
    keep_longer(&mut longest, stretch);
    match longest.is_empty() {
        true => Err(no_interval(&notes)),
        false => Ok((longest, notes)),
    }
}

/// Why a recording has no interval, if that is all that is known of it.
pub(crate) fn no_interval(notes: &[String]) -> Error {
    Error::NoInterval(match notes {
        [] => "its recorder was stopped before the first one was over".to_owned(),
        notes => notes.join("; "),
    })
}

fn keep_longer(longest: &mut Vec<Interval>, stretch: Vec<Interval>) {
    let length = |all: &[Interval]| all.iter().map(Interval::elapsed_ns).sum::<u64>();
    if length(&stretch) > length(longest) {
        *longest = stretch;
    }
}

impl Iterator for Frames<'_> {
    type Item = Result<Frame, Fault>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.bytes.get(at..).filter(|rest| !rest.is_empty())?;
        match frame(rest, self.version) {
            Ok((frame, length)) => {
                self.at += length;
                Some(Ok(frame))
            }
            Err(reason) => {
                let next = next_frame(rest);
                self.at = next.map_or(self.bytes.len(), |offset| at + offset);
                Some(Err(match (next, reason) {
                    (None, Damage::Short) => Fault::Truncated { at },
                    (_, reason) => Fault::Damaged {
                        at,
                        bytes: self.at - at,
                        reason: reason.to_string(),
                    },
                }))
            }
        }
    }
}

/// Why bytes are no frame.
#[derive(Debug, thiserror::Error)]
enum Damage {
    #[error("no frame begins there")]
    NoMarker,
    #[error("the length does not fit")]
    Short,
    #[error("the checksum is wrong")]
    Checksum,
    #[error("{0}")]
    Content(String),
}

/// The frame at the beginning, and its length in the file.
fn frame(bytes: &[u8], version: u32) -> Result<(Frame, usize), Damage> {
    let (payload, length) = payload(bytes)?;
    let mut plain = Vec::new();
    let limit = PAYLOAD_MAX as u64;
    let inflated = DeflateDecoder::new(payload)
        .take(limit)
        .read_to_end(&mut plain);
    inflated.map_err(|e| Damage::Content(e.to_string()))?;
    if version < 3 {
        plain.push(0); // the interval ends where limits begin: their number
    }
    let frame = postcard::from_bytes(&plain).map_err(|e| Damage::Content(e.to_string()))?;
    Ok((frame, length))
}

/// A payload whose checksum is right, and the frame's length.
fn payload(bytes: &[u8]) -> Result<(&[u8], usize), Damage> {
    let Some((head, rest)) = bytes.split_at_checked(FRAME_HEAD) else {
        return Err(
            match MARKER.starts_with(&bytes[..bytes.len().min(MARKER.len())]) {
                true => Damage::Short,
                false => Damage::NoMarker,
            },
        );
    };
    let word = |from: usize| {
        let bytes = head.get(from..from + 4).and_then(|b| b.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    };
    if !head.starts_with(MARKER) {
        return Err(Damage::NoMarker);
    }
    let length = word(4) as usize;
    let payload = rest.get(..length).ok_or(Damage::Short)?;
    match crc32fast::hash(payload) == word(8) {
        true => Ok((payload, FRAME_HEAD + length)),
        false => Err(Damage::Checksum),
    }
}

/// Where the next sound frame begins, after the first byte.
fn next_frame(bytes: &[u8]) -> Option<usize> {
    let starts = (1..bytes.len()).filter(|&i| bytes[i..].starts_with(MARKER));
    starts.into_iter().find(|&i| payload(&bytes[i..]).is_ok())
}
