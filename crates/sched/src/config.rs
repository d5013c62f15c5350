//! The configuration file: class rules and the scheduler's settings.

use crate::borrow::{self, Borrow, Budget};
use crate::cgroups;
use crate::counters::UseCounters;
use crate::pairing::Pairing;
use crate::polarization::Polarization;
use crate::pool::{Charge, Pool};
use crate::retention::Retention;
use crate::rules::{self, Class, ClassRule, Rule};
use crate::source::Source;
use crate::{Error, bpf::intf};
use serde::{Deserialize, Deserializer};
use sidelane_model::Objective;
use sidelane_model::Symbiosis;
use std::path::Path;

/// Everything an operator decides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Class rules; the first that matches decides.
    pub rules: Vec<ClassRule>,
    /// What cgroups may use of the cores.
    pub pools: Vec<Pool>,
    /// How the scheduler behaves.
    pub scheduler: SchedulerConfig,
}

/// The `[scheduler]` table. Times in milliseconds.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SchedulerConfig {
    /// Slice of critical and normal work, 0.1 to 1000 ms. Default 10 ms: the minor
    /// slice of the z/VM source with SMT.
    pub slice_ms: f64,
    /// Slice of batch work, 0.1 to 1000 ms. Default 50 ms: batch leaves at once for any other work, so a
    /// longer one costs nobody latency and saves switches among batch.
    pub batch_slice_ms: f64,
    /// Normal work that has waited this long behind critical work is due: the next on its lane, 1 to 10000 ms.
    pub normal_bound_ms: f64,
    /// The same for batch work, 10 to 10000 ms.
    pub starvation_bound_ms: f64,
    /// What a task gets when it is due, and a kernel thread of one lane when it wakes, 0.1 to 100 ms.
    pub overdue_slice_ms: f64,
    /// Critical jobs move to better cores that fall free.
    pub promote: bool,
    /// Jobs younger than this do not, 0 to 1000 ms: the move would cost more than it gains.
    pub promote_after_ms: f64,
    /// Lanes of a core that critical and normal work may keep busy; 0 means all.
    pub smt_level: u32,
    /// Lanes of a core that batch may use, the last ones; 0 means as many as add to what a core does by
    /// `thread_perf`, all if that is not known.
    pub batch_lanes: u32,
    /// Promotions and evictions write lines into the kernel's trace.
    pub trace: bool,
    /// How long batch may run beside critical work.
    pub borrow: Borrow,
    /// The budget of those policies that have one, above 0 to 10000 ms.
    pub budget_ms: f64,
    /// With the policy slo: the latency that few critical jobs may exceed, such as `p99 < 20 ms`.
    #[serde(deserialize_with = "objective")]
    pub objective: Option<Objective>,
    /// Speeds of a lane when 1, 2, ... lanes of its core run; none: not known. Needed by the
    /// dynamic policy, and to compare lanes of cores that are not equally fast.
    pub thread_perf: Vec<f64>,
    /// Whether counters of instructions and cycles say what a dynamic budget is charged.
    pub counters: UseCounters,
    /// A task that sleeps for less than a slice, of which it has used less than half, goes on with it.
    pub keep_slice: bool,
    /// After so long without work, times the distance, a lane steals across a barrier that is lower
    /// by one, 0 to 1000 ms; 0: barriers stay as they are.
    pub steal_patience_ms: f64,
    /// Lanes are held idle for normal tasks that are soon back from sleep.
    pub retain: bool,
    /// For how long, and how that changes.
    pub retention: Retention,
    /// I/O-bound and other normal tasks have lanes of their own; needs `retain`.
    pub pair: bool,
    /// How often that is looked at, and which cores swap tasks.
    pub pairing: Pairing,
    /// Computation of normal class shares cores with what it bears best; needs counters.
    pub symbiotic: bool,
    /// By which model.
    pub symbiosis: Symbiosis,
    /// Which cores normal and batch work uses.
    pub polarization: Polarization,
    /// `cpu.weight` of cgroups counts among normal work.
    pub cgroup_weights: bool,
    /// `cpu.max` of cgroups holds, for time on lanes.
    pub cgroup_quotas: bool,
    /// Shortest vector that another core may steal from, by distance.
    pub steal_min_queued: StealBarriers,
}

