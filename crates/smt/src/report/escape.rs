//! Text in HTML and SVG.

use sidelane_topology::printable;

/// Text that means nothing to HTML, and turns no other text around.
pub(super) fn escaped(text: &str) -> String {
    printable(text.as_bytes())
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
