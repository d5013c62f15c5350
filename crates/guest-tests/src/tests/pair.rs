//! Pairing: I/O-bound normal work has a lane of its own on each core. Retention: lanes are held for tasks that
//! sleep for moments.

use super::support::*;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

tests! {
    lanes_are_held_where_that_is_wanted_and_nobody_starves,
    #[untimed]
    computation_is_chosen_by_what_it_needs_where_counters_tell,
    computation_makes_room_for_io_bound_work_and_nobody_starves,
    threads_of_a_program_share_a_core_as_z_vm_s_guests_do,
}

fn computation_is_chosen_by_what_it_needs_where_counters_tell() {
    // the emulated machine has none
    let config =
        "[scheduler]\ndispatching = \"slices\"\nretain = true\npair = true\nsymbiotic = true\n";
    std::fs::write("/tmp/symbiotic.toml", config).unwrap();
    let mut scheduler = Scheduler::attach(&["--config", "/tmp/symbiotic.toml"]);
    scheduler.await_line("symbiotic: order of the vector alone: CPU 0 has no counters");
    assert!(scheduler.stop().success(), "ejected");
    // the kernel's clock in place of them: all wait for memory all the time
    let clock = format!("{config}counters = \"clock\"\n");
    std::fs::write("/tmp/symbiotic.toml", clock).unwrap();
    let mut scheduler = Scheduler::attach(&["--config", "/tmp/symbiotic.toml"]);
    scheduler.await_line("symbiotic: by counters");
    // alone on their cores first, so that they are known
    let mut computing = vec![Load::spin(&Traits::default())];
    eventually("a task is known", || {
        known_share(&computing[0]) == Some(1.0)
    });
    computing.extend((0..2 * nr_cpus()).map(|_| Load::spin(&Traits::default())));
    eventually("tasks are chosen", || {
        rates("1")["symbiotic"].as_f64().unwrap() > 0.0
    });
    assert!(scheduler.stop().success(), "ejected");
}

/// Which part of its cycles a task waits for memory, as far as the scheduler knows.
fn known_share(load: &Load) -> Option<f64> {
    let seen = tasks("0.5");
    let mut tasks = seen["tasks"].as_array().unwrap().iter();
    let task = tasks.find(|task| task["tid"] == load.pid())?;
    task["retention"]["miss_share"].as_f64()
}

/// The longest that CPUs may take to leave an idle state, µs.
fn idle_exit_us() -> i32 {
    let mut bytes = [0; 4];
    let mut file = std::fs::File::open("/dev/cpu_dma_latency").unwrap();
    file.read_exact(&mut bytes).unwrap();
    i32::from_ne_bytes(bytes)
}

fn computation_makes_room_for_io_bound_work_and_nobody_starves() {
    // switches so dear that lanes are held also while computation waits, for as long as these tasks sleep
    let config = "[scheduler]\ndispatching = \"slices\"\nretain = true\npair = true\n[scheduler.retention]\nstart_ms = 10\nperiod_ms = 0\nswitches_ms = 5\n\
                  [scheduler.pairing]\nperiod_ms = 500\n";
    std::fs::write("/tmp/pair.toml", config).unwrap();
    let scheduler = Scheduler::attach(&["--config", "/tmp/pair.toml"]);
    let io: Vec<_> = (0..nr_cpus() / 2)
        .map(|_| Load::jobs(100, "0.001", &Traits::default()))
        .collect();
    let computing: Vec<_> = (0..nr_cpus())
        .map(|_| Load::spin(&Traits::default()))
        .collect();
    let before: Vec<_> = computing.iter().map(Load::ticks).collect();
    let rates = rates("3");
    eventually("idle states are bounded", || idle_exit_us() == 20);
    println!(
        "room made {} times a second, {} changed places, {} lanes held",
        rates["hand_backs"], rates["swaps"], rates["held_lanes"]
    );
    assert!(rates["retentions"].as_f64().unwrap() > 1.0, "{rates}");
    let seen = tasks("1");
    let rate = |load: &Load| {
        let mut tasks = seen["tasks"].as_array().unwrap().iter();
        let task = tasks.find(|task| task["tid"] == load.pid()).unwrap();
        task["retention"]["rate"].as_f64().unwrap()
    };
    let rates = |loads: &[Load]| loads.iter().map(rate).collect::<Vec<f64>>();
    let (high, low) = (rates(&io), rates(&computing));
    println!("retention rates {high:.2?} and {low:.2?}");
    assert!(high.iter().all(|high| low.iter().all(|low| high > low)));
    for (load, before) in computing.iter().zip(before) {
        assert!(load.ticks() > before, "a task that computes was starved");
    }
    assert!(scheduler.stop().success(), "ejected");
}

