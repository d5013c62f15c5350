//! What stands behind a rule's colon: read, and refused where no task could ever match it.

use super::{KINDS, Manager, Matcher, Policy};
use crate::bpf::intf;
use crate::cgroup_path;
use std::path::PathBuf;

/// Longest thread name that the kernel keeps, in bytes.
pub(crate) const COMM_MAX: usize = intf::limits_COMM_LEN as usize - 1;
/// Longest name of a unit, in bytes.
const UNIT_MAX: usize = 255;
/// Types of units whose tasks have a cgroup.
const WITH_TASKS: [&str; 6] = ["service", "scope", "slice", "socket", "mount", "swap"];
/// Types of units that run nothing.
const WITHOUT_TASKS: [&str; 5] = ["target", "timer", "path", "device", "automount"];

/// What the rule `text` compares, or what is wrong with it.
pub(super) fn matcher(text: &str) -> Result<Matcher, String> {
    let (kind, value) = text.split_once(':').ok_or_else(|| without_kind(text))?;
    if value.is_empty() {
        return Err(format!("nothing after '{kind}:'"));
    }
    check_one(value)?;
    if kind != "comm" {
        check_plain(kind, value)?;
    }
    match kind {
        "cgroup" => cgroup_matcher(value),
        "unit" => unit_matcher(kind, value, Manager::System),
        "user-unit" => unit_matcher(kind, value, Manager::User),
        "label" => label_matcher(value),
        "exe" => exe_matcher(value),
        "comm" => comm_matcher(value),
        "user" => Ok(Matcher::User(value.to_owned())),
        "policy" => policy_matcher(value),
        "nice" => nice_matcher(value),
        _ => Err(format!("unknown kind '{kind}'; expected one of {KINDS}")),
    }
}

/// What is said of a rule without a kind: `nginx.service` and `/batch.slice` tell what they are.
fn without_kind(text: &str) -> String {
    let expected = format!("expected KIND:VALUE, one of {KINDS}");
    let kind = text.rsplit_once('.').map(|(_, kind)| kind);
    let is_unit = kind.is_some_and(|kind| WITH_TASKS.contains(&kind)) && !text.contains('/');
    match (is_unit, text.starts_with('/')) {
        (true, _) => format!("did you mean 'unit:{text}'? {expected}"),
        (_, true) => format!("did you mean 'cgroup:{text}', or 'exe:{text}'? {expected}"),
        _ => expected,
    }
}

/// Does a second rule follow behind a comma?
fn check_one(value: &str) -> Result<(), String> {
    let kinds = [
        "cgroup",
        "unit",
        "user-unit",
        "label",
        "exe",
        "comm",
        "user",
        "policy",
        "nice",
    ];
    let begins = |rest: &str| {
        let kind = rest.trim_start().split_once(':').map(|(kind, _)| kind);
        kind.is_some_and(|kind| kinds.contains(&kind))
    };
    match value.split(',').skip(1).find(|rest| begins(rest)) {
        Some(next) => Err(format!(
            "a rule names one thing; write another rule for '{}'",
            next.trim()
        )),
        None => Ok(()),
    }
}

