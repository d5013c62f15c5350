//! Which threads are virtual CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Where KVM tells: a folder for each virtual machine, named by its process, and below it one for each
/// virtual CPU, with the id of the thread that runs it.
const KVM: &str = "sys/kernel/debug/kvm";
/// There is no virtual machine of KVM without it.
const KVM_MODULE: &str = "sys/module/kvm";

/// A virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vcpu {
    /// Process id of its virtual machine.
    pub process: u32,
    /// Its number there.
    pub number: u32,
}

/// The virtual CPUs of this machine by thread id, as `root` has it; an error is a sentence about why they are
/// not known.
pub(super) fn read(root: &Path) -> Result<BTreeMap<u32, Vcpu>, String> {
    let folder = root.join(KVM);
    let machines = match fs::read_dir(&folder) {
        Ok(machines) => machines,
        Err(_) if !root.join(KVM_MODULE).exists() => return Ok(BTreeMap::new()),
        Err(error) => {
            return Err(format!(
                "virtual CPUs are not recognised: {}: {error}; mount debugfs on /sys/kernel/debug",
                folder.display()
            ));
        }
    };
    let mut vcpus = BTreeMap::new();
    for machine in machines.flatten() {
        // "process-descriptor"; all else in the folder are statistics
        let name = machine.file_name();
        let Some(process) = name
            .to_str()
            .and_then(|name| number(name.split('-').next()?))
        else {
            continue;
        };
        // one that ends meanwhile is none any more
        for entry in fs::read_dir(machine.path()).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let number_of = |name: &str| number(name.strip_prefix("vcpu")?);
            let Some(number_here) = name.to_str().and_then(number_of) else {
                continue;
            };
            let thread = fs::read_to_string(entry.path().join("pid"));
            if let Some(thread) = thread.ok().and_then(|text| number(text.trim())) {
                let number = number_here;
                vcpus.insert(thread, Vcpu { process, number });
            }
        }
    }
    Ok(vcpus)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn threads_of_all_machines_are_found() {
        let root = tempfile::tempdir().unwrap();
        let kvm = |path: &str, text: &str| write(root.path(), &format!("{KVM}/{path}"), text);
        kvm("120-11/vcpu0/pid", "131\n");
        kvm("120-11/vcpu1/pid", "132\n");
        kvm("120-11/vcpu1/guest_mode", "0\n");
        kvm("120-11/halt_wait_ns", "0\n");
        kvm("99-vm/vcpu0/pid", "100\n");
        kvm("99-vm/vcpu7/pid", "garbage\n");
        kvm("99-vm/vcpux/pid", "7\n");
        kvm("exits", "3\n");
        let vcpu = |process, number| Vcpu { process, number };
        let expected = [(100, vcpu(99, 0)), (131, vcpu(120, 0)), (132, vcpu(120, 1))];
        assert_eq!(read(root.path()).unwrap(), expected.into());
    }

    #[test]
    fn without_kvm_there_are_none_and_without_debugfs_it_is_said() {
        let root = tempfile::tempdir().unwrap();
        assert!(read(root.path()).unwrap().is_empty());
        write(root.path(), &format!("{KVM_MODULE}/refcnt"), "0\n");
        assert!(read(root.path()).unwrap_err().contains("mount debugfs"));
    }
}
