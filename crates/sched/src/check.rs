//! What a configuration's rules and pools find on this machine now, without attaching anything.

mod hint;

use crate::cgroups;
use crate::counters::ticks_can_be_seen;
use crate::doctor;
use crate::labelled;
use crate::pool::Pool;
use crate::rules::{Class, ClassRule, Matcher};
use crate::{Config, Error, resolve};
use serde::Serialize;
use sidelane_policy::Charge;
use sidelane_topology::Topology;
use std::fmt;
use std::path::{Path, PathBuf};

/// At most so many cgroups of a rule are named.
const NAMED_MAX: usize = 3;

/// A configuration that was read, and what its rules and pools find.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Check {
    /// In the order in which they are tried.
    pub rules: Vec<RuleCheck>,
    /// In the order of the configuration.
    pub pools: Vec<PoolCheck>,
    /// With `cgroup_weights`: how many cgroups have a `cpu.weight` other than 100; none: nobody has.
    pub weights: Option<usize>,
    /// With `cgroup_quotas`: how many cgroups have a `cpu.max`; none: nobody has.
    pub quotas: Option<usize>,
    /// What is no mistake but may not be meant, each a sentence that names its place; `--strict` refuses these.
    pub doubts: Vec<String>,
    /// Why this machine cannot attach the scheduler now; one of the doubts.
    #[serde(skip)]
    pub cannot_attach: Option<String>,
}

/// A rule and what it finds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleCheck {
    /// The class it gives.
    pub class: Class,
    /// The rule as it was written.
    pub rule: String,
    /// What is there for it now.
    pub finds: Finds,
    /// Why it may never match, and what would.
    pub hint: Option<String>,
}

/// A pool and what it finds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolCheck {
    /// Its cgroup, by path below the cgroup root.
    pub cgroup: String,
    /// Capacity limit: cores, or lanes with `raw`.
    pub capacity_cores: Option<f64>,
    /// Share limit: of the sum of all pools' shares.
    pub share: Option<f64>,
    /// What it is charged.
    pub charge: Charge,
    /// Is the cgroup there now?
    pub exists: bool,
}

/// What is there for a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Finds {
    /// Cgroups, by path below the cgroup root, ascending; those below them are not repeated.
    Cgroups(Vec<String>),
    /// The executable that the path leads to; none if there is no such file.
    Executable(Option<String>),
    /// A user, by number.
    User(u32),
    /// Each task is asked; there is nothing to look up beforehand.
    Tasks,
}

/// Looks up what the rules and pools of `config` name, below `root` (`/` for this machine). Needs no
/// privilege.
///
/// # Errors
/// As when attaching: a user that does not exist, or a directory in place of an executable.
pub fn check(config: &Config, root: &Path) -> Result<Check, Error> {
    let table = resolve::table(&config.rules)?;
    let mount = mount_below(root);
    let groups = cgroups_below(mount.as_deref());
    let labels = mount
        .as_deref()
        .map(|mount| cgroups::labels(mount, groups.iter()));
    let labels = labels.unwrap_or_default();
    let said = match labelled::counts(config) {
        true => labelled::said(&config.rules, groups.iter().map(|path| (0, path)), &labels),
        false => labelled::Said::default(),
    };
    let rules = config.rules.iter().zip(&table).enumerate();
    let rules = rules.map(|(index, (entry, resolved))| {
        let finds = match &entry.rule.matcher {
            Matcher::Cgroup(_) | Matcher::Unit { .. } | Matcher::Label(_) => {
                Finds::Cgroups(matching(entry, &groups, &labels))
            }
            Matcher::Exe(path) => Finds::Executable(
                path.canonicalize()
                    .ok()
                    .map(|target| target.display().to_string()),
            ),
            Matcher::User(_) => Finds::User(resolved.uid),
            Matcher::Comm { .. } | Matcher::Policy(_) | Matcher::Nice { .. } => Finds::Tasks,
        };
        RuleCheck {
            class: entry.class,
            rule: entry.rule.to_string(),
            hint: shadowed(&config.rules, index).or_else(|| hint::of(entry, &finds, &groups)),
            finds,
        }
    });
    let rules: Vec<RuleCheck> = rules.collect();
    let pools: Vec<PoolCheck> = (config.pools.iter())
        .map(|pool| found(pool, &groups))
        .collect();
    let quotas = || {
        let mount = mount.as_deref();
        mount.map_or(0, |mount| cgroups::quotas(mount, groups.iter()).len())
    };
    let weights = || {
        let mount = mount.as_deref();
        mount.map_or(0, |mount| cgroups::weighed(mount, groups.iter()))
    };
    let mut doubts = doubts_of_rules(config, &rules);
    doubts.extend(doubts_of_pools(&pools));
    doubts.extend(said.faults);
    doubts.extend(doubts_of_machine(config, root));
    let cannot_attach = doctor::examine(root).cannot_attach();
    doubts.extend(cannot_attach.clone());
    Ok(Check {
        rules,
        pools,
        doubts,
        cannot_attach,
        quotas: config
            .holds_quotas()
            .then(quotas)
            .filter(|found| *found > 0),
        weights: config
            .holds_weights()
            .then(weights)
            .filter(|found| *found > 0),
    })
}

