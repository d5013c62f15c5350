//! Colours that colour-blind eyes can tell apart, after Okabe and Ito, and the looks of series: a colour and a
//! marker each, dashed and hollow if published.

use crate::svg::{Svg, escaped};

/// Text.
pub const INK: &str = "#222222";
/// Text of less weight.
pub const FAINT_INK: &str = "#555555";
/// Frames and the marks of an axis.
pub const FRAME: &str = "#888888";
/// Lines behind the data.
pub const GRID: &str = "#e4e4e4";

/// The first series.
pub const BLUE: &str = "#0072b2";
/// The second series.
pub const VERMILION: &str = "#d55e00";
/// The third series.
pub const GREEN: &str = "#009e73";

/// Of series, in their order; begins anew after the last.
const SERIES: [&str; 9] = [
    BLUE, VERMILION, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#444444", "#8c510a", "#9a9a9a",
];

/// What a series looks like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look {
    pub colour: &'static str,
    shape: usize,
    pub published: bool,
}

/// From the centre, px.
const RADIUS: f64 = 3.6;

impl Look {
    /// Of a series with an index, unless it is given another one's colour.
    pub fn new(index: usize, colour: Option<usize>, published: bool) -> Look {
        let index = colour.unwrap_or(index);
        Look {
            colour: SERIES[index % SERIES.len()],
            shape: index,
            published,
        }
    }

    /// Of a line.
    pub fn stroke(&self) -> String {
        let dashes = match self.published {
            true => " stroke-dasharray=\"5 4\" stroke-width=\"1.5\"",
            false => " stroke-width=\"2\"",
        };
        format!("fill=\"none\" stroke=\"{}\"{dashes}", self.colour)
    }

    /// Of an area.
    pub fn fill(&self) -> String {
        let colour = self.colour;
        match self.published {
            true => {
                format!("fill=\"#ffffff\" stroke=\"{colour}\" stroke-dasharray=\"4 2\"")
            }
            false => format!("fill=\"{colour}\" stroke=\"{colour}\""),
        }
    }

    /// A marker whose shape tells the series apart where colours do not.
    pub fn mark(&self, svg: &mut Svg, at: (f64, f64), tip: &str) {
        let (x, y) = at;
        let r = RADIUS;
        let fill = if self.published {
            "#ffffff"
        } else {
            self.colour
        };
        let path = match self.shape % 4 {
            0 => format!(
                "M{:.2} {y:.2}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0z",
                x - r,
                d = 2.0 * r
            ),
            1 => format!("M{:.2} {:.2}h{d}v{d}h-{d}z", x - 3.2, y - 3.2, d = 6.4),
            2 => format!("M{x:.2} {:.2}l4.4 7.6h-8.8z", y - 4.8),
            _ => format!("M{x:.2} {:.2}l4.6 4.6l-4.6 4.6l-4.6 -4.6z", y - 4.6),
        };
        let tip = match tip {
            "" => String::new(),
            tip => format!("<title>{}</title>", escaped(tip)),
        };
        let colour = self.colour;
        svg.add(format_args!(
            "<path d=\"{path}\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.3\">{tip}\
             </path>\n"
        ));
    }
}
