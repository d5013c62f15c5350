//! Pictures: pure functions from values to SVG, the same on every machine.
//!
//! - [`Chart`]: lines, steps and points with half-widths, beside published values.
//! - [`BarChart`]: bars in groups.
//! - [`Svg`]: the elements of any other drawing; [`Ticks`] and [`TimeAxis`] for its axes.
//!
//! ```
//! use sidelane_draw::{Axis, Chart, Point, Series};
//!
//! let mut chart = Chart::new("Tail latency", Axis::linear("load"), Axis::log("p99, ms"));
//! let points = [(0.2, 3.1), (0.4, 4.8), (0.6, 9.9)].map(|(x, y)| Point::new(x, y));
//! chart.series.push(Series::new("simulated", points.to_vec()));
//! assert!(chart.draw().starts_with("<svg"));
//! ```

mod axis;
mod bars;
mod chart;
mod frame;
mod look;
mod svg;

pub use axis::{Axis, Scale, Ticks, TimeAxis, time_text};
pub use bars::{Bar, BarChart, BarSeries};
pub use chart::{Chart, Point, Series, Spread, Style};
pub use frame::Rule;
pub use look::{BLUE, FAINT_INK, FRAME, GREEN, GRID, INK, VERMILION};
pub use svg::{Anchor, Area, Svg, cut, escaped, text_width, wrapped};
