//! What settings of several mechanisms need so that they have an effect.

use super::row::Needs;

pub(super) const RETAIN: Needs = Needs {
    what: "retain = true",
    is_met: |settings| settings.retain,
};

pub(super) const PAIR: Needs = Needs {
    what: "pair = true",
    is_met: |settings| settings.pair,
};
