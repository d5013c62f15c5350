//! What is shown, and the keys that change it, as in htop where it has them.

use crate::rows::{Row, Sort, Table, rows};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use sidelane_smt::latency::Quantile;
use sidelane_smt::snapshot::{Class, Interval, LaneState};
use std::collections::{BTreeMap, VecDeque};

/// Samples whose tail is kept for the sparkline.
pub const TREND_MAX: usize = 200;

/// What passed, and what every lane does now, by CPU number, where that is known.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What passed.
    pub interval: Interval,
    /// What lanes do now.
    pub lanes: BTreeMap<u32, LaneState>,
}

/// All that is shown.
#[derive(Debug, Default)]
pub struct State {
    pub(crate) sample: Option<Sample>,
    /// 99th percentile of critical jobs, or of all where no classes are known, µs; an entry a sample.
    pub(crate) tail_us: VecDeque<u64>,
    /// What is shown of them, if there is anything.
    pub(crate) tail_critical: bool,
    /// Which table.
    pub table: Table,
    /// By what it is sorted.
    pub sort: Sort,
    /// Least first.
    pub ascending: bool,
    /// First row that is shown.
    pub(crate) first: usize,
    /// New samples are not shown.
    pub paused: bool,
    /// Only rows whose name has this in it.
    pub filter: String,
    /// Keys go into the filter.
    pub(crate) typing: bool,
    /// The keys are explained.
    pub(crate) help: bool,
    /// What to tell, such as why there are no samples.
    pub message: String,
}

impl State {
    /// Takes a sample, unless paused.
    pub fn push(&mut self, sample: Sample) {
        if self.paused {
            return;
        }
        let tasks = &sample.interval.tasks;
        self.tail_critical = tasks.iter().any(|task| task.class.is_some());
        let mut jobs = sidelane_smt::histogram::LogHistogram::default();
        for task in tasks {
            if !self.tail_critical || task.class == Some(Class::Critical) {
                jobs.merge(&task.usage.jobs);
            }
        }
        let tail_ns = jobs.quantile(Quantile::P99).unwrap_or(0);
        self.tail_us.push_back(tail_ns / 1000);
        if self.tail_us.len() > TREND_MAX {
            self.tail_us.pop_front();
        }
        self.sample = Some(sample);
    }

    /// The rows of the table that is shown, sorted and filtered.
    pub fn rows(&self) -> Vec<Row> {
        let Some(sample) = &self.sample else {
            return Vec::new();
        };
        let mut rows = rows(&sample.interval, self.table);
        let wanted = self.filter.to_lowercase();
        rows.retain(|row| row.name.to_lowercase().contains(&wanted));
        rows.sort_by(|a, b| self.sort.compare(a, b));
        if self.ascending {
            rows.reverse();
        }
        rows
    }

    /// Moves the table by so many rows.
    pub(crate) fn scroll(&mut self, by: isize) {
        let last = self.rows().len().saturating_sub(1);
        self.first = self.first.saturating_add_signed(by).min(last);
    }
}

/// What follows a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// The screen is drawn anew.
    Draw,
    /// The program ends.
    Quit,
}

/// What the keys do, for the help.
pub(crate) const HELP: [(&str, &str); 11] = [
    ("F1 h ?", "this help"),
    ("F10 q", "quit"),
    ("t Tab", "tasks or cgroups"),
    ("F6 >", "sort by the next column"),
    ("P M", "sort by lanes used, by work"),
    ("W L", "sort by waiting, by the jobs' tail"),
    ("B F", "sort by lanes borrowed, by lanes forced to idle"),
    ("I", "sort the other way round"),
    ("F4 \\", "only names with these letters; Esc: all"),
    ("Space", "stop the picture; again: go on"),
    ("↑ ↓ PgUp PgDn", "scroll"),
];

/// Does what a key says.
pub fn key(state: &mut State, event: KeyEvent) -> After {
    if event.kind == KeyEventKind::Release {
        return After::Draw;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    match event.code {
        KeyCode::Char('c') if control => return After::Quit,
        code if state.typing => type_filter(state, code),
        KeyCode::Char('q') | KeyCode::F(10) => return After::Quit,
        KeyCode::Char('h' | '?') | KeyCode::F(1) => state.help = !state.help,
        KeyCode::Esc if state.help => state.help = false,
        KeyCode::Esc => state.filter.clear(),
        KeyCode::Char('t') | KeyCode::Tab => {
            state.table = match state.table {
                Table::Tasks => Table::Cgroups,
                Table::Cgroups => Table::Tasks,
            };
            state.first = 0;
        }
        KeyCode::Char('>') | KeyCode::F(6) => state.sort = state.sort.next(),
        KeyCode::Char('P') => state.sort = Sort::Lanes,
        KeyCode::Char('M') => state.sort = Sort::Work,
        KeyCode::Char('W') => state.sort = Sort::Waiting,
        KeyCode::Char('L') => state.sort = Sort::Tail,
        KeyCode::Char('B') => state.sort = Sort::Borrowed,
        KeyCode::Char('F') => state.sort = Sort::ForcedIdle,
        KeyCode::Char('I') => state.ascending = !state.ascending,
        KeyCode::Char('\\') | KeyCode::F(4) => state.typing = true,
        KeyCode::Char(' ') => state.paused = !state.paused,
        KeyCode::Up => state.scroll(-1),
        KeyCode::Down => state.scroll(1),
        KeyCode::PageUp => state.scroll(-10),
        KeyCode::PageDown => state.scroll(10),
        KeyCode::Home => state.first = 0,
        KeyCode::End => state.scroll(isize::MAX),
        _ => {}
    }
    After::Draw
}

fn type_filter(state: &mut State, code: KeyCode) {
    state.first = 0;
    match code {
        KeyCode::Enter => state.typing = false,
        KeyCode::Esc => {
            state.typing = false;
            state.filter.clear();
        }
        KeyCode::Backspace => {
            state.filter.pop();
        }
        KeyCode::Char(character) => state.filter.push(character),
        _ => {}
    }
}
