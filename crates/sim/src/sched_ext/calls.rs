//! The kernel's calls that the scheduler makes, under their ordinary names.
//!
//! While an operation of the scheduler runs, the calling thread's [`CURRENT`] names the simulation it
//! runs for. Calls outside of an operation do nothing and return nothing.

use super::native;
use super::{ITER_REVERSE, Insertion, SchedExt};
use crate::engine::Engine;
use crate::task::TaskId;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::null_mut;

/// What an operation works on.
#[derive(Clone, Copy)]
struct Context {
    scheduler: *mut SchedExt,
    engine: *mut Engine,
}

const NOBODY: Context = Context {
    scheduler: null_mut(),
    engine: null_mut(),
};

thread_local! {
    static CURRENT: Cell<Context> = const { Cell::new(NOBODY) };
}

/// Runs an operation of the scheduler.
pub(super) fn operate<T>(
    scheduler: &mut SchedExt,
    engine: &mut Engine,
    operation: impl FnOnce() -> T,
) -> T {
    let outer = CURRENT.replace(Context { scheduler, engine });
    let result = operation();
    CURRENT.set(outer);
    result
}

/// Does something with the simulation of the running operation.
fn with<T>(nothing: T, action: impl FnOnce(&mut SchedExt, &mut Engine) -> T) -> T {
    let Context { scheduler, engine } = CURRENT.get();
    // SAFETY: `operate` got these from unique references that it does not use while the operation
    // runs; calls do not nest.
    match unsafe { (scheduler.as_mut(), engine.as_mut()) } {
        (Some(scheduler), Some(engine)) => action(scheduler, engine),
        _ => nothing,
    }
}