/// Why the rule never decides, if the same one stands before it.
fn shadowed(rules: &[ClassRule], index: usize) -> Option<String> {
    let same = |before: &&ClassRule| before.rule == rules[index].rule;
    let before = rules[..index].iter().find(same)?;
    let class = before.class.name();
    Some(format!(
        "the same rule stands before it and decides: {class}; leave one out"
    ))
}

/// Rules that find nothing, may never match, or stand behind the same rule.
fn doubts_of_rules(config: &Config, found: &[RuleCheck]) -> Vec<String> {
    let mut doubts = Vec::new();
    for (entry, found) in config.rules.iter().zip(found) {
        if found.finds.is_nothing() {
            doubts.push(entry.rule.told(&found.finds.to_string()));
        }
        doubts.extend(found.hint.iter().map(|hint| entry.rule.told(hint)));
    }
    doubts
}

fn doubts_of_pools(pools: &[PoolCheck]) -> impl Iterator<Item = String> {
    let missing = pools.iter().filter(|pool| !pool.exists);
    missing.map(|pool| format!("[[pool]] {:?}: no such cgroup now", pool.cgroup))
}

/// What this machine does not tell, and settings for which its kernel lacks something.
fn doubts_of_machine(config: &Config, root: &Path) -> Vec<String> {
    let mut doubts = match Topology::read(root) {
        Ok(topology) => topology.notes().to_vec(),
        Err(error) => vec![error.to_string()],
    };
    let counts = config.is_dynamic() || config.scheduler.symbiotic;
    if counts && root == Path::new("/") && !ticks_can_be_seen() {
        doubts.push(
            "counters: this kernel does not show the ticks of lanes, so that budgets are charged by thread_perf"
                .to_owned(),
        );
    }
    doubts
}

fn found(pool: &Pool, groups: &[String]) -> PoolCheck {
    PoolCheck {
        cgroup: pool.cgroup.clone(),
        capacity_cores: pool.capacity_cores,
        share: pool.share,
        charge: pool.charge,
        exists: groups.contains(&pool.cgroup),
    }
}

/// Where cgroup v2 is mounted, below `root`; none where it is not.
fn mount_below(root: &Path) -> Option<PathBuf> {
    let mount = cgroups::mount_point(root).ok().flatten()?;
    Some(root.join(mount.strip_prefix("/").unwrap_or(&mount)))
}

/// The paths of all cgroups, ascending.
fn cgroups_below(mount: Option<&Path>) -> Vec<String> {
    let mut paths: Vec<String> = mount
        .map(|mount| cgroups::list(mount).into_values().collect())
        .unwrap_or_default();
    paths.sort();
    paths
}

