//! The scheduler that is attached, from another process.
//!
//! Its maps are found by name among the kernel's, so that nothing has to be pinned and the loader
//! needs no socket.

use crate::{Need, Plain, Refusal, allowed, from_bytes};
use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Why the kernel does not answer; each names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A capability is missing.
    #[error(transparent)]
    NotPrivileged(#[from] Refusal),
    /// No scheduler can run on this kernel.
    #[error(
        "this kernel has no sched_ext (no /sys/kernel/sched_ext), so no Sidelane scheduler can be attached; see \
         'sidelane doctor'; 'sidelane record' and 'sidelane report' need none"
    )]
    NoSchedExt,
    /// No running scheduler to read counters from.
    #[error("no Sidelane scheduler is attached; start one with 'sidelane run'")]
    NotRunning,
    /// The running scheduler's counters or settings cannot be reached.
    #[error(
        "cannot read or change the running scheduler: {0}; run as root, with the same version of sidelane as the scheduler's"
    )]
    Running(String),
    /// It runs, and has no such thing.
    #[error("the scheduler that runs has scope = \"batch\": {0} has no effect there")]
    OnlyBatch(&'static str),
}

impl Error {
    /// Is the machine (kernel, privilege) at fault rather than the input?
    pub fn is_machine(&self) -> bool {
        matches!(self, Error::NotPrivileged(_) | Error::NoSchedExt)
    }
}

/// The name of the sched_ext scheduler that is attached, whoever's it is.
pub fn name() -> Option<String> {
    let name = std::fs::read_to_string("/sys/kernel/sched_ext/root/ops").ok()?;
    Some(name.trim().to_owned())
}

/// Is a scheduler of this name ours?
pub fn is_ours(name: &str) -> bool {
    name.starts_with("sidelane")
}

/// Is a scheduler of ours attached?
pub fn is_attached() -> bool {
    name().is_some_and(|name| is_ours(&name))
}

/// Does the attached scheduler have batch alone, while the kernel's own keeps all else? The kernel says so.
pub fn has_only_batch() -> bool {
    std::fs::read_to_string("/sys/kernel/sched_ext/switch_all").is_ok_and(|all| all.trim() == "0")
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
/// [`Error::NoSchedExt`], [`Error::NotPrivileged`], [`Error::NotRunning`], or [`Error::Running`].
pub fn map(name: &[u8], value_size: usize) -> Result<MapHandle, Error> {
    find(name, |size| size == value_size)
}

/// The same of a map whose values begin with what is known of them: data of programs, where the compiler adds its own.
///
/// # Errors
/// As [`map`].
pub fn data(name: &[u8], least: usize) -> Result<MapHandle, Error> {
    find(name, |size| size >= least)
}

fn find(name: &[u8], fits: impl Fn(usize) -> bool) -> Result<MapHandle, Error> {
    if !Path::new("/sys/kernel/sched_ext").exists() {
        return Err(Error::NoSchedExt);
    }
    allowed(Need::Find)?;
    let named = || MapInfoIter::default().filter(|map| map.name.as_bytes() == name);
    // the newest: a program that reads those of a scheduler that has ended keeps them alive
    let found = named().filter(|map| fits(map.value_size as usize)).last();
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
