//! Class rules: one syntax for the configuration file and for flags.

mod value;

pub(crate) use value::COMM_MAX;

use crate::Error;
use crate::cgroup_path::up;
use sidelane_policy::Budget;
pub use sidelane_policy::Class;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Scheduling policies that a rule can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// `SCHED_OTHER`.
    Normal,
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
}

/// The systemd that runs a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// The system's.
    System,
    /// Any user's.
    User,
}

/// What a rule compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// Glob over the cgroup's path below the cgroup root, `/` first; a rule also
    /// covers everything below what it matches.
    Cgroup(glob::Pattern),
    /// Glob over the names of systemd units; a rule also covers all cgroups of the unit.
    Unit {
        /// Of the unit's name.
        name: glob::Pattern,
        /// Whose unit it is.
        manager: Manager,
    },
    /// Label of the cgroup, or of the nearest around it that has one: its extended attribute `user.sidelane.class`.
    Label(String),
    /// Executable, by absolute path; symbolic links are followed.
    Exe(PathBuf),
    /// Thread name; `prefix` if it was written with a `*` at the end.
    Comm {
        /// The name, or its beginning.
        name: String,
        /// Whether anything may follow.
        prefix: bool,
    },
    /// Effective user, by name or number.
    User(String),
    /// Scheduling policy.
    Policy(Policy),
    /// Nice value, both ends included.
    Nice {
        /// Lowest nice value, -20 or more.
        min: i32,
        /// Highest nice value, 19 or less.
        max: i32,
    },
}

/// `KIND:VALUE` as it was written, and what it means. Two rules are equal if they are written alike,
/// wherever they stand.
#[derive(Clone, Debug)]
pub struct Rule {
    text: String,
    /// What the rule compares.
    pub matcher: Matcher,
    /// Where it stands, for messages: `FILE:LINE:COLUMN`, or a flag.
    origin: Option<String>,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Rule) -> bool {
        self.text == other.text
    }
}

impl Rule {
    /// The rule that stands at `origin`.
    fn read(text: &str, origin: Option<String>) -> Result<Rule, Error> {
        match value::matcher(text) {
            Ok(matcher) => Ok(Rule {
                text: text.to_owned(),
                matcher,
                origin,
            }),
            Err(problem) => Err(Error::Rule {
                origin,
                rule: text.to_owned(),
                problem,
            }),
        }
    }

    /// The rule, as one that stands at `origin`: `FILE:LINE:COLUMN`, or a flag.
    pub fn at(self, origin: String) -> Rule {
        Rule {
            origin: Some(origin),
            ..self
        }
    }

    /// What is said of this rule, with its place.
    pub(crate) fn told(&self, what: &str) -> String {
        self.error(what.to_owned()).to_string()
    }

    /// An error about this rule.
    pub(crate) fn error(&self, problem: String) -> Error {
        Error::Rule {
            origin: self.origin.clone(),
            rule: self.text.clone(),
            problem,
        }
    }
}

/// A rule and the class it gives.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRule {
    /// The class of the tasks that match.
    pub class: Class,
    /// What they have to match.
    pub rule: Rule,
    /// Of critical rules: how long batch may run beside these tasks; none: as `[scheduler]` says.
    pub budget: Option<Budget>,
}

impl ClassRule {
    /// A rule without a budget of its own.
    pub fn new(class: Class, rule: Rule) -> ClassRule {
        ClassRule {
            class,
            rule,
            budget: None,
        }
    }
}

/// The rules of a flag that may be repeated; its places are `--batch 1`, `--batch 2` and so on.
///
/// # Errors
/// The first that is no rule, with its place.
pub fn rules_of_flag(class: Class, flag: &str, texts: &[String]) -> Result<Vec<ClassRule>, Error> {
    let placed = texts.iter().zip(1..);
    let rule = |(text, number): (&String, usize)| {
        let rule = Rule::read(text, Some(format!("{flag} {number}")))?;
        Ok(ClassRule::new(class, rule))
    };
    placed.map(rule).collect()
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kinds of rules, for error messages and help.
pub const KINDS: &str = "cgroup:GLOB, unit:NAME, user-unit:NAME, label:WORD, exe:PATH, comm:THREAD-NAME, user:NAME, policy:idle|batch|normal, nice:>=N";

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Rule::read(text, None)
    }
}

