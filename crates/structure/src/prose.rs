//! The text of the guide: how long its sentences and pages are, and where its links lead.

use std::path::Path;

/// A sentence, or what stands alone: an item of a list, a cell of a table, a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// The line on which its paragraph begins, from 1.
    pub line: usize,
    /// How many words it has. What stands between backquotes is one.
    pub words: usize,
    /// Its first words.
    pub begins: String,
    /// It stands in a table.
    pub tabular: bool,
}

/// The sentences of a text in Markdown, without code. A full stop, an exclamation or a question mark before a blank ends one.
#[must_use]
pub fn sentences(text: &str) -> Vec<Sentence> {
    let mut found = Vec::new();
    let mut paragraph = (0, String::new());
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim();
        let fence = trimmed.starts_with("```");
        in_code ^= fence;
        let code = in_code || fence || trimmed.starts_with("<!--");
        let starts = ["#", "|", "- ", "* "];
        let item = starts.iter().any(|start| trimmed.starts_with(start)) || is_numbered(trimmed);
        if code || trimmed.is_empty() || item {
            split(&std::mem::take(&mut paragraph.1), paragraph.0, &mut found);
        }
        if code || trimmed.is_empty() {
            continue;
        }
        if trimmed.starts_with('|') {
            table_row(trimmed, at + 1, &mut found);
            continue;
        }
        if paragraph.1.is_empty() {
            paragraph.0 = at + 1;
        }
        paragraph.1.push_str(trimmed);
        paragraph.1.push(' ');
    }
    split(&paragraph.1, paragraph.0, &mut found);
    found
}

fn is_numbered(line: &str) -> bool {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    digits.len() < line.len() && digits.starts_with(". ")
}

fn table_row(row: &str, line: usize, found: &mut Vec<Sentence>) {
    let from = found.len();
    for cell in row.split('|') {
        split(cell, line, found);
    }
    found[from..].iter_mut().for_each(|it| it.tabular = true);
}

/// Without what stands between backquotes and what links lead to.
fn plain(paragraph: &str) -> String {
    let mut plain = String::new();
    for (at, part) in paragraph.split('`').enumerate() {
        plain.push_str(if at % 2 == 0 { part } else { "code" });
    }
    let mut text = String::new();
    let mut rest = plain.as_str();
    while let Some(at) = rest.find("](") {
        text.push_str(&rest[..at]);
        let end = rest[at..].find(')').map_or(rest.len(), |end| at + end + 1);
        rest = &rest[end..];
    }
    text + rest
}

fn split(paragraph: &str, line: usize, found: &mut Vec<Sentence>) {
    let text = plain(paragraph);
    let mut words: Vec<&str> = Vec::new();
    let mut end = |words: &mut Vec<&str>| {
        if !words.is_empty() {
            let begins = words.iter().take(6).copied().collect::<Vec<_>>().join(" ");
            found.push(Sentence {
                line,
                words: words.len(),
                begins,
                tabular: false,
            });
        }
        words.clear();
    };
    for word in text.split_whitespace() {
        if ["#", "##", "###", "-", "*"].contains(&word) {
            continue;
        }
        words.push(word);
        let bare = word.trim_end_matches(['*', ')', '"', '”']);
        if bare.ends_with(['.', '!', '?']) {
            end(&mut words);
        }
    }
    end(&mut words);
}

/// The words of a page that are no code and stand in no table.
#[must_use]
pub fn words(text: &str) -> usize {
    let running = |sentence: &Sentence| (!sentence.tabular).then_some(sentence.words);
    sentences(text).iter().filter_map(running).sum()
}

/// Links of a page that lead to no file below its folder, or to no title of that file.
#[must_use]
pub fn dead_links(page: &Path, text: &str) -> Vec<String> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let targets = text.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split(')').next());
    let local = targets.filter(|target| !target.contains("://"));
    let dead = local.filter(|target| {
        let (file, title) = target.split_once('#').unwrap_or((target, ""));
        let led = match file {
            "" => page.to_owned(),
            _ => folder.join(file),
        };
        match std::fs::read_to_string(&led) {
            Ok(text) => !title.is_empty() && !titles(&text).any(|found| found == title),
            Err(_) => !led.is_dir(),
        }
    });
    dead.map(str::to_owned).collect()
}

/// The anchors of a page's titles.
fn titles(text: &str) -> impl Iterator<Item = String> + use<'_> {
    let lines = text.lines().filter(|line| line.starts_with('#'));
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
        title
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_with_stops_items_and_cells() {
        let text = "# A title\n\nOne two. Three `a b. c`\nfour, [five](x.y z)!\n- six\n| seven | eight nine |\n\n```\nno no no\n```\n";
        let found = sentences(text);
        let counted: Vec<_> = found
            .iter()
            .map(|it| (it.line, it.words, it.tabular))
            .collect();
        let expected = [
            (1, 2, false),
            (3, 2, false),
            (3, 4, false),
            (5, 1, false),
            (6, 1, true),
            (6, 2, true),
        ];
        assert_eq!(counted, expected);
        assert_eq!(words(text), 9);
    }

    #[test]
    fn links_lead_to_files_and_titles() {
        let folder = std::env::temp_dir();
        let page = folder.join("no such page.md");
        assert_eq!(
            dead_links(&page, "[a](gone.md) [b](https://example.org)"),
            ["gone.md"]
        );
        assert_eq!(
            titles("# `run`: how\n## B c").collect::<Vec<_>>(),
            ["run-how", "b-c"]
        );
    }
}
