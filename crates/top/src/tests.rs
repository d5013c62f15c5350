#![allow(clippy::unwrap_used)]

use crate::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;
use sidelane_smt::histogram::LogHistogram;
use sidelane_smt::snapshot::{
    CgroupTotals, Class, CoreTotals, Interval, LaneState, LaneTotals, Rates, TaskTotals, Usage,
};

const S: u64 = 1_000_000_000;

/// A second of `cores` cores of two lanes, the first of each busy; `tasks` tasks.
fn sample(cores: u32, tasks: u32) -> Sample {
    let lane = |cpu: u32| LaneTotals {
        cpu,
        online: cpu != 3,
        busy_ns: if cpu.is_multiple_of(2) { S } else { 0 },
        instructions: None,
    };
    let core = |core: u32| CoreTotals {
        core,
        elapsed_ns: S,
        by_density_ns: vec![S, 0],
        lanes: vec![lane(core * 2), lane(core * 2 + 1)],
        ..CoreTotals::default()
    };
    let task = |pid: u32| TaskTotals {
        pid,
        comm: format!("task{pid}"),
        class: Some([Class::Critical, Class::Batch][pid as usize % 2]),
        usage: Usage {
            raw_ns: S / u64::from(pid),
            mt1_ns: S / 2 / u64::from(pid),
            prorated_ns: Some(S / 2 / u64::from(pid)),
            waiting_ns: u64::from(pid),
            runs: 1,
            jobs: LogHistogram::of([u64::from(pid) * 1_000_000]),
            borrowed_ns: Some(u64::from(pid) * S / 100),
            forced_idle_ns: Some(S / 4),
        },
        ..TaskTotals::default()
    };
    let group = CgroupTotals {
        id: 4,
        path: Some("/web".into()),
        usage: Usage::default(),
    };
    Sample {
        interval: Interval {
            to_ns: S,
            rates: Rates {
                thread_perf: vec![1.0, 0.6],
                ..Rates::default()
            },
            cores: (0..cores).map(core).collect(),
            tasks: (1..=tasks).map(task).collect(),
            cgroups: vec![group],
            ..Interval::default()
        },
        lanes: [(0, LaneState::Runs(Class::Critical)), (1, LaneState::Idle)].into(),
    }
}

fn screen(state: &State, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(state, frame)).unwrap();
    terminal
}

fn text(state: &State, width: u16, height: u16) -> Vec<String> {
    let terminal = screen(state, width, height);
    let buffer = terminal.backend().buffer();
    let line = |y| {
        (0..width)
            .map(|x| buffer[(x, y)].symbol())
            .collect::<String>()
    };
    (0..height).map(line).collect()
}

fn showing(cores: u32, tasks: u32) -> State {
    let mut state = State::default();
    state.push(sample(cores, tasks));
    state
}

