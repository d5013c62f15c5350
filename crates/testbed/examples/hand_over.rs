//! Measures what turns of the lanes and the host's settings do to hand-overs between sibling lanes: a
//! boot for each length of a turn, in it the settings in turn, several rounds. Usage: `hand_over
//! SIDELANE [ROUNDS [SPEED [SETTING…]]]`, where SPEED is the threadPerf of two lanes and a SETTING a
//! number in the list below, from 0 (all by default).
//!
//! The last column is the share of the host that others used meanwhile (stolen by a hypervisor
//! included): rows with much of it say little.

use sidelane_testbed::probe::measured::Measured;
use sidelane_testbed::{Disturbance, HostSettings, Job, Machine, Spec};
use std::error::Error;
use std::time::Duration;

/// Lengths of a lane's turn, µs.
const TURNS_US: [u64; 4] = [0, 50, 100, 200];

fn settings() -> Vec<(&'static str, HostSettings)> {
    let slice_us = |us| HostSettings {
        slice: Some(Duration::from_micros(us)),
        ..HostSettings::default()
    };
    let metronome_us = |us, from: HostSettings| HostSettings {
        metronome: Some(Duration::from_micros(us)),
        ..from
    };
    let urgent = |from: HostSettings| HostSettings {
        urgent_timers: true,
        ..from
    };
    let default = HostSettings::default();
    vec![
        ("host's default", default),
        ("slice 3 ms", slice_us(3000)),
        ("slice 0.1 ms", slice_us(100)),
        ("urgent timers", urgent(default)),
        ("metronome 1 ms", metronome_us(1000, default)),
        ("metronome 0.5 ms", metronome_us(500, default)),
        ("metronome 0.25 ms", metronome_us(250, default)),
        ("slice 0.1 ms, urgent timers", urgent(slice_us(100))),
        (
            "metronome 0.5 ms, slice 0.1 ms",
            metronome_us(500, slice_us(100)),
        ),
        (
            "metronome 0.5 ms, urgent timers",
            urgent(metronome_us(500, default)),
        ),
        (
            "metronome 0.5 ms, both",
            urgent(metronome_us(500, slice_us(100))),
        ),
    ]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let sidelane = args
        .next()
        .ok_or("usage: hand_over SIDELANE [ROUNDS [SPEED]]")?;
    let rounds: usize = args.next().map_or(Ok(3), |n| n.parse())?;
    let mut spec = Spec::new(sidelane)?;
    spec.keep_host_awake = true;
    if let Some(speed) = args.next() {
        spec.thread_perf = vec![1.0, speed.parse()?];
    }
    let chosen = args.map(|n| n.parse()).collect::<Result<Vec<usize>, _>>()?;
    for turn_us in TURNS_US {
        println!("a lane's turn: {turn_us} µs (0: the host's)");
        spec.lane_turn = Some(Duration::from_micros(turn_us)).filter(|turn| !turn.is_zero());
        measure(&spec, rounds, &chosen)?;
    }
    Ok(())
}

fn measure(spec: &Spec, rounds: usize, chosen: &[usize]) -> Result<(), Box<dyn Error>> {
    let mut machine = Machine::boot(spec)?;
    let own = [std::process::id(), machine.pid()];
    for _ in 0..rounds {
        for (number, (name, host)) in settings().into_iter().enumerate() {
            if !chosen.is_empty() && !chosen.contains(&number) {
                continue;
            }
            machine.set_host(host)?;
            let watch = Disturbance::watch(&own)?;
            let mut out = Vec::new();
            let job = Job::new(["sidelane", "testbed", "guest-probe", "6", "150"]);
            machine.run(job, &mut out, &mut std::io::stderr())?;
            let others = watch.share()?;
            let measured: Measured = serde_json::from_slice(&out)?;
            print(name, &measured, others);
        }
    }
    machine.power_off()?;
    Ok(())
}

fn print(name: &str, measured: &Measured, others: f64) {
    let median = |mut list: Vec<f64>| {
        list.sort_by(f64::total_cmp);
        list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let alone = measured.speeds.first().cloned().unwrap_or_default();
    let ratio = |speeds: &[f64]| median(speeds.iter().zip(&alone).map(|(s, a)| s / a).collect());
    let shared = ratio(
        measured
            .speeds
            .last()
            .map(Vec::as_slice)
            .unwrap_or_default(),
    );
    let (each, all) = (ratio(&measured.each_core), ratio(&measured.all_lanes));
    print!(
        "{name:32} speed {:6.0} shared {shared:5.3}",
        median(alone.clone())
    );
    print!(" cores {each:5.3} all {all:5.3}");
    for hand_over in &measured.hand_overs {
        print!(" | {:5.0} {:5.0}", hand_over.p50_us, hand_over.p99_us);
    }
    println!(" | others {:4.1} %", others * 100.0);
}
