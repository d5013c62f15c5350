//! Fast old: critical work moves to a core that falls free. Spreading: normal work does, too.
//! Vertical polarization: cores without work are left alone.

use super::support::*;
use std::fs;
use std::time::Duration;

tests! {
    #[shared]
    work_moves_to_a_core_that_falls_free_and_a_trace_tells,
    cores_without_work_are_left_idle_until_there_is_more,
}

/// The core of the lane on which a task ran last; two lanes a core, numbered core after core.
fn core_of(load: &Load) -> usize {
    load.cpu() / 2
}

fn work_moves_to_a_core_that_falls_free_and_a_trace_tells() {
    let scheduler = Scheduler::shared();
    normal_work_that_shares_a_core_moves_to_an_idle_one();
    one_of_two_gets_the_core_that_falls_free();
    promotions_and_evictions_are_traced();
    scheduler.leave();
}

fn normal_work_that_shares_a_core_moves_to_an_idle_one() {
    let first = first_core();
    let bound = Traits {
        cpus: first.clone(),
        ..Traits::default()
    };
    let loads = [(); 2].map(|()| Load::spin(&bound));
    let elsewhere = || {
        loads
            .iter()
            .filter(|load| !first.contains(&load.cpu()))
            .count()
    };
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(elsewhere(), 0, "they may use the first core only");
    for load in &loads {
        load.allow(&(0..nr_cpus()).collect::<Vec<_>>());
    }
    eventually("one of them has moved", || elsewhere() == 1);
}

fn one_of_two_gets_the_core_that_falls_free() {
    let mut spinners: Vec<Load> = (0..3).map(|_| Load::spin_in("critical")).collect();
    // All of them run, on three lanes of two cores: one has a core of its own.
    let before: Vec<_> = spinners.iter().map(Load::ticks).collect();
    eventually("all progress", || {
        spinners
            .iter()
            .zip(&before)
            .all(|(load, before)| load.ticks() > before + 5)
    });
    let watched = Stat::start(&["0.5", "--no-smt"]);
    watched.next(); // it has begun to watch
    // only now: they change places now and then
    let alone = alone(&spinners).expect("two cores for three");
    let free = core_of(&spinners[alone]);
    drop(spinners.remove(alone));
    eventually("the two have a core each", || {
        core_of(&spinners[0]) != core_of(&spinners[1])
    });
    // Which of them is older is not certain here: a job begins when its task wakes, and a process
    // may sleep for a moment after its start. The simulator's tests know.
    assert!(spinners.iter().any(|load| core_of(load) == free));
    let watched = watched.end_beyond_now();
    let mut promotions = watched.iter().map(|rates| rates["promotions"].as_f64());
    assert!(promotions.any(|rate| rate.unwrap() > 0.0), "{watched:?}");
}

/// The scheduler's lines in the kernel's trace that contain `word`, which is emptied.
fn traced(word: &str) -> Vec<String> {
    let file = format!("{TRACING}/trace");
    let text = fs::read(&file).unwrap();
    fs::write(&file, "").unwrap();
    let text = String::from_utf8_lossy(&text);
    let lines = text
        .lines()
        .filter_map(|line| line.find("sidelane_").map(|at| &line[at..]));
    lines
        .filter(|line| line.contains(word))
        .map(str::to_owned)
        .collect()
}

/// A number of a line.
fn number(line: &str, key: &str) -> u64 {
    let words = line.split([' ', '=']).collect::<Vec<_>>();
    let at = words.iter().position(|word| *word == key).unwrap();
    words[at + 1].parse().unwrap()
}

/// Of three on two cores: the one that has a core for itself.
fn alone(spinners: &[Load]) -> Option<usize> {
    let cores: Vec<_> = spinners.iter().map(core_of).collect();
    (0..cores.len()).find(|&i| cores.iter().filter(|core| **core == cores[i]).count() == 1)
}

/// Critical jobs come and go beside batch, until the trace has such a line.
fn come_and_go(word: &str) -> Option<String> {
    let _batch = Load::spin_in("batch");
    let mut critical: Vec<Load> = (0..3).map(|_| Load::spin_in("critical")).collect();
    for _ in 0..30 {
        std::thread::sleep(Duration::from_millis(300));
        // of this one, the core falls free
        if let Some(alone) = alone(&critical) {
            drop(critical.remove(alone));
            std::thread::sleep(Duration::from_millis(300));
            critical.push(Load::spin_in("critical"));
        }
        if let Some(line) = traced(word).pop() {
            println!("{line}");
            return Some(line);
        }
    }
    None
}

fn promotions_and_evictions_are_traced() {
    let _ = fs::write(format!("{PRINTED}/enable"), "1");
    let line = come_and_go("sidelane_promotion_done").expect("a promotion");
    let cores = ["from_core", "to_core"].map(|key| number(&line, key));
    assert!(cores == [0, 2] || cores == [2, 0], "{line}");
    assert!(number(&line, "job_age_us") >= 500, "{line}");
    assert!(number(&line, "pid") > 1, "{line}");
    come_and_go("sidelane_promotion_begun").expect("one that begins");
    let line = come_and_go("sidelane_eviction").expect("an eviction");
    assert_eq!(
        number(&line, "cpu") / 2 * 2,
        number(&line, "core"),
        "{line}"
    );
}

/// Share of some seconds in which the lanes of other cores than the first idled.
fn others_idled() -> f64 {
    const SECONDS: u64 = 2;
    let first = first_core();
    let before = busy_ticks();
    std::thread::sleep(Duration::from_secs(SECONDS));
    let after = busy_ticks();
    let others: Vec<usize> = (0..nr_cpus()).filter(|cpu| !first.contains(cpu)).collect();
    let busy: u64 = others.iter().map(|&cpu| after[cpu] - before[cpu]).sum();
    // 100 ticks a second
    1.0 - busy as f64 / (others.len() as u64 * SECONDS * 100) as f64
}

fn cores_awake() -> u64 {
    rates("0.5")["cores_awake"].as_u64().unwrap()
}

fn cores_without_work_are_left_idle_until_there_is_more() {
    let path = "/tmp/polarization.toml";
    fs::write(path, "[scheduler]\npolarization = \"vertical\"\n").unwrap();
    let scheduler = Scheduler::attach(&["--config", path]);
    let cores = nr_cpus() / first_core().len();
    let _one = Load::spin(&Traits::default());
    eventually("one core is awake", || cores_awake() == 1);
    let idled = others_idled();
    println!("the lanes of parked cores idled {idled:.2} of the time");
    assert!(idled > 0.85, "{idled}");
    let more: Vec<_> = (0..nr_cpus())
        .map(|_| Load::spin(&Traits::default()))
        .collect();
    eventually("all cores are awake", || cores_awake() == cores as u64);
    let idled = others_idled();
    println!("with work for all lanes {idled:.2}");
    assert!(idled < 0.2, "{idled}");
    drop(more);
    eventually("one core is awake again", || cores_awake() == 1);
    printed(&["tune", "--polarization", "horizontal"]);
    eventually("none is parked", || {
        rates("0.5")["cores_awake"].is_null()
            && String::from_utf8_lossy(&sidelane(&["tune"]).stdout).contains("horizontal")
    });
    assert!(scheduler.stop().success(), "ejected");
}
