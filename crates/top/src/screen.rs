//! The screen, with the map: a character a lane, how busy it was by its height, what it runs by its colour.

use crate::rows::{Row, Sort, Table};
use crate::state::{HELP, Sample, State};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, RenderDirection, Sparkline};
use sidelane_smt::snapshot::{Class, CoreTotals, LaneState, LaneTotals, RateSource};
use sidelane_topology::printable;

/// Draws everything.
pub fn draw(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let Some(sample) = &state.sample else {
        let text = match state.message.is_empty() {
            true => "waiting for the first interval …",
            false => &state.message,
        };
        frame.render_widget(Paragraph::new(text), area);
        return;
    };
    let lines = map_of(sample, area.width, (area.height / 3).max(1));
    let [head, map, legend, tail, table, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(lines.len() as u16),
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(2),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(heading(sample)), head);
    frame.render_widget(Paragraph::new(lines), map);
    frame.render_widget(Paragraph::new(legend_line()), legend);
    draw_tail(state, frame, tail);
    draw_table(state, frame, table);
    frame.render_widget(Paragraph::new(foot_line(state)), foot);
    if state.help {
        draw_help(frame, area);
    }
}

fn heading(sample: &Sample) -> Vec<Line<'static>> {
    let interval = &sample.interval;
    let metrics = interval.metrics().unwrap_or_default();
    let number = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    let percent =
        |value: Option<f64>| value.map_or("-".into(), |value| format!("{:.0} %", value * 100.0));
    let rates = match interval.rates.source {
        RateSource::Counters => "counted",
        RateSource::Calibrated => "calibrated",
        RateSource::Given => "given",
        RateSource::Assumed => "assumed",
    };
    let first = format!(
        "cores {}  density {}  capacity {} of {}  productivity {}",
        percent(metrics.core_utilization),
        number(metrics.thread_density),
        number(metrics.capacity_factor),
        number(metrics.max_capacity_factor),
        percent(metrics.productivity),
    );
    let utilization = percent(metrics.mt_utilization);
    let notes = interval.notes.sentences();
    let second = match notes.first() {
        Some(note) => Line::from(format!("note: {note}")).yellow(),
        None => Line::from(format!(
            "MT utilisation {utilization}; speeds of lanes: {rates}"
        )),
    };
    vec![Line::from(first).bold(), second]
}

fn legend_line() -> Line<'static> {
    let classes = [Class::Critical, Class::Normal, Class::Batch];
    let mut spans: Vec<Span<'static>> = classes
        .into_iter()
        .map(|class| {
            let style = Style::new().fg(color(Some(class)));
            Span::styled(format!("█ {}  ", name(Some(class))), style)
        })
        .collect();
    spans.push(Span::styled("· idle  x offline", Color::DarkGray));
    Line::from(spans)
}

fn name(class: Option<Class>) -> &'static str {
    class.map_or("-", Class::name)
}

fn draw_tail(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let now_us = state.tail_us.back().copied().unwrap_or(0);
    let most_us = state.tail_us.iter().copied().max().unwrap_or(0);
    let jobs = match state.tail_critical {
        true => "critical jobs",
        false => "all jobs",
    };
    let ms = |us: u64| us as f64 / 1000.0;
    let [text, picture] = Layout::vertical([Constraint::Length(1); 2]).areas(area);
    let said = format!(
        "p99 of {jobs}: {:.1} ms now, at most {:.1} ms",
        ms(now_us),
        ms(most_us)
    );
    frame.render_widget(Paragraph::new(said), text);
    let newest_first: Vec<u64> = state.tail_us.iter().rev().copied().collect();
    let sparkline = Sparkline::default()
        .data(&newest_first)
        .direction(RenderDirection::RightToLeft)
        .style(Color::Red);
    frame.render_widget(sparkline, picture);
}

fn draw_table(state: &State, frame: &mut Frame<'_>, area: Rect) {
    let rows = state.rows();
    let shown = rows.iter().skip(state.first).map(cells);
    let heads = Sort::ALL.map(|sort| head(state, sort));
    let [id, lanes, work, waiting, borrowed, forced, tail, name] = heads;
    let class = Cell::new("CLASS");
    let header = [
        id, class, lanes, work, waiting, borrowed, forced, tail, name,
    ];
    let header = ratatui::widgets::Row::new(header).style(Style::new().reversed());
    let widths = [
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(6),
        Constraint::Length(7),
        Constraint::Length(8),
        Constraint::Min(16),
    ];
    frame.render_widget(
        ratatui::widgets::Table::new(shown, widths).header(header),
        area,
    );
}

fn head(state: &State, sort: Sort) -> Cell<'static> {
    let name = match (sort, state.table) {
        (Sort::Id, Table::Tasks) => "PID",
        (Sort::Id, Table::Cgroups) => "ID",
        (Sort::Lanes, _) => "LANES",
        (Sort::Work, _) => "WORK",
        (Sort::Waiting, _) => "WAIT",
        (Sort::Borrowed, _) => "BORR.",
        (Sort::ForcedIdle, _) => "FORCED",
        (Sort::Tail, _) => "P99 ms",
        (Sort::Name, Table::Tasks) => "NAME",
        (Sort::Name, Table::Cgroups) => "CGROUP",
    };
    let arrow = match (state.sort == sort, state.ascending) {
        (false, _) => "",
        (true, false) => "▾",
        (true, true) => "▴",
    };
    Cell::new(format!("{name}{arrow}"))
}

fn cells(row: &Row) -> ratatui::widgets::Row<'static> {
    let known = |value: Option<f64>| value.map_or("-".into(), |value| format!("{value:.2}"));
    let cells = [
        row.id.to_string(),
        name(row.class).to_owned(),
        format!("{:.2}", row.lanes),
        format!("{:.2}", row.work),
        format!("{:.2}", row.waiting),
        known(row.borrowed),
        known(row.forced_idle),
        known(row.tail_ns.map(|ns| ns as f64 / 1e6)),
        printable(row.name.as_bytes()),
    ];
    ratatui::widgets::Row::new(cells).style(Style::new().fg(color(row.class)))
}

fn foot_line(state: &State) -> Line<'static> {
    if state.typing {
        return Line::from(format!(
            "names with: {}▏ (Enter: keep, Esc: all)",
            state.filter
        ));
    }
    let mut text = "F1 help  F4 filter  F6 sort  t tasks/cgroups  Space stop  F10 quit".to_owned();
    if !state.filter.is_empty() {
        text += &format!("  names with {}", state.filter);
    }
    if state.paused {
        text += "  STOPPED";
    }
    if !state.message.is_empty() {
        text = state.message.clone();
    }
    Line::from(text).style(Style::new().add_modifier(Modifier::DIM))
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|(keys, what)| Line::from(format!(" {keys:14} {what}")))
        .collect();
    let (width, height) = (
        62.min(area.width),
        (lines.len() as u16 + 2).min(area.height),
    );
    let window = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, window);
    frame.render_widget(
        Paragraph::new(lines).block(Block::bordered().title("keys")),
        window,
    );
}

const HEIGHTS: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The colour of a class.
fn color(class: Option<Class>) -> Color {
    match class {
        Some(Class::Critical) => Color::Red,
        Some(Class::Normal) => Color::Green,
        Some(Class::Batch) => Color::Blue,
        None => Color::Reset,
    }
}

/// The map, at most `width` × `height`. Cores stand apart where there is room; what has none is counted.
fn map_of(sample: &Sample, width: u16, height: u16) -> Vec<Line<'static>> {
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
