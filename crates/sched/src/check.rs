//! What a configuration's rules find on this machine now, without attaching anything.

use crate::cgroups;
use crate::rules::{Class, ClassRule, Matcher, matches_cgroup};
use crate::{Config, Error, resolve};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// At most so many cgroups of a rule are named.
const NAMED_MAX: usize = 3;

/// A configuration that was read, and what its rules find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// In the order in which they are tried.
    pub rules: Vec<RuleCheck>,
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

/// Looks up what the rules of `config` name, below `root` (`/` for this machine). Needs no
/// privilege.
///
/// # Errors
/// As when attaching: too many rules, or a user that does not exist.
pub fn check(config: &Config, root: &Path) -> Result<Check, Error> {
    let table = resolve::table(&config.rules)?;
    let groups = cgroups_below(root);
    let rules = config.rules.iter().zip(&table).map(|(entry, resolved)| {
        let finds = match &entry.rule.matcher {
            Matcher::Cgroup(_) | Matcher::Unit(_) => Finds::Cgroups(matching(entry, &groups)),
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
            finds,
        }
    });
    Ok(Check {
        rules: rules.collect(),
    })
}

/// The paths of all cgroups, ascending; none where cgroup v2 is not mounted.
fn cgroups_below(root: &Path) -> Vec<String> {
    let mount = cgroups::mount_point(root).ok().flatten();
    let mount = mount.map(|at| root.join(at.strip_prefix("/").unwrap_or(&at)));
    let mut paths: Vec<String> = mount
        .map(|mount| cgroups::list(&mount).into_values().collect())
        .unwrap_or_default();
    paths.sort();
    paths
}

/// Those that the rule matches, without those below another match.
fn matching(entry: &ClassRule, groups: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let matches = |path: &&String| matches_cgroup(&entry.rule.matcher, path);
    for path in groups.iter().filter(matches) {
        let below = |top: &String| top == "/" || path.starts_with(&format!("{top}/"));
        if !found.iter().any(below) {
            found.push(path.clone());
        }
    }
    found
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

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rules.is_empty() {
            return writeln!(
                f,
                "No rules: only policies and nice values tell batch from normal."
            );
        }
        let width = self.rules.iter().map(|r| r.rule.len()).max().unwrap_or(0);
        for RuleCheck { class, rule, finds } in &self.rules {
            writeln!(f, "{:<8}  {rule:<width$}  {finds}", class.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn config(rules: &[&str]) -> Config {
        let class = Class::Critical;
        let rules = rules.iter().map(|text| ClassRule {
            class,
            rule: text.parse().unwrap(),
            budget: None,
        });
        Config {
            rules: rules.collect(),
            ..Config::default()
        }
    }

    #[test]
    fn rules_find_cgroups_files_and_users() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let mounts = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n";
        fs::write(root.path().join("proc/self/mounts"), mounts).unwrap();
        let groups = root.path().join("sys/fs/cgroup");
        for name in ["system.slice/web.service/worker", "batch.slice/nightly"] {
            fs::create_dir_all(groups.join(name)).unwrap();
        }
        let config = config(&[
            "unit:web.service",
            "cgroup:/batch",
            "exe:/no/such/file",
            "user:0",
            "nice:>=5",
        ]);
        let check = check(&config, root.path()).unwrap();
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
    fn a_rule_for_everything_names_the_root_alone() {
        let groups = ["/", "/a", "/a/b"].map(str::to_owned);
        let config = config(&["cgroup:/**"]);
        assert_eq!(matching(&config.rules[0], &groups), ["/"]);
    }

    #[test]
    fn the_table_has_a_line_for_each_rule() {
        let check = check(&config(&["user:0", "comm:redis*"]), Path::new("/nowhere")).unwrap();
        let text = check.to_string();
        assert_eq!(
            text,
            "critical  user:0       uid 0\ncritical  comm:redis*  looked up for each task\n"
        );
    }
}
