//! Keys, as in htop where it has them.

use crate::rows::Sort;
use crate::rows::Table;
use crate::state::State;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

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
