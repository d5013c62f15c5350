//! Cpusets of cgroup v2: which lanes the tasks of a cgroup may use, and what was so before.

use crate::files::{read, write};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sidelane_topology::CpuList;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const CPUS: &str = "cpuset.cpus";
const EFFECTIVE: &str = "cpuset.cpus.effective";
const CONTROL: &str = "cgroup.subtree_control";

/// How cpusets were before they were changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundCpusets {
    /// Cgroup folders, and what `cpuset.cpus` said; empty if there was none.
    cpus: Vec<(PathBuf, String)>,
    /// Cgroup folders that did not hand the controller down, outermost first.
    switched_on: Vec<PathBuf>,
}

impl FoundCpusets {
    /// How the cgroups `paths` (from the cgroup root, `/` first) are now.
    ///
    /// # Errors
    /// One does not exist, is the root, or cannot be read.
    pub fn read(mount: &Path, paths: &[&str]) -> Result<FoundCpusets> {
        let mut found = FoundCpusets::default();
        for path in paths {
            let folder = mount.join(path.trim_matches('/'));
            if folder == mount || !folder.join("cgroup.procs").exists() {
                let why = std::io::Error::other("it is the root, or there is no such cgroup");
                return Err(Error::io("use the cgroup", &folder, why));
            }
            found.read_controllers(mount, &folder)?;
            let cpus = read(&folder.join(CPUS))?.unwrap_or_default();
            found.cpus.push((folder, cpus));
        }
        Ok(found)
    }

    /// Notes the folders above a cgroup that do not hand the controller down.
    fn read_controllers(&mut self, mount: &Path, folder: &Path) -> Result<()> {
        let above: Vec<&Path> = folder.ancestors().skip(1).collect();
        for parent in above.into_iter().rev().filter(|p| p.starts_with(mount)) {
            let controllers = read(&parent.join(CONTROL))?.unwrap_or_default();
            let on = controllers.split_whitespace().any(|name| name == "cpuset");
            if !on && !self.switched_on.iter().any(|known| known == parent) {
                self.switched_on.push(parent.to_owned());
            }
        }
        Ok(())
    }

    /// Gives each cgroup its lanes, in the order of `paths`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn bind(&self, lanes: &[CpuList]) -> Result<()> {
        for folder in &self.switched_on {
            write(&folder.join(CONTROL), "+cpuset")?;
        }
        for ((folder, _), lanes) in self.cpus.iter().zip(lanes) {
            write(&folder.join(CPUS), &lanes.to_string())?;
        }
        Ok(())
    }

    /// Makes everything as it was; a cgroup that is gone is left out.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn restore(&self) -> Result<()> {
        for (folder, cpus) in &self.cpus {
            ignore_missing(restore_cpus(folder, cpus))?;
        }
        for folder in self.switched_on.iter().rev() {
            ignore_missing(write(&folder.join(CONTROL), "-cpuset"))?;
        }
        Ok(())
    }
}

/// Before 7.0, kernels take no empty list where tasks are. Empty means the lanes of the cgroup above.
fn restore_cpus(folder: &Path, cpus: &str) -> Result<()> {
    let file = folder.join(CPUS);
    match write(&file, &format!("{cpus}\n")) {
        Err(Error::Io { source, .. })
            if cpus.is_empty() && source.kind() == ErrorKind::StorageFull =>
        {
            let above = folder.parent().unwrap_or(folder).join(EFFECTIVE);
            write(&file, &read(&above)?.unwrap_or_default())
        }
        other => other,
    }
}

fn ignore_missing(written: Result<()>) -> Result<()> {
    match written {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn cgroup(mount: &Path, path: &str, cpus: Option<&str>, controllers: &str) {
        let folder = mount.join(path);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("cgroup.procs"), "").unwrap();
        fs::write(folder.join(CONTROL), controllers).unwrap();
        if let Some(cpus) = cpus {
            fs::write(folder.join(CPUS), cpus).unwrap();
        }
    }

    fn content(mount: &Path, file: &str) -> String {
        fs::read_to_string(mount.join(file)).unwrap()
    }

    #[test]
    fn what_was_found_comes_back() {
        let tree = tempfile::tempdir().unwrap();
        let mount = tree.path();
        cgroup(mount, "", None, "cpu cpuset\n");
        cgroup(mount, "web", Some("0-3\n"), "");
        cgroup(mount, "jobs", Some("\n"), "memory");
        cgroup(mount, "jobs/batch", Some("\n"), "");
        let found = FoundCpusets::read(mount, &["/web", "/jobs/batch"]).unwrap();
        let lanes = ["0,2", "1,3"].map(|cpus| cpus.parse().unwrap());
        found.bind(&lanes).unwrap();
        let file = |name| content(mount, name);
        assert_eq!(file("jobs/cgroup.subtree_control"), "+cpuset");
        assert_eq!(file("cgroup.subtree_control"), "cpu cpuset\n");
        assert_eq!(file("web/cpuset.cpus"), "0,2");
        assert_eq!(file("jobs/batch/cpuset.cpus"), "1,3");
        let kept = serde_json::to_string(&found).unwrap();
        let kept: FoundCpusets = serde_json::from_str(&kept).unwrap();
        fs::remove_dir_all(mount.join("web")).unwrap();
        kept.restore().unwrap();
        assert_eq!(file("jobs/batch/cpuset.cpus"), "\n");
        assert_eq!(file("jobs/cgroup.subtree_control"), "-cpuset");
    }

    #[test]
    fn the_root_and_cgroups_that_are_not_there_are_refused() {
        let tree = tempfile::tempdir().unwrap();
        cgroup(tree.path(), "", None, "");
        for path in ["/", "/none"] {
            assert!(FoundCpusets::read(tree.path(), &[path]).is_err(), "{path}");
        }
    }
}
