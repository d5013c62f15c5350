//! Marked jobs against a service in a process of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use sidelane_runtime::wire::SUBSCRIBE;
use sidelane_runtime::{Job, Status, status};
use std::time::Duration;
use support::{FakeService, eventually, said, slots_in_use};

/// Everything of a process's life in one test: the runtime is one a process.
#[test]
fn marks_reach_a_service_that_takes_them() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("signal.sock");
    // SAFETY: the only test of this process, and no thread of it runs yet
    unsafe { std::env::set_var("SIDELANE_SIGNAL_SOCKET", &socket) };
    // SAFETY: as above; naps for which a service would be asked, on any machine
    unsafe { std::env::set_var("SIDELANE_RUNTIME_NAP", "futex") };
    // SAFETY: no arguments
    let tid = unsafe { libc::gettid() } as u32;

    // no service: a job is a stop watch
    let job = Job::begun_at(1, 0);
    assert!(job.end() > 0 && status() == Status::Detached);

    // an old service knows of no boards
    let old = FakeService::start_old(&socket);
    eventually("attached", || status() == Status::Attached);
    std::thread::sleep(Duration::from_millis(20));
    assert!(Job::begin(0).end() < 1_000_000_000);
    assert!(slots_in_use(&socket).is_empty());
    drop(old);
    eventually("detached", || status() == Status::Detached);

    // one that starts later gives a board, and the thread has a slot of it from its next job on
    let service = FakeService::start(&socket);
    eventually("a slot", || {
        Job::begin(0).end();
        !slots_in_use(&socket).is_empty()
    });
    let ended = slots_in_use(&socket)[0].2;
    let before = Job::begin(0);
    let (own, began_ns, _, _) = slots_in_use(&socket)[0].clone();
    assert_eq!((own, began_ns > 0), (tid, true));
    std::thread::sleep(Duration::from_millis(3));
    let latency_ns = before.end();
    let (_, began_ns, after, latencies) = slots_in_use(&socket)[0].clone();
    assert_eq!((began_ns, after), (0, ended + 1), "between two jobs");
    let kept_ns = latencies[ended as usize % latencies.len()];
    assert!(latency_ns - kept_ns < 64, "{latency_ns} {kept_ns}");

    a_thread_has_a_slot_of_its_own(&socket);
    a_forked_child_leaves_the_board_alone(&socket);

    // the service is killed and comes back
    drop(service);
    eventually("detached", || status() == Status::Detached);
    let job = Job::begin(0);
    std::fs::remove_file(support::board_path(&socket, std::process::id())).unwrap();
    let _service = FakeService::start(&socket);
    eventually("a slot of the next board", || {
        Job::begin(0).end();
        !slots_in_use(&socket).is_empty()
    });
    assert!(job.end() > 0);
    // what a service would tell of lanes costs it a message each time
    assert!(!said(&socket).contains(&SUBSCRIBE), "it only marks");
}

/// A job may end on another thread than where it began: it counts there.
fn a_thread_has_a_slot_of_its_own(socket: &std::path::Path) {
    let job = Job::begin(0);
    let ended = slots_in_use(socket)[0].2;
    let other = std::thread::spawn(move || {
        let _own = Job::begin(0);
        job.end();
        // SAFETY: no arguments
        unsafe { libc::gettid() as u32 }
    });
    let other = other.join().unwrap();
    let slots = slots_in_use(socket);
    let slot = |tid| slots.iter().find(|slot| slot.0 == tid).unwrap();
    assert_eq!(slots.len(), 2);
    assert_eq!(slot(other).2, 1);
    assert!(slot(other).1 > 0, "its own job goes on");
    // SAFETY: no arguments
    let own = slot(unsafe { libc::gettid() } as u32);
    assert_eq!(own.2, ended);
}

fn a_forked_child_leaves_the_board_alone(socket: &std::path::Path) {
    let before = slots_in_use(socket);
    // SAFETY: the child writes to memory and leaves
    let child = unsafe { libc::fork() };
    if child == 0 {
        let own = Job::begin(0);
        own.end();
        // SAFETY: ends this process
        unsafe { libc::_exit(0) };
    }
    let mut ended = 0;
    // SAFETY: waits for the child made above
    unsafe { libc::waitpid(child, &mut ended, 0) };
    assert_eq!(ended, 0);
    assert_eq!(slots_in_use(socket), before);
}

/// Not a test: the service's process.
#[test]
#[ignore = "started by the test above"]
fn fake_service() {
    support::serve();
}
