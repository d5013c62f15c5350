//! The tables `[[pool]]`.

use super::values::name;
use crate::{Charge, Machine, Pool};
use sidelane_policy::file::{Result, Section, Shape, Value, alternatives, with_keys};
use sidelane_policy::pool::{self, Limit, Terms};

pub(super) const POOL: Shape = Shape {
    title: "[[pool]]",
    form: "tables [[pool]]",
    keys: &with_keys::<3, 4, 7>(["name", "within", "weight"], pool::KEYS),
    elsewhere: &[("pool", "[[workload]]"), ("cgroup", "[[workload]] as pool")],
};

/// A pool, on a machine that is not known yet.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub name: String,
    terms: Terms,
    within: Option<usize>,
    weight: Option<u32>,
}

/// Reads a `[[pool]]`; `before` are those above it.
pub(super) fn pool(section: &Section, before: &[Described]) -> Result<Described> {
    let name = name(section.need("name", "what to call it, such as \"tenant\"")?)?;
    let weight = section.get("weight");
    let weight = weight.map(|value| value.integer(1..=10_000)).transpose()?;
    let within = section.get("within");
    Ok(Described {
        name,
        terms: pool::terms(section, weight.is_some())?,
        weight,
        within: within.map(|value| named(value, before)).transpose()?,
    })
}

/// The pool that a value names.
pub(super) fn named(value: Value, pools: &[Described]) -> Result<usize> {
    let name = value.string("the name of a pool")?;
    let found = pools.iter().position(|pool| pool.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        value.expected(match known.is_empty() {
            true => "the name of a pool above: add a table [[pool]]".to_owned(),
            false => alternatives(&known),
        })
    })
}

/// The pools on a machine; `charge` instead of their own.
pub(super) fn on_machine(
    described: &[Described],
    machine: &Machine,
    charge: Option<Charge>,
) -> Vec<Pool> {
    let lanes: Vec<usize> = machine
        .cores
        .iter()
        .map(|core| machine.online_lanes(core).len())
        .filter(|lanes| *lanes > 0)
        .collect();
    let shares = described.iter().filter_map(|pool| match pool.terms.limit {
        Some(Limit::Share(share)) => Some(share),
        Some(Limit::Cores(_)) | None => None,
    });
    let shares: f64 = shares.sum();
    let pool = |pool: &Described| {
        let charge = charge.unwrap_or(pool.terms.charge);
        let all = match charge {
            Charge::Mt1 => lanes.len(),
            Charge::Raw => lanes.iter().sum(),
        };
        let cores = pool.terms.limit.map(|limit| match limit {
            Limit::Cores(cores) => cores,
            Limit::Share(share) => all as f64 * share / shares,
        });
        let period_ns = pool.terms.period_ns;
        let allowance = |cores: f64| ((cores * period_ns as f64) as u64).max(1);
        Pool {
            name: pool.name.clone(),
            allowance_ns: cores.map_or(0, allowance),
            period_ns,
            charge,
            parent: pool.within,
            weight: pool.weight,
        }
    };
    described.iter().map(pool).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::simulation::Kind;
    use crate::{Charge, Pool, Scenario};

    const MACHINE: &str = "machine = { cores = 8, lanes = 2, thread_perf = [1, 0.6] }\n";
    const POOLS: &str = "[[pool]]\nname = \"a\"\ncapacity_cores = 0.4\n\
                         [[pool]]\nname = \"b\"\nshare = 5\nwithin = \"a\"\nperiod_ms = 50\n\
                         [[pool]]\nname = \"c\"\nshare = 95\nweight = 300\n";
    const WORKLOAD: &str =
        "[[workload]]\nname = \"w\"\nclass = \"normal\"\npool = \"b\"\nbatch = { tasks = 1 }\n";

    /// The pools of each configuration.
    fn pools(configurations: &str) -> Vec<Vec<Pool>> {
        let text = format!("{MACHINE}{POOLS}{WORKLOAD}{configurations}");
        let scenario = Scenario::parse(&text, "test").unwrap();
        assert_eq!(scenario.workloads[0].task.pool, Some(1));
        let of = |kind| match kind {
            Kind::Sidelane(it) => it.pools,
            Kind::Baseline(_) => Vec::new(),
        };
        let kinds = scenario.configurations.into_iter().map(|it| it.scheduler);
        kinds.map(of).collect()
    }

    #[test]
    fn shares_follow_what_there_is() {
        let raw = "pool_charge = \"raw\"\n";
        let both = pools(&format!(
            "[[configuration]]\nscheduler = \"sidelane\"\n{raw}\
             [[configuration]]\nname = \"off\"\nscheduler = \"sidelane\"\nsmt = \"off\"\n{raw}"
        ));
        let allowances = |pools: &[Pool]| -> Vec<u64> {
            pools
                .iter()
                .map(|pool| pool.allowance_ns / 1_000_000)
                .collect()
        };
        assert_eq!(allowances(&both[0]), [40, 40, 1_520]);
        assert_eq!(allowances(&both[1]), [40, 20, 760]);
        assert_eq!(both[0][1].parent, Some(0));
        let sole = &pools("")[0];
        assert_eq!(allowances(sole), [40, 20, 760]);
        assert_eq!((sole[2].charge, sole[2].weight), (Charge::Mt1, Some(300)));
    }

    #[test]
    fn mistakes_are_named() {
        for (pool, problem) in [
            ("name = \"a\"\n", "capacity_cores"),
            ("name = \"a\"\nshare = 1\nwithin = \"b\"\n", "a pool above"),
            (
                "name = \"a\"\nshare = 1\ncharge = \"rw\"\n",
                "\"mt1\" or \"raw\"",
            ),
        ] {
            let text = format!("{MACHINE}[[pool]]\n{pool}{WORKLOAD}");
            let error = Scenario::parse(&text, "test").unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }
}
