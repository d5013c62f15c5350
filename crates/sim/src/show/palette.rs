//! Colours that colour-blind eyes can tell apart, after Okabe and Ito and after Tol.

use crate::task::Class;

/// Text.
pub(super) const INK: &str = "#222222";
/// Text of less weight.
pub(super) const FAINT_INK: &str = "#555555";
/// Frames and the marks of an axis.
pub(super) const FRAME: &str = "#888888";
/// Lines behind the data.
pub(super) const GRID: &str = "#e4e4e4";
/// A critical task that waits.
pub(super) const WAIT: &str = "#aa2200";

/// Of series, in their order; begins anew after the last.
pub(super) const SERIES: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444",
];

/// Light enough for dark text on it.
pub(super) fn of_class(class: Class) -> &'static str {
    match class {
        Class::Critical => "#ee7733",
        Class::Normal => "#88ccee",
        Class::Batch => "#c8c8c8",
    }
}

/// The colour of the series with an index.
pub(super) fn of_series(index: usize) -> &'static str {
    SERIES[index % SERIES.len()]
}
