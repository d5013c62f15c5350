//! Pools: what a group of tasks may use of the cores (`pool.bpf.h`).

use crate::file::{Limits, MS, Result, Section, time_ns};
use crate::intf;
use crate::words;

words! {
    /// What a pool is charged for the time that its tasks run.
    #[derive(Default)]
    pub enum Charge {
        /// MT1-equivalent time: on a shared core less than on a core alone, by `thread_perf`.
        #[default]
        Mt1 = "mt1",
        /// Time on lanes.
        Raw = "raw",
    }
}

impl Charge {
    /// As the scheduler reads it.
    pub fn native(self) -> u32 {
        match self {
            Charge::Mt1 => intf::pool_charge_POOL_CHARGE_MT1,
            Charge::Raw => intf::pool_charge_POOL_CHARGE_RAW,
        }
    }

    /// What the scheduler reads.
    pub fn of_native(charge: u32) -> Charge {
        match charge {
            intf::pool_charge_POOL_CHARGE_RAW => Charge::Raw,
            _ => Charge::Mt1,
        }
    }
}

/// How much a pool may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// So many cores; lanes with [`Charge::Raw`].
    Cores(f64),
    /// Of all cores or lanes, this part of the sum of all pools' shares.
    Share(f64),
}

/// What a pool may use, of what, and for how long that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// How much; none: as much as it likes.
    pub limit: Option<Limit>,
    /// What it is charged.
    pub charge: Charge,
    /// The allowance is for so long, ns.
    pub period_ns: u64,
}

/// The keys of [`terms`].
pub const KEYS: [&str; 4] = ["capacity_cores", "share", "charge", "period_ms"];

/// Reads [`KEYS`]; `unlimited`: a pool need not have a limit.
///
/// # Errors
/// A value out of its range, no limit or two.
pub fn terms(section: &Section, unlimited: bool) -> Result<Terms> {
    const AMOUNT: Limits = Limits::above(0.0, 1e6);
    const PERIOD: Limits = Limits::from(10.0, 1000.0);
    let limits = ["capacity_cores", "share"];
    let limit = match limits.iter().all(|key| section.get(key).is_none()) && unlimited {
        true => None,
        false => Some(match section.one_of(&limits, "capacity_cores = 1.5")? {
            ("share", value) => Limit::Share(value.number(AMOUNT)?),
            (_, value) => Limit::Cores(value.number(AMOUNT)?),
        }),
    };
    let charge = section
        .get("charge")
        .map(|value| value.word_of(&Charge::WORDS));
    let period = section
        .get("period_ms")
        .map(|value| time_ns(value, MS, PERIOD));
    Ok(Terms {
        limit,
        charge: Charge::ALL[charge.transpose()?.unwrap_or_default()],
        period_ns: period.transpose()?.unwrap_or(100_000_000),
    })
}
