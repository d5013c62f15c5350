//! Which cgroups a rule covers.

use super::{Manager, Matcher};
use crate::cgroups::up;

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
    use super::super::Rule;
    use super::*;

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
