//! Pools: what a cgroup may use of the cores (`bpf/pool.bpf.h`).

use crate::bpf::intf;
use crate::rules::cgroup_path;
use serde::{Deserialize, Serialize};

/// Longest path of a cgroup, bytes.
pub(crate) const PATH_MAX: usize = intf::limits_POOL_PATH_LEN as usize - 1;

/// What a pool is charged for the time that its tasks run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Charge {
    /// MT1-equivalent time: on a shared core less than on a core alone, by `thread_perf`.
    #[default]
    Mt1,
    /// Time on lanes.
    Raw,
}

impl Charge {
    /// The word used in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Charge::Mt1 => "mt1",
            Charge::Raw => "raw",
        }
    }

    pub(crate) fn native(self) -> u32 {
        match self {
            Charge::Mt1 => intf::pool_charge_POOL_CHARGE_MT1,
            Charge::Raw => intf::pool_charge_POOL_CHARGE_RAW,
        }
    }

    pub(crate) fn of_native(charge: u32) -> Charge {
        match charge {
            intf::pool_charge_POOL_CHARGE_RAW => Charge::Raw,
            _ => Charge::Mt1,
        }
    }
}

/// A `[[pool]]`: a cgroup with all below it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Path of the cgroup below the cgroup root, `/` first.
    pub cgroup: String,
    /// Capacity limit: at most so many cores, or lanes with `raw`; above 0.
    pub capacity_cores: Option<f64>,
    /// Share limit: of the machine, this part of the sum of all pools' shares; above 0.
    pub share: Option<f64>,
    /// What it is charged.
    #[serde(default)]
    pub charge: Charge,
    /// Its allowance is for so long, 10 to 1000 ms.
    #[serde(default = "period_ms")]
    pub period_ms: f64,
}

fn period_ms() -> f64 {
    100.0
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
    /// What is wrong with it by itself.
    pub(crate) fn check(&self) -> Result<(), String> {
        let path = cgroup_path(&self.cgroup)?;
        if path.len() < self.cgroup.len() {
            return Err(format!("the path ends with '/'; did you mean {path:?}?"));
        }
        if path.contains(['*', '?', '[', ']', '{', '}']) {
            return Err(
                "a pool is one cgroup, with all below it: patterns are not possible".to_owned(),
            );
        }
        if path.len() > PATH_MAX {
            return Err(format!("no path is longer than {PATH_MAX} bytes"));
        }
        if !(10.0..=1000.0).contains(&self.period_ms) {
            let found = self.period_ms;
            return Err(format!("period_ms = {found}: expected 10 to 1000"));
        }
        match (self.capacity_cores, self.share) {
            (Some(amount), None) | (None, Some(amount)) if amount > 0.0 && amount <= 1e6 => Ok(()),
            (Some(_), Some(_)) => Err("capacity_cores and share: one of them".to_owned()),
            (None, None) => {
                Err("needs capacity_cores, such as 1.5, or share, such as 20".to_owned())
            }
            _ => Err("capacity_cores and share are above 0 and at most 1000000".to_owned()),
        }
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

    #[test]
    fn mistakes_name_the_remedy() {
        let long = format!("/{}", "a".repeat(PATH_MAX));
        for (pool, problem) in [
            (pool("a", Some(1.0), None), "'/a'"),
            (pool("/a/", Some(1.0), None), "\"/a\""),
            (pool("/sys/fs/cgroup/a", Some(1.0), None), "'/a'"),
            (pool("/a/*", Some(1.0), None), "patterns"),
            (pool("/a-{b,c}", Some(1.0), None), "patterns"),
            (pool(&long, Some(1.0), None), "longer than 4095"),
            (pool("/a", None, None), "needs capacity_cores"),
            (pool("/a", Some(1.0), Some(1.0)), "one of them"),
            (pool("/a", Some(0.0), None), "above 0"),
            (pool("/a", Some(f64::NAN), None), "above 0"),
        ] {
            let error = pool.check().unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(pool(&long[..PATH_MAX], Some(1.0), None).check().is_ok());
    }
}
