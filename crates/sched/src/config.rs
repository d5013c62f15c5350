//! The configuration file: class rules, pools and the scheduler's settings.

use crate::Error;
use crate::cgroup_path;
use crate::cgroups;
use crate::pool::Pool;
use crate::rules::{Class, ClassRule, Rule};
use sidelane_policy::file::{Mistake, Result, Section, Shape, Source, Value, with_keys};
use sidelane_policy::settings::{self, BUDGET_KEYS, NEEDS_SPEEDS, SLO_NEEDS_ALL};
use sidelane_policy::{Borrow, Charge, Settings};
use std::path::Path;
use std::sync::LazyLock;

/// Everything an operator decides.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Class rules; the first that matches decides.
    pub rules: Vec<ClassRule>,
    /// What cgroups may use of the cores.
    pub pools: Vec<Pool>,
    /// How the scheduler behaves.
    pub scheduler: Settings,
    /// Where the scope stands, for messages: `FILE:LINE:COLUMN` or a flag; none: nowhere.
    pub scope_origin: Option<String>,
}

/// Two are equal if they say the same, wherever it stands.
impl PartialEq for Config {
    fn eq(&self, other: &Config) -> bool {
        let all = (&self.rules, &self.pools, &self.scheduler);
        all == (&other.rules, &other.pools, &other.scheduler)
    }
}

static FILE: LazyLock<Shape> = LazyLock::new(|| Shape {
    title: "the file",
    form: "a table",
    keys: &["rule", "pool", "scheduler"],
    elsewhere: settings::keys()
        .iter()
        .map(|key| (*key, "[scheduler]"))
        .collect::<Vec<_>>()
        .leak(),
});

const RULE: Shape = Shape {
    title: "[[rule]]",
    form: "tables [[rule]]",
    keys: &with_keys::<2, 3, 5>(["class", "match"], BUDGET_KEYS),
    elsewhere: &[],
};

impl Config {
    /// Reads a configuration file.
    ///
    /// # Errors
    /// [`Error::ConfigUnreadable`], or [`Error::ConfigInvalid`] with line and column.
    pub fn read(path: &Path) -> std::result::Result<Config, Error> {
        Config::read_after(path, Config::default())
    }

