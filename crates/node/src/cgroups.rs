//! The cgroups of pods, by the names that the kubelet gives them, and their attribute.
//!
//! The kubelet makes a pod's cgroup; containerd and CRI-O make those of containers below it, and the attribute holds for
//! them, too.

use sidelane_label::node::{Holds, Named};
use sidelane_label::{ATTRIBUTE, Label};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A pod's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    /// Its path, which begins with `/`.
    pub path: String,
    /// Its label.
    pub label: Option<Label>,
}

/// The cgroups of pods below the cgroup root, by the UIDs of pods.
pub fn of_pods(root: &Path) -> BTreeMap<String, Cgroup> {
    let mut found = BTreeMap::new();
    let mut pending = vec![(PathBuf::new(), Holds::Kubelet)];
    while let Some((folder, holds)) = pending.pop() {
        for entry in fs::read_dir(root.join(&folder))
            .into_iter()
            .flatten()
            .flatten()
        {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let below = folder.join(name);
            match holds.below(name) {
                Some(Named::Pod(uid)) => {
                    let path = format!("/{}", below.display());
                    let label = sidelane_label::label(root, &path);
                    found.insert(uid, Cgroup { path, label });
                }
                Some(Named::Folder(holds)) => pending.push((below, holds)),
                None => {}
            }
        }
    }
    found
}

/// Writes the label of a cgroup, or takes it away. A cgroup that is gone is no error: so is its attribute.
///
/// # Errors
/// No right to write it, or no such attributes here.
pub fn set_label(root: &Path, path: &str, label: Option<&Label>) -> io::Result<()> {
    match sidelane_label::set_label(root, path, label) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    }
}

/// Where cgroup v2 is mounted.
///
/// # Errors
/// `/proc/self/mounts` cannot be read, or has no such mount.
pub fn mount_point() -> io::Result<PathBuf> {
    let mount = sidelane_label::mount_point(Path::new("/"))?;
    mount.ok_or_else(|| io::Error::other("cgroup v2 is not mounted"))
}

/// Whether cgroups can have the attribute here.
///
/// # Errors
/// They cannot: a kernel before 5.7, or no such folder.
pub fn check(root: &Path) -> io::Result<()> {
    let told = |error: io::Error| {
        let text = format!(
            "{}: no extended attributes {ATTRIBUTE}: {error}",
            root.display()
        );
        io::Error::new(error.kind(), text)
    };
    xattr::get(root, ATTRIBUTE).map_err(told)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0";

    #[test]
    fn pods_are_found_as_both_drivers_name_them() {
        let below = UID.replace('-', "_");
        for path in [
            format!("kubepods/pod{UID}"),
            format!("kubepods/burstable/pod{UID}"),
            format!("kubepods/besteffort/pod{UID}"),
            format!("kubepods.slice/kubepods-pod{below}.slice"),
            format!("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{below}.slice"),
            format!(
                "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{below}.slice"
            ),
            format!("kubelet/kubepods/burstable/pod{UID}"),
            format!("kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{below}.slice"),
        ] {
            let root = tempfile::tempdir().unwrap();
            // of containers, as CRI-O and containerd name them
            for container in ["crio-8a.scope", "cri-containerd-8a.scope", "8a"] {
                fs::create_dir_all(root.path().join(&path).join(container)).unwrap();
            }
            let found = of_pods(root.path());
            assert_eq!(found.len(), 1, "{path}");
            assert_eq!(found[UID].path, format!("/{path}"));
        }
    }

    #[test]
    fn other_cgroups_are_no_pods() {
        let root = tempfile::tempdir().unwrap();
        for path in [
            "system.slice/podman.service",
            "podman",
            "kubepods/pod",
            "kubepods.slice/cgroup.procs",
            "user.slice/user-pod1.slice",
            "machine.slice/pod1",
        ] {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        let found: Vec<String> = of_pods(root.path())
            .into_values()
            .map(|it| it.path)
            .collect();
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn the_attribute_is_written_read_and_taken_away() {
        let root = tempfile::tempdir().unwrap();
        let path = format!("/kubepods/pod{UID}");
        fs::create_dir_all(sidelane_label::folder(root.path(), &path)).unwrap();
        if xattr::set(root.path(), ATTRIBUTE, b"x").is_err() {
            eprintln!("no extended attributes where temporary files are: nothing tested");
            return;
        }
        let batch = Label::new("batch");
        set_label(root.path(), &path, Some(&batch)).unwrap();
        assert_eq!(of_pods(root.path())[UID].label.as_ref(), Some(&batch));
        for _ in 0..2 {
            set_label(root.path(), &path, None).unwrap(); // also without one
        }
        assert_eq!(sidelane_label::label(root.path(), &path), None);
        set_label(root.path(), "/kubepods/podgone", Some(&batch)).unwrap();
    }
}