/// Steal barriers: how long the far vector has to be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StealBarriers {
    /// From a core below the same last-level cache, 1 or more.
    pub cache: u32,
    /// From another cache of the same package and NUMA node, 1 or more.
    pub node: u32,
    /// From another package or NUMA node, 1 or more.
    pub remote: u32,
}

impl Default for StealBarriers {
    fn default() -> Self {
        StealBarriers {
            cache: 1,
            node: 1,
            remote: 2,
        }
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        SchedulerConfig {
            slice_ms: 10.0,
            batch_slice_ms: 50.0,
            normal_bound_ms: 20.0,
            starvation_bound_ms: 1000.0,
            overdue_slice_ms: 1.0,
            promote: true,
            promote_after_ms: 0.5,
            smt_level: 0,
            batch_lanes: 0,
            trace: false,
            borrow: Borrow::default(),
            budget_ms: 0.0,
            objective: None,
            thread_perf: Vec::new(),
            counters: UseCounters::default(),
            keep_slice: false,
            steal_patience_ms: 0.0,
            retain: false,
            retention: Retention::default(),
            pair: false,
            pairing: Pairing::default(),
            symbiotic: false,
            symbiosis: Symbiosis::default(),
            polarization: Polarization::default(),
            cgroup_weights: false,
            cgroup_quotas: false,
            steal_min_queued: StealBarriers::default(),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<RuleEntry>,
    #[serde(default)]
    pool: Vec<Pool>,
    #[serde(default)]
    scheduler: SchedulerConfig,
}

/// Where the pools of a file stand.
#[derive(Deserialize)]
struct PoolPlaces {
    #[serde(default)]
    pool: Vec<PoolPlace>,
}

#[derive(Deserialize)]
struct PoolPlace {
    cgroup: toml::Spanned<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleEntry {
    class: Class,
    #[serde(rename = "match")]
    rule: toml::Spanned<String>,
    borrow: Option<toml::Spanned<Borrow>>,
    budget_ms: Option<f64>,
    #[serde(default, deserialize_with = "objective")]
    objective: Option<Objective>,
}

/// Reads an objective from its text.
fn objective<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Objective>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

impl RuleEntry {
    /// The budget beside tasks that match, if the rule has one of its own.
    fn budget(&self) -> Result<Option<Budget>, String> {
        let Some(borrow) = &self.borrow else {
            return match (self.budget_ms, self.objective) {
                (None, None) => Ok(None),
                _ => Err("budget_ms and objective stand beside borrow".to_owned()),
            };
        };
        if self.class != Class::Critical {
            return Err("borrow stands in rules of class \"critical\" only".to_owned());
        }
        let budget = Budget {
            borrow: *borrow.get_ref(),
            budget_ms: self.budget_ms.unwrap_or(0.0),
            objective: self.objective,
        };
        budget.check().map(|()| Some(budget))
    }

    /// The rule as it stands in `source`; its errors name the place.
    fn read(self, source: &Source) -> Result<ClassRule, String> {
        let at = source.at(self.rule.span().start);
        let raw = source.raw(self.rule.span());
        let text = self.rule.get_ref();
        if let Some(problem) = rules::lost_escape(raw, text) {
            return Err(format!("{at}: rule '{text}': {problem}"));
        }
        let rule = text.parse::<Rule>().map_err(|e| format!("{at}: {e}"))?;
        let budget = self.budget().map_err(|e| {
            let span = self.borrow.as_ref().map_or(self.rule.span(), |b| b.span());
            format!("{}: {e}", source.at(span.start))
        })?;
        Ok(ClassRule {
            class: self.class,
            rule: rule.at(at),
            budget,
        })
    }
}

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`], or [`Error::ConfigInvalid`] with line and column.
    pub fn read(path: &Path) -> Result<Config, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::ConfigUnreadable {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        let source = Source {
            name: &name,
            text: &text,
        };
        Config::of(&source).map_err(Error::ConfigInvalid)
    }

    /// Has anything to do with cgroups?
    pub(crate) fn looks_at_cgroups(&self) -> bool {
        cgroups::needed(&self.rules)
            || !self.pools.is_empty()
            || self.scheduler.cgroup_weights
            || self.scheduler.cgroup_quotas
    }

    /// Is any budget dynamic?
    pub(crate) fn is_dynamic(&self) -> bool {
        is_dynamic(&self.rules, &self.scheduler)
    }

    /// Parses a configuration; the error names line and column.
    pub fn parse(text: &str) -> Result<Config, String> {
        let name = "configuration";
        Config::of(&Source { name, text })
    }

    fn of(source: &Source) -> Result<Config, String> {
        let file: File = toml::from_str(source.text).map_err(|e| source.mistake(&e))?;
        let named = |problem: String| format!("{}: {problem}", source.name);
        file.scheduler.check().map_err(named)?;
        let rules = file.rule.into_iter().map(|entry| entry.read(source));
        let rules = rules.collect::<Result<Vec<_>, String>>()?;
        check_dynamic(&rules, &file.scheduler).map_err(named)?;
        check_pools(&file.pool, &file.scheduler, source)?;
        Ok(Config {
            rules,
            pools: file.pool,
            scheduler: file.scheduler,
        })
    }
}

/// The dynamic policy needs the speeds of shared lanes, wherever it stands.
fn check_dynamic(rules: &[ClassRule], scheduler: &SchedulerConfig) -> Result<(), String> {
    if is_dynamic(rules, scheduler) && scheduler.thread_perf.is_empty() {
        return Err(
            "[scheduler] borrow = \"dynamic\" needs thread_perf: the speeds of 'sidelane \
             calibrate', such as [1, 0.6]"
                .to_owned(),
        );
    }
    Ok(())
}

/// Pools are sound, no cgroup has two, and `mt1` knows the speeds of shared lanes.
fn check_pools(pools: &[Pool], scheduler: &SchedulerConfig, source: &Source) -> Result<(), String> {
    let places: PoolPlaces = toml::from_str(source.text).map_err(|e| source.mistake(&e))?;
    for (index, (pool, place)) in pools.iter().zip(&places.pool).enumerate() {
        let span = place.cgroup.span();
        let error = |problem: String| {
            let at = source.at(span.start);
            format!("{at}: [[pool]] {:?}: {problem}", pool.cgroup)
        };
        if let Some(problem) = rules::lost_escape(source.raw(span.clone()), &pool.cgroup) {
            return Err(error(problem));
        }
        pool.check().map_err(error)?;
        if pools[..index]
            .iter()
            .any(|other| other.cgroup == pool.cgroup)
        {
            return Err(error("is there twice".to_owned()));
        }
        if pool.charge == Charge::Mt1 && scheduler.thread_perf.is_empty() {
            return Err(error(
                "charge = \"mt1\" needs thread_perf in [scheduler], the speeds of 'sidelane \
                 calibrate', such as [1, 0.6]; or charge = \"raw\""
                    .to_owned(),
            ));
        }
    }
    Ok(())
}

/// Is any budget dynamic?
fn is_dynamic(rules: &[ClassRule], scheduler: &SchedulerConfig) -> bool {
    let mut budgets = rules.iter().filter_map(|rule| rule.budget.as_ref());
    scheduler.borrow == Borrow::Dynamic || budgets.any(|budget| budget.borrow == Borrow::Dynamic)
}

impl SchedulerConfig {
    fn check(&self) -> Result<(), String> {
        let within = |name: &str, value: f64, min: f64, max: f64| {
            if (min..=max).contains(&value) {
                Ok(())
            } else {
                Err(format!(
                    "[scheduler] {name} = {value}: expected {min} to {max}"
                ))
            }
        };
        within("slice_ms", self.slice_ms, 0.1, 1000.0)?;
        within("batch_slice_ms", self.batch_slice_ms, 0.1, 1000.0)?;
        within("normal_bound_ms", self.normal_bound_ms, 1.0, 10_000.0)?;
        within(
            "starvation_bound_ms",
            self.starvation_bound_ms,
            10.0,
            10_000.0,
        )?;
        within("overdue_slice_ms", self.overdue_slice_ms, 0.1, 100.0)?;
        (self.budget().check()).map_err(|problem| format!("[scheduler] {problem}"))?;
        borrow::check_speeds(&self.thread_perf)
            .map_err(|problem| format!("[scheduler] {problem}"))?;
        self.retention.check()?;
        self.pairing.check()?;
        (self.symbiosis.check()).map_err(|problem| format!("[scheduler.symbiosis] {problem}"))?;
        if self.symbiotic && self.counters == UseCounters::Off {
            return Err(
                "[scheduler] symbiotic = true needs counters; leave counters = \"off\" out"
                    .to_owned(),
            );
        }
        if self.pair && !self.retain {
            return Err(
                "[scheduler] pair = true needs retain = true: tasks are paired by how long \
                        lanes are held for them"
                    .to_owned(),
            );
        }
        within("steal_patience_ms", self.steal_patience_ms, 0.0, 1000.0)?;
        within("promote_after_ms", self.promote_after_ms, 0.0, 1000.0)?;
        let barriers = &self.steal_min_queued;
        if [barriers.cache, barriers.node, barriers.remote].contains(&0) {
            return Err("[scheduler.steal_min_queued]: each barrier is 1 or more".to_owned());
        }
        Ok(())
    }

    /// Sets the speeds of a lane when 1, 2, ... lanes of its core run.
    ///
    /// # Errors
    /// They are no threadPerf.
    pub fn set_thread_perf(&mut self, thread_perf: Vec<f64>) -> Result<(), Error> {
        borrow::check_speeds(&thread_perf).map_err(Error::Tune)?;
        self.thread_perf = thread_perf;
        Ok(())
    }

    /// What holds beside critical tasks of rules without a budget.
    pub fn budget(&self) -> Budget {
        Budget {
            borrow: self.borrow,
            budget_ms: self.budget_ms,
            objective: self.objective,
        }
    }

    /// The settings as the BPF side has them. `lanes_per_core_max` stands for SMT
    /// level 0, "all".
    pub(crate) fn to_settings(&self, lanes_per_core_max: u32) -> intf::settings {
        let ns = |ms: f64| (ms * 1e6) as u64;
        let level = if self.smt_level == 0 {
            lanes_per_core_max
        } else {
            self.smt_level
        };
        let batch_lanes = match self.batch_lanes {
            0 => sidelane_model::batch_lanes(&self.thread_perf, lanes_per_core_max),
            lanes => lanes,
        };
        intf::settings {
            slice_ns: [
                ns(self.slice_ms),
                ns(self.slice_ms),
                ns(self.batch_slice_ms),
            ],
            starvation_bound_ns: [0, ns(self.normal_bound_ms), ns(self.starvation_bound_ms)],
            overdue_slice_ns: ns(self.overdue_slice_ms),
            promote_after_ns: ns(self.promote_after_ms),
            promote: u32::from(self.promote),
            steal_min_queued: [
                1,
                self.steal_min_queued.cache,
                self.steal_min_queued.node,
                self.steal_min_queued.remote,
            ],
            smt_level: level,
            batch_lanes,
            symbiotic: u32::from(self.symbiotic), // the loader looks for counters
            miss_cycles: self.symbiosis.miss_cycles,
            symbiosis_waits: self.symbiosis.waits(intf::SPEED_ONE),
            retain_exclusive: u32::from(self.retention.exclusive),
            budget: self.budget().native(),
            trace: u32::from(self.trace),
            keep_slice: u32::from(self.keep_slice),
            steal_patience_ns: ns(self.steal_patience_ms),
            retain: u32::from(self.retain),
            pair: u32::from(self.pair),
            pair_uniform: self.pairing.uniform_rate(),
            pair_period_ns: ns(self.pairing.period_ms),
            retain_start_ns: ns(self.retention.start_ms),
            retain_min_ns: ns(self.retention.min_ms),
            retain_max_ns: ns(self.retention.max_ms),
            retain_switches_ns: ns(self.retention.switches_ms),
            retain_period_ns: ns(self.retention.period_ms),
            vertical: self.polarization.native(),
            nr_pools: 0, // counts pools
            cgroup_weights: u32::from(self.cgroup_weights),
            cores_awake: 0, // the loader counts cores
            counters: 0,    // and opens these
            thread_perf: borrow::speeds(&self.thread_perf),
            nr_rules: 0,
            has_cgroup_rules: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(Config::parse("").unwrap(), Config::default());
    }

    #[test]
    fn rules_keep_their_order() {
        let config = Config::parse(
            "[[rule]]\nclass = \"critical\"\nmatch = \"unit:nginx.service\"\n\
             [[rule]]\nclass = \"batch\"\nmatch = \"cgroup:/batch\"\n\
             [scheduler]\nslice_ms = 5\n",
        )
        .unwrap();
        assert_eq!(config.rules[0].class, Class::Critical);
        assert_eq!(config.rules[1].rule.to_string(), "cgroup:/batch");
        assert_eq!(config.scheduler.slice_ms, 5.0);
    }

    #[test]
    fn the_example_states_the_defaults() {
        let config = Config::parse(include_str!("../../../examples/sidelane.toml")).unwrap();
        assert_eq!(config.scheduler, SchedulerConfig::default());
        assert_eq!(config.rules.len(), 3);
    }

    #[test]
    fn mistakes_name_line_and_column() {
        let unknown = Config::parse("[scheduler]\nslices_ms = 3\n").unwrap_err();
        assert!(
            unknown.contains("configuration:2:1: ") && unknown.contains("slices_ms"),
            "{unknown}"
        );
        let class =
            Config::parse("[[rule]]\nclass = \"urgent\"\nmatch = \"user:x\"\n").unwrap_err();
        assert!(class.contains(":2:9: "), "{class}");
        let rule = Config::parse("[[rule]]\nclass = \"batch\"\nmatch = \"unit:x\"\n").unwrap_err();
        assert!(
            rule.contains(":3:9: rule ") && rule.contains("x.service"),
            "{rule}"
        );
    }

    #[test]
    fn a_critical_rule_may_have_a_budget() {
        let rule = |class: &str, keys: &str| {
            let text = format!("[[rule]]\nclass = \"{class}\"\nmatch = \"user:0\"\n{keys}\n");
            Config::parse(&text)
        };
        let config = rule("critical", "borrow = \"fixed\"\nbudget_ms = 5").unwrap();
        let budget = config.rules[0].budget.clone().unwrap();
        assert_eq!((budget.borrow, budget.budget_ms), (Borrow::Fixed, 5.0));
        assert_eq!(rule("critical", "").unwrap().rules[0].budget, None);
        for (class, keys, problem) in [
            ("batch", "borrow = \"off\"", ":4:10: borrow stands"),
            ("critical", "borrow = \"fixed\"", "above 0"),
            ("critical", "budget_ms = 5", "beside borrow"),
            ("critical", "borrow = \"slo\"", "p99 < 20 ms"),
            (
                "critical",
                "borrow = \"slo\"\nobjective = \"20 ms\"",
                ":5:13: ",
            ),
            (
                "critical",
                "borrow = \"dynamic\"\nbudget_ms = 5",
                "thread_perf",
            ),
        ] {
            let error = rule(class, keys).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn an_objective_is_read() {
        let config = Config::parse("[scheduler]\nborrow = \"slo\"\nobjective = \"p99 < 20 ms\"\n");
        let native = config.unwrap().scheduler.to_settings(2).budget;
        assert_eq!((native.beyond, native.objective_ns), (10, 20_000_000));
        assert!(Config::parse("[scheduler]\nobjective = \"p99 < 20 ms\"\n").is_err());
    }

    #[test]
    fn batch_lanes_follow_the_speeds_unless_they_are_given() {
        let lanes = |text: &str| {
            let config = Config::parse(&format!("[scheduler]\n{text}\n")).unwrap();
            config.scheduler.to_settings(2).batch_lanes
        };
        assert_eq!(lanes(""), 2);
        assert_eq!(lanes("thread_perf = [1, 0.6]"), 2);
        assert_eq!(lanes("thread_perf = [1, 0.5]"), 1);
        assert_eq!(lanes("thread_perf = [1, 0.5]\nbatch_lanes = 2"), 2);
        assert_eq!(lanes("batch_lanes = 1"), 1);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        for text in [
            "[scheduler]\nslice_ms = 0\n",
            "[scheduler]\nslice_ms = nan\n",
            "[scheduler]\nstarvation_bound_ms = 60000\n",
            "[scheduler.steal_min_queued]\ncache = 0\n",
            "[scheduler]\npair = true\n",
            "[scheduler]\nretain = true\n[scheduler.pairing]\nperiod_ms = 1\n",
        ] {
            assert!(Config::parse(text).is_err(), "{text}");
        }
    }
}
