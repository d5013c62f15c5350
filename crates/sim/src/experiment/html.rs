//! One page for all experiments.

use super::Report;

/// A page.
pub fn page(_reports: &[Report]) -> String {
    String::new()
}
