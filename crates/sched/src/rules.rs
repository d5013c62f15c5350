//! Class rules: one syntax for the configuration file and for flags.

use crate::Error;
use sidelane_policy::Budget;
pub use sidelane_policy::Class;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Longest thread name that the kernel keeps, in bytes.
const COMM_MAX: usize = 15;
/// Longest executable file name that the scheduler compares, in bytes.
const EXE_NAME_MAX: usize = 63;

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

/// What a rule compares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// Glob over the cgroup's path below the cgroup root, `/` first; a rule also
    /// covers everything below what it matches.
    Cgroup(glob::Pattern),
    /// systemd unit name: the last component of a cgroup's path, glob allowed.
    Unit(glob::Pattern),
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

/// `KIND:VALUE` as it was written, and what it means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    text: String,
    /// What the rule compares.
    pub matcher: Matcher,
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
pub const KINDS: &str = "cgroup:GLOB, unit:NAME, exe:PATH, comm:THREAD-NAME, user:NAME, policy:idle|batch|normal, nice:>=N";

impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = |problem: String| Error::Rule {
            rule: text.to_owned(),
            problem,
        };
        let (kind, value) = text
            .split_once(':')
            .ok_or_else(|| fail(format!("expected KIND:VALUE, one of {KINDS}")))?;
        if value.is_empty() {
            return Err(fail(format!("nothing after '{kind}:'")));
        }
        let matcher = match kind {
            "cgroup" => cgroup_matcher(value),
            "unit" => unit_matcher(value),
            "exe" => exe_matcher(value),
            "comm" => comm_matcher(value),
            "user" => Ok(Matcher::User(value.to_owned())),
            "policy" => policy_matcher(value),
            "nice" => nice_matcher(value),
            _ => Err(format!("unknown kind '{kind}'; expected one of {KINDS}")),
        }
        .map_err(fail)?;
        Ok(Rule {
            text: text.to_owned(),
            matcher,
        })
    }
}

fn pattern(value: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(value).map_err(|e| format!("not a glob: {e}"))
}

fn cgroup_matcher(value: &str) -> Result<Matcher, String> {
    if !value.starts_with('/') {
        return Err(format!(
            "a cgroup's path begins with '/' (the cgroup root); did you mean 'cgroup:/{value}'?"
        ));
    }
    let trimmed = if value.len() > 1 {
        value.trim_end_matches('/')
    } else {
        value
    };
    Ok(Matcher::Cgroup(pattern(trimmed)?))
}

fn unit_matcher(value: &str) -> Result<Matcher, String> {
    if value.contains('/') {
        return Err("a unit's name has no '/'; use cgroup:GLOB for paths".to_owned());
    }
    if !value.contains('.') {
        return Err(format!(
            "a unit's name has a suffix; did you mean 'unit:{value}.service'?"
        ));
    }
    Ok(Matcher::Unit(pattern(value)?))
}

fn exe_matcher(value: &str) -> Result<Matcher, String> {
    let path = PathBuf::from(value);
    if !path.is_absolute() {
        return Err("an executable's path begins with '/'; use comm:NAME for a name".to_owned());
    }
    match path.file_name() {
        Some(name) if name.len() <= EXE_NAME_MAX => Ok(Matcher::Exe(path)),
        Some(_) => Err(format!("the file name is longer than {EXE_NAME_MAX} bytes")),
        None => Err("expected the path of a file".to_owned()),
    }
}

fn comm_matcher(value: &str) -> Result<Matcher, String> {
    let (name, prefix) = match value.strip_suffix('*') {
        Some(name) => (name, true),
        None => (value, false),
    };
    if name.contains(['*', '?', '[']) {
        return Err("a thread name is exact, or ends with one '*'".to_owned());
    }
    if name.len() > COMM_MAX {
        return Err(format!(
            "the kernel keeps {COMM_MAX} bytes of a thread's name; write 'comm:{}'",
            name.get(..COMM_MAX).unwrap_or_default()
        ));
    }
    Ok(Matcher::Comm {
        name: name.to_owned(),
        prefix,
    })
}

fn policy_matcher(value: &str) -> Result<Matcher, String> {
    match value {
        "idle" => Ok(Matcher::Policy(Policy::Idle)),
        "batch" => Ok(Matcher::Policy(Policy::Batch)),
        "normal" => Ok(Matcher::Policy(Policy::Normal)),
        _ => Err(format!(
            "unknown policy '{value}'; expected idle, batch or normal"
        )),
    }
}

