//! The map: a character a lane, how busy it was by its height, what it runs by its colour.

use crate::state::Sample;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use sidelane_smt::snapshot::{Class, CoreTotals, LaneState, LaneTotals};

const HEIGHTS: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The colour of a class.
pub(crate) fn color(class: Option<Class>) -> Color {
    match class {
        Some(Class::Critical) => Color::Red,
        Some(Class::Normal) => Color::Green,
        Some(Class::Batch) => Color::Blue,
        None => Color::Reset,
    }
}

/// The map, at most `width` × `height`. Cores stand apart where there is room; what has none is counted.
pub(crate) fn lines(sample: &Sample, width: u16, height: u16) -> Vec<Line<'static>> {
    let cores = &sample.interval.cores;
    let (width, height) = (usize::from(width), usize::from(height));
    let longest = cores.iter().map(|core| core.lanes.len()).max().unwrap_or(1);
    let per_line = |gap: usize| ((width + gap) / (longest + gap)).max(1);
    let gap = usize::from(cores.len().div_ceil(per_line(1)) <= height);
    let per_line = per_line(gap);
    let mut lines: Vec<Line<'static>> = (cores.chunks(per_line).take(height))
        .map(|cores| line(sample, cores, longest, gap))
        .collect();
    let missing = cores.len().saturating_sub(per_line * height);
    if missing > 0
        && let Some(last) = lines.last_mut()
    {
        let fewer = cores.len() - missing - (per_line * (height - 1)).min(cores.len());
        *last = Line::from(format!("… and {} more cores", missing + fewer));
    }
    lines
}

fn line(sample: &Sample, cores: &[CoreTotals], longest: usize, gap: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for core in cores {
        spans.extend(core.lanes.iter().map(|lane| glyph(sample, core, lane)));
        let rest = longest - core.lanes.len() + gap;
        if rest > 0 {
            spans.push(Span::raw(" ".repeat(rest)));
        }
    }
    Line::from(spans)
}

fn glyph(sample: &Sample, core: &CoreTotals, lane: &LaneTotals) -> Span<'static> {
    if !lane.online {
        return Span::styled("x", Style::new().fg(Color::DarkGray));
    }
    let share = lane.busy_ns as f64 / core.elapsed_ns.max(1) as f64;
    let height = (share.clamp(0.0, 1.0) * (HEIGHTS.len() - 1) as f64).round() as usize;
    let color = match sample.lanes.get(&lane.cpu) {
        Some(LaneState::Runs(class)) => color(Some(*class)),
        Some(LaneState::Idle) => Color::DarkGray,
        Some(LaneState::Unknown) | None => Color::Reset,
    };
    Span::styled(HEIGHTS[height], Style::new().fg(color))
}
