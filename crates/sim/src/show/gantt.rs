//! Who ran where: a timeline by lane, lanes grouped by core.

use super::Trace;
use super::rows::{Row, Run, Shape, Wait, joined, rows, shapes};
use crate::task::Class;
use sidelane_draw::{
    Anchor, Area, FAINT_INK, FRAME, GRID, INK, Svg, TimeAxis, cut, text_width, time_text, wrapped,
};
use std::ops::Range;

/// Sizes, px.
const WIDTH: f64 = 960.0;
const RIGHT: f64 = 26.0;
const TOP: f64 = 84.0;
const ROW: f64 = 23.0;
/// Above a bar, for waits.
const STRIP: f64 = 4.0;
const BAR: f64 = 15.0;
const CORE_GAP: f64 = 6.0;
const BOTTOM: f64 = 44.0;
const NOTE: f64 = 15.0;
/// Bars are at least so wide.
const THIN: f64 = 0.8;

const TICKS: u64 = 9;

/// A critical task that waits.
const WAIT: &str = "#aa2200";

/// Light enough for dark text on it; from a palette of Tol's that colour-blind eyes can tell apart.
fn of_class(class: Class) -> &'static str {
    match class {
        Class::Critical => "#ee7733",
        Class::Normal => "#88ccee",
        Class::Batch => "#c8c8c8",
    }
}

/// How many rectangles a picture has at most, unless there are more lanes than that.
const RECTANGLES: usize = 20_000;

const CRISP: &str = "shape-rendering=\"crispEdges\"";

/// The same in every picture, so that it does not matter whose pattern is taken in a page of several.
const HATCH: &str = "<defs><pattern id=\"sidelane-offline\" width=\"6\" height=\"6\" \
                     patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
                     <rect width=\"6\" height=\"6\" fill=\"#f4f4f4\"/>\
                     <rect width=\"2\" height=\"6\" fill=\"#bbbbbb\"/></pattern></defs>\n";
const HATCHED: &str = "fill=\"url(#sidelane-offline)\"";

impl Trace<'_> {
    /// Draws what ran where in a window of time, ns, as an SVG document.
    ///
    /// What goes on at the last step goes on to the end of the window. Runs that are too short to
    /// be seen are drawn together, and the picture says so. Runs of no length took no time and are
    /// not drawn; nor are waits shorter than half a pixel.
    pub fn gantt(&self, title: &str, window_ns: Range<u64>) -> String {
        Picture::new(self, window_ns).draw(title)
    }
}

/// What a row looks like with columns of some width.
struct Marks {
    shapes: Vec<Shape>,
    waits: Vec<Wait>,
}

struct Picture<'a> {
    trace: &'a Trace<'a>,
    from_ns: u64,
    to_ns: u64,
    left: f64,
    rows: Vec<Row>,
    /// Of each row, px.
    tops: Vec<f64>,
    /// Below the last row, px.
    bottom: f64,
}