/// Those that the rule matches, without those below another match.
fn matching(entry: &ClassRule, groups: &[String], labels: &cgroups::Labels) -> Vec<String> {
    let matches = |path: &&String| cgroups::matches(&entry.rule.matcher, path, labels);
    cgroups::topmost(groups.iter().filter(matches).cloned())
}

impl Finds {
    /// Whether what the rule names is not there.
    fn is_nothing(&self) -> bool {
        match self {
            Finds::Cgroups(paths) => paths.is_empty(),
            Finds::Executable(target) => target.is_none(),
            Finds::User(_) | Finds::Tasks => false,
        }
    }
}

impl fmt::Display for Finds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finds::Cgroups(paths) if paths.is_empty() => f.write_str("no such cgroup now"),
            Finds::Cgroups(paths) => {
                let named = paths.get(..NAMED_MAX).unwrap_or(paths).join(" ");
                match paths.len().saturating_sub(NAMED_MAX) {
                    0 => f.write_str(&named),
                    more => write!(f, "{named} and {more} more"),
                }
            }
            Finds::Executable(None) => f.write_str("no such file now"),
            Finds::Executable(Some(target)) => f.write_str(target),
            Finds::User(uid) => write!(f, "uid {uid}"),
            Finds::Tasks => f.write_str("looked up for each task"),
        }
    }
}

