//! The runtime against a service in a process of its own, which is then killed.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod support;

use sidelane_runtime::wire::SUBSCRIBE;
use sidelane_runtime::{Status, check, critical_beside, nap, siblings, status};
use std::time::{Duration, Instant};
use support::{FakeService, eventually, said};

/// Everything of a process's life in one test: the runtime is one a process.
#[test]
fn naps_begin_and_end_with_critical_work_and_with_the_service() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("signal.sock");
    // SAFETY: the only test of this process, and no thread of it runs yet
    unsafe { std::env::set_var("SIDELANE_SIGNAL_SOCKET", &socket) };
    // SAFETY: as above; a method that every machine has, so that the test is the same everywhere
    unsafe { std::env::set_var("SIDELANE_RUNTIME_NAP", "futex") };

    // no service: a no-op
    check();
    assert_eq!((status(), critical_beside()), (Status::Detached, false));
    assert!(siblings(0).is_empty());

    // one that starts later is found
    let mut service = FakeService::start(&socket);
    eventually("attached", || status() == Status::Attached);
    assert!(!critical_beside());
    assert_eq!(siblings(0), [1], "as the service told");
    check();
    assert_eq!(nap::totals().naps, 0);
    eventually("its words are to be woken", || {
        said(&socket).contains(&SUBSCRIBE)
    });

    // critical work for a while: one nap of that length, give or take a time-out
    service.critical_for(Duration::from_millis(80));
    eventually("critical work beside", critical_beside);
    let began = Instant::now();
    check();
    let napped = began.elapsed();
    assert!(napped > Duration::from_millis(20), "{napped:?}");
    assert!(napped < Duration::from_millis(500), "{napped:?}");
    assert_eq!(nap::totals().naps, 1);

    // the service is killed during a nap
    service.critical_for(Duration::from_secs(60));
    eventually("critical work beside", critical_beside);
    let began = Instant::now();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(service);
    });
    check();
    let napped = began.elapsed();
    assert!(napped > Duration::from_millis(40), "{napped:?}");
    assert!(napped < Duration::from_millis(400), "{napped:?}");
    assert!(!critical_beside());
    eventually("detached", || status() == Status::Detached);

    // another one is found, and a nap is bounded though critical work goes on
    let mut service = FakeService::start(&socket);
    eventually("attached again", || status() == Status::Attached);
    service.critical_for(Duration::from_secs(60));
    eventually("critical work beside", critical_beside);
    let began = Instant::now();
    check();
    let napped = began.elapsed();
    assert!(napped > Duration::from_millis(900), "{napped:?}");
    assert!(napped < Duration::from_millis(1400), "{napped:?}");
    assert_eq!(nap::totals().forced, 1);
    let began = Instant::now();
    check();
    assert!(
        began.elapsed() < Duration::from_millis(100),
        "a grace follows"
    );
    a_forked_child_begins_anew();
    drop(service);
}

fn a_forked_child_begins_anew() {
    // SAFETY: the child checks, which only makes system calls and allocates, and leaves
    let child = unsafe { libc::fork() };
    if child == 0 {
        // it may find the service only at the second try
        let until = Instant::now() + Duration::from_secs(10);
        while nap::totals().naps == 0 && Instant::now() < until {
            check();
            std::thread::sleep(Duration::from_millis(1));
        }
        let anew = nap::totals().naps == 1 && status() == Status::Attached;
        // SAFETY: ends this process
        unsafe { libc::_exit(i32::from(!anew)) };
    }
    let mut ended = 0;
    // SAFETY: waits for the child made above
    unsafe { libc::waitpid(child, &mut ended, 0) };
    assert_eq!(ended, 0);
}

/// Not a test: the service's process.
#[test]
#[ignore = "started by the test above"]
fn fake_service() {
    support::serve();
}
