//! The screen as a terminal sees it: what is sent there, through another program's terminal emulation.
//!
//! `UPDATE_GOLDEN=1` draws the picture in the documentation anew.
#![allow(clippy::unwrap_used)]

mod screenshot;

use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::{
    Class, CoreTotals, Interval, LaneState, LaneTotals, Rates, TaskTotals, Usage,
};
use sidelane_top::{Sample, State, draw};
use std::num::NonZeroU16;

const S: u64 = 1_000_000_000;
const PICTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../docs/images/top-512-lanes.svg"
);

/// What is made up of lane `cpu`: its class, and how busy it is, of 8.
fn load(cpu: u32) -> (Class, u64) {
    match cpu % 7 {
        0 | 1 => (Class::Critical, 8),
        2 => (Class::Normal, u64::from(cpu / 7 % 9)),
        _ => (Class::Batch, u64::from(cpu % 9)),
    }
}

/// A second of 256 cores of two lanes.
fn sample() -> Sample {
    let lane = |cpu: u32| LaneTotals {
        cpu,
        online: cpu != 511,
        busy_ns: load(cpu).1 * S / 8,
        instructions: None,
    };
    let core = |core: u32| CoreTotals {
        core,
        elapsed_ns: S,
        by_density_ns: vec![S / 3, S / 2],
        lanes: vec![lane(core * 2), lane(core * 2 + 1)],
        forced_idle_ns: Some(S / 10),
    };
    let task = |pid: u32| TaskTotals {
        pid,
        comm: format!("worker-{pid}"),
        class: Some(load(pid).0),
        usage: Usage {
            raw_ns: S - u64::from(pid) * S / 1000,
            mt1_ns: S * 6 / 10,
            prorated_ns: Some(S / 2),
            waiting_ns: S / 50 * u64::from(pid % 5),
            runs: 100,
            jobs: LogHistogram::of([u64::from(pid) * 400_000]),
            borrowed_ns: Some(u64::from(load(pid).0 == Class::Batch) * S / 5),
            forced_idle_ns: Some(u64::from(load(pid).0 == Class::Critical) * S / 4),
        },
        ..TaskTotals::default()
    };
    let states = (0..512).map(|cpu| (cpu, LaneState::Runs(load(cpu).0)));
    Sample {
        interval: Interval {
            to_ns: S,
            rates: Rates {
                thread_perf: vec![1.0, 0.6],
                ..Rates::default()
            },
            cores: (0..256).map(core).collect(),
            tasks: (1..=600).map(task).collect(),
            ..Interval::default()
        },
        lanes: states.collect(),
    }
}

/// What a terminal of this size shows.
fn shown(width: u16, height: u16) -> vt100::Parser {
    let mut state = State::default();
    state.push(sample());
    let mut sent = Vec::new();
    let options = TerminalOptions {
        viewport: Viewport::Fixed(Rect::new(0, 0, width, height)),
    };
    let mut terminal = Terminal::with_options(CrosstermBackend::new(&mut sent), options).unwrap();
    terminal.draw(|frame| draw(&state, frame)).unwrap();
    drop(terminal);
    let size = |length| NonZeroU16::new(length).unwrap();
    let mut parser = vt100::Parser::new(size(height), size(width), 0);
    parser.process(&sent);
    parser
}

#[test]
fn many_lanes_on_a_small_terminal() {
    let parser = shown(80, 24);
    let screen = parser.screen();
    let lines: Vec<String> = screen.rows(0, 80).collect();
    assert!(
        lines[0].starts_with("cores 83 %  density 1.60"),
        "{lines:#?}"
    );
    // 512 lanes in seven lines, and their classes' colours
    assert!(
        lines[2].starts_with("██") && lines[8].contains('x'),
        "{lines:#?}"
    );
    let color = |row, column| screen.cell(row, column).unwrap().fgcolor();
    assert_eq!(color(2, 0), vt100::Color::Idx(1), "critical is red");
    assert_eq!(color(2, 3), vt100::Color::Idx(4), "batch is blue");
    assert!(
        lines.iter().filter(|line| line.contains("worker-")).count() >= 8,
        "{lines:#?}"
    );
    assert!(lines[23].contains("F10 quit"), "{lines:#?}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(PICTURE, screenshot::svg(screen)).unwrap();
    }
    let picture = std::fs::read_to_string(PICTURE).unwrap();
    assert_eq!(
        picture,
        screenshot::svg(screen),
        "the picture is of another screen"
    );
}
