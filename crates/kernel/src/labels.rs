//! Labels of cgroups: the extended attribute by which whoever makes a cgroup says what it is. It goes with the cgroup.

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the extended attribute.
pub const ATTRIBUTE: &str = "user.sidelane.class";

/// The folder of the cgroup at `path`, which begins with `/`.
fn folder(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// The label of the cgroup at `path` below `mount`; none without one, or if the cgroup is gone.
pub fn label(mount: &Path, path: &str) -> Option<String> {
    let label = xattr::get(folder(mount, path), ATTRIBUTE).ok()??;
    Some(String::from_utf8_lossy(&label).trim().to_owned())
}

/// Labels a cgroup, or takes its label away.
///
/// # Errors
/// No such cgroup, no right to write it, or a kernel before 5.7, whose cgroups have no such attributes.
pub fn set_label(mount: &Path, path: &str, label: Option<&str>) -> io::Result<()> {
    let folder = folder(mount, path);
    match label {
        Some(label) => xattr::set(folder, ATTRIBUTE, label.as_bytes()),
        None if xattr::get(&folder, ATTRIBUTE)?.is_none() => Ok(()),
        None => xattr::remove(folder, ATTRIBUTE),
    }
}

/// The labels of the cgroups at these paths, of those that have one.
pub fn labels<'a>(
    mount: &Path,
    paths: impl Iterator<Item = &'a String>,
) -> HashMap<String, String> {
    let labelled = |path: &String| Some((path.clone(), label(mount, path)?));
    paths.filter_map(labelled).collect()
}

/// Tells that a label may have changed.
pub struct Changes(Inotify);

impl Changes {
    /// Of no cgroup yet.
    ///
    /// # Errors
    /// The kernel has no inotify instance left.
    pub fn begin() -> io::Result<Changes> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Ok(Changes(Inotify::init(flags)?))
    }

    /// Also of these cgroups; what is watched already stays so, and what is gone is forgotten.
    ///
    /// # Errors
    /// The kernel has no watch left (fs.inotify.max_user_watches).
    pub fn watch<'a>(
        &self,
        mount: &Path,
        paths: impl Iterator<Item = &'a String>,
    ) -> io::Result<()> {
        for path in paths {
            match self
                .0
                .add_watch(&folder(mount, path), AddWatchFlags::IN_ATTRIB)
            {
                Ok(_) | Err(nix::Error::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Were there some since the last time?
    pub fn any(&self) -> bool {
        let mut any = false;
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn labels_are_set_seen_and_taken_away() {
        let mount = tempfile::tempdir().unwrap();
        let mount = mount.path();
        if xattr::set(mount, ATTRIBUTE, b"x").is_err() {
            eprintln!("no extended attributes where temporary files are: nothing tested");
            return;
        }
        xattr::remove(mount, ATTRIBUTE).unwrap();
        fs::create_dir_all(mount.join("a/b")).unwrap();
        let paths = ["/", "/a", "/a/b", "/gone"].map(str::to_owned);
        let changes = Changes::begin().unwrap();
        changes.watch(mount, paths.iter()).unwrap();
        assert!(!changes.any() && labels(mount, paths.iter()).is_empty());
        set_label(mount, "/a", Some("critical")).unwrap();
        assert!(changes.any() && !changes.any());
        set_label(mount, "/", Some("batch")).unwrap();
        let known = labels(mount, paths.iter());
        assert_eq!(known.len(), 2);
        assert_eq!(label(mount, "/a").as_deref(), Some("critical"));
        for _ in 0..2 {
            set_label(mount, "/a", None).unwrap(); // also without one
        }
        assert_eq!(label(mount, "/a"), None);
        assert!(set_label(mount, "/gone", Some("batch")).is_err());
        assert!(set_label(mount, "/gone", None).is_err());
    }
}
