//! Checks without a change of the source: functions that compilers call if they are asked to.
//!
//! | gcc and clang option | calls | where the check stands |
//! | --- | --- | --- |
//! | `-fsanitize-coverage=trace-pc` | `__sanitizer_cov_trace_pc` | in each basic block, so in each turn of a loop |
//! | `-finstrument-functions` | `__cyg_profile_func_enter`, `_exit` | at each call and return: cheaper, and no check within a long loop |
//!
//! Source: Elfen injects the check into method bodies and loop back-edges.

use crate::check::check;
use std::ffi::c_void;

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
