//! The report as text for people.

use super::{Check, Report, Verdict};

/// The widest line, in columns.
const WIDTH: usize = 100;

/// Where the text of a check begins: behind verdict and name.
const TEXT_COLUMN: usize = 26;

impl Report {
    /// The report as text: a line a check, its remedy below, and a conclusion. No line is wider
    /// than 100 columns.
    pub fn text(&self) -> String {
        let mut text: String = self.checks.iter().map(Check::text).collect();
        text.push('\n');
        text.push_str(&self.conclusion());
        text.push('\n');
        text
    }

    fn conclusion(&self) -> String {
        let count = |verdict| self.checks.iter().filter(|c| c.verdict == verdict).count();
        let numbers = format!(
            "failed: {}, warnings: {}, unknown: {}",
            count(Verdict::Fail),
            count(Verdict::Warning),
            count(Verdict::Unknown),
        );
        match self.runnable {
            true => format!("This machine can run the scheduler ({numbers})."),
            false => format!("This machine cannot run the scheduler ({numbers})."),
        }
    }
}

impl Check {
    fn text(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Unknown => "unknown",
            Verdict::Warning => "WARNING",
            Verdict::Fail => "FAIL",
        };
        let mut text = wrapped(&format!("{verdict:8}  {:16}", self.name), &self.seen);
        if let Some(remedy) = &self.remedy {
            text.push_str(&wrapped("", &format!("-> {remedy}")));
        }
        text
    }
}

/// `text` from [`TEXT_COLUMN`] on, behind `first` and wrapped between words. A word too long for a
/// line is cut.
fn wrapped(first: &str, text: &str) -> String {
    let mut lines = vec![format!("{first:TEXT_COLUMN$}")];
    let mut columns = TEXT_COLUMN;
    for word in text.split_whitespace().flat_map(cut) {
        let length = word.chars().count();
        let gap = usize::from(columns > TEXT_COLUMN);
        if columns + gap + length > WIDTH {
            lines.push(" ".repeat(TEXT_COLUMN));
            columns = TEXT_COLUMN;
        } else if gap == 1 {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
            columns += 1;
        }
        lines
            .last_mut()
            .into_iter()
            .for_each(|line| line.push_str(&word));
        columns += length;
    }
    lines
        .iter()
        .map(|line| format!("{}\n", line.trim_end()))
        .collect()
}

/// Cuts a word into pieces that fit a line.
fn cut(word: &str) -> Vec<String> {
    let characters: Vec<char> = word.chars().collect();
    characters
        .chunks(WIDTH - TEXT_COLUMN)
        .map(|piece| piece.iter().collect())
        .collect()
}
