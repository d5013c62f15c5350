//! How much tasks slow each other down on a core, by what their cycles go into (`symbiosis.bpf.h`).

use super::row::{Change, Kind, Needs, Row};
use super::share;
use crate::file::Limits;
use crate::intf;

/// The interference model: what a task's instruction takes beside another, by its base, waiting and miss components alone and the
/// other's. The defaults are those of vSMT-IO's published code, fitted to a processor of 2014.
#[derive(Clone, Debug, PartialEq)]
pub struct Symbiosis {
    /// Times the base component, 0 to 10.
    pub base: f64,
    /// Times the waiting component.
    pub wait: f64,
    /// Times the product of both tasks' waiting components.
    pub wait_wait: f64,
    /// Times the miss component.
    pub miss: f64,
    /// Times the product of both tasks' miss components.
    pub miss_miss: f64,
    /// For how many cycles a cache miss is waited for where such cycles cannot be counted, 1 to 10000.
    pub miss_cycles: u32,
}

impl Default for Symbiosis {
    fn default() -> Symbiosis {
        Symbiosis {
            base: 1.396,
            wait: 0.861,
            wait_wait: 0.277,
            miss: 1.436,
            miss_miss: 0.910,
            miss_cycles: 200,
        }
    }
}

const SYMBIOTIC: Needs = Needs {
    what: "symbiotic = true",
    is_met: |settings| settings.symbiotic,
};

/// The row of a coefficient of the model.
macro_rules! coefficient {
    ($name:ident, $which:ident, $says:literal, $more:literal) => {
        Row {
            name: concat!("symbiosis.", stringify!($name)),
            kind: Kind::Number(Limits::from(0.0, 10.0), |settings| {
                &mut settings.symbiosis.$name
            }),
            change: Change::Fixed(|settings, to| {
                to.symbiosis[intf::$which as usize] = share(settings.symbiosis.$name)
            }),
            needs: Some(SYMBIOTIC),
            says: $says,
            more: $more,
        }
    };
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "symbiotic",
        kind: Kind::Switch(|settings| &mut settings.symbiotic),
        change: Change::Fixed(|settings, to| to.symbiotic = settings.symbiotic.into()),
        needs: None,
        says: "of computation that waits, a lane takes what the tasks beside it bear best, by counters of cycles \
               and of stalls or cache misses",
        more: "without counters nothing changes, which is said ([scheduler-io.md](scheduler-io.md))",
    },
    coefficient!(
        base,
        symbiosis_SYMBIOSIS_BASE,
        "what an instruction takes beside another task, times the cycles in which it executes",
        "of vSMT-IO's published code"
    ),
    coefficient!(
        wait,
        symbiosis_SYMBIOSIS_WAIT,
        "the same, times the cycles in which it waits for units of the core",
        ""
    ),
    coefficient!(
        wait_wait,
        symbiosis_SYMBIOSIS_WAIT_WAIT,
        "the same, times the product of these of both tasks",
        ""
    ),
    coefficient!(
        miss,
        symbiosis_SYMBIOSIS_MISS,
        "the same, times the cycles in which it waits for memory",
        ""
    ),
    coefficient!(
        miss_miss,
        symbiosis_SYMBIOSIS_MISS_MISS,
        "the same, times the product of these of both tasks",
        ""
    ),
    Row {
        name: "symbiosis.miss_cycles",
        kind: Kind::Whole(1, 10_000, |settings| &mut settings.symbiosis.miss_cycles),
        change: Change::Fixed(|settings, to| to.miss_cycles = settings.symbiosis.miss_cycles),
        needs: Some(SYMBIOTIC),
        says: "for how many cycles a cache miss is waited for, where such cycles cannot be counted",
        more: "counted on Intel processors from Sandy Bridge to Comet Lake",
    },
];