fn press(state: &mut State, code: KeyCode) -> After {
    key(state, KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_small_terminal_shows_all_parts() {
    let lines = text(&showing(2, 30), 80, 24);
    assert!(
        lines[0].contains("cores 100 %  density 1.00  capacity 1.00 of 1.10"),
        "{lines:?}"
    );
    assert!(
        lines[1].contains("MT utilisation 91 %; speeds of lanes: assumed"),
        "{lines:?}"
    );
    assert!(lines[2].starts_with("█· █x"), "{lines:?}");
    assert!(lines[4].contains("p99 of critical jobs: 30"), "{lines:?}");
    assert!(
        lines[6].contains("LANES▾") && lines[7].contains("task1"),
        "{lines:?}"
    );
    assert!(lines[23].contains("F10 quit"));
}

#[test]
fn what_is_unknown_is_no_0() {
    let known = text(&showing(2, 30), 80, 24)[7].clone();
    assert!(known.contains("0.01") && known.contains("0.25"), "{known}");
    let mut state = State::default();
    let mut unknown = sample(2, 1);
    unknown.interval.tasks[0].usage.borrowed_ns = None;
    unknown.interval.tasks[0].usage.forced_idle_ns = None;
    state.push(unknown);
    let line = text(&state, 80, 24)[7].clone();
    let columns: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(columns[5..7], ["-", "-"], "{line}");
}

#[test]
fn the_map_has_the_colours_of_classes() {
    let terminal = screen(&showing(2, 1), 80, 24);
    let buffer = terminal.backend().buffer();
    assert_eq!(buffer[(0, 2)].fg, Color::Red);
    assert_eq!(buffer[(1, 2)].fg, Color::DarkGray);
}

#[test]
fn many_lanes_fit_or_are_counted() {
    let lines = text(&showing(256, 5), 80, 24);
    let glyphs = |line: &&String| line.starts_with('█');
    // 40 cores of two lanes a line without gaps
    assert_eq!(lines.iter().filter(glyphs).count() - 1, 7, "{lines:?}"); // and the legend
    assert!(lines.iter().any(|line| line.contains("task1")));
    let lines = text(&showing(1024, 5), 80, 24);
    let rest = lines
        .iter()
        .find(|line| line.contains("more cores"))
        .unwrap();
    assert!(rest.starts_with("… and 744 more cores"), "{rest}"); // 7 lines of 40 are shown
}

#[test]
fn tiny_terminals_do_no_harm() {
    for (width, height) in [(1, 1), (10, 3), (80, 6), (3, 24)] {
        text(&showing(300, 50), width, height);
        let mut state = showing(3, 5);
        state.help = true;
        text(&state, width, height);
    }
    assert!(text(&State::default(), 40, 2)[0].contains("waiting"));
}

#[test]
fn keys_sort_filter_and_quit() {
    let mut state = showing(2, 30);
    let names = |state: &State| {
        state
            .rows()
            .into_iter()
            .map(|row| row.name)
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&state)[..2], ["task1", "task2"]);
    press(&mut state, KeyCode::Char('L'));
    assert_eq!(names(&state)[0], "task30");
    press(&mut state, KeyCode::Char('I'));
    assert_eq!(names(&state)[0], "task1");
    press(&mut state, KeyCode::Char('I'));
    press(&mut state, KeyCode::Char('B'));
    assert_eq!(names(&state)[0], "task30");
    press(&mut state, KeyCode::Char('F'));
    assert_eq!(names(&state)[0], "task1", "equal ones by id");
    press(&mut state, KeyCode::Char('L'));
    press(&mut state, KeyCode::Char('I'));
    press(&mut state, KeyCode::F(4));
    for character in "q2".chars() {
        assert_eq!(
            press(&mut state, KeyCode::Char(character)),
            After::Draw,
            "typed"
        );
    }
    assert!(names(&state).is_empty());
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Backspace);
    press(&mut state, KeyCode::Char('9'));
    press(&mut state, KeyCode::Enter);
    assert_eq!(names(&state), ["task9", "task19", "task29"]);
    press(&mut state, KeyCode::Tab);
    press(&mut state, KeyCode::Esc);
    assert_eq!(names(&state), ["/web"]);
    assert_eq!(press(&mut state, KeyCode::Char('q')), After::Quit);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(key(&mut state, interrupt), After::Quit);
}

#[test]
fn scrolling_stays_within_the_table_and_a_pause_keeps_the_picture() {
    let mut state = showing(2, 30);
    press(&mut state, KeyCode::Up);
    assert_eq!(state.first, 0);
    press(&mut state, KeyCode::End);
    assert_eq!(state.first, 29);
    press(&mut state, KeyCode::Char(' '));
    state.push(sample(2, 3));
    assert_eq!(state.rows().len(), 30);
}

#[test]
fn of_equal_rows_the_busier_comes_first() {
    let row = |id, lanes| Row {
        id,
        name: "task".into(),
        class: None,
        lanes,
        work: lanes,
        waiting: 0.0,
        borrowed: None,
        forced_idle: Some(0.0),
        tail_ns: None,
    };
    let mut rows = [row(14, 0.0), row(900, 0.5), row(15, 0.0)];
    rows.sort_by(|a, b| Sort::ForcedIdle.compare(a, b));
    assert_eq!(rows.each_ref().map(|row| row.id), [900, 14, 15]);
    rows.sort_by(|a, b| Sort::Id.compare(a, b));
    assert_eq!(rows.each_ref().map(|row| row.id), [14, 15, 900]);
}
