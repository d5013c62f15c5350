//! The scheduler that is attached, from another process.
//!
//! Its maps are found by name among the kernel's, so that nothing has to be pinned and the loader
//! needs no socket.

use crate::{Error, Plain, from_bytes};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::os::unix::ffi::OsStrExt;

/// Is a scheduler of ours attached?
pub fn is_attached() -> bool {
    std::fs::read_to_string("/sys/kernel/sched_ext/root/ops")
        .is_ok_and(|name| name.trim().starts_with("sidelane"))
}

/// How many schedulers were attached since boot; 0 where the kernel does not tell.
pub fn enable_seq() -> u64 {
    let text = std::fs::read_to_string("/sys/kernel/sched_ext/enable_seq");
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// The running scheduler's map of this name, of which the kernel keeps 15 bytes, whose values have this size.
///
/// # Errors
/// [`Error::NotPrivileged`], [`Error::NotRunning`], or [`Error::Running`].
pub fn map(name: &[u8], value_size: usize) -> Result<MapHandle, Error> {
    if !nix::unistd::geteuid().is_root() {
        return Err(Error::NotPrivileged);
    }
    let named = || MapInfoIter::default().filter(|map| map.name.as_bytes() == name);
    // the newest: who reads those of a scheduler that has ended keeps them alive
    let found = named()
        .filter(|map| map.value_size as usize == value_size)
        .last();
    match (found, named().next()) {
        (Some(map), _) if is_attached() => {
            MapHandle::from_map_id(map.id).map_err(|e| Error::Running(e.to_string()))
        }
        (None, Some(_)) => Err(Error::Running("its maps have another layout".to_owned())),
        _ => Err(Error::NotRunning),
    }
}

/// An entry of an array map; none beyond its end.
///
/// # Errors
/// [`Error::Running`].
pub fn entry<T: Plain>(map: &MapHandle, key: u32) -> Result<Option<T>, Error> {
    let bytes = map
        .lookup(&key.to_ne_bytes(), MapFlags::ANY)
        .map_err(|e| Error::Running(e.to_string()))?;
    Ok(bytes.and_then(|bytes| from_bytes(&bytes)))
}