/// The task that the scheduler means.
fn id_of(p: *const native::task_struct) -> TaskId {
    // SAFETY: the scheduler has its pointers from the simulation, which keeps the tasks in place.
    TaskId(unsafe { (*p).number })
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_now() -> c_ulonglong {
    with(0, |_, engine| engine.now_ns())
}

#[unsafe(no_mangle)]
extern "C" fn bpf_get_smp_processor_id() -> c_uint {
    with(0, |_, engine| engine.this_lane)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_create_dsq(dsq: c_ulonglong, _node: c_int) -> c_int {
    const EEXIST: c_int = 17;
    match with(false, |scheduler, _| scheduler.create_queue(dsq)) {
        true => 0,
        false => -EEXIST,
    }
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_nr_queued(dsq: c_ulonglong) -> c_int {
    with(0, |scheduler, _| scheduler.queue_length(dsq) as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert(
    p: *mut native::task_struct,
    dsq: c_ulonglong,
    slice_ns: c_ulonglong,
    flags: c_ulonglong,
) -> bool {
    insert(
        p,
        Insertion {
            dsq,
            slice_ns,
            vtime_ns: None,
            flags,
        },
    )
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_insert_vtime(
    p: *mut native::task_struct,
    dsq: c_ulonglong,
    slice_ns: c_ulonglong,
    vtime_ns: c_ulonglong,
    flags: c_ulonglong,
) -> bool {
    insert(
        p,
        Insertion {
            dsq,
            slice_ns,
            vtime_ns: Some(vtime_ns),
            flags,
        },
    )
}

fn insert(p: *mut native::task_struct, insertion: Insertion) -> bool {
    with((), |scheduler, engine| {
        scheduler.insert(engine, id_of(p), insertion)
    });
    true
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_dsq_move_to_local(dsq: c_ulonglong, _flags: c_ulonglong) -> bool {
    with(false, |scheduler, engine| {
        scheduler.move_to_local(engine, dsq)
    })
}

#[unsafe(no_mangle)]
extern "C" fn __COMPAT_scx_bpf_dsq_peek(dsq: c_ulonglong) -> *mut native::task_struct {
    with(null_mut(), |scheduler, _| scheduler.peek(dsq))
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_begin(dsq: c_ulonglong, flags: c_ulonglong) {
    let reverse = flags & ITER_REVERSE != 0;
    with((), |scheduler, _| scheduler.visit_queue(dsq, reverse));
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_next() -> *mut native::task_struct {
    with(null_mut(), |scheduler, _| scheduler.visit_next())
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_move_slice(slice_ns: c_ulonglong) {
    with((), |scheduler, _| scheduler.visit.slice_ns = Some(slice_ns));
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_move_set_vtime(vtime_ns: c_ulonglong) {
    with((), |scheduler, _| scheduler.visit.vtime_ns = Some(vtime_ns));
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_move(p: *mut native::task_struct, dsq: c_ulonglong) -> bool {
    with(false, |scheduler, engine| {
        scheduler.move_to_queue(engine, id_of(p), dsq, false)
    })
}

#[unsafe(no_mangle)]
extern "C" fn native_dsq_move_vtime(p: *mut native::task_struct, dsq: c_ulonglong) -> bool {
    with(false, |scheduler, engine| {
        scheduler.move_to_queue(engine, id_of(p), dsq, true)
    })
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_kick_cpu(cpu: c_int, flags: c_ulonglong) {
    with((), |scheduler, engine| {
        scheduler.kick_cpu(engine, cpu, flags)
    });
}

#[unsafe(no_mangle)]
extern "C" fn native_timer_set(element: c_uint, after_ns: c_ulonglong) {
    with((), |scheduler, engine| {
        scheduler.set_timer(engine, element, after_ns);
    });
}

/// Instructions are work done on the lane, cycles the time that it ran anything: one a nanosecond; and what of
/// the former waits for memory.
#[unsafe(no_mangle)]
extern "C" fn native_counter(which: c_uint) -> c_ulonglong {
    with(0, |_, engine| {
        let cpu = engine.this_lane;
        match which {
            0 => engine.work_ns(cpu) as c_ulonglong,
            1 => engine.busy_ns(cpu),
            _ => engine.missed_ns(cpu) as c_ulonglong,
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_task_cpu(p: *const native::task_struct) -> c_int {
    with(0, |_, engine| engine.task(id_of(p)).lane as c_int)
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_task_set_slice(p: *mut native::task_struct, slice_ns: c_ulonglong) {
    // SAFETY: see `id_of`; nothing else refers to the task while the operation runs.
    unsafe { (*p).scx.slice = slice_ns };
}

#[unsafe(no_mangle)]
extern "C" fn scx_bpf_reenqueue_local_from_anywhere() -> c_uint {
    with(0, |scheduler, engine| {
        scheduler.reenqueue_local(engine.this_lane)
    })
}

#[unsafe(no_mangle)]
extern "C" fn native_rq(cpu: c_int) -> *const native::rq {
    with(std::ptr::null(), |scheduler, engine| {
        scheduler.run_queue(engine, cpu)
    })
}

#[unsafe(no_mangle)]
extern "C" fn bpf_get_current_task_btf() -> *mut native::task_struct {
    with(null_mut(), |scheduler, engine| {
        match engine.current(engine.this_lane) {
            Some(id) => scheduler.pointer(id),
            None => scheduler.idle_task(),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn bpf_task_from_pid(pid: c_int) -> *mut native::task_struct {
    with(null_mut(), |scheduler, _| scheduler.task_of_pid(pid))
}

#[unsafe(no_mangle)]
extern "C" fn native_task_storage(
    p: *mut native::task_struct,
    size: usize,
    flags: c_ulonglong,
) -> *mut c_void {
    with(null_mut(), |scheduler, _| {
        scheduler.storage(id_of(p), size, flags != 0)
    })
}

/// A cgroup's number is that of its pool; classes are told by user: see settings.rs.
#[unsafe(no_mangle)]
extern "C" fn native_cgroup(id: c_ulonglong) -> *mut native::cgroup_known {
    with(null_mut(), |scheduler, _| scheduler.tables.cgroup(id))
}

#[unsafe(no_mangle)]
extern "C" fn native_cgroup_demand(id: c_ulonglong) -> *mut native::cgroup_demand {
    with(null_mut(), |scheduler, _| scheduler.tables.demand(id))
}

#[unsafe(no_mangle)]
extern "C" fn native_error(format: *const c_char) {
    // SAFETY: the scheduler passes string literals.
    let text = unsafe { CStr::from_ptr(format) }
        .to_string_lossy()
        .into_owned();
    with((), |scheduler, engine| {
        scheduler.broke(engine, format!("gave up: {text}"))
    });
}
