//! Cpusets of cgroup v2: which lanes the tasks of a cgroup may use, and what was so before.

use crate::files::{read, write};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use sidelane_topology::CpuList;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const CPUS: &str = "cpuset.cpus";
const MEMS: &str = "cpuset.mems";
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

    /// Makes everything as it was, as far as it can be; a cgroup that is gone is left out.
    ///
    /// # Errors
    /// What the kernel refuses first.
    pub fn restore(&self) -> Result<()> {
        let cpus = self.cpus.iter();
        let cpus = cpus.map(|(folder, cpus)| restore_cpus(folder, cpus));
        let controllers = self.switched_on.iter().rev();
        let controllers = controllers.map(|folder| self.switch_off(folder));
        let restored = cpus.chain(controllers).map(ignore_missing);
        restored.fold(Ok(()), Result::and)
    }

    /// Hands the controller down no more, unless somebody else has come to use it.
    fn switch_off(&self, folder: &Path) -> Result<()> {
        match self.others_use(folder)? {
            true => Ok(()),
            false => ignore_busy(write(&folder.join(CONTROL), "-cpuset")),
        }
    }

    /// Whether a cgroup below, not one of ours, has a cpuset of its own: without the controller it loses that.
    fn others_use(&self, folder: &Path) -> Result<bool> {
        let failed = |e| Error::io("read", folder, e);
        for entry in fs::read_dir(folder).map_err(failed)? {
            let child = entry.map_err(failed)?.path();
            let ours = self.cpus.iter().any(|(ours, _)| *ours == child);
            if !ours && child.is_dir() && has_cpuset(&child)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn has_cpuset(folder: &Path) -> Result<bool> {
    let given = |name| read(&folder.join(name)).map(|list| !list.unwrap_or_default().is_empty());
    Ok(given(CPUS)? || given(MEMS)?)
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

/// Busy is a controller that a cgroup below hands down itself by now: it stays, and need not be restored.
fn ignore_busy(written: Result<()>) -> Result<()> {
    match written {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::ResourceBusy => Ok(()),
        other => other,
    }
}

fn ignore_missing(written: Result<()>) -> Result<()> {
    match written {
        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Refuses where there are cpusets of cgroup v1, from which the kernel takes the CPUs that go offline and to which it gives none
/// back, beside that of the root, which does get its CPUs back.
///
/// # Errors
/// There are, or it cannot be read.
pub fn check_none_of_v1(root: &Path) -> Result<()> {
    let mounts = read(&root.join("proc/self/mounts"))?.unwrap_or_default();
    for mount in mounts.lines().filter_map(mount_point) {
        if has_children(&root.join(mount.trim_start_matches('/')))? {
            let mount = mount.into();
            return Err(Error::CpusetsV1 { mount });
        }
    }
    Ok(())
}

/// Where a line of `/proc/self/mounts` mounts them, unless it does so with the behaviour of cgroup v2.
fn mount_point(line: &str) -> Option<String> {
    let mut fields = line.split(' ').skip(1);
    let (at, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
    let has = |option| options.split(',').any(|given| given == option);
    let loses = kind == "cgroup" && has("cpuset") && !has("cpuset_v2_mode");
    loses.then(|| at.replace("\\040", " "))
}

/// Whether a cgroup has others below it; one that is not there has none.
fn has_children(folder: &Path) -> Result<bool> {
    let failed = |e| Error::io("read", folder, e);
    let entries = match fs::read_dir(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        if entry
            .and_then(|it| it.file_type())
            .map_err(failed)?
            .is_dir()
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_cannot_be_restored_holds_up_nothing_else() {
        let tree = tempfile::tempdir().unwrap();
        let mount = tree.path();
        cgroup(mount, "", None, "");
        for path in ["web", "batch"] {
            cgroup(mount, path, Some("0-3\n"), "");
        }
        let found = FoundCpusets::read(mount, &["/web", "/batch"]).unwrap();
        let lanes = ["0,2", "1,3"].map(|cpus| cpus.parse().unwrap());
        found.bind(&lanes).unwrap();
        fs::remove_file(mount.join("web/cpuset.cpus")).unwrap();
        fs::create_dir(mount.join("web/cpuset.cpus")).unwrap();
        let error = found.restore().unwrap_err().to_string();
        assert!(error.contains("web/cpuset.cpus"), "{error}");
        assert_eq!(content(mount, "batch/cpuset.cpus"), "0-3\n");
        assert_eq!(content(mount, "cgroup.subtree_control"), "-cpuset");
    }

    #[test]
    fn a_controller_that_others_have_come_to_use_stays() {
        for (file, list, after) in [
            (CPUS, "2\n", "+cpuset"),
            (MEMS, "0\n", "+cpuset"),
            (CPUS, "\n", "-cpuset"),
        ] {
            let tree = tempfile::tempdir().unwrap();
            let mount = tree.path();
            cgroup(mount, "", None, "");
            cgroup(mount, "web", Some("0-3\n"), "");
            let found = FoundCpusets::read(mount, &["/web"]).unwrap();
            found.bind(&["0".parse().unwrap()]).unwrap();
            cgroup(mount, "other", None, "");
            fs::write(mount.join("other").join(file), list).unwrap();
            found.restore().unwrap();
            assert_eq!(content(mount, "cgroup.subtree_control"), after, "{file}");
        }
        let refused = |kind: ErrorKind| Err(Error::io("write", Path::new(CONTROL), kind.into()));
        assert!(ignore_busy(refused(ErrorKind::ResourceBusy)).is_ok());
        assert!(ignore_busy(refused(ErrorKind::InvalidInput)).is_err());
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
