//! What C programs call: `include/sidelane.h` describes it.
//!
//! Without a change of their source they have checks by functions that compilers call if they are asked to:
//!
//! | gcc and clang option | calls | where the check stands |
//! | --- | --- | --- |
//! | `-fsanitize-coverage=trace-pc` | `__sanitizer_cov_trace_pc` | in each basic block, so in each turn of a loop |
//! | `-finstrument-functions` | `__cyg_profile_func_enter`, `_exit` | at each call and return: cheaper, and no check within a long loop |
//!
//! Source: Elfen injects the check into method bodies and loop back-edges.

use crate::check::{BoundLane, check, critical_beside, step_aside};
use crate::nap::{Totals, totals};
use crate::{Job, Status, start};
use std::ffi::c_void;

#[unsafe(no_mangle)]
extern "C" fn sidelane_start() -> bool {
    start() == Status::Attached
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_check() {
    check();
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_step_aside() {
    step_aside();
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_critical_beside() -> bool {
    critical_beside()
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_bind() -> *const u64 {
    BoundLane::bind().map_or(std::ptr::null(), BoundLane::flag)
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_nap_totals() -> Totals {
    totals()
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_job_begin(budget_ns: u64) -> Job {
    Job::begin(budget_ns)
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_job_begun_at(begin_ns: u64, budget_ns: u64) -> Job {
    Job::begun_at(begin_ns, budget_ns)
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_job_time_left_ns(job: Job) -> u64 {
    job.time_left_ns()
}

#[unsafe(no_mangle)]
extern "C" fn sidelane_job_should_stop(job: Job, reserve_ns: u64) -> bool {
    job.should_stop(reserve_ns)
}

/// Returns how long it took, in nanoseconds.
#[unsafe(no_mangle)]
extern "C" fn sidelane_job_end(job: Job) -> u64 {
    job.end()
}

/// Called in each basic block.
#[unsafe(no_mangle)]
pub extern "C" fn __sanitizer_cov_trace_pc() {
    check();
}

/// Called when a function begins.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_enter(_function: *mut c_void, _caller: *mut c_void) {
    check();
}

/// Called when a function ends; the check at its beginning does.
#[unsafe(no_mangle)]
pub extern "C" fn __cyg_profile_func_exit(_function: *mut c_void, _caller: *mut c_void) {}
