//! Storage of tasks: when the kernel may free it.
//!
//! Kernels from 6.14 to 6.19 free such a map bound to a CPU, and wait there for a grace period that waits for the end of CPU
//! hotplug. If just that CPU goes offline, hotplug waits for what is bound to it: none of the three ever ends, and neither does
//! anything else that needs one of them. Therefore who attaches anew because lanes come and go keeps the old maps until
//! they no longer do, and who ends waits until the kernel has freed them. A map lives as long as a descriptor of it is open.

use libbpf_rs::MapInfo;
use libbpf_rs::libbpf_sys::bpf_btf_get_fd_by_id;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// After so long without another one retired, lanes no longer come and go.
const QUIET: Duration = Duration::from_secs(10);

/// The kernel needs tens of milliseconds; it is not waited for longer than this.
const FREED: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(5);

/// Maps of this kind, of one object or of several. Dropped after those, it waits for the end of the maps.
#[derive(Default)]
pub struct TaskStorage {
    maps: Vec<OwnedFd>,
    retired: Option<Instant>,
}

impl TaskStorage {
    /// That of an object which has this map and describes its types itself.
    pub fn of(map: &impl AsFd) -> TaskStorage {
        TaskStorage {
            // what cannot be kept goes with the object: most kernels do not mind
            maps: map.as_fd().try_clone_to_owned().into_iter().collect(),
            retired: None,
        }
    }

    /// Takes over that of an object that will be replaced.
    pub fn retire(&mut self, mut other: TaskStorage) {
        self.maps.append(&mut other.maps);
        self.retired = Some(Instant::now());
    }

    /// Lets go of what was retired if it has been quiet. To be called now and then.
    pub fn let_go(&mut self) {
        if self.retired.is_some_and(|since| since.elapsed() >= QUIET) {
            self.retired = None;
            self.maps.clear();
        }
    }
}

impl Drop for TaskStorage {
    fn drop(&mut self) {
        // the last thing that a map gives back is the description of its types
        let mut types: Vec<u32> = self.maps.iter().filter_map(types_of).collect();
        self.maps.clear();
        let begun = Instant::now();
        while begun.elapsed() < FREED {
            types.retain(|types| exists(*types));
            if types.is_empty() {
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

/// The number under which the kernel knows the description of a map's types.
fn types_of(map: &OwnedFd) -> Option<u32> {
    let info = MapInfo::new(map.as_fd()).ok()?.info;
    (info.btf_id != 0).then_some(info.btf_id)
}

fn exists(types: u32) -> bool {
    // SAFETY: a call without memory; the descriptor is ours alone
    let fd = unsafe { bpf_btf_get_fd_by_id(types) };
    if fd < 0 {
        return false;
    }
    // SAFETY: just opened
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
    true
}
