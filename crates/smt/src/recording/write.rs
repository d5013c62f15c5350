//! Writing recordings.

use super::{End, Error, Frame, Header, MAGIC, MARKER, PAYLOAD_MAX, VERSION};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

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