const PATHS: glob::MatchOptions = glob::MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Does the rule match a cgroup or one of its ancestors? `path` begins with `/`.
/// False for rules that do not look at cgroups.
pub fn matches_cgroup(matcher: &Matcher, path: &str) -> bool {
    match matcher {
        Matcher::Cgroup(glob) => up(path).any(|at| glob.matches_with(at, PATHS)),
        Matcher::Unit { name, manager } => up(path).any(|at| {
            let unit = unit(at);
            unit.is_some_and(|(of, unit)| of == *manager && name.matches_with(unit, PATHS))
        }),
        _ => false,
    }
}

/// The unit whose cgroup `path` is, if it is one, and the manager that runs it. Managers keep their units
/// in slices only; a user's has its own below the service that it is.
fn unit(path: &str) -> Option<(Manager, &str)> {
    let (above, name) = path.rsplit_once('/')?;
    let mut others = (above.split('/')).filter(|at| !at.is_empty() && !at.ends_with(".slice"));
    let manager = match (others.next(), others.next()) {
        (None, _) => Manager::System,
        (Some(service), None) if is_user_manager(service) => Manager::User,
        _ => return None,
    };
    // systemd puts '_' before names that the kernel's files in the folder may have, such as 'io.service'
    let name = name.strip_prefix('_').unwrap_or(name);
    (!name.is_empty()).then_some((manager, name))
}

fn is_user_manager(service: &str) -> bool {
    service.starts_with("user@") && service.ends_with(".service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_rule_stands_is_told_but_does_not_make_it_another() {
        let rule = || "user:x".parse::<Rule>().unwrap();
        let (here, there) = (
            rule().at("a:1:2".to_owned()),
            rule().at("--batch".to_owned()),
        );
        assert_eq!(here, there);
        assert_ne!(here, "user:y".parse().unwrap());
        let told = |rule: &Rule| rule.error("is wrong".to_owned()).to_string();
        assert_eq!(told(&here), "a:1:2: rule 'user:x': is wrong");
        assert_eq!(told(&rule()), "rule 'user:x': is wrong");
        let flags = ["user:x", "unit:x"].map(str::to_owned);
        let wrong = rules_of_flag(Class::Batch, "--batch", &flags).unwrap_err();
        assert!(
            wrong
                .to_string()
                .starts_with("--batch 2: rule 'unit:x': a unit's name")
        );
    }

    use super::super::Rule;

    fn covers(rule: &str, path: &str) -> bool {
        matches_cgroup(&rule.parse::<Rule>().unwrap().matcher, path)
    }

    #[test]
    fn a_cgroup_rule_covers_what_is_below() {
        for (path, covered) in [
            ("/system.slice/nginx.service", true),
            ("/system.slice/nginx.service/worker", true),
            ("/system.slice", false),
            ("/system.slice/nginx.service2", false),
        ] {
            let rule = "cgroup:/system.slice/nginx.service";
            assert_eq!(covers(rule, path), covered, "{path}");
            assert_eq!(covers(&format!("{rule}/"), path), covered, "{path}");
        }
    }

    #[test]
    fn a_star_stops_at_a_slash() {
        assert!(covers("cgroup:/*/x", "/a/x"));
        assert!(!covers("cgroup:/*/x", "/a/b/x"));
        assert!(covers("cgroup:/**/x", "/a/b/x"));
    }

    #[test]
    fn the_root_rule_covers_everything() {
        assert!(covers("cgroup:/", "/"));
        assert!(covers("cgroup:/", "/a/b"));
    }

    #[test]
    fn a_unit_is_that_of_the_manager_which_is_named() {
        let users = "/user.slice/user-1000.slice/user@1000.service";
        for (path, system, user) in [
            ("/web@1.service", true, false),
            ("/system.slice/web@1.service", true, false),
            ("/a.slice/a-b.slice/web@2.service/sub", true, false),
            ("/web.service", false, false),
            ("/system.slice/_web@1.service", true, false),
            (&format!("{users}/web@1.service"), false, true),
            (&format!("{users}/app.slice/web@1.service/sub"), false, true),
            // a manager in a container
            (
                "/machine.slice/x.scope/system.slice/web@1.service",
                false,
                false,
            ),
            ("/lxc.payload.x/system.slice/web@1.service", false, false),
            (
                &format!("{users}/app.slice/x.scope/web@1.service"),
                false,
                false,
            ),
        ] {
            assert_eq!(covers("unit:web@*.service", path), system, "{path}");
            assert_eq!(covers("user-unit:web@*.service", path), user, "{path}");
        }
        assert!(covers(
            "unit:user@1000.service",
            &format!("{users}/app.slice/x.scope")
        ));
    }
}
