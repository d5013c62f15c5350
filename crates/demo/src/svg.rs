//! The few elements of drawings.

/// A whole drawing of this size, px, on white.
pub(crate) fn document(width: f64, height: f64, elements: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{elements}</svg>\n"
    )
}

/// A straight line.
pub(crate) fn rule(from: (f64, f64), to: (f64, f64), style: &str) -> String {
    format!(
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" {style}/>\n",
        from.0, from.1, to.0, to.1
    )
}

/// Words; `anchor` is what lies at the point: start, middle or end.
pub(crate) fn text(x: f64, y: f64, anchor: &str, style: &str, words: &str) -> String {
    let words = words
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{words}</text>\n")
}
