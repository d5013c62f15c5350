//! Class rules: one syntax for the configuration file and for flags.

mod covers;
mod value;

pub use covers::matches_cgroup;
pub(crate) use value::{COMM_MAX, cgroup_path, lost_escape};

use crate::Error;
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
    /// The rule, as one that stands at `origin`: `FILE:LINE:COLUMN`, or a flag.
    pub fn at(self, origin: String) -> Rule {
        Rule {
            origin: Some(origin),
            ..self
        }
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

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The kinds of rules, for error messages and help.
pub const KINDS: &str = "cgroup:GLOB, unit:NAME, user-unit:NAME, exe:PATH, comm:THREAD-NAME, user:NAME, policy:idle|batch|normal, nice:>=N";

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let matcher = value::matcher(text).map_err(|problem| Error::Rule {
            origin: None,
            rule: text.to_owned(),
            problem,
        })?;
        Ok(Rule {
            text: text.to_owned(),
            matcher,
            origin: None,
        })
    }
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
    }
}
