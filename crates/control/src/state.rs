//! What has to be restored, in a file that outlives this process.

use crate::actuator::Found;
use crate::{Error, Result, files};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};
use sidelane_kernel::public_folder;
use sidelane_topology::json_mistake;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where the state is kept unless it is said otherwise: gone with the next boot, as SMT's state is.
pub const DEFAULT_PATH: &str = "/run/sidelane/control.json";

/// The file's content.
#[derive(Debug, Serialize, Deserialize)]
struct State {
    /// The boot that it is about: after another one there is nothing to restore.
    boot_id: String,
    found: Found,
}

/// The state file, held by one process at a time.
#[derive(Debug)]
pub struct StateFile {
    root: PathBuf,
    path: PathBuf,
    _lock: Flock<File>,
}

impl StateFile {
    /// Takes it. `root` is `/` but in tests.
    ///
    /// # Errors
    /// Another process has it, or its folder cannot be written.
    pub fn hold(root: &Path, path: &Path) -> Result<StateFile> {
        if let Some(folder) = path.parent() {
            public_folder(folder).map_err(|e| Error::io("create", folder, e))?;
        }
        let lock = path.with_extension("lock");
        let file = File::create(&lock).map_err(|e| Error::io("create", &lock, e))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => Ok(StateFile {
                root: root.to_owned(),
                path: path.to_owned(),
                _lock: held,
            }),
            Err((_, nix::Error::EWOULDBLOCK)) => Err(Error::Running { path: lock }),
            Err((_, error)) => Err(Error::io("lock", &lock, error.into())),
        }
    }

    /// Writes what was found, so that it is there when the first change is made.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn save(&self, found: &Found) -> Result<()> {
        let state = State {
            boot_id: boot_id(&self.root)?,
            found: found.clone(),
        };
        let text = serde_json::to_vec(&state)
            .map_err(|e| Error::io("write", &self.path, std::io::Error::other(e)))?;
        files::replace(&self.path, &text)
    }

    /// Restores what an earlier process found and did not restore. Whether there was any such thing.
    ///
    /// # Errors
    /// The file holds something else, or what it says cannot be restored; it is kept then.
    pub fn restore(&self) -> Result<bool> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
            Err(e) => return Err(Error::io("read", &self.path, e)),
        };
        let state: State = serde_json::from_str(&text).map_err(|e| {
            let (place, problem) = json_mistake(&self.path, &e);
            Error::State { place, problem }
        })?;
        let same_boot = state.boot_id == boot_id(&self.root)?;
        if same_boot {
            state.found.restore(&self.root)?;
        }
        fs::remove_file(&self.path).map_err(|e| Error::io("remove", &self.path, e))?;
        Ok(same_boot)
    }
}

/// Restores what was found when it goes, as by a panic.
pub struct RestoredAtEnd<'a>(pub &'a StateFile);

impl RestoredAtEnd<'_> {
    /// Restores it now, where it is heard whether that succeeds.
    pub fn end(self) -> Result<()> {
        let state = self.0;
        std::mem::forget(self);
        state.restore().map(drop)
    }
}

impl Drop for RestoredAtEnd<'_> {
    fn drop(&mut self) {
        let _ = self.0.restore();
    }
}

fn boot_id(root: &Path) -> Result<String> {
    let path = root.join("proc/sys/kernel/random/boot_id");
    match fs::read_to_string(&path) {
        Ok(id) => Ok(id.trim().to_owned()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(Error::io("read", &path, e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    const FOUND: fn() -> Found = || Found::Sysfs {
        control: None,
        lanes: vec![0, 1],
    };

    fn tree() -> (Tree, PathBuf) {
        let tree = Tree::new(1, 2);
        tree.remove("smt/control");
        tree.write("cpu1/online", "0");
        tree.apply_online_files();
        let path = tree.root().join("run/control.json");
        (tree, path)
    }

    #[test]
    fn what_was_found_comes_back_once() {
        let (tree, path) = tree();
        let state = StateFile::hold(tree.root(), &path).unwrap();
        assert!(!state.restore().unwrap());
        state.save(&FOUND()).unwrap();
        drop(state); // killed
        let state = StateFile::hold(tree.root(), &path).unwrap();
        assert!(state.restore().unwrap());
        assert_eq!(tree.online_files(), "11");
        assert!(!path.exists() && !state.restore().unwrap());
    }

    #[test]
    fn after_another_boot_there_is_nothing_to_restore() {
        let (tree, path) = tree();
        let state = StateFile::hold(tree.root(), &path).unwrap();
        state.save(&FOUND()).unwrap();
        let folder = tree.root().join("proc/sys/kernel/random");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("boot_id"), "another\n").unwrap();
        assert!(!state.restore().unwrap());
        assert_eq!(tree.online_files(), "10");
        assert!(!path.exists());
    }

    #[test]
    fn one_at_a_time() {
        let (tree, path) = tree();
        let _state = StateFile::hold(tree.root(), &path).unwrap();
        let error = StateFile::hold(tree.root(), &path).unwrap_err();
        assert!(matches!(error, Error::Running { .. }), "{error}");
    }

    #[test]
    fn a_file_of_something_else_is_kept() {
        let (tree, path) = tree();
        let state = StateFile::hold(tree.root(), &path).unwrap();
        for text in [
            "",
            "{}",
            "garbage",
            "{\"boot_id\":\"\",\"found\":{\"actuator\":\"magic\"}}",
        ] {
            fs::write(&path, text).unwrap();
            let error = state.restore().unwrap_err().to_string();
            assert!(
                error.contains("no state file") && error.contains("control.json:1:"),
                "{error}"
            );
            assert!(path.exists());
        }
    }

    #[test]
    fn what_cannot_be_restored_is_kept() {
        let (tree, path) = tree();
        let state = StateFile::hold(tree.root(), &path).unwrap();
        state.save(&FOUND()).unwrap();
        tree.remove("cpu1/online");
        assert!(state.restore().is_err());
        assert!(path.exists());
    }
}
