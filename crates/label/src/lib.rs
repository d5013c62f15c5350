//! What a cgroup says of itself: its label, the extended attribute that rules `label:WORD` of the scheduler compare. It goes
//! with the cgroup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the extended attribute.
pub const ATTRIBUTE: &str = "user.sidelane.class";

/// Where the unified (v2) cgroup hierarchy is mounted, from `proc/self/mounts` below `root`; none: it is not.
///
/// # Errors
/// That file cannot be read.
pub fn mount_point(root: &Path) -> io::Result<Option<PathBuf>> {
    let mounts = fs::read_to_string(root.join("proc/self/mounts"))?;
    Ok(mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(at.replace("\\040", " ")))
    }))
}

/// The folder of the cgroup at `path`, which begins with `/`.
pub fn folder(mount: &Path, path: &str) -> PathBuf {
    mount.join(path.trim_start_matches('/'))
}

/// The label of the cgroup at `path` below `mount`; none without one, or if the cgroup is gone.
pub fn label(mount: &Path, path: &str) -> Option<String> {
    let label = xattr::get(folder(mount, path), ATTRIBUTE).ok()??;
    Some(String::from_utf8_lossy(&label).trim().to_owned())
}

/// Labels a cgroup, or takes its label away, if it has one.
///
/// # Errors
/// No such cgroup, no right to write it, or a kernel before 5.7, whose cgroups have no such attributes.
pub fn set_label(mount: &Path, path: &str, label: Option<&str>) -> io::Result<()> {
    let folder = folder(mount, path);
    match label {
        Some(label) => xattr::set(folder, ATTRIBUTE, label.as_bytes()),
        None => xattr::remove(folder, ATTRIBUTE).or_else(|error| match error.raw_os_error() {
            Some(libc::ENODATA) => Ok(()),
            _ => Err(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unified_mount_is_found_among_others() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\nc2 /sys/fs/cgroup/my\\040own cgroup2 rw 0 0\n";
        fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        assert_eq!(
            mount_point(root.path()).unwrap(),
            Some("/sys/fs/cgroup/my own".into())
        );
    }
}
