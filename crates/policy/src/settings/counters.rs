//! Whether hardware counters are used (`counter.bpf.h`, `profile.bpf.h`).

use super::row::{Change, Kind, Row};
use crate::words::words;

words! {
    /// Whether to count, `counters` in the `[scheduler]` table.
    #[derive(Default)]
    pub enum UseCounters {
        /// Where they exist and are of use.
        #[default]
        Auto = "auto",
        /// Never.
        Off = "off",
        /// The kernel's clock in place of them: everything is lost or nothing. For tests on
        /// machines without hardware counters.
        Clock = "clock",
    }
}

pub(super) const ROWS: &[Row] = &[Row {
    name: "counters",
    kind: Kind::Word(
        &UseCounters::WORDS,
        |settings| settings.counters as usize,
        |settings, word| settings.counters = UseCounters::ALL[word],
    ),
    change: Change::Found,
    needs: None,
    says: "whether counters of instructions and cycles say what a `dynamic` budget is charged",
    more: "below; `\"clock\"` is for tests",
}];
