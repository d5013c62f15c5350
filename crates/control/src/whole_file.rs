//! Files that are there whole or not at all, whenever somebody looks or the power fails.

use crate::{Error, Result};
use std::fs::Permissions;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts a file in the place of what is there; everybody may read it.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
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