/// Blanks or quotes around the value, or control characters in it, are none of its own.
fn check_plain(kind: &str, value: &str) -> Result<(), String> {
    if let Some(control) = value.chars().find(|c| c.is_control()) {
        return Err(format!(
            "holds {}; in TOML a backslash between double quotes begins an escape, in single quotes it \
             stands for itself",
            shown(control)
        ));
    }
    let bare = value.trim();
    let bare = ['"', '\'']
        .into_iter()
        .find_map(|quote| bare.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(bare);
    if bare.len() < value.len() {
        return Err(format!(
            "blanks or quotes stand around the value; did you mean '{kind}:{bare}'?"
        ));
    }
    Ok(())
}

fn shown(c: char) -> String {
    match c {
        ' ' => "a blank".to_owned(),
        _ => format!("'{}'", c.escape_debug()),
    }
}

fn pattern(value: &str) -> Result<glob::Pattern, String> {
    glob::Pattern::new(value).map_err(|e| format!("not a glob: {e}"))
}

/// The characters of a glob that no brackets hold.
fn outside_brackets(glob: &str) -> impl Iterator<Item = char> {
    let mut inside = false;
    glob.chars().filter(move |c| {
        let outside = !inside && *c != '[';
        inside = (inside && *c != ']') || (!inside && *c == '[');
        outside && *c != ']'
    })
}

fn cgroup_matcher(value: &str) -> Result<Matcher, String> {
    let path = cgroup_path::written(value)?;
    if outside_brackets(path).any(|c| ['{', '}'].contains(&c)) {
        return Err(
            "braces are not a pattern: write a rule for each name; '[{]' and '[}]' stand for themselves"
                .to_owned(),
        );
    }
    Ok(Matcher::Cgroup(pattern(path)?))
}

fn label_matcher(value: &str) -> Result<Matcher, String> {
    match value
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || "-_.".contains(*c)))
    {
        Some(stray) => Err(format!(
            "a label has letters, digits, '-', '_' and '.', not {}",
            shown(stray)
        )),
        None => Ok(Matcher::Label(value.to_owned())),
    }
}

fn unit_matcher(kind: &str, value: &str, manager: Manager) -> Result<Matcher, String> {
    if value.contains('/') {
        return Err("a unit's name has no '/'; use cgroup:GLOB for paths".to_owned());
    }
    let of_name = |c: &char| c.is_ascii_alphanumeric() || ":-_.\\@*?".contains(*c);
    if let Some(stray) = outside_brackets(value).find(|c| !of_name(c)) {
        return Err(format!(
            "no unit's name holds {}: a rule names one unit, or several by '*', '?' and '[...]'",
            shown(stray)
        ));
    }
    let Some((name, suffix)) = value.rsplit_once('.') else {
        return Err(format!(
            "a unit's name has a suffix; did you mean '{kind}:{value}.service'?"
        ));
    };
    check_unit(kind, value, name, suffix)?;
    let name = pattern(value)?;
    Ok(Matcher::Unit { name, manager })
}

/// Can a unit that has tasks be called so?
fn check_unit(kind: &str, value: &str, name: &str, suffix: &str) -> Result<(), String> {
    if WITHOUT_TASKS.contains(&suffix) {
        return Err(format!(
            "a {suffix} unit has no tasks; name the unit that has them, such as '{kind}:{name}.service'"
        ));
    }
    if !suffix.contains(['*', '?', '[', ']']) && !WITH_TASKS.contains(&suffix) {
        return Err(format!(
            "'.{suffix}' is no type of units; did you mean '{kind}:{value}.service'?"
        ));
    }
    if name.ends_with('@') {
        return Err(format!(
            "a template has no tasks, its instances have; did you mean '{kind}:{name}*.{suffix}'?"
        ));
    }
    if value == "-.slice" {
        return Err("the root slice is the cgroup root: write 'cgroup:/'".to_owned());
    }
    if name.is_empty() || value.len() > UNIT_MAX {
        return Err(format!(
            "a unit's name has 1 to {UNIT_MAX} bytes, its type included"
        ));
    }
    Ok(())
}

fn exe_matcher(value: &str) -> Result<Matcher, String> {
    if !value.starts_with('/') {
        return Err("an executable's path begins with '/'; use comm:NAME for a name".to_owned());
    }
    if value.ends_with('/') {
        return Err("a directory is not executed; name a file in it".to_owned());
    }
    if value.contains(['*', '?']) {
        return Err(
            "the path of one file, not a pattern: write a rule for each, or use comm:NAME* or cgroup:GLOB"
                .to_owned(),
        );
    }
    let path = PathBuf::from(value);
    match path.file_name() {
        Some(_) => Ok(Matcher::Exe(path)),
        None => Err("expected the path of a file".to_owned()),
    }
}

