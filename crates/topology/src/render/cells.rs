//! Cores as cells of text, and lines filled with them.

use crate::{Core, CpuList, Topology};

/// How the cells of one picture are padded, so that they stand in columns.
pub(super) struct CellStyle {
    core_digits: usize,
    cpu_digits: usize,
    /// Whether any lane needs room for the brackets that mark it offline.
    brackets: bool,
}

impl CellStyle {
    pub(super) fn of(machine: &Topology) -> Self {
        let cpu_max = machine.lanes().map(|lane| lane.cpu).max().unwrap_or(0);
        CellStyle {
            core_digits: (machine.cores().len() - 1).to_string().len(),
            cpu_digits: cpu_max.to_string().len(),
            brackets: machine.lanes().any(|lane| !lane.online),
        }
    }

    /// A core as `core 0 [0|4]`; offline lanes in brackets. A core too wide for `room` columns
    /// becomes `core 0 [0-63]`.
    pub(super) fn cell(&self, core: &Core, room: usize) -> String {
        let lanes: Vec<String> = core
            .lanes
            .iter()
            .map(|lane| match (self.brackets, lane.online) {
                (false, _) => format!("{:>1$}", lane.cpu, self.cpu_digits),
                (true, true) => format!(" {:>1$} ", lane.cpu, self.cpu_digits),
                (true, false) => format!("({:>1$})", lane.cpu, self.cpu_digits),
            })
            .collect();
        let name = format!("core {:>1$}", core.index, self.core_digits);
        let cell = format!("{name} [{}]", lanes.join("|"));
        if cell.chars().count() <= room {
            return cell;
        }
        let online: CpuList = core.online_lanes().map(|lane| lane.cpu).collect();
        let offline = core.cpus().difference(&online);
        match offline.is_empty() {
            true => format!("{name} [{online}]"),
            false => format!("{name} [{online}], offline ({offline})"),
        }
    }
}

/// Fills lines of at most `width` columns with `parts`, `gap` between them. The first line begins
/// with `first`, the others with as much space. A part too long for a line is broken.
pub(super) fn fill(first: &str, parts: &[String], gap: &str, width: usize) -> String {
    let indent = first.chars().count();
    let room = width.saturating_sub(indent).max(1);
    let mut lines: Vec<String> = Vec::new();
    for part in parts.iter().flat_map(|part| break_up(part, room)) {
        let length = part.chars().count();
        match lines.last_mut() {
            Some(line) if line.chars().count() + gap.chars().count() + length <= room => {
                line.push_str(gap);
                line.push_str(&part);
            }
            _ => lines.push(part),
        }
    }
    let margin = " ".repeat(indent);
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text.push_str(if at == 0 { first } else { &margin });
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Breaks a part into pieces of at most `room` columns: after commas, or where it must be.
fn break_up(part: &str, room: usize) -> Vec<String> {
    let mut pieces: Vec<String> = vec![String::new()];
    for item in part.split_inclusive(',') {
        let columns = item.chars().count();
        if let Some(piece) = pieces.last_mut()
            && piece.chars().count() + columns <= room
        {
            piece.push_str(item);
        } else {
            let characters: Vec<char> = item.chars().collect();
            pieces.extend(characters.chunks(room).map(String::from_iter));
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn lines_are_filled_and_indented() {
        let text = fill("a: ", &parts(&["one", "two", "three"]), "  ", 11);
        assert_eq!(text, "a: one  two\n   three\n");
    }

    #[test]
    fn long_lists_are_broken_after_commas() {
        assert_eq!(fill("  ", &parts(&["1,3,5,7"]), " ", 7), "  1,3,\n  5,7\n");
        assert_eq!(
            fill("  ", &parts(&["1234567,8"]), " ", 7),
            "  12345\n  67,8\n"
        );
    }
}
