//! Files through which the kernel is asked and told (`/sys`, cgroups), and files that are there whole or not at all,
//! whenever the power fails.

use crate::{Error, Result};
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// A file's text without the space around it; none if there is no such file.
pub fn read(path: &Path) -> Result<Option<String>> {
    let bytes = read_bytes(path)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned()))
}

/// A file's bytes; none if there is no such file.
pub fn read_bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", path, e)),
    }
}

/// Writes a file, which has to be there. It is emptied first: an ordinary file in its place, in a test,
/// then holds what was written and nothing else.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let file = fs::OpenOptions::new().write(true).truncate(true).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|e| Error::io("write", path, e))
}

/// Puts a file in the place of what is there; everybody may read it.
pub fn replace(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(content)?;
        file.as_file()
            .set_permissions(Permissions::from_mode(0o644))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|e| Error::io("write", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_are_there_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        assert_eq!(read(&path).unwrap(), None);
        assert!(write(&path, "on").is_err());
        fs::write(&path, "forceoff\n").unwrap();
        assert_eq!(read(&path).unwrap().as_deref(), Some("forceoff"));
        write(&path, "on").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "on");
        assert!(read(folder.path()).is_err(), "a folder");
    }
}
