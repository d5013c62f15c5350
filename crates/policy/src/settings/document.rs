//! What is said of the settings in the documentation and in the example of a configuration.

use super::row::NONE;
use super::{Change, Kind, Row, Settings, rows};
use crate::file::Limits;
use std::fmt::Write;

/// Columns of a comment in the example.
const COLUMNS: usize = 100;

/// What is said of a setting. What a file would hold stands between backquotes, as in Markdown.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As it is written.
    pub name: &'static str,
    /// Its default value.
    pub default: String,
    /// What it may be; may be empty.
    pub range: String,
    /// Whether it can be changed while the scheduler runs.
    pub is_tunable: bool,
    /// What it is, without an end.
    pub meaning: String,
}

/// What is said of each setting, in the order of the documentation.
pub fn entries() -> impl Iterator<Item = Entry> {
    let defaults = Settings::default();
    rows().map(move |row| {
        let default = row.written(&defaults);
        Entry {
            name: row.name,
            default: match row.kind {
                Kind::Word(..) => format!("`{default}`"),
                _ => default,
            },
            range: range(&row.kind),
            is_tunable: matches!(row.change, Change::Live(..)),
            meaning: meaning(row),
        }
    })
}

/// The settings as tables in Markdown: those with a table of their own, of mechanisms that are off by default, come
/// last.
pub fn table() -> String {
    let (of_mechanisms, plain): (Vec<Entry>, Vec<Entry>) =
        entries().partition(|entry| entry.name.contains('.'));
    let [plain, of_mechanisms] = [rows_of(&plain), rows_of(&of_mechanisms)];
    format!("{plain}\nOf retention, pairing and symbiosis (off by default):\n\n{of_mechanisms}")
}

fn rows_of(entries: &[Entry]) -> String {
    let mut text = String::from(
        "| key | default | range | tunable | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for entry in entries {
        let tunable = if entry.is_tunable { "yes" } else { "" };
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {tunable} | {} |",
            entry.name, entry.default, entry.range, entry.meaning
        );
    }
    text
}

fn range(kind: &Kind) -> String {
    match kind {
        Kind::Time(limits, _) | Kind::Number(limits, _) => limited(limits),
        Kind::Whole(least, u32::MAX, _) => format!("{least} or more"),
        Kind::Whole(least, most, _) => format!("{least}–{most}"),
        Kind::Switch(_) => String::new(),
        Kind::Word(words, ..) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word:?}`")).collect();
            words.join(", ")
        }
        Kind::Objective(_) => "p50–p99.9, 10 µs–100 s".to_owned(),
        Kind::Speeds(_) => "at most 1, not increasing".to_owned(),
    }
}

fn limited(limits: &Limits) -> String {
    let above = if limits.is_open() { "above " } else { "" };
    let zero = if limits.has_zero() { ", 0" } else { "" };
    format!("{above}{}–{}{zero}", limits.min(), limits.max())
}

fn meaning(row: &Row) -> String {
    let mut text = row.says.to_owned();
    if let Some(needs) = row.needs {
        let _ = write!(text, " (with `{}`)", needs.what);
    }
    if !row.more.is_empty() {
        let _ = write!(text, ". {}", capitalised(row.more));
    }
    text
}

/// As a sentence begins.
fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

/// The table `[scheduler]` with all defaults; those without effect are comments.
pub fn example() -> String {
    let mut text = String::from("[scheduler]\n");
    let defaults = Settings::default();
    for row in rows() {
        let unset = row.needs.is_some_and(|needs| !(needs.is_met)(&defaults));
        let needs = row.needs.filter(|_| unset);
        let needs = needs.map_or(String::new(), |needs| format!(" (with {})", needs.what));
        let says = format!("{}{needs}", row.says.replace('`', ""));
        for line in wrapped(&says) {
            let _ = writeln!(text, "# {line}");
        }
        let (value, comment) = match row.written(&defaults).as_str() {
            NONE => (sample(row).to_owned(), "#"),
            value if unset => (value.to_owned(), "#"),
            value => (value.to_owned(), ""),
        };
        let _ = writeln!(text, "{comment}{} = {value}", row.name);
    }
    text
}

/// A value of a setting that has none by default.
fn sample(row: &Row) -> &'static str {
    match row.kind {
        Kind::Speeds(_) => "[1, 0.6]",
        Kind::Objective(_) => "\"p99 < 20 ms\"",
        _ => "5",
    }
}

/// Lines of words that fit behind the sign of a comment.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() + 3 <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The documentation and the example say what the table of settings says. `UPDATE_GOLDEN=1` rewrites them.
#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Holds what stands between two lines of a file against `expected`, or rewrites it.
    fn check(file: &str, begin: &str, end: &str, expected: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../..")
            .join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        let from = text.find(begin).unwrap() + begin.len();
        let to = from + text[from..].find(end).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            let text = [&text[..from], expected, &text[to..]].concat();
            std::fs::write(&path, text).unwrap();
        } else {
            assert!(
                text[from..to] == *expected,
                "{file} differs from the table of settings; UPDATE_GOLDEN=1 cargo test -p sidelane-policy"
            );
        }
    }

    #[test]
    fn the_manual_has_the_table_of_settings() {
        check(
            "docs/configuration.md",
            "<!-- made from crates/policy -->\n",
            "<!-- until here -->\n",
            &table(),
        );
    }

    #[test]
    fn the_example_has_all_settings() {
        check(
            "examples/sidelane.toml",
            "# All settings with their defaults, made from crates/policy.\n",
            "# Until here.\n",
            &example(),
        );
    }
}
