//! Writes SVG elements: numbers with few decimals, text escaped.

use std::fmt::Write;

/// A drawing that grows.
#[derive(Debug)]
pub struct Svg {
    text: String,
    /// Of coordinates.
    decimals: usize,
}

/// Which part of a text stands at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Its first letter.
    Start,
    /// Its middle.
    Middle,
    /// Its last letter.
    End,
}

/// A rectangle, px.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Area {
    /// From the left edge of the drawing.
    pub left: f64,
    /// From its upper edge.
    pub top: f64,
    /// To the right.
    pub width: f64,
    /// Downwards.
    pub height: f64,
}

impl Area {
    /// Its right edge, px.
    pub fn right(&self) -> f64 {
        self.left + self.width
    }

    /// Its lower edge, px.
    pub fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

impl Svg {
    /// An empty white drawing of a size, px. Coordinates have two decimals.
    pub fn new(width: f64, height: f64) -> Svg {
        let mut svg = Svg {
            text: String::new(),
            decimals: 2,
        };
        svg.add(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" \
             height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        ));
        svg
    }

    /// The same with one decimal, which is less to load: for drawings of thousands of points.
    pub fn coarse(self) -> Svg {
        Svg {
            decimals: 1,
            ..self
        }
    }

    /// Adds elements as they are.
    pub fn add(&mut self, elements: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.text.write_fmt(elements);
    }

    /// Where an element is, as its attributes.
    fn place(&self, area: Area) -> String {
        let p = self.decimals;
        format!(
            "x=\"{:.p$}\" y=\"{:.p$}\" width=\"{:.p$}\" height=\"{:.p$}\"",
            area.left, area.top, area.width, area.height
        )
    }

    /// A rectangle; `tip` is shown when the pointer rests on it, unless it is empty.
    pub fn rect(&mut self, area: Area, style: &str, tip: &str) {
        let place = self.place(area);
        self.add(format_args!("<rect {place} {style}"));
        if tip.is_empty() {
            self.add(format_args!("/>\n"));
        } else {
            let tip = escaped(tip);
            self.add(format_args!("><title>{tip}</title></rect>\n"));
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), style: &str) {
        let p = self.decimals;
        self.add(format_args!(
            "<line x1=\"{:.p$}\" y1=\"{:.p$}\" x2=\"{:.p$}\" y2=\"{:.p$}\" {style}/>\n",
            from.0, from.1, to.0, to.1
        ));
    }

    /// Points that straight lines join.
    pub fn polyline(&mut self, points: impl IntoIterator<Item = (f64, f64)>, style: &str) {
        let p = self.decimals;
        self.add(format_args!("<polyline fill=\"none\" {style} points=\""));
        for (index, (x, y)) in points.into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            self.add(format_args!("{space}{x:.p$},{y:.p$}"));
        }
        self.add(format_args!("\"/>\n"));
    }

    /// A disc.
    pub fn circle(&mut self, at: (f64, f64), radius: f64, style: &str) {
        let p = self.decimals;
        self.add(format_args!(
            "<circle cx=\"{:.p$}\" cy=\"{:.p$}\" r=\"{radius}\" {style}/>\n",
            at.0, at.1
        ));
    }

    /// A line of text.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, style: &str, words: &str) {
        let p = self.decimals;
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escaped(words);
        self.add(format_args!(
            "<text x=\"{:.p$}\" y=\"{:.p$}\" text-anchor=\"{anchor}\" {style}>{words}</text>\n",
            at.0, at.1
        ));
    }

    /// From here to [`close_clip`](Self::close_clip), what lies outside the area is not seen.
    /// A nested drawing needs no identifier, so that pictures can stand in one page.
    pub fn open_clip(&mut self, area: Area) {
        let (place, p) = (self.place(area), self.decimals);
        self.add(format_args!(
            "<svg {place} viewBox=\"{:.p$} {:.p$} {:.p$} {:.p$}\">\n",
            area.left, area.top, area.width, area.height
        ));
    }

    /// Ends what [`open_clip`](Self::open_clip) began.
    pub fn close_clip(&mut self) {
        self.text.push_str("</svg>\n");
    }

    /// The document.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// Text as XML and HTML may hold it: characters that XML does not know are replaced.
pub fn escaped(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for character in words.chars() {
        match character {
            '&' => text.push_str("&amp;"),
            '<' => text.push_str("&lt;"),
            '>' => text.push_str("&gt;"),
            '"' => text.push_str("&quot;"),
            '\'' => text.push_str("&#39;"),
            '\t' | '\n' => text.push(character),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => text.push('\u{fffd}'),
            _ => text.push(character),
        }
    }
    text
}

/// About how wide a text is, px: fonts differ, so rather too much than too little.
pub fn text_width(words: &str, size: f64) -> f64 {
    let ems = |character: char| if character.is_ascii() { 0.6 } else { 1.0 };
    words.chars().map(ems).sum::<f64>() * size
}

/// A text that is cut to a width, px.
pub fn cut(words: &str, size: f64, width: f64) -> String {
    if text_width(words, size) <= width {
        return words.to_string();
    }
    let mut kept = String::new();
    for character in words.chars() {
        kept.push(character);
        if text_width(&kept, size) + size > width {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

/// A text in lines of at most a width, px; single words may be wider.
pub fn wrapped(words: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(word, size) + size <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coarse_drawing_has_one_decimal() {
        let draw = |mut svg: Svg| {
            svg.polyline([(1.26, 2.0), (3.0, 4.0)], "stroke=\"#000000\"");
            svg.finish()
        };
        let svg = Svg::new(10.0, 10.0);
        assert!(draw(svg).contains("points=\"1.26,2.00 3.00,4.00\"/>"));
        let svg = Svg::new(10.0, 10.0).coarse();
        assert!(draw(svg).contains("points=\"1.3,2.0 3.0,4.0\"/>"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(
            escaped("<a b=\"&\">'\u{1}\u{ffff}é"),
            "&lt;a b=&quot;&amp;&quot;&gt;&#39;\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn long_text_is_cut_and_wrapped() {
        assert_eq!(cut("short", 10.0, 30.0), "short");
        let kept = cut("a text that is too long", 10.0, 60.0);
        assert!(kept.ends_with('…') && kept.starts_with("a text"), "{kept}");
        assert!(text_width(&kept, 10.0) <= 60.0, "{kept}");
        assert_eq!(wrapped("aa bb cc", 10.0, 40.0), ["aa bb", "cc"]);
        assert!(wrapped("", 10.0, 40.0).is_empty());
        assert_eq!(wrapped("very-long-word b", 10.0, 40.0).len(), 2);
    }
}