fn lanes_are_held_where_that_is_wanted_and_nobody_starves() {
    let figure = |rates: &serde_json::Value, name: &str| rates[name].as_f64().unwrap();
    for wanted in [false, true] {
        let config = match wanted {
            true => {
                "[scheduler]\ndispatching = \"slices\"\nretain = true\nretention.start_ms = 10\nretention.period_ms = 0\n"
            }
            false => "[scheduler]\nretain = false\n",
        };
        std::fs::write("/tmp/retain.toml", config).unwrap();
        let args = ["--config", "/tmp/retain.toml", "--batch", "cgroup:/batch"];
        let scheduler = Scheduler::attach(&args);
        let _batch: Vec<_> = (0..nr_cpus()).map(|_| Load::spin_in("batch")).collect();
        let _normal = Load::jobs(100, "0.001", &Traits::default());
        let rates = rates("1");
        let [held, back, failed] =
            ["held_lanes", "retentions", "retentions_failed"].map(|name| figure(&rates, name));
        println!(
            "wanted {wanted}: {held:.3} lanes held, {back} returns, {failed} in vain a second"
        );
        match wanted {
            false => assert_eq!((held, back, failed), (0.0, 0.0, 0.0), "{rates}"),
            true => {
                assert!(back > 1.0 && back > failed, "{rates}");
                assert!(held > 0.0 && held < nr_cpus() as f64, "{rates}");
            }
        }
        let batch = rates["busy_lanes"]["batch"].as_f64().unwrap();
        assert!(batch > 1.0, "batch goes on on the other lanes: {rates}");
        assert!(scheduler.stop().success(), "ejected");
    }
}

fn threads_of_a_program_share_a_core_as_z_vm_s_guests_do() {
    let config = "[scheduler]\ndispatching = \"zvm\"\npolarization = \"horizontal\"\n";
    std::fs::write("/tmp/zvm.toml", config).unwrap();
    let scheduler = Scheduler::attach(&["--config", "/tmp/zvm.toml"]);
    // two that follow each other are a set, or one of them and the next
    let first = together_share();
    std::thread::scope(|scope| {
        let (stop, stopped) = mpsc::channel::<()>();
        scope.spawn(move || stopped.recv());
        let shares = [first, together_share()];
        drop(stop);
        assert!(shares.iter().any(|share| *share > 0.8), "{shares:?}");
    });
    assert!(scheduler.stop().success(), "ejected");
}

/// For which part of a second two new threads, which sleep most of the time, were on the same core.
fn together_share() -> f64 {
    let (cpus, stop) = (
        [AtomicI32::new(0), AtomicI32::new(0)],
        AtomicBool::new(false),
    );
    let work = |own: &AtomicI32| {
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(3));
            // SAFETY: no arguments
            own.store(unsafe { libc::sched_getcpu() }, Ordering::Relaxed);
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(1) {}
        }
    };
    std::thread::scope(|scope| {
        let work = &work;
        cpus.iter().for_each(|own| {
            scope.spawn(move || work(own));
        });
        std::thread::sleep(Duration::from_millis(300));
        let looks = 200;
        let same = (0..looks).filter(|_| {
            std::thread::sleep(Duration::from_millis(5));
            let [a, b] = [&cpus[0], &cpus[1]].map(|cpu| cpu.load(Ordering::Relaxed) / 2);
            a == b
        });
        let share = same.count() as f64 / f64::from(looks);
        stop.store(true, Ordering::Relaxed);
        share
    })
}
