//! What a terminal shows, as a picture.

use std::fmt::Write;
use vt100::{Cell, Color, Screen};

/// Size of a character, in the picture's units.
const WIDTH: f64 = 8.4;
const HEIGHT: f64 = 17.0;
const PAPER: &str = "#1b1e23";
const INK: &str = "#d5d8dc";

/// The screen as SVG: a run of cells of one look is one text.
pub fn svg(screen: &Screen) -> String {
    let (rows, columns) = screen.size();
    let (rows, columns) = (rows.get(), columns.get());
    let (width, height) = (f64::from(columns) * WIDTH, f64::from(rows) * HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-8 -8 {:.0} {:.0}\" \
         font-family=\"monospace\" font-size=\"14\">\n\
         <rect x=\"-8\" y=\"-8\" width=\"100%\" height=\"100%\" fill=\"{PAPER}\"/>\n",
        width + 16.0,
        height + 16.0
    );
    for row in 0..rows {
        let mut column = 0;
        while column < columns {
            let look = look(screen.cell(row, column));
            let first = column;
            let mut text = String::new();
            while column < columns && self::look(screen.cell(row, column)) == look {
                let contents = screen.cell(row, column).map_or("", Cell::contents);
                text += if contents.is_empty() { " " } else { contents };
                column += 1;
            }
            run(&mut svg, row, first, &text, &look);
        }
    }
    svg + "</svg>\n"
}

/// Ink and paper.
type Look = (String, Option<String>);

fn look(cell: Option<&Cell>) -> Look {
    let Some(cell) = cell else {
        return (INK.to_owned(), None);
    };
    let ink = color(cell.fgcolor()).unwrap_or_else(|| INK.to_owned());
    let paper = color(cell.bgcolor());
    match cell.inverse() {
        true => (paper.unwrap_or_else(|| PAPER.to_owned()), Some(ink)),
        false => (ink, paper),
    }
}

fn color(color: Color) -> Option<String> {
    const NAMED: [&str; 9] = [
        "#000000", "#e06c75", "#98c379", "#e5c07b", "#61afef", "#c678dd", "#56b6c2", "#abb2bf",
        "#7f848e",
    ];
    match color {
        Color::Default => None,
        Color::Idx(index) => NAMED.get(usize::from(index)).map(|&name| name.to_owned()),
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    }
}

fn run(svg: &mut String, row: u16, column: u16, text: &str, (ink, paper): &Look) {
    let (x, y) = (f64::from(column) * WIDTH, f64::from(row) * HEIGHT);
    let width = text.chars().count() as f64 * WIDTH;
    if let Some(paper) = paper {
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" fill=\"{paper}\"/>"
        );
    }
    if text.trim().is_empty() {
        return;
    }
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" fill=\"{ink}\" \
         xml:space=\"preserve\">{text}</text>",
        y + 13.0
    );
}
