//! How work spreads over cores (`polarize.bpf.h`).

use super::row::{Row, live, word};
use crate::words::words;

words! {
    /// Which cores normal and batch work uses, `polarization` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum Polarization {
        /// All of them.
        #[default]
        Horizontal = "horizontal",
        /// As few as it needs; the others sleep.
        Vertical = "vertical",
    }
}

pub(super) const ROWS: &[Row] = &[Row {
    name: "polarization",
    kind: word!(Polarization, polarization),
    change: live!(vertical, |settings| settings.polarization.native()),
    needs: None,
    says: "which cores normal and batch work uses: all, or with `\"vertical\"` as few as it needs",
    more: "",
}];

impl Polarization {
    /// As the scheduler reads it.
    pub fn native(self) -> u32 {
        u32::from(self == Polarization::Vertical)
    }

    /// What the scheduler reads.
    pub fn of_native(vertical: u32) -> Polarization {
        match vertical {
            0 => Polarization::Horizontal,
            _ => Polarization::Vertical,
        }
    }
}
