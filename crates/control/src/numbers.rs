//! Whether `/proc/stat` and sysfs mean the same CPUs: in a container one of them may show the container's own numbers
//! (lxcfs mounts such files over the kernel's).

use crate::files::read_bytes;
use crate::{Error, Result};
use sidelane_collect::proc_stat;
use sidelane_topology::{CpuList, Topology};
use std::path::Path;

/// How often both are read while CPUs come and go.
const ATTEMPTS: u32 = 5;

/// Refuses numbers that are not the machine's.
///
/// # Errors
/// They are not, or cannot be read.
pub fn check(root: &Path) -> Result<()> {
    let mut differs = None;
    for _ in 0..ATTEMPTS {
        let before = Topology::read(root)?.online().clone();
        let counted: CpuList = proc_stat::read(root)?.into_keys().collect();
        let foreign = |why| Error::ForeignNumbers {
            counted: counted.clone(),
            online: before.clone(),
            why,
        };
        if is_mounted_over(root)? {
            return Err(foreign("something is mounted over /proc/stat"));
        }
        if counted == before {
            return Ok(());
        }
        differs = Some(foreign("they differ"));
    }
    differs.map_or(Ok(()), Err)
}

/// Whether something is mounted over `/proc/stat`: the second word of a line of `/proc/mounts`.
fn is_mounted_over(root: &Path) -> Result<bool> {
    let mounts = read_bytes(&root.join("proc/mounts"))?.unwrap_or_default();
    let mut lines = mounts.split(|byte| *byte == b'\n');
    Ok(lines.any(|line| line.split(|byte| *byte == b' ').nth(1) == Some(b"/proc/stat")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;

    #[test]
    fn numbers_of_a_container_are_refused() {
        let tree = Tree::new(2, 2);
        let stat = |cpus: &[u32]| {
            let lines = cpus.iter().map(|cpu| format!("cpu{cpu} 1 0 0 1\n"));
            tree.file("proc/stat", &lines.collect::<String>());
        };
        stat(&[0, 1, 2, 3]);
        assert!(check(tree.root()).is_ok());
        tree.file("proc/mounts", "proc /proc proc rw 0 0\n");
        assert!(check(tree.root()).is_ok());
        stat(&[0, 1]);
        let error = check(tree.root()).unwrap_err().to_string();
        assert!(
            error.contains("CPUs 0-1") && error.contains("0-3 online"),
            "{error}"
        );
        stat(&[0, 1, 2, 3]);
        let mounts = "lxcfs /proc/stat fuse.lxcfs rw 0 0\n";
        tree.file("proc/mounts", mounts);
        let error = check(tree.root()).unwrap_err().to_string();
        assert!(error.contains("mounted over"), "{error}");
    }
}
