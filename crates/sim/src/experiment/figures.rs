//! Figures of an experiment.

use super::Report;

impl Report {
    /// Pictures (SVG).
    pub fn figures(&self) -> Vec<String> {
        Vec::new()
    }
}