    /// The same; what the file does not say is as in `before`.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub fn read_after(path: &Path, before: Config) -> std::result::Result<Config, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::ConfigUnreadable {
            path: path.to_owned(),
            source,
        })?;
        Ok(before.parse_after(&text, &path.to_string_lossy())?)
    }

    /// Parses a configuration; `file` is how messages call it.
    ///
    /// # Errors
    /// The first mistake, with its place.
    pub fn parse(text: &str, file: &str) -> Result<Config> {
        Config::default().parse_after(text, file)
    }

    fn parse_after(self, text: &str, file: &str) -> Result<Config> {
        let source = Source { file, text };
        let table = source.table()?;
        let root = Section::root(&source, &FILE, &table)?;
        let mut config = self;
        if let Some(value) = root.get("scheduler") {
            let section = value.section(&settings::SHAPE)?;
            settings::read(&section, &mut config.scheduler)?;
            let scope = section.get("scope").map(|scope| scope.place().to_string());
            config.scope_origin = scope.or(config.scope_origin);
        }
        config.check_speeds(&root)?;
        for section in sections(&root, &RULE)? {
            let rule = rule(&section)?;
            let dynamic = (rule.budget).is_some_and(|it| it.borrow == Borrow::Dynamic);
            if dynamic && config.scheduler.thread_perf.is_empty() {
                return Err(at(
                    &section,
                    "borrow",
                    &format!("borrow = \"dynamic\" {NEEDS_SPEEDS}"),
                ));
            }
            config.check_rule(&section, &rule)?;
            config.rules.push(rule);
        }
        for section in sections(&root, &Pool::SHAPE)? {
            let pool = Pool::read(&section)?;
            config.check_pool(&section, &pool)?;
            config.pools.push(pool);
        }
        Ok(config)
    }

    /// Refuses what is wrong with all of it together.
    ///
    /// # Errors
    /// Batch is scheduled alone, and nothing is batch.
    pub fn check_whole(&self) -> std::result::Result<(), Error> {
        let batch = self.rules.iter().any(|rule| rule.class == Class::Batch);
        match self.scheduler.only_batch() && !batch {
            true => Err(Error::NoBatch {
                origin: self.scope_origin.clone().unwrap_or_default(),
            }),
            false => Ok(()),
        }
    }

    /// Has anything to do with cgroups?
    pub(crate) fn looks_at_cgroups(&self) -> bool {
        cgroups::needed(&self.rules)
            || !self.pools.is_empty()
            || self.holds_weights()
            || self.holds_quotas()
    }

    /// Do weights of cgroups count, where they have some? With batch alone the kernel sees to those of all others.
    pub(crate) fn holds_weights(&self) -> bool {
        self.scheduler.cgroup_weights && !self.scheduler.only_batch()
    }

    /// Do limits of cgroups hold, where they have some?
    pub(crate) fn holds_quotas(&self) -> bool {
        self.scheduler.cgroup_quotas && !self.scheduler.only_batch()
    }

    /// Is any budget dynamic?
    pub(crate) fn is_dynamic(&self) -> bool {
        let budgets = self.rules.iter().filter_map(|rule| rule.budget);
        let mut all = budgets.chain([self.scheduler.budget]);
        all.any(|budget| budget.borrow == Borrow::Dynamic)
    }

    /// Sets the speeds of a lane when 1, 2, ... lanes of its core run, as this flag says.
    ///
    /// # Errors
    /// They are no threadPerf.
    pub fn set_thread_perf(
        &mut self,
        flag: &str,
        thread_perf: Vec<f64>,
    ) -> std::result::Result<(), Error> {
        let wrong = |problem| Error::Tune(format!("{flag}: {problem}"));
        settings::check_speeds(&thread_perf).map_err(wrong)?;
        self.scheduler.thread_perf = thread_perf;
        Ok(())
    }

    /// The dynamic policy needs the speeds of shared lanes.
    fn check_speeds(&self, root: &Section) -> Result<()> {
        let dynamic = self.scheduler.budget.borrow == Borrow::Dynamic;
        match root.get("scheduler") {
            Some(value) if dynamic && self.scheduler.thread_perf.is_empty() => Err(at(
                &value.section(&settings::SHAPE)?,
                "borrow",
                &format!("borrow = \"dynamic\" {NEEDS_SPEEDS}"),
            )),
            _ => Ok(()),
        }
    }

    /// An objective follows critical jobs, which only a scheduler of all tasks sees.
    fn check_rule(&self, section: &Section, rule: &ClassRule) -> Result<()> {
        let slo = (rule.budget).is_some_and(|it| it.borrow == Borrow::Slo);
        match self.scheduler.only_batch() && slo {
            true => Err(at(section, "borrow", SLO_NEEDS_ALL)),
            false => Ok(()),
        }
    }

    /// No cgroup has two pools, and `mt1` knows the speeds of shared lanes.
    fn check_pool(&self, section: &Section, pool: &Pool) -> Result<()> {
        if self.pools.iter().any(|other| other.cgroup == pool.cgroup) {
            return Err(of_pool(section, pool, "cgroup", "has a pool already"));
        }
        if self.scheduler.only_batch() {
            let problem = "pools have no effect with scope = \"batch\"; leave them out";
            return Err(of_pool(section, pool, "cgroup", problem));
        }
        if pool.charge == Charge::Mt1 && self.scheduler.thread_perf.is_empty() {
            let problem = format!("charge = \"mt1\" {NEEDS_SPEEDS}; or take charge = \"raw\"");
            return Err(of_pool(section, pool, "charge", &problem));
        }
        Ok(())
    }
}

