//! What the scheduler's loader and the collector of metrics both ask of the kernel.
//!
//! - [`allowed`], [`prepare`], [`warnings`], [`Urgent`], [`switch_everywhere`]: around the loading of BPF programs.
//! - [`Plain`]: structures that BPF programs share, as bytes.
//! - [`attached`]: the scheduler that is attached, and its maps; [`pools`]: its pools.
//! - [`cgroups`]: which cgroups exist, their `cpu.max`, and their labels.
//! - [`TaskStorage`]: when maps of tasks may go; [`public_folder`]: of what is kept below `/run`.

pub mod attached;
pub mod cgroups;
mod loading;
pub mod pools;

pub use attached::Error;
pub use loading::{
    Capabilities, Need, Refusal, TaskStorage, Urgent, allowed, prepare, switch_everywhere, warnings,
};

use sidelane_policy::intf;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Creates a folder in which anybody may look, whatever the umask. One that is there stays as it is.
///
/// # Errors
/// It cannot be created.
pub fn public_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))
}

/// C structures of which any bytes are a valid value.
///
/// # Safety
/// Only for structures of integers without implicit padding.
pub unsafe trait Plain: Copy {}

// SAFETY: integers only; bpf/intf.h and what it includes pad by name
unsafe impl Plain for u32 {}
unsafe impl Plain for u64 {}
unsafe impl Plain for intf::lane_ctx {}
unsafe impl Plain for intf::core_ctx {}
unsafe impl Plain for intf::task_ctx {}
unsafe impl Plain for intf::rule {}
unsafe impl Plain for intf::budget {}
unsafe impl Plain for intf::fixed_settings {}
unsafe impl Plain for intf::live_settings {}
unsafe impl Plain for intf::counters {}
unsafe impl Plain for intf::objective {}
unsafe impl Plain for intf::budget_ipc {}
unsafe impl Plain for intf::cgroup_event {}
unsafe impl Plain for intf::cgroup_known {}
unsafe impl Plain for intf::cgroup_demand {}
unsafe impl Plain for intf::adopt_event {}
unsafe impl Plain for intf::adopt_call {}
unsafe impl Plain for intf::pool_limit {}
unsafe impl Plain for intf::pool {}
unsafe impl Plain for intf::pool_path {}
unsafe impl Plain for intf::lane_signal {}
unsafe impl Plain for intf::job_board_key {}

/// A structure of zeros.
pub fn zeroed<T: Plain>() -> T {
    // SAFETY: any bytes are a valid T
    unsafe { std::mem::zeroed() }
}

/// The bytes of a structure.
pub fn bytes_of<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: a shared view of plain data, as long as the reference
    unsafe { std::slice::from_raw_parts((value as *const T).cast(), size_of::<T>()) }
}

/// A structure from its bytes; none if there are too few.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    // SAFETY: long enough, and any bytes are a valid T
    (bytes.len() >= size_of::<T>())
        .then(|| unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast()) })
}