fn comm_matcher(value: &str) -> Result<Matcher, String> {
    let (name, prefix) = match value.strip_suffix('*') {
        Some(name) => (name, true),
        None => (value, false),
    };
    if name.contains('*') {
        return Err(
            "a thread name is exact, or its beginning with one '*' at the end; any other character stands \
             for itself"
                .to_owned(),
        );
    }
    if name.contains('\0') {
        return Err("no thread name holds a NUL byte".to_owned());
    }
    if name.len() > COMM_MAX {
        let kept = name.floor_char_boundary(COMM_MAX);
        return Err(format!(
            "the kernel keeps {COMM_MAX} bytes of a thread's name; write 'comm:{}*'",
            &name[..kept]
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

#[cfg(test)]
mod tests {
    use super::super::Rule;
    use super::*;

    fn matcher(text: &str) -> Matcher {
        text.parse::<Rule>().unwrap().matcher
    }

    fn refused(text: &str, remedy: &str) {
        let problem = text.parse::<Rule>().unwrap_err().to_string();
        assert!(problem.contains(remedy), "{problem}");
    }

    fn comm(name: &str, prefix: bool) -> Matcher {
        let name = name.to_owned();
        Matcher::Comm { name, prefix }
    }

    #[test]
    fn every_kind_is_understood() {
        assert!(matches!(
            matcher("cgroup:/system.slice/*"),
            Matcher::Cgroup(_)
        ));
        assert_eq!(
            matcher("exe:/usr/bin/gzip"),
            Matcher::Exe("/usr/bin/gzip".into())
        );
        assert_eq!(matcher("user:www-data"), Matcher::User("www-data".into()));
        assert_eq!(matcher("policy:idle"), Matcher::Policy(Policy::Idle));
        assert_eq!(matcher("nice:>=10"), Matcher::Nice { min: 10, max: 19 });
        assert_eq!(matcher("nice:<=-5"), Matcher::Nice { min: -20, max: -5 });
        assert_eq!(matcher("nice:=0"), Matcher::Nice { min: 0, max: 0 });
    }

    #[test]
    fn mistakes_name_the_remedy() {
        refused("nginx", "expected KIND:VALUE");
        refused("nginx.service", "did you mean 'unit:nginx.service'?");
        refused("/batch.slice", "did you mean 'cgroup:/batch.slice'");
        refused("group:x", "unknown kind 'group'");
        refused("nice:>=20", "between -20 and 19");
        refused("nice:>5", "nice:>=N");
        refused("policy:rt", "idle, batch or normal");
        refused("cgroup:", "nothing after");
        for kind in ["unit:a.service", "cgroup:/a", "exe:/a", "comm:a", "user:a"] {
            refused(&format!("{kind},comm:b"), "another rule for 'comm:b'");
            refused(&format!("{kind}, unit:b.service"), "'unit:b.service'");
        }
    }

    #[test]
    fn what_stands_around_a_value_is_not_part_of_it() {
        for value in ["unit:a.service", "cgroup:/a", "exe:/a", "user:a"] {
            let (kind, bare) = value.split_once(':').unwrap();
            let meant = format!("did you mean '{value}'?");
            for (before, after) in [("", " "), (" ", ""), ("\"", "\""), ("'", "'")] {
                refused(&format!("{kind}:{before}{bare}{after}"), &meant);
            }
            refused(&format!("{value}\t"), "'\\t'");
        }
    }

    #[test]
    fn a_path_of_a_cgroup_is_one_that_there_may_be() {
        for (path, remedy) in [
            ("system.slice", "'/system.slice'"),
            ("/sys/fs/cgroup/batch.slice", "'/batch.slice'"),
            ("/sys/fs/cgroup", "'/'"),
            ("/sys/fs/cgroup/unified/a/", "'/a'"),
            ("/a//b", "no cgroup's path"),
            ("/a/../b", "no cgroup's path"),
        ] {
            refused(&format!("cgroup:{path}"), remedy);
            assert!(
                cgroup_path::written(path).unwrap_err().contains(remedy),
                "{path}"
            );
        }
        refused("cgroup:/a[", "not a glob");
        refused("cgroup:/a-{b,c}.slice", "braces");
        assert!(matches!(matcher("cgroup:/a-[{]b"), Matcher::Cgroup(_)));
    }

    #[test]
    fn a_unit_is_one_that_may_have_tasks() {
        for name in [
            "a.service",
            "a@*.scope",
            "dev-\\x2d.swap",
            "a-[b c].*",
            "a.b.slice",
        ] {
            for (kind, manager) in [("unit", Manager::System), ("user-unit", Manager::User)] {
                let found = matcher(&format!("{kind}:{name}"));
                assert!(matches!(found, Matcher::Unit { manager: of, .. } if of == manager));
            }
        }
        refused("unit:nginx", "'unit:nginx.service'");
        refused("user-unit:nginx", "'user-unit:nginx.service'");
        refused("unit:a/b.service", "cgroup:GLOB");
        refused("unit:a b.service", "a blank");
        for stray in [',', '"', '\'', '{', '!', '~', 'é', '同'] {
            refused(&format!("unit:a{stray}b.service"), "no unit's name holds");
        }
        refused("unit:nginx.conf", "'unit:nginx.conf.service'");
        refused("unit:nightly.timer", "'unit:nightly.service'");
        refused("unit:web@.service", "'unit:web@*.service'");
        refused("unit:-.slice", "'cgroup:/'");
        refused("unit:.service", "1 to 255 bytes");
        refused(
            &format!("unit:{}.service", "a".repeat(248)),
            "1 to 255 bytes",
        );
    }

    #[test]
    fn an_executable_is_one_file() {
        refused("exe:gzip", "begins with '/'");
        refused("exe:/usr/bin/", "a directory");
        refused("exe:/usr/bin/..", "path of a file");
        refused("exe:/usr/bin/python3*", "not a pattern");
        refused("exe:/usr/bin/python?", "not a pattern");
        for path in [
            "/usr/bin/[",
            "/usr/bin/a b",
            &format!("/{}", "n".repeat(200)),
        ] {
            assert_eq!(matcher(&format!("exe:{path}")), Matcher::Exe(path.into()));
        }
    }

    #[test]
    fn thread_names_are_taken_literally_but_for_a_star_at_the_end() {
        assert_eq!(matcher("comm:redis*"), comm("redis", true));
        assert_eq!(
            matcher("comm:elasticsearch[m"),
            comm("elasticsearch[m", false)
        );
        assert_eq!(
            matcher("comm:elasticsearch[*"),
            comm("elasticsearch[", true)
        );
        for name in ["a?", "\"a\"", "a, b", " a ", "a]", "a{b}", "\t", "gc:1"] {
            assert_eq!(matcher(&format!("comm:{name}")), comm(name, false));
        }
        refused("comm:a*b", "one '*' at the end");
        refused("comm:a\0", "NUL");
    }

    #[test]
    fn a_thread_name_that_is_too_long_is_cut_to_one_that_matches() {
        refused("comm:a-name-of-16-byte", "'comm:a-name-of-16-by*'");
        for name in [
            "inner-job-同步",
            "同同同同同同",
            "\u{10ffff}234567890123456",
        ] {
            let error = format!("comm:{name}")
                .parse::<Rule>()
                .unwrap_err()
                .to_string();
            let (_, written) = error.split_once("write '").unwrap();
            let Matcher::Comm { name: kept, prefix } = matcher(written.trim_end_matches('\''))
            else {
                panic!("{error}");
            };
            assert!(
                prefix && !kept.is_empty() && name.starts_with(&kept),
                "{error}"
            );
        }
    }
}