impl<'a> Picture<'a> {
    fn new(trace: &'a Trace<'a>, window_ns: Range<u64>) -> Picture<'a> {
        let (from_ns, to_ns) = (window_ns.start, window_ns.end.max(window_ns.start));
        let visible_ns = (to_ns - from_ns) / (2 * WIDTH as u64);
        let rows = rows(trace, from_ns, to_ns, visible_ns);
        let (mut tops, mut bottom, mut core) = (Vec::new(), TOP, None);
        for row in &rows {
            if !tops.is_empty() && row.core != core {
                bottom += CORE_GAP;
            }
            core = row.core;
            tops.push(bottom);
            bottom += ROW;
        }
        Picture {
            trace,
            from_ns,
            to_ns,
            left: if same_capacities(trace) { 112.0 } else { 168.0 },
            rows,
            tops,
            bottom,
        }
    }

    fn width(&self) -> f64 {
        WIDTH - RIGHT - self.left
    }

    fn x(&self, at_ns: u64) -> f64 {
        let span_ns = (self.to_ns - self.from_ns).max(1);
        self.left + (at_ns - self.from_ns) as f64 / span_ns as f64 * self.width()
    }

    /// The marks of all rows, and the width of their columns, ns: a pixel, or as many as it takes
    /// to keep the picture small.
    fn marks(&self) -> (Vec<Marks>, u64) {
        let span_ns = self.to_ns - self.from_ns;
        let mut column_ns = (span_ns / self.width() as u64).max(1);
        loop {
            let of_row = |row: &Row| Marks {
                shapes: shapes(&row.runs, self.from_ns, column_ns),
                waits: joined(row.waits.clone(), column_ns / 2),
            };
            let marks: Vec<Marks> = self.rows.iter().map(of_row).collect();
            let rectangles: usize = marks.iter().map(Marks::rectangles).sum();
            if rectangles <= RECTANGLES || column_ns > span_ns {
                return (marks, column_ns);
            }
            column_ns = column_ns.saturating_mul(2);
        }
    }

    fn draw(&self, title: &str) -> String {
        let (marks, column_ns) = self.marks();
        let notes = self.notes(&marks, column_ns);
        let mut svg = Svg::new(
            WIDTH,
            self.bottom + BOTTOM + 4.0 + NOTE * notes.len() as f64,
        );
        svg.add(format_args!("{HATCH}"));
        let title = cut(title, 16.0, WIDTH - 2.0 * RIGHT);
        let bold = format!("font-size=\"16\" font-weight=\"bold\" fill=\"{INK}\"");
        svg.text((12.0, 26.0), Anchor::Start, &bold, &title);
        self.draw_legend(&mut svg, &marks);
        self.draw_axis(&mut svg);
        self.draw_labels(&mut svg);
        for (index, marks) in marks.iter().enumerate() {
            self.draw_row(&mut svg, index, marks);
        }
        for (index, note) in notes.iter().enumerate() {
            let y = self.bottom + BOTTOM + 8.0 + NOTE * index as f64;
            let style = format!("font-size=\"11\" fill=\"{FAINT_INK}\"");
            svg.text((self.left, y), Anchor::Start, &style, note);
        }
        svg.finish()
    }

    /// What the picture does not show as it was.
    fn notes(&self, marks: &[Marks], column_ns: u64) -> Vec<String> {
        let together = |shape: &Shape| match shape {
            Shape::One(_) => 0,
            Shape::Several { runs, .. } => *runs,
        };
        let shapes = marks.iter().flat_map(|marks| &marks.shapes);
        let together: usize = shapes.map(together).sum();
        let mut notes = Vec::new();
        if together > 0 {
            notes.extend(wrapped(
                &format!(
                    "{together} runs shorter than {} are drawn together with their neighbours: \
                     heights are the classes' shares of the time, the rest is idle.",
                    time_text(column_ns)
                ),
                11.0,
                self.width(),
            ));
        }
        if self.rows.iter().all(Row::is_blank) {
            notes.push("Nothing ran in this time.".into());
        }
        notes
    }

    fn draw_legend(&self, svg: &mut Svg, marks: &[Marks]) {
        let (mut x, y) = (self.left, 50.0);
        let mut entry = |height: f64, style: &str, words: &str| {
            let area = Area {
                left: x,
                top: y - height / 2.0 - 4.0,
                width: 18.0,
                height,
            };
            svg.rect(area, style, "");
            let style = format!("fill=\"{INK}\"");
            svg.text((x + 24.0, y), Anchor::Start, &style, words);
            x += 24.0 + text_width(words, 12.0) + 18.0;
        };
        for class in Class::ALL {
            entry(11.0, &format!("fill=\"{}\"", of_class(class)), class.name());
        }
        let framed = format!("fill=\"#ffffff\" stroke=\"{FRAME}\"");
        entry(11.0, &framed, "idle");
        if self.rows.iter().any(|row| !row.offline.is_empty()) {
            entry(11.0, HATCHED, "offline");
        }
        if marks.iter().any(|marks| !marks.waits.is_empty()) {
            let wait = format!("fill=\"{WAIT}\"");
            entry(STRIP - 1.0, &wait, "a critical task waits");
        }
    }

    /// Vertical lines, labels below and, where that is far away, above.
    fn draw_axis(&self, svg: &mut Svg) {
        let axis = TimeAxis::new(self.from_ns, self.to_ns, TICKS);
        let (grid, ink) = (format!("stroke=\"{GRID}\""), format!("fill=\"{INK}\""));
        for (at_ns, words) in &axis.ticks {
            let x = self.x(*at_ns);
            svg.line((x, TOP - 4.0), (x, self.bottom + 4.0), &grid);
            svg.text((x, self.bottom + 17.0), Anchor::Middle, &ink, words);
            svg.text((x, TOP - 9.0), Anchor::Middle, &ink, words);
        }
        let place = (self.left + self.width() / 2.0, self.bottom + 33.0);
        svg.text(place, Anchor::Middle, &ink, &axis.label);
    }

    fn draw_labels(&self, svg: &mut Svg) {
        let (ink, faint) = (format!("fill=\"{INK}\""), format!("fill=\"{FAINT_INK}\""));
        let mut last = None;
        for (row, top) in self.rows.iter().zip(&self.tops) {
            let y = top + STRIP + BAR - 3.5;
            if row.core.is_some() && row.core != last {
                let words = self.core_label(row.core);
                svg.text((12.0, y), Anchor::Start, &ink, &words);
            }
            last = row.core;
            let words = match row.lane {
                Some(cpu) => format!("lane {cpu}"),
                None => "still waiting".into(),
            };
            svg.text((self.left - 8.0, y), Anchor::End, &faint, &words);
        }
    }

    fn core_label(&self, core: Option<usize>) -> String {
        let Some(index) = core else {
            return String::new();
        };
        match self.trace.machine.cores.get(index) {
            Some(core) if !same_capacities(self.trace) => {
                format!("core {index} ({})", core.capacity)
            }
            _ => format!("core {index}"),
        }
    }

    fn draw_row(&self, svg: &mut Svg, index: usize, marks: &Marks) {
        let (row, top) = (&self.rows[index], self.tops[index] + STRIP);
        let line = format!("stroke=\"{FRAME}\" stroke-width=\"0.5\"");
        let y = top + BAR;
        svg.line((self.left, y), (self.left + self.width(), y), &line);
        for &(from_ns, to_ns) in &row.offline {
            let tip = format!("offline\n{}", times(from_ns, to_ns));
            svg.rect(self.bar(from_ns, to_ns, top, BAR), HATCHED, &tip);
        }
        for shape in &marks.shapes {
            self.draw_shape(svg, shape, row.lane, top);
        }
        for wait in &marks.waits {
            let tip = self.wait_tip(wait);
            let area = self.bar(wait.from_ns, wait.to_ns, top - STRIP + 1.0, STRIP - 1.0);
            svg.rect(area, &format!("fill=\"{WAIT}\" {CRISP}"), &tip);
        }
    }

    fn bar(&self, from_ns: u64, to_ns: u64, top: f64, height: f64) -> Area {
        let left = self.x(from_ns);
        Area {
            left,
            top,
            width: (self.x(to_ns) - left).max(THIN),
            height,
        }
    }

    fn draw_shape(&self, svg: &mut Svg, shape: &Shape, lane: Option<u32>, top: f64) {
        match *shape {
            Shape::One(run) => {
                self.draw_run(svg, &run, lane, self.bar(run.from_ns, run.to_ns, top, BAR))
            }
            Shape::Several {
                from_ns,
                to_ns,
                runs,
                class_ns,
            } => {
                let mut tip = format!("{runs} runs\n{}", times(from_ns, to_ns));
                for class in Class::ALL {
                    let ns = class_ns[class as usize];
                    if ns > 0 {
                        tip += &format!("\n{}: {}", class.name(), time_text(ns));
                    }
                }
                let mut area = self.bar(from_ns, to_ns, top, BAR);
                let shares = shares(&class_ns, to_ns - from_ns);
                area.top += BAR;
                for (class, share) in Class::ALL.into_iter().zip(shares) {
                    area.height = share * BAR;
                    area.top -= area.height;
                    if share > 0.0 {
                        svg.rect(area, &format!("fill=\"{}\"", of_class(class)), &tip);
                    }
                }
            }
        }
    }

    fn draw_run(&self, svg: &mut Svg, run: &Run, lane: Option<u32>, mut area: Area) {
        // A gap, so that runs of one class that follow each other can be told apart.
        if area.width > 3.0 {
            area.width -= 0.7;
        }
        let name = self.trace.name(run.task);
        let lane = lane.map_or(String::new(), |cpu| format!(" on lane {cpu}"));
        let (from_ns, to_ns) = run.whole_ns;
        let class = run.class.name();
        let tip = format!("{name} ({class}){lane}\n{}", times(from_ns, to_ns));
        svg.rect(area, &format!("fill=\"{}\"", of_class(run.class)), &tip);
        if text_width(&name, 10.0) + 6.0 <= area.width {
            let style = format!("font-size=\"10\" fill=\"{INK}\" pointer-events=\"none\"");
            let place = (area.left + 4.0, area.top + BAR - 4.0);
            svg.text(place, Anchor::Start, &style, &name);
        }
    }

    fn wait_tip(&self, wait: &Wait) -> String {
        /// More are only counted.
        const NAMED: usize = 8;
        let mut tip = String::new();
        for &(task, ns) in wait.tasks.iter().take(NAMED) {
            tip += &format!("{} waited {}\n", self.trace.name(task), time_text(ns));
        }
        if wait.tasks.len() > NAMED {
            tip += &format!("and {} more\n", wait.tasks.len() - NAMED);
        }
        tip + &times(wait.from_ns, wait.to_ns)
    }
}

impl Marks {
    fn rectangles(&self) -> usize {
        let shapes: usize = self.shapes.iter().map(Shape::rectangles).sum();
        shapes + self.waits.len()
    }
}

fn same_capacities(trace: &Trace<'_>) -> bool {
    let mut capacities = trace.machine.cores.iter().map(|core| core.capacity);
    let first = capacities.next();
    capacities.all(|capacity| Some(capacity) == first)
}

fn times(from_ns: u64, to_ns: u64) -> String {
    let took = time_text(to_ns - from_ns);
    format!("{} to {} ({took})", time_text(from_ns), time_text(to_ns))
}

/// The classes' parts of a time, none that ran so small that it cannot be seen.
fn shares(class_ns: &[u64; 3], all_ns: u64) -> [f64; 3] {
    let shares = class_ns.map(|ns| match ns {
        0 => 0.0,
        ns => (ns as f64 / all_ns.max(1) as f64).max(0.15),
    });
    let all: f64 = shares.iter().sum();
    shares.map(|share| share / all.max(1.0))
}
