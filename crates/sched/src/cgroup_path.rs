//! Paths of cgroups: as they are written, and those around them.

/// Where the cgroup hierarchy is usually mounted; the longer ones first.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// A path, and those of the cgroups around it, up to the root.
pub(crate) fn up(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |at| match at.rfind('/') {
        Some(0) if at.len() > 1 => Some("/"),
        Some(slash) if slash > 0 => Some(&at[..slash]),
        _ => None,
    })
}

/// A cgroup's path as it is written, without slashes at its end.
///
/// # Errors
/// No cgroup has such a path: it does not begin with '/', is one of the file system, or has empty names,
/// `.` or `..` in it.
pub(crate) fn written(value: &str) -> Result<&str, String> {
    if !value.starts_with('/') {
        return Err(format!(
            "a cgroup's path begins with '/' (the cgroup root); did you mean '/{value}'?"
        ));
    }
    let below = |mount: &&str| {
        let rest = value.strip_prefix(mount)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    if let Some(rest) = MOUNTS.iter().find_map(below) {
        let rest = rest.trim_matches('/');
        return Err(format!(
            "paths of cgroups begin below the mount point; did you mean '/{rest}'?"
        ));
    }
    let path = value.trim_end_matches('/');
    if path.is_empty() {
        return Ok("/");
    }
    if path
        .split('/')
        .skip(1)
        .any(|name| ["", ".", ".."].contains(&name))
    {
        return Err("no cgroup's path has '//', '/./' or '/../' in it".to_owned());
    }
    Ok(path)
}

/// Names of cgroups are full of systemd's `\x2d`, which TOML reads as `-` between double quotes: then the name is
/// another one. `raw`: a string as it stands in the file, `value`: as it was read.
pub(crate) fn lost_escape(raw: &str, value: &str) -> Option<String> {
    let inner = raw.trim_matches('"');
    if inner.len() == raw.len() || value.starts_with("comm:") {
        return None; // a thread's name may hold any bytes
    }
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        let escape = &rest[at..];
        if escape.starts_with("\\x") {
            let shown: String = escape.chars().take(4).collect();
            return Some(format!(
                "between double quotes TOML reads '{shown}' as an escape; in single quotes it stands for \
                 itself: '{inner}'"
            ));
        }
        rest = escape.get(2..).unwrap_or_default();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_at_the_end_are_no_part_of_a_path() {
        assert_eq!(written("/a/b/"), Ok("/a/b"));
        assert_eq!(written("/"), Ok("/"));
        assert_eq!(written("/sys/fs/cgroups"), Ok("/sys/fs/cgroups"));
    }

    #[test]
    fn an_escape_that_toml_reads_is_noticed() {
        let lost = |raw: &str, value: &str| lost_escape(raw, value).unwrap_or_default();
        let hint = lost(r#""unit:dev-a\x2db.swap""#, "unit:dev-a-b.swap");
        assert!(
            hint.contains(r"'\x2d'") && hint.contains(r"'unit:dev-a\x2db.swap'"),
            "{hint}"
        );
        assert_eq!(lost(r"'unit:dev-a\x2db.swap'", r"unit:dev-a\x2db.swap"), "");
        assert_eq!(
            lost(r#""unit:dev-a\\x2db.swap""#, r"unit:dev-a\x2db.swap"),
            ""
        );
    }
}
