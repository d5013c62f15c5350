//! Which normal tasks share a core: how often it is looked at, and when cores swap tasks (`pair.bpf.h`,
//! `adjust.bpf.h`).

use super::native::share;
use super::needs::{PAIR, RETAIN};
use super::row::{Change, Kind, Row};
use crate::file::Limits;

/// How normal tasks are paired (vSMT-IO, 4.3.1 and 4.4). The source has no figures for either.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairing {
    /// So often it is looked who is I/O-bound and which cores swap, ns.
    pub period_ns: u64,
    /// Cores swap tasks if the retention rates of their own deviate by less, 0 to 1 (standard deviation of
    /// shares of time); 0: none does.
    pub uniform: f64,
}

impl Default for Pairing {
    fn default() -> Pairing {
        Pairing {
            period_ns: 1_000_000_000,
            uniform: 0.1,
        }
    }
}

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "pair",
        kind: Kind::Switch(|settings| &mut settings.pair),
        change: Change::Fixed(|settings, to| to.pair = settings.pair.into()),
        needs: Some(RETAIN),
        says: "I/O-bound and other normal tasks have lanes of their own on each core",
        more: "they are told apart by how long lanes are held for them ([scheduler.md](scheduler.md))",
    },
    Row {
        name: "pairing.period_ms",
        kind: Kind::Time(Limits::from(20.0, 10_000.0), |settings| {
            &mut settings.pairing.period_ns
        }),
        change: Change::Fixed(|settings, to| to.pair_period_ns = settings.pairing.period_ns),
        needs: Some(PAIR),
        says: "so often it is looked which tasks are I/O-bound, and which cores swap tasks",
        more: "",
    },
    Row {
        name: "pairing.uniform",
        kind: Kind::Number(Limits::from(0.0, 1.0), |settings| {
            &mut settings.pairing.uniform
        }),
        change: Change::Fixed(|settings, to| to.pair_uniform = share(settings.pairing.uniform)),
        needs: Some(PAIR),
        says: "cores swap tasks if the retention rates (shares of time) of their own have a smaller standard deviation; 0: \
               none does",
        more: "",
    },
];