/// Tables of one kind, if there are any.
fn sections<'a>(root: &Section<'a>, shape: &'static Shape) -> Result<Vec<Section<'a>>> {
    let key = shape.title.trim_matches(['[', ']']);
    let sections = root.get(key).map(|value: Value<'a>| value.sections(shape));
    Ok(sections.transpose()?.unwrap_or_default())
}

/// A mistake where a key stands, or else of its table.
fn at(section: &Section, key: &str, problem: &str) -> Mistake {
    match section.get(key) {
        Some(value) => value.error(problem),
        None => section.error(format!("{}: {problem}", section.title())),
    }
}

/// A mistake of a pool: where a key stands, or else its cgroup.
fn of_pool(section: &Section, pool: &Pool, key: &str, problem: &str) -> Mistake {
    let key = section.get(key).map_or("cgroup", |_| key);
    at(section, key, &pool.wrong(problem))
}

/// Reads a `[[rule]]`.
fn rule(section: &Section) -> Result<ClassRule> {
    let class = section.need("class", "\"critical\", \"normal\" or \"batch\"")?;
    let class = Class::ALL[class.word_of(&Class::WORDS)?];
    let what = "a rule such as \"unit:nginx.service\"";
    let matched = section.need("match", what)?;
    let text = matched.string(what)?;
    if let Some(problem) = cgroup_path::lost_escape(matched.text(), text) {
        return Err(matched.error(format!("rule '{text}': {problem}")));
    }
    let rule = text.parse::<Rule>();
    let rule = rule.map_err(|error| matched.error(error.to_string()))?;
    let budget = settings::budget_of(section)?;
    if budget.is_some() && class != Class::Critical {
        let problem = "borrow stands in rules of class \"critical\" only";
        return Err(at(section, "borrow", problem));
    }
    Ok(ClassRule {
        class,
        rule: rule.at(matched.place().to_string()),
        budget,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config> {
        Config::parse(text, "c.toml")
    }

    fn refused(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(parse("").unwrap(), Config::default());
    }

    #[test]
    fn rules_keep_their_order() {
        let config = parse(
            "[[rule]]\nclass = \"critical\"\nmatch = \"unit:nginx.service\"\n\
             [[rule]]\nclass = \"batch\"\nmatch = \"cgroup:/batch\"\n\
             [scheduler]\nslice_ms = 5\n",
        )
        .unwrap();
        assert_eq!(config.rules[0].class, Class::Critical);
        assert_eq!(config.rules[1].rule.to_string(), "cgroup:/batch");
        assert_eq!(config.scheduler.slice_ns, 5_000_000);
    }

    #[test]
    fn the_example_states_the_defaults() {
        let config = parse(include_str!("../../../examples/sidelane.toml")).unwrap();
        assert_eq!(config.scheduler, Settings::default());
        assert_eq!(config.rules.len(), 3);
    }

    #[test]
    fn mistakes_name_line_and_column() {
        let unknown = refused("[scheduler]\nslices_ms = 3\n");
        assert!(
            unknown.contains("c.toml:2:1:") && unknown.contains("did you mean \"slice_ms\""),
            "{unknown}"
        );
        let class = refused("[[rule]]\nclass = \"urgent\"\nmatch = \"user:x\"\n");
        assert!(class.contains("c.toml:2:9:"), "{class}");
        let rule = refused("[[rule]]\nclass = \"batch\"\nmatch = \"unit:x\"\n");
        assert!(
            rule.contains("c.toml:3:9:") && rule.contains("x.service"),
            "{rule}"
        );
        let place = refused("slice_ms = 3\n");
        assert!(place.contains("it belongs in [scheduler]"), "{place}");
    }

    #[test]
    fn a_critical_rule_may_have_a_budget() {
        let rule = |class: &str, keys: &str| {
            let text = format!("[[rule]]\nclass = \"{class}\"\nmatch = \"user:0\"\n{keys}\n");
            parse(&text)
        };
        let config = rule("critical", "borrow = \"fixed\"\nbudget_ms = 5").unwrap();
        let budget = config.rules[0].budget.unwrap();
        assert_eq!(
            (budget.borrow, budget.budget_ns),
            (Borrow::Fixed, 5_000_000)
        );
        assert_eq!(rule("critical", "").unwrap().rules[0].budget, None);
        for (class, keys, problem) in [
            ("batch", "borrow = \"off\"", "c.toml:4:10: borrow stands"),
            (
                "critical",
                "borrow = \"fixed\"",
                "c.toml:4:10: borrow = \"fixed\" needs",
            ),
            (
                "critical",
                "budget_ms = 5",
                "c.toml:4:13: budget_ms has no effect",
            ),
            ("critical", "borrow = \"slo\"", "p99 < 20 ms"),
            (
                "critical",
                "borrow = \"slo\"\nobjective = \"20 ms\"",
                "c.toml:5:13",
            ),
            (
                "critical",
                "borrow = \"dynamic\"\nbudget_ms = 5",
                "c.toml:4:10: borrow = \"dynamic\" needs thread_perf",
            ),
        ] {
            let error = rule(class, keys).unwrap_err().to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn mistakes_of_pools_name_their_place() {
        let speeds = "[scheduler]\nthread_perf = [1, 0.6]\n";
        for (keys, problem) in [
            (
                "cgroup = \"a\"\nshare = 1",
                "c.toml:2:10: [[pool]] \"a\": a cgroup's path begins with '/'",
            ),
            ("cgroup = \"/a\"", "needs one of capacity_cores, share"),
            (
                "cgroup = \"/a\"\nshare = 1\ncapacity_cores = 1",
                "only one of",
            ),
            ("cgroup = \"/a\"\nshare = 0", "c.toml:3:9: share: expected"),
            ("cgroup = \"/a\"\ncapacity_cores = nan", "above 0"),
            ("share = 1", "[[pool]] lacks cgroup"),
        ] {
            let error = refused(&format!("[[pool]]\n{keys}\n{speeds}"));
            assert!(error.contains(problem), "{error}");
        }
        let pool = "[[pool]]\ncgroup = \"/a\"\nshare = 1\n";
        assert!(
            refused(pool)
                .contains("c.toml:2:10: [[pool]] \"/a\": charge = \"mt1\" needs thread_perf")
        );
        assert!(
            refused(&format!("{pool}{pool}{speeds}"))
                .contains("c.toml:5:10: [[pool]] \"/a\": has a pool")
        );
        assert!(parse(&format!("{pool}{speeds}")).is_ok());
        assert!(parse(&format!("{pool}charge = \"raw\"\n")).is_ok());
    }
}
