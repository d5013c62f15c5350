//! A machine as a picture in text: cores as cells, and lines filled with them, below their headings.

mod groups;

use crate::{CapacitySource, Core, CpuList, Topology};
use groups::{Alike, Below, Group, outline, runs};

/// The widest line, in columns.
pub const WIDTH: usize = 100;

/// Machines with more cores than this are folded: of a run of like parts only the first and the
/// last are shown.
const CORES_UNFOLDED_MAX: usize = 32;

/// The shortest run that is folded; folding three would save nothing.
const FOLDED_RUN_MIN: usize = 4;

/// The most notes shown; a fault of the firmware can be there for each CPU.
const NOTES_MAX: usize = 4;

/// The width of the column of labels above the picture.
const LABEL_COLUMNS: usize = 10;

/// The machine as text: a summary, then packages, nodes and caches as headings over their cores,
/// each core with its lanes by CPU number. No line is wider than [`WIDTH`].
pub fn text(machine: &Topology) -> String {
    let picture = Picture {
        style: CellStyle::of(machine),
        folded: machine.cores().len() > CORES_UNFOLDED_MAX,
    };
    let mut text = summary(machine);
    text.push('\n');
    text.push_str(&picture.groups(&outline(machine), 0));
    text
}

/// What the picture below does not say by itself.
fn summary(machine: &Topology) -> String {
    let mut text = labelled("machine", &counts(machine));
    text.push_str(&labelled("SMT", &smt(machine)));
    text.push_str(&labelled("capacity", &capacity(machine)));
    let unplaced = machine.unplaced();
    if !unplaced.is_empty() {
        let value = format!("{unplaced} (an offline CPU does not tell whose lane it is)");
        text.push_str(&labelled("offline", &value));
    }
    if machine.lanes().any(|lane| !lane.online) {
        text.push_str(&labelled("(n)", "lane n is offline"));
    }
    for note in machine.notes().iter().take(NOTES_MAX) {
        text.push_str(&labelled("unknown", note));
    }
    if let Some(more @ 1..) = machine.notes().len().checked_sub(NOTES_MAX) {
        let value = format!("{more} more; all are in the output of --format json");
        text.push_str(&labelled("unknown", &value));
    }
    text
}

/// A label and its value, wrapped.
fn labelled(label: &str, value: &str) -> String {
    let words: Vec<String> = value.split(' ').map(str::to_owned).collect();
    fill(&format!("{label:LABEL_COLUMNS$}"), &words, " ", WIDTH)
}

fn counts(machine: &Topology) -> String {
    let caches = machine
        .caches()
        .iter()
        .filter(|cache| cache.level.is_some())
        .count();
    let mut parts = vec![
        count(machine.packages().len(), "package"),
        count(machine.nodes().len(), "node"),
        count(machine.cores().len(), "core"),
        format!("{} online", count(machine.online().len(), "lane")),
    ];
    if caches > 0 {
        parts.insert(2, count(caches, "last-level cache"));
    }
    parts.join(", ")
}

/// "1 core", "2 cores".
fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

fn smt(machine: &Topology) -> String {
    let control = match machine.smt().control {
        Some(control) => format!("control {control}"),
        None => "no control known".into(),
    };
    let active = match machine.smt().active {
        Some(true) => ", active",
        Some(false) => ", not active",
        None => "",
    };
    let most = machine.lanes_per_core_max();
    let least = machine
        .cores()
        .iter()
        .map(|core| core.lanes.len())
        .min()
        .unwrap_or(most);
    let lanes = match least == most {
        true => count(most, "lane"),
        false => format!("{least} to {most} lanes"),
    };
    format!("{control}{active}; {lanes} a core")
}

fn capacity(machine: &Topology) -> String {
    let slowest = machine
        .cores()
        .iter()
        .map(|core| core.capacity)
        .min()
        .unwrap_or(0);
    match machine.capacity_source() {
        CapacitySource::Equal => "equal on all cores".into(),
        CapacitySource::CpuCapacity => format!("{slowest} to 1024, from cpu_capacity"),
        CapacitySource::MaxFrequency => format!("{slowest} to 1024, from the maximum frequency"),
        CapacitySource::Given => format!("{slowest} to 1024, as given"),
    }
}