fn nice_matcher(value: &str) -> Result<Matcher, String> {
    const RANGE: std::ops::RangeInclusive<i32> = -20..=19;
    let number = value.trim_start_matches(['<', '>', '=']);
    let nice: i32 = number
        .parse()
        .ok()
        .filter(|n| RANGE.contains(n))
        .ok_or_else(|| format!("'{number}' is not a nice value between -20 and 19"))?;
    let (min, max) = match value.strip_suffix(number) {
        Some(">=") => (nice, *RANGE.end()),
        Some("<=") => (*RANGE.start(), nice),
        Some("=") | Some("") => (nice, nice),
        _ => return Err("expected nice:>=N, nice:<=N or nice:=N".to_owned()),
    };
    Ok(Matcher::Nice { min, max })
}

/// Does the rule match a cgroup or one of its ancestors? `path` begins with `/`.
/// False for rules that do not look at cgroups.
pub fn matches_cgroup(matcher: &Matcher, path: &str) -> bool {
    const PATHS: glob::MatchOptions = glob::MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: false,
    };
    let mut at = path;
    loop {
        let hit = match matcher {
            Matcher::Cgroup(glob) => glob.matches_with(at, PATHS),
            Matcher::Unit(glob) => at
                .rsplit('/')
                .next()
                .is_some_and(|name| glob.matches_with(name, PATHS)),
            _ => return false,
        };
        if hit {
            return true;
        }
        if at == "/" {
            return false;
        }
        at = match at.rfind('/') {
            Some(0) | None => "/",
            Some(slash) => &at[..slash],
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(text: &str) -> Matcher {
        text.parse::<Rule>().unwrap().matcher
    }

    fn problem(text: &str) -> String {
        text.parse::<Rule>().unwrap_err().to_string()
    }

    #[test]
    fn every_kind_is_understood() {
        assert!(matches!(
            matcher("cgroup:/system.slice/*"),
            Matcher::Cgroup(_)
        ));
        assert!(matches!(matcher("unit:nginx.service"), Matcher::Unit(_)));
        assert_eq!(
            matcher("exe:/usr/bin/gzip"),
            Matcher::Exe("/usr/bin/gzip".into())
        );
        assert_eq!(
            matcher("comm:redis*"),
            Matcher::Comm {
                name: "redis".into(),
                prefix: true
            }
        );
        assert_eq!(matcher("user:www-data"), Matcher::User("www-data".into()));
        assert_eq!(matcher("policy:idle"), Matcher::Policy(Policy::Idle));
        assert_eq!(matcher("nice:>=10"), Matcher::Nice { min: 10, max: 19 });
        assert_eq!(matcher("nice:<=-5"), Matcher::Nice { min: -20, max: -5 });
        assert_eq!(matcher("nice:=0"), Matcher::Nice { min: 0, max: 0 });
    }

    #[test]
    fn mistakes_name_the_remedy() {
        assert!(problem("nginx").contains("expected KIND:VALUE"));
        assert!(problem("group:x").contains("unknown kind 'group'"));
        assert!(problem("cgroup:system.slice").contains("cgroup:/system.slice"));
        assert!(problem("unit:nginx").contains("unit:nginx.service"));
        assert!(problem("exe:gzip").contains("begins with '/'"));
        assert!(problem("comm:a-name-of-16-byte").contains("comm:a-name-of-16-by"));
        assert!(problem("nice:>=20").contains("between -20 and 19"));
        assert!(problem("nice:>5").contains("nice:>=N"));
        assert!(problem("policy:rt").contains("idle, batch or normal"));
        assert!(problem("cgroup:").contains("nothing after"));
        assert!(problem("cgroup:/a[").contains("not a glob"));
    }

    #[test]
    fn a_cgroup_rule_covers_what_is_below() {
        let rule = matcher("cgroup:/system.slice/nginx.service");
        assert!(matches_cgroup(&rule, "/system.slice/nginx.service"));
        assert!(matches_cgroup(&rule, "/system.slice/nginx.service/worker"));
        assert!(!matches_cgroup(&rule, "/system.slice"));
        assert!(!matches_cgroup(&rule, "/system.slice/nginx.service2"));
    }

    #[test]
    fn a_star_stops_at_a_slash() {
        let rule = matcher("cgroup:/*/x");
        assert!(matches_cgroup(&rule, "/a/x"));
        assert!(!matches_cgroup(&rule, "/a/b/x"));
        assert!(matches_cgroup(&matcher("cgroup:/**/x"), "/a/b/x"));
    }

    #[test]
    fn a_unit_is_found_at_any_depth() {
        let rule = matcher("unit:web@*.service");
        assert!(matches_cgroup(&rule, "/system.slice/web@1.service"));
        assert!(matches_cgroup(&rule, "/a/b/web@2.service/sub"));
        assert!(!matches_cgroup(&rule, "/web.service"));
    }

    #[test]
    fn the_root_rule_covers_everything() {
        let rule = matcher("cgroup:/");
        assert!(matches_cgroup(&rule, "/"));
        assert!(matches_cgroup(&rule, "/a/b"));
    }
}
