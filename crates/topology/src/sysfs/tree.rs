//! Files below a root folder: absent, malformed or parsed, with errors that name the file.

use super::ReadError;
use crate::printable;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The longest content read; a sysfs file is a page, a list of CPUs a little more.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// How much of a malformed file's content an error shows.
const CONTENT_CHARS_MAX: usize = 40;

/// How long a reason may be; it quotes files, too.
const REASON_CHARS_MAX: usize = 200;

/// The folder that stands for `/`.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: &Path) -> Self {
        Tree {
            root: root.to_owned(),
        }
    }

    /// Where `relative` lies.
    pub(crate) fn path(&self, relative: impl AsRef<Path>) -> PathBuf {
        self.root.join(relative)
    }

    /// The content of a file, without surrounding white space; `None` if there is no such file.
    pub(crate) fn text(&self, relative: impl AsRef<Path>) -> Result<Option<String>, ReadError> {
        let path = self.path(relative);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(ReadError::Io { path, source }),
        }
    }

    /// Parses a file that may be absent. `expected` says what it should hold.
    pub(super) fn optional<T>(
        &self,
        relative: &str,
        expected: &'static str,
    ) -> Result<Option<T>, ReadError>
    where
        T: FromStr<Err: Display>,
    {
        let Some(text) = self.text(relative)? else {
            return Ok(None);
        };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(reason) => Err(self.malformed(relative, &text, expected, reason)),
        }
    }

    /// Parses a file that must be there.
    pub(super) fn required<T>(&self, relative: &str, expected: &'static str) -> Result<T, ReadError>
    where
        T: FromStr<Err: Display>,
    {
        self.optional(relative, expected)?
            .ok_or_else(|| self.missing(relative, expected))
    }

    /// The error for a file that is not there.
    pub(super) fn missing(&self, relative: &str, expected: &'static str) -> ReadError {
        ReadError::Missing {
            path: self.path(relative),
            expected,
        }
    }

    /// The error for a file that can be parsed and yet is wrong.
    pub(super) fn malformed(
        &self,
        relative: &str,
        content: impl Display,
        expected: &'static str,
        reason: impl Display,
    ) -> ReadError {
        ReadError::Malformed {
            path: self.path(relative),
            content: shown(&content.to_string(), CONTENT_CHARS_MAX),
            expected,
            reason: shown(&reason.to_string(), REASON_CHARS_MAX),
        }
    }

    /// The folders in a folder, as paths from the root, sorted; none if there is no such folder.
    pub(crate) fn folders(&self, folder: &Path) -> Result<Vec<PathBuf>, ReadError> {
        let path = self.path(folder);
        let error = |source| ReadError::Io {
            path: path.clone(),
            source,
        };
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(error(source)),
        };
        let mut folders = Vec::new();
        for entry in entries {
            let entry = entry.map_err(error)?;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(folder.join(entry.file_name()));
            }
        }
        folders.sort_unstable();
        Ok(folders)
    }

    /// The numbers `n` of the entries `PREFIXn` of a folder, ascending; `None` if there is no such
    /// folder.
    pub(super) fn numbered(
        &self,
        folder: &str,
        prefix: &str,
    ) -> Result<Option<Vec<u32>>, ReadError> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ReadError::Io { path, source }),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.map_err(|source| ReadError::Io {
                path: path.clone(),
                source,
            })?;
            let name = name.file_name();
            let digits = name.to_str().and_then(|name| name.strip_prefix(prefix));
            numbers.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
        }
        numbers.sort_unstable();
        Ok(Some(numbers))
    }
}

/// The beginning of a text, printable.
fn shown(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => printable(text.as_bytes()),
        Some((end, _)) => printable(&text.as_bytes()[..end]) + "…",
    }
}