impl fmt::Display for PoolCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.charge {
            Charge::Mt1 => "cores",
            Charge::Raw => "lanes",
        };
        match (self.capacity_cores, self.share) {
            (Some(capacity), _) => write!(f, "pool of {capacity} {unit}")?,
            (None, share) => write!(f, "pool of {unit} by share {}", share.unwrap_or(0.0))?,
        }
        let finds = if self.exists {
            ""
        } else {
            "  no such cgroup now"
        };
        write!(f, "  {}{finds}", self.cgroup)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            writeln!(
                f,
                "No rules: what is SCHED_IDLE is batch, all else is normal."
            )?;
        }
        let width = self.rules.iter().map(|r| r.rule.len()).max().unwrap_or(0);
        for RuleCheck {
            class,
            rule,
            finds,
            hint,
        } in &self.rules
        {
            writeln!(f, "{:<8}  {rule:<width$}  {finds}", class.name())?;
            if let Some(hint) = hint {
                writeln!(f, "          {hint}")?;
            }
        }
        for pool in &self.pools {
            writeln!(f, "{pool}")?;
        }
        if let Some(weights) = self.weights {
            writeln!(
                f,
                "cgroup_weights: {weights} cgroups have a cpu.weight other than 100"
            )?;
        }
        if let Some(quotas) = self.quotas {
            writeln!(f, "cgroup_quotas: {quotas} cgroups have a cpu.max")?;
        }
        let mut cannot_attach = self.cannot_attach.iter();
        cannot_attach.try_for_each(|why| writeln!(f, "{why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Folders of cgroups below a root of their own.
    fn machine(cgroups: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        for name in cgroups {
            fs::create_dir_all(root.path().join("sys/fs/cgroup").join(name)).unwrap();
        }
        root
    }

    fn config(rules: &[&str]) -> Config {
        let rules = rules.iter();
        let rules = rules.map(|text| ClassRule::new(Class::Critical, text.parse().unwrap()));
        Config {
            rules: rules.collect(),
            ..Config::default()
        }
    }

    #[test]
    fn rules_find_cgroups_files_and_users() {
        let root = machine(&["system.slice/web.service/worker", "batch.slice/nightly"]);
        let config = config(&[
            "unit:web.service",
            "cgroup:/batch",
            "exe:/no/such/file",
            "user:0",
            "nice:>=5",
        ]);
        let check = check(&config, root.path()).unwrap();
        assert!(
            check.rules.iter().all(|rule| rule.hint.is_none()),
            "{check}"
        );
        let finds: Vec<_> = check.rules.into_iter().map(|rule| rule.finds).collect();
        let web = "/system.slice/web.service".to_owned();
        assert_eq!(
            finds,
            [
                Finds::Cgroups(vec![web]),
                Finds::Cgroups(vec![]),
                Finds::Executable(None),
                Finds::User(0),
                Finds::Tasks
            ]
        );
    }

    #[test]
    fn pools_and_quotas_are_found() {
        let container = format!(
            "kubepods.slice/pod-{}.slice/cri-{}.scope",
            "0".repeat(80),
            "1".repeat(64)
        );
        let root = machine(&[&container, "b"]);
        let max = root.path().join("sys/fs/cgroup/b/cpu.max");
        fs::write(max, "1000 100000\n").unwrap();
        let weight = root.path().join("sys/fs/cgroup/b/cpu.weight");
        fs::write(weight, "50\n").unwrap();
        let text = format!(
            "[[pool]]\ncgroup = \"/{container}\"\ncapacity_cores = 1.5\ncharge = \"raw\"\n\
             [[pool]]\ncgroup = \"/none\"\nshare = 20\n\
             [scheduler]\nthread_perf = [1, 0.6]\n"
        );
        let check = check(&Config::parse(&text, "c.toml").unwrap(), root.path()).unwrap();
        let said = format!(
            "pool of 1.5 lanes  /{container}\n\
             pool of cores by share 20  /none  no such cgroup now\n\
             cgroup_weights: 1 cgroups have a cpu.weight other than 100\n\
             cgroup_quotas: 1 cgroups have a cpu.max\n"
        );
        let last = check.cannot_attach.as_ref().unwrap();
        assert!(
            check.to_string().ends_with(&format!("{said}{last}\n")),
            "{check}"
        );
    }

    #[test]
    fn what_may_not_be_meant_is_told_with_its_place() {
        let root = machine(&["b"]);
        let rule = |class: &str| format!("[[rule]]\nclass = \"{class}\"\nmatch = \"cgroup:/b\"\n");
        let pool = "[[pool]]\ncgroup = \"/none\"\nshare = 1\ncharge = \"raw\"\n";
        let none = "[[rule]]\nclass = \"batch\"\nmatch = \"unit:none.service\"\n";
        let text = [&rule("critical"), &rule("batch"), pool, none].concat();
        let config = Config::parse(&text, "c.toml").unwrap();
        let doubts = check(&config, root.path()).unwrap().doubts;
        let said = [
            "c.toml:6:9: rule 'cgroup:/b': the same rule stands before it and decides: critical",
            "c.toml:13:9: rule 'unit:none.service': no such cgroup now",
            "[[pool]] \"/none\": no such cgroup now",
            "cpu/online: missing; expected",
            "this machine cannot attach the scheduler now: sched_ext, BTF, topology (see 'sidelane doctor')",
        ];
        assert_eq!(doubts.len(), said.len(), "{doubts:?}");
        for (doubt, said) in doubts.iter().zip(said) {
            assert!(doubt.contains(said), "{doubt}");
        }
    }

    #[test]
    fn a_rule_for_everything_names_the_root_alone() {
        let groups = ["/", "/a", "/a/b"].map(str::to_owned);
        let config = config(&["cgroup:/**"]);
        assert_eq!(
            matching(&config.rules[0], &groups, &cgroups::Labels::new()),
            ["/"]
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_rule() {
        let check = check(&config(&["user:0", "comm:redis*"]), Path::new("/nowhere")).unwrap();
        assert_eq!(
            check.to_string(),
            "critical  user:0       uid 0\ncritical  comm:redis*  looked up for each task\n\
             this machine cannot attach the scheduler now: sched_ext, BTF, topology (see 'sidelane doctor')\n"
        );
    }
}
