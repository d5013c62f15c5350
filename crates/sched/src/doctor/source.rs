//! The files of the machine that is examined.

use super::Finding;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// The longest content read; none of the files comes near it.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The machine below a root folder.
pub(super) struct Source {
    root: PathBuf,
}

/// A file that is there and cannot be read.
pub(super) struct Unreadable {
    path: PathBuf,
    source: io::Error,
}

impl Unreadable {
    /// The outcome of a check that depends on the file.
    pub(super) fn into_finding(self) -> Finding {
        let remedy = match self.source.kind() {
            ErrorKind::PermissionDenied => "run the doctor as root",
            _ => "look why the file cannot be read",
        };
        Finding::unknown(
            format!("cannot read {}: {}", self.path.display(), self.source),
            remedy,
        )
    }
}

impl Source {
    pub(super) fn new(root: &Path) -> Self {
        Source {
            root: root.to_owned(),
        }
    }

    /// The root folder.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the machine that the program runs on, so that its kernel can be asked.
    pub(super) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The content of a file without surrounding white space; `None` if it is not there or, as a
    /// file of a process, has just gone.
    pub(super) fn text(&self, relative: &str) -> Result<Option<String>, Unreadable> {
        let path = self.root.join(relative);
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
        match read {
            Ok(_) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
            Err(error) if is_gone(&error) => Ok(None),
            Err(source) => Err(Unreadable { path, source }),
        }
    }

    /// Whether a file can be opened for reading.
    pub(super) fn readable(&self, relative: &str) -> Result<bool, Unreadable> {
        let path = self.root.join(relative);
        match File::open(&path) {
            Ok(_) => Ok(true),
            Err(error) if is_gone(&error) => Ok(false),
            Err(source) => Err(Unreadable { path, source }),
        }
    }

    /// The names in a folder, sorted; none if it is not there.
    pub(super) fn names(&self, relative: &str) -> Result<Vec<String>, Unreadable> {
        let path = self.root.join(relative);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_gone(&error) => return Ok(Vec::new()),
            Err(source) => return Err(Unreadable { path, source }),
        };
        let names = entries
            .map_while(Result::ok)
            .filter_map(|e| e.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }
}

/// Whether the file is not there, or belongs to a process that has just ended.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}
