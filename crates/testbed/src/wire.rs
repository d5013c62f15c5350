//! What host and guest say to each other, over one virtio-serial port.
//!
//! A frame is one byte of kind, four bytes of length (little endian) and that many bytes of
//! payload. One port carries everything, so that order is kept: the exit status comes after the
//! last output.

use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::time::Duration;

/// The port's name, found by the guest in `/sys/class/virtio-ports/*/name`.
pub const PORT: &str = "sidelane.link";

/// The version of this protocol: host and guest run the same program, so they must agree.
pub const VERSION: u32 = 1;

/// How often the guest says that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(5);

/// The largest payload that is sent or accepted, bytes.
pub const MAX_PAYLOAD: usize = 64 * 1024;

const HEADER: usize = 5;

/// A command to run in the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The program and its arguments.
    pub argv: Vec<OsString>,
    /// Added to the guest's environment.
    pub env: Vec<(OsString, OsString)>,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Guest: up, speaking this version.
    Hello(u32),
    /// Guest: still alive.
    Heartbeat,
    /// Guest: the command wrote this on standard output.
    Stdout(Vec<u8>),
    /// Guest: the command wrote this on standard error.
    Stderr(Vec<u8>),
    /// Guest: the command ended with this wait status.
    Exit(i32),
    /// Host: run this.
    Run(Command),
    /// Host: bytes for the command's standard input.
    Stdin(Vec<u8>),
    /// Host: the command's standard input ends here.
    StdinEnd,
    /// Host: switch off.
    PowerOff,
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Frame::Hello(_) => b'H',
            Frame::Heartbeat => b'B',
            Frame::Stdout(_) => b'O',
            Frame::Stderr(_) => b'E',
            Frame::Exit(_) => b'X',
            Frame::Run(_) => b'R',
            Frame::Stdin(_) => b'I',
            Frame::StdinEnd => b'i',
            Frame::PowerOff => b'P',
        }
    }

    /// The frame as bytes. Fails when the payload is larger than [`MAX_PAYLOAD`].
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let payload = match self {
            Frame::Hello(version) => version.to_le_bytes().to_vec(),
            Frame::Exit(status) => status.to_le_bytes().to_vec(),
            Frame::Stdout(bytes) | Frame::Stderr(bytes) | Frame::Stdin(bytes) => bytes.clone(),
            Frame::Run(command) => serde_json::to_vec(command).map_err(|e| e.to_string())?,
            Frame::Heartbeat | Frame::StdinEnd | Frame::PowerOff => Vec::new(),
        };
        if payload.len() > MAX_PAYLOAD {
            return Err(format!(
                "a message of {} bytes is too long (at most {MAX_PAYLOAD})",
                payload.len()
            ));
        }
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.push(self.kind());
        bytes.extend((payload.len() as u32).to_le_bytes());
        bytes.extend(payload);
        Ok(bytes)
    }

    fn decode(kind: u8, payload: &[u8]) -> Result<Frame, String> {
        let number = || -> Result<[u8; 4], String> {
            payload
                .try_into()
                .map_err(|_| format!("a number of {} bytes", payload.len()))
        };
        Ok(match kind {
            b'H' => Frame::Hello(u32::from_le_bytes(number()?)),
            b'B' => Frame::Heartbeat,
            b'O' => Frame::Stdout(payload.to_vec()),
            b'E' => Frame::Stderr(payload.to_vec()),
            b'X' => Frame::Exit(i32::from_le_bytes(number()?)),
            b'R' => Frame::Run(serde_json::from_slice(payload).map_err(|e| e.to_string())?),
            b'I' => Frame::Stdin(payload.to_vec()),
            b'i' => Frame::StdinEnd,
            b'P' => Frame::PowerOff,
            other => return Err(format!("a message of unknown kind {other:#x}")),
        })
    }
}

/// Collects bytes as they come and hands out whole frames.
#[derive(Default)]
pub struct Decoder {
    bytes: Vec<u8>,
}

impl Decoder {
    /// Takes bytes that came over the port.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, String> {
        let Some((header, rest)) = self.bytes.split_at_checked(HEADER) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([header[1], header[2], header[3], header[4]]) as usize;
        if length > MAX_PAYLOAD {
            return Err(format!("a message of {length} bytes"));
        }
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = Frame::decode(header[0], payload)?;
        self.bytes.drain(..HEADER + length);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_kind() -> Vec<Frame> {
        vec![
            Frame::Hello(VERSION),
            Frame::Heartbeat,
            Frame::Stdout(vec![0, 255, 10]),
            Frame::Stderr(Vec::new()),
            Frame::Exit(0x0b00),
            Frame::Run(Command {
                argv: vec!["sh".into(), "-c".into(), "echo \"ä\"".into()],
                env: vec![("A".into(), "b=c".into())],
            }),
            Frame::Stdin(vec![1; MAX_PAYLOAD]),
            Frame::StdinEnd,
            Frame::PowerOff,
        ]
    }

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let bytes: Vec<u8> = every_kind()
            .iter()
            .flat_map(|f| f.encode().unwrap())
            .collect();
        for step in [1, 3, 1000, bytes.len()] {
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in bytes.chunks(step) {
                decoder.push(piece);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    got.push(frame);
                }
            }
            assert_eq!(got, every_kind(), "in pieces of {step}");
        }
    }

    #[test]
    fn too_long_unknown_and_malformed_frames_are_refused() {
        assert!(Frame::Stdin(vec![0; MAX_PAYLOAD + 1]).encode().is_err());
        for bytes in [
            &b"O\xff\xff\xff\xff"[..],
            b"?\0\0\0\0",
            b"H\x01\0\0\0x",
            b"R\x01\0\0\0{",
        ] {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            assert!(decoder.next_frame().is_err(), "{bytes:?}");
        }
    }
}
