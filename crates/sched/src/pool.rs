//! Pools: what a cgroup may use of the cores (`bpf/pool.bpf.h`).

use crate::bpf::intf;
use crate::cgroup_path;
use sidelane_policy::Charge;
use sidelane_policy::file::{Result, Section, Shape, with_keys};
use sidelane_policy::pool::{self, Limit};

/// Longest path of a cgroup, bytes.
pub(crate) const PATH_MAX: usize = intf::limits_POOL_PATH_LEN as usize - 1;

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
        keys: &with_keys::<1, 4, 5>(["cgroup"], pool::KEYS),
        elsewhere: &[],
    };

    /// Reads a `[[pool]]`.
    pub(crate) fn read(section: &Section) -> Result<Pool> {
        const WHAT: &str = "a path below the cgroup root, such as \"/batch.slice\"";
        let cgroup = section.need("cgroup", WHAT)?;
        let path = cgroup.string(WHAT)?;
        let terms = pool::terms(section, false)?;
        let pool = Pool {
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
        };
        let escaped = cgroup_path::lost_escape(cgroup.text(), path);
        match escaped.map_or_else(|| check_path(path), Err) {
            Ok(()) => Ok(pool),
            Err(problem) => Err(cgroup.error(pool.wrong(&problem))),
        }
    }

    /// What is wrong with it, as a message.
    pub(crate) fn wrong(&self, problem: &str) -> String {
        format!("{} {:?}: {problem}", Pool::SHAPE.title, self.cgroup)
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

/// A pool is one cgroup, by a path that it can have.
fn check_path(path: &str) -> std::result::Result<(), String> {
    let bare = cgroup_path::written(path)?;
    if bare.len() < path.len() {
        return Err(format!("the path ends with '/'; did you mean {bare:?}?"));
    }
    if path.contains(['*', '?', '[', ']', '{', '}']) {
        return Err(
            "a pool is one cgroup, with all below it: patterns are not possible".to_owned(),
        );
    }
    if path.len() > PATH_MAX {
        return Err(format!("no path is longer than {PATH_MAX} bytes"));
    }
    Ok(())
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
    fn mistakes_in_paths_name_the_remedy() {
        let long = format!("/{}", "a".repeat(PATH_MAX));
        for (path, problem) in [
            ("a", "'/a'"),
            ("/a/", "\"/a\""),
            ("/sys/fs/cgroup/a", "'/a'"),
            ("/a/*", "patterns"),
            ("/a-{b,c}", "patterns"),
            (&long, "longer than 4095"),
        ] {
            let error = check_path(path).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
        assert!(check_path(&long[..PATH_MAX]).is_ok());
    }
}
