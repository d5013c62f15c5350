//! Settings of the running scheduler, from another process.

use crate::bpf::intf;
use sidelane_kernel::Error;
use sidelane_kernel::attached::{enable_seq, has_only_batch, is_attached, map};
use sidelane_policy::settings::{Scope, speeds};
use sidelane_policy::{Budget, Polarization};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The maps of the settings that stay, and of those that may be changed; the kernel keeps 15 bytes of a name.
pub(crate) const FIXED: &[u8] = b".rodata.sidelan";
pub(crate) const LIVE: &[u8] = b".data.sidelane";

/// Which tasks the running scheduler has.
pub fn scope() -> Scope {
    match has_only_batch() {
        true => Scope::Batch,
        false => Scope::All,
    }
}

/// Settings of the running scheduler that may be changed while it runs.
///
/// They are those of one attached scheduler: once [`is_attached`] says no, or after it was loaded
/// again, they have to be opened anew.
#[derive(Debug)]
pub struct Tuning {
    settings: NonNull<intf::live_settings>,
    enable_seq: u64,
}

// SAFETY: the mapping belongs to the process, and is reached by atomic operations only
unsafe impl Send for Tuning {}

impl Tuning {
    /// Finds the running scheduler.
    ///
    /// # Errors
    /// [`Error::NotPrivileged`], [`Error::NotRunning`], or [`Error::Running`].
    pub fn open() -> Result<Tuning, Error> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap};
        let enable_seq = enable_seq();
        let map = map(LIVE, size_of::<intf::live_settings>())?;
        let size = NonZeroUsize::new(size_of::<intf::live_settings>()).unwrap_or(NonZeroUsize::MIN);
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: a new mapping of a map that has this size
        let address = unsafe { mmap(None, size, access, MapFlags::MAP_SHARED, map.as_fd(), 0) }
            .map_err(|e| Error::Running(format!("its settings cannot be mapped: {e}")))?;
        Ok(Tuning {
            settings: address.cast(),
            enable_seq,
        })
    }

    /// Are these still the settings of the scheduler that is attached? Much less work than to find them:
    /// that is a walk over all maps of the kernel. False, too, where the kernel does not count attaches.
    pub fn is_current(&self) -> bool {
        self.enable_seq != 0 && self.enable_seq == enable_seq() && is_attached()
    }

    /// Lanes of a core that critical and normal work may keep busy.
    pub fn smt_level(&self) -> u32 {
        self.smt_level_word().load(Ordering::Relaxed)
    }

    /// Changes it; lanes beyond it fall idle when their slices end. 1 to the lanes of a core.
    pub fn set_smt_level(&self, level: u32) {
        self.smt_level_word().store(level, Ordering::Relaxed);
    }

    /// How long batch may run beside critical work of rules without a budget of their own.
    pub fn budget(&self) -> Budget {
        Budget::of_native(&intf::budget {
            policy: self.policy_word().load(Ordering::Relaxed),
            beyond: self.beyond_word().load(Ordering::Relaxed),
            budget_ns: self.budget_word().load(Ordering::Relaxed),
            objective_ns: self.objective_word().load(Ordering::Relaxed),
        })
    }

    /// Changes it, at once for new and for running critical work. It is to be sound.
    pub(crate) fn set_budget(&self, budget: &Budget) {
        let native = budget.native();
        // between these another budget may be seen, for a moment
        (self.budget_word()).store(native.budget_ns, Ordering::Relaxed);
        (self.beyond_word()).store(native.beyond, Ordering::Relaxed);
        (self.objective_word()).store(native.objective_ns, Ordering::Relaxed);
        (self.policy_word()).store(native.policy, Ordering::Relaxed);
    }

    /// Was the scheduler told how fast a lane is beside busy ones?
    pub(crate) fn knows_speeds(&self) -> bool {
        self.speed_word(0).load(Ordering::Relaxed) > 0
    }

    /// Sets speeds of a lane when 1, 2, ... lanes of its core run.
    pub(crate) fn set_speeds(&self, thread_perf: &[f64]) {
        for (index, speed) in speeds(thread_perf).into_iter().enumerate() {
            self.speed_word(index).store(speed, Ordering::Relaxed);
        }
    }

    /// Which cores normal and batch work uses.
    pub fn polarization(&self) -> Polarization {
        Polarization::of_native(self.vertical_word().load(Ordering::Relaxed))
    }

    /// Changes it; with vertical polarization cores are parked one by one.
    pub(crate) fn set_polarization(&self, polarization: Polarization) {
        self.vertical_word()
            .store(polarization.native(), Ordering::Relaxed);
    }

    /// On how many cores normal and batch work runs; all of them with horizontal polarization.
    pub fn cores_awake(&self) -> u32 {
        // SAFETY: as `smt_level_word`
        let word = unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).cores_awake) };
        word.load(Ordering::Relaxed)
    }

    fn vertical_word(&self) -> &AtomicU32 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).vertical) }
    }

    fn policy_word(&self) -> &AtomicU32 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).budget.policy) }
    }

    fn budget_word(&self) -> &AtomicU64 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU64::from_ptr(&raw mut (*self.settings.as_ptr()).budget.budget_ns) }
    }

    fn beyond_word(&self) -> &AtomicU32 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).budget.beyond) }
    }

    fn objective_word(&self) -> &AtomicU64 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU64::from_ptr(&raw mut (*self.settings.as_ptr()).budget.objective_ns) }
    }

    /// `index` is below the length of the table.
    fn speed_word(&self, index: usize) -> &AtomicU32 {
        // SAFETY: as `smt_level_word`
        unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).thread_perf[index]) }
    }

    fn smt_level_word(&self) -> &AtomicU32 {
        // SAFETY: within the mapping, aligned as the C structure is, shared as the kernel does
        unsafe { AtomicU32::from_ptr(&raw mut (*self.settings.as_ptr()).smt_level) }
    }
}

impl Drop for Tuning {
    fn drop(&mut self) {
        // SAFETY: mapped by `open`, and nothing refers to it any more. It cannot fail then.
        let _ = unsafe {
            nix::sys::mman::munmap(self.settings.cast(), size_of::<intf::live_settings>())
        };
    }
}