/// How the cores are drawn.
struct Picture {
    style: CellStyle,
    folded: bool,
}

impl Picture {
    /// Groups below each other, long runs of like ones folded.
    fn groups(&self, groups: &[Group<'_>], indent: usize) -> String {
        let shown = self.shown(groups);
        let heading_columns = shown.iter().filter_map(Shown::leaf_heading_columns).max();
        let mut text = String::new();
        for shown in shown {
            match shown {
                Shown::Item(group) => {
                    text.push_str(&self.group(group, indent, heading_columns.unwrap_or(0)));
                }
                Shown::Gap(hidden) => {
                    let margin = " ".repeat(indent);
                    text.push_str(&format!("{margin}… {hidden} more like it\n"));
                }
            }
        }
        text
    }

    /// A heading and what is below; cores stand on the heading's line if they fit there, behind
    /// `heading_columns` so that they stand in columns.
    fn group(&self, group: &Group<'_>, indent: usize, heading_columns: usize) -> String {
        let margin = " ".repeat(indent);
        let heading = format!("{margin}{}\n", group.heading);
        match &group.below {
            Below::Groups(groups) => heading + &self.groups(groups, indent + 2),
            Below::Cores(cores) => {
                let below = self.cores(cores, indent + 2);
                let columns = heading_columns + 1;
                let padded = format!("{}:", group.heading);
                let line = format!("{margin}{padded:columns$}  {}", below.trim_start());
                let fits = below.lines().count() == 1 && line.trim_end().chars().count() <= WIDTH;
                if fits { line } else { heading + &below }
            }
        }
    }

    /// Cores beside each other, long runs of like ones folded.
    fn cores(&self, cores: &[&Core], indent: usize) -> String {
        let cells: Vec<String> = self
            .shown(cores)
            .into_iter()
            .map(|shown| match shown {
                Shown::Item(core) => self.style.cell(core, WIDTH - indent),
                Shown::Gap(_) => "…".to_owned(),
            })
            .collect();
        fill(&" ".repeat(indent), &cells, "  ", WIDTH)
    }

    /// The items to be shown, and gaps for those that are not.
    fn shown<'a, T: Alike>(&self, items: &'a [T]) -> Vec<Shown<'a, T>> {
        let mut shown = Vec::new();
        for run in runs(items) {
            match &items[run] {
                [first, hidden @ .., last] if self.folded && hidden.len() + 2 >= FOLDED_RUN_MIN => {
                    shown.push(Shown::Item(first));
                    shown.push(Shown::Gap(hidden.len()));
                    shown.push(Shown::Item(last));
                }
                run => shown.extend(run.iter().map(Shown::Item)),
            }
        }
        shown
    }
}

/// An item of the picture, or how many are left out in its place.
enum Shown<'a, T> {
    Item(&'a T),
    Gap(usize),
}

impl Shown<'_, Group<'_>> {
    /// The width of the heading of a group that has cores directly below.
    fn leaf_heading_columns(&self) -> Option<usize> {
        match self {
            Shown::Item(Group {
                heading,
                below: Below::Cores(_),
                ..
            }) => Some(heading.chars().count()),
            _ => None,
        }
    }
}

/// How the cells of one picture are padded, so that they stand in columns.
struct CellStyle {
    core_digits: usize,
    cpu_digits: usize,
    /// Whether any lane needs room for the brackets that mark it offline.
    brackets: bool,
}

impl CellStyle {
    fn of(machine: &Topology) -> Self {
        let cpu_max = machine.lanes().map(|lane| lane.cpu).max().unwrap_or(0);
        CellStyle {
            core_digits: (machine.cores().len() - 1).to_string().len(),
            cpu_digits: cpu_max.to_string().len(),
            brackets: machine.lanes().any(|lane| !lane.online),
        }
    }

    /// A core as `core 0 [0|4]`; offline lanes in brackets. A core too wide for `room` columns
    /// becomes `core 0 [0-63]`.
    fn cell(&self, core: &Core, room: usize) -> String {
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
fn fill(first: &str, parts: &[String], gap: &str, width: usize) -> String {
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
