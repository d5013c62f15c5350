//! A kernel image and what goes with it.

use crate::error::{During, Error, Result};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A kernel that can be booted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What `uname -r` will say.
    pub version: String,
    /// The image (bzImage).
    pub path: PathBuf,
    /// Its build configuration, where there is one.
    pub config: Option<PathBuf>,
    /// The folder with its modules, where there is one.
    pub modules: Option<PathBuf>,
}

impl Image {
    /// A kernel image of one's own: the configuration is looked for beside it (`config-VERSION`,
    /// `config`) and in `/boot`, the modules beside it and in `/lib/modules`.
    pub fn at(path: &Path) -> Result<Image> {
        let version = read_version(path)?;
        let beside = path.parent().unwrap_or(Path::new("."));
        let named = format!("config-{version}");
        let config = [
            beside.join(&named),
            beside.join("config"),
            Path::new("/boot").join(&named),
        ];
        let modules = [
            beside.to_path_buf(),
            Path::new("/lib/modules").join(&version),
        ];
        Ok(Image {
            path: path.to_path_buf(),
            config: config.into_iter().find(|file| file.is_file()),
            modules: modules
                .into_iter()
                .find(|folder| folder.join("kernel").is_dir()),
            version,
        })
    }
}

/// The version in the header of a bzImage (Linux boot protocol: magic at 0x202, offset of the text
/// at 0x20e).
fn read_version(path: &Path) -> Result<String> {
    let no = |why: &str| {
        Error::Kernel(format!(
            "{} is no x86 kernel image (bzImage): {why}",
            path.display()
        ))
    };
    let file = File::open(path).during(|| format!("open the kernel {}", path.display()))?;
    let mut header = [0; 0x210];
    file.read_exact_at(&mut header, 0)
        .map_err(|_| no("it is too short"))?;
    if &header[0x202..0x206] != b"HdrS" {
        return Err(no("it lacks the boot header"));
    }
    let offset = u16::from_le_bytes([header[0x20e], header[0x20f]]);
    if offset == 0 {
        return Err(no("its header names no version"));
    }
    let mut text = [0; 128];
    let length = file
        .read_at(&mut text, u64::from(offset) + 0x200)
        .map_err(|e| no(&e.to_string()))?;
    let version = text[..length]
        .split(|b| *b == b' ' || *b == 0)
        .next()
        .unwrap_or_default();
    let version = String::from_utf8_lossy(version).into_owned();
    if version.is_empty() || !version.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(no("its header names no version"));
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(text: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; 0x1000];
        bytes[0x202..0x206].copy_from_slice(b"HdrS");
        bytes[0x20e..0x210].copy_from_slice(&0x400u16.to_le_bytes());
        bytes[0x600..0x600 + text.len()].copy_from_slice(text);
        bytes
    }

    #[test]
    fn version_configuration_and_modules_are_found_beside_the_image() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vmlinuz");
        std::fs::write(&path, image(b"6.99.1-test (me@here) #1 SMP")).unwrap();
        std::fs::write(folder.path().join("config-6.99.1-test"), "").unwrap();
        std::fs::create_dir(folder.path().join("kernel")).unwrap();
        let found = Image::at(&path).unwrap();
        assert_eq!(found.version, "6.99.1-test");
        assert_eq!(
            found.config.unwrap(),
            folder.path().join("config-6.99.1-test")
        );
        assert_eq!(found.modules.unwrap(), folder.path());
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        for bytes in [b"short".to_vec(), vec![0; 4096], image(b"no version")] {
            std::fs::write(&path, bytes).unwrap();
            assert!(
                Image::at(&path)
                    .unwrap_err()
                    .to_string()
                    .contains("no x86 kernel image")
            );
        }
        assert!(Image::at(&folder.path().join("none")).is_err());
    }
}
