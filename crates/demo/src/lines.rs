//! How the measuring part tells the part that reports: one JSON object a line on standard output.

use crate::error::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The machine that is measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFacts {
    /// The kernel's release.
    pub kernel: String,
    /// The CPU numbers of the lanes of each core.
    pub cores: Vec<Vec<u32>>,
}

/// A message as a line, with its end.
pub fn to_line<M: Serialize + std::fmt::Debug>(message: &M) -> Result<String> {
    serde_json::to_string(message)
        .map(|text| text + "\n")
        .map_err(|source| Error::Message {
            text: format!("{message:?}"),
            source,
        })
}

/// A message, or whatever else is passed as text, from a line.
pub fn from_line<M: DeserializeOwned>(line: &str) -> Result<M> {
    serde_json::from_str(line).map_err(|source| Error::Message {
        text: line.chars().take(200).collect(),
        source,
    })
}

/// Collects bytes as they come and hands out the messages of whole lines.
#[derive(Debug)]
pub struct Lines<M> {
    bytes: Vec<u8>,
    messages: Vec<M>,
    error: Option<Error>,
}

impl<M> Default for Lines<M> {
    fn default() -> Lines<M> {
        Lines {
            bytes: Vec::new(),
            messages: Vec::new(),
            error: None,
        }
    }
}

impl<M> Lines<M> {
    /// All messages; fails if a line was none, or if the last one is incomplete.
    pub fn finish(self) -> Result<Vec<M>> {
        match (self.error, self.bytes.is_empty()) {
            (Some(error), _) => Err(error),
            (None, true) => Ok(self.messages),
            (None, false) => Err(Error::Incomplete("the last line is cut off".into())),
        }
    }
}

impl<M: DeserializeOwned> std::io::Write for Lines<M> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        while let Some(end) = self.bytes.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = self.bytes.drain(..=end).collect();
            match from_line(String::from_utf8_lossy(&line).trim_end()) {
                Ok(message) => self.messages.push(message),
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn messages_survive_being_cut_anywhere() {
        let messages = [vec![vec![0, 2], vec![1, 3]], Vec::new()].map(|cores| MachineFacts {
            kernel: "7.0 …".into(),
            cores,
        });
        let text: String = messages.iter().map(|m| to_line(m).unwrap()).collect();
        for step in [1, 7, text.len()] {
            let mut lines = Lines::<MachineFacts>::default();
            for piece in text.as_bytes().chunks(step) {
                lines.write_all(piece).unwrap();
            }
            assert_eq!(lines.finish().unwrap(), messages);
        }
    }

    #[test]
    fn other_lines_and_cut_ends_are_errors() {
        let mut lines = Lines::<String>::default();
        lines
            .write_all(b"\"done\"\nSegmentation fault\n\"done\"\n")
            .unwrap();
        assert_eq!(lines.messages.len(), 2);
        assert!(
            lines
                .finish()
                .unwrap_err()
                .to_string()
                .contains("Segmentation")
        );
        let mut lines = Lines::<String>::default();
        lines.write_all(b"\"don").unwrap();
        assert!(lines.finish().is_err());
    }
}
