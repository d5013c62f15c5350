//! Pools: what a cgroup may use of the cores (`bpf/pool.bpf.h`).

use crate::bpf::intf;
use sidelane_policy::Charge;
use sidelane_policy::file::{Result, Section, Shape};
use sidelane_policy::pool::{self, Limit};

/// Longest path that the scheduler's table holds, bytes.
pub(crate) const PATH_MAX: usize = intf::limits_POOL_NAME_LEN as usize - 1;

/// A `[[pool]]`: a cgroup with all below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    /// Path of the cgroup below the cgroup root, `/` first.
    pub cgroup: String,
    /// Capacity limit: at most so many cores, or lanes with `raw`; above 0.
    pub capacity_cores: Option<f64>,
    /// Share limit: of the machine, this part of the sum of all pools' shares; above 0.
    pub share: Option<f64>,
    /// What it is charged.
    pub charge: Charge,
    /// Its allowance is for so long, 10 to 1000 ms.
    pub period_ms: f64,
}

/// What there is to share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Capacity {
    /// Cores with a lane that is online.
    pub cores: usize,
    /// Their lanes that are online.
    pub lanes: usize,
}

impl Pool {
    /// A table `[[pool]]`.
    pub(crate) const SHAPE: Shape = Shape {
        title: "[[pool]]",
        form: "tables [[pool]]",
        keys: &["cgroup", "capacity_cores", "share", "charge", "period_ms"],
        elsewhere: &[],
    };

    /// Reads a `[[pool]]`.
    pub(crate) fn read(section: &Section) -> Result<Pool> {
        const WHAT: &str = "a path below the cgroup root that begins with '/' and does not end with it, such as \
                            \"/batch.slice\"";
        let cgroup = section.need("cgroup", WHAT)?;
        let path = cgroup.string(WHAT)?;
        if !path.starts_with('/') || (path.len() > 1 && path.ends_with('/')) {
            return Err(cgroup.expected(WHAT));
        }
        if path.len() > PATH_MAX {
            return Err(cgroup.expected(format!("a path of at most {PATH_MAX} bytes")));
        }
        let terms = pool::terms(section, false)?;
        Ok(Pool {
            cgroup: path.to_owned(),
            capacity_cores: match terms.limit {
                Some(Limit::Cores(cores)) => Some(cores),
                _ => None,
            },
            share: match terms.limit {
                Some(Limit::Share(share)) => Some(share),
                _ => None,
            },
            charge: terms.charge,
            period_ms: terms.period_ns as f64 / 1e6,
        })
    }

    /// How many cores, or lanes with `raw`, it may use; `shares` is the sum of all pools'.
    pub(crate) fn entitlement(&self, shares: f64, capacity: Capacity) -> f64 {
        let machine = match self.charge {
            Charge::Mt1 => capacity.cores,
            Charge::Raw => capacity.lanes,
        };
        match (self.capacity_cores, self.share) {
            (Some(cores), _) => cores,
            (None, Some(share)) => machine as f64 * share / shares,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// With a period of 100 ms, charged by MT1-equivalent time.
    pub fn pool(cgroup: &str, capacity_cores: Option<f64>, share: Option<f64>) -> Pool {
        Pool {
            cgroup: cgroup.to_owned(),
            capacity_cores,
            share,
            charge: Charge::Mt1,
            period_ms: 100.0,
        }
    }
}
