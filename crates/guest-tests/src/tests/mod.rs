//! Tests that run inside the test bed, one after the other, on its real kernel.
//!
//! Each file lists its tests with `tests!`; one that is not listed does not compile, for nothing calls it.

use crate::Test;

/// Lists the tests of a file. Those that are `shared` run under one scheduler, which has [`support::RULES`]; those that are
/// `untimed` beside others.
macro_rules! tests {
    (@runs) => { crate::Runs::Alone };
    (@runs shared) => { crate::Runs::UnderOneScheduler };
    (@runs untimed) => { crate::Runs::BesideOthers };
    ($($(#[$runs:ident])? $name:ident),* $(,)?) => {
        pub(super) const TESTS: &[crate::Test] = &[$(crate::Test {
            path: concat!(module_path!(), "::", stringify!($name)),
            run: $name,
            runs: tests!(@runs $($runs)?),
        }),*];
    };
}

mod agree;
mod budget;
mod control;
mod cost;
mod demos;
pub mod field;
pub mod fleet;
mod forced;
pub mod jobs;
pub mod lanes;
mod lifecycle;
mod metrics;
pub mod only_batch;
mod pair;
mod pools;
mod promote;
mod protection;
mod rules;
mod shapes;
mod shows;
pub mod support;
mod terminal;
mod vms;

/// All of them in the order of their names.
pub fn all() -> Vec<Test> {
    let files = [
        agree::TESTS,
        budget::TESTS,
        control::TESTS,
        cost::TESTS,
        demos::TESTS,
        field::TESTS,
        fleet::TESTS,
        forced::TESTS,
        jobs::TESTS,
        lanes::TESTS,
        lifecycle::TESTS,
        metrics::TESTS,
        only_batch::TESTS,
        pair::TESTS,
        pools::TESTS,
        promote::TESTS,
        protection::TESTS,
        rules::TESTS,
        shapes::TESTS,
        shows::TESTS,
        terminal::TESTS,
        vms::TESTS,
    ];
    files.concat()
}
