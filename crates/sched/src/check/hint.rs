//! Rules that may well never match, and what their writer may have meant.

use super::Finds;
use crate::rules::{COMM_MAX, ClassRule, Manager, Matcher, matches_cgroup};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Why the rule may never match, and what would; `groups`: all cgroups.
pub(super) fn of(entry: &ClassRule, finds: &Finds, groups: &[String]) -> Option<String> {
    match (&entry.rule.matcher, finds) {
        (Matcher::Unit { name, manager }, Finds::Cgroups(found)) if found.is_empty() => {
            of_unit(name, *manager, groups)
        }
        (Matcher::Label(word), Finds::Cgroups(found)) if found.is_empty() => Some(format!(
            "no cgroup has this label: 'sidelane mark CGROUP {word}' gives it to one"
        )),
        (Matcher::Exe(path), Finds::Executable(Some(_))) => of_file(path),
        (Matcher::Exe(path), Finds::Executable(None)) => {
            let path = path.to_string_lossy();
            let literal = "the path of one file: brackets and braces stand for themselves";
            path.contains(['[', ']', '{', '}'])
                .then(|| literal.to_owned())
        }
        _ => None,
    }
}

/// Of a unit that is not there.
fn of_unit(name: &glob::Pattern, manager: Manager, groups: &[String]) -> Option<String> {
    let (other, hint) = match manager {
        Manager::System => (Manager::User, "units of users are 'user-unit:"),
        Manager::User => (Manager::System, "units of the system are 'unit:"),
    };
    let elsewhere = Matcher::Unit {
        name: name.clone(),
        manager: other,
    };
    if groups.iter().any(|path| matches_cgroup(&elsewhere, path)) {
        return Some(format!("{hint}{name}'"));
    }
    let text = name.as_str();
    let bare = text
        .match_indices("x2d")
        .any(|(at, _)| !text[..at].ends_with('\\'));
    bare.then(|| {
        "systemd's escapes keep their backslash: '\\x2d'; a shell drops it unless the rule stands in single \
         quotes"
            .to_owned()
    })
}

/// Of a file that is there.
fn of_file(path: &Path) -> Option<String> {
    let mut begin = [0; 2];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    if read.is_ok() && begin == *b"#!" {
        let name = path.file_name()?.to_string_lossy();
        let kept = &name[..name.floor_char_boundary(COMM_MAX)];
        return Some(format!(
            "a script: its tasks run its interpreter; if it is started by itself their name is 'comm:{kept}*'"
        ));
    }
    let mode = fs::metadata(path).ok()?.permissions().mode();
    (mode & 0o111 == 0).then(|| "not executable: nothing runs it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups;
    use crate::rules::Class;
    use std::os::unix::fs::OpenOptionsExt;

    fn hint(rule: &str, groups: &[&str]) -> String {
        let entry = ClassRule::new(Class::Batch, rule.parse().unwrap());
        let groups: Vec<String> = groups.iter().map(|path| (*path).to_owned()).collect();
        let finds = match &entry.rule.matcher {
            Matcher::Exe(path) => {
                let there = path.exists().then(|| path.display().to_string());
                Finds::Executable(there)
            }
            _ => Finds::Cgroups(super::super::matching(
                &entry,
                &groups,
                &cgroups::Labels::new(),
            )),
        };
        of(&entry, &finds, &groups).unwrap_or_default()
    }

    #[test]
    fn a_unit_of_the_other_manager_is_named() {
        let system = "/system.slice/a.service";
        let user = "/user.slice/user-1.slice/user@1.service/app.slice/a.service";
        assert!(hint("unit:a.service", &[user]).contains("'user-unit:a.service'"));
        assert!(hint("user-unit:a.service", &[system]).contains("'unit:a.service'"));
        assert_eq!(hint("unit:a.service", &[user, system]), "");
        assert_eq!(hint("unit:a.service", &[]), "");
    }

    #[test]
    fn a_label_that_no_cgroup_has_may_be_given() {
        assert!(hint("label:late", &["/a"]).contains("'sidelane mark CGROUP late'"));
    }

    #[test]
    fn an_escape_without_its_backslash_is_noticed() {
        assert!(hint("unit:dev-ax2db.swap", &[]).contains("single quotes"));
        assert_eq!(hint(r"unit:dev-a\x2db.swap", &[]), "");
    }

    #[test]
    fn files_that_no_task_runs_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let rule = |name: &str, text: &str, mode| {
            let path = folder.path().join(name);
            let mut options = fs::OpenOptions::new();
            let file = options.create(true).write(true).mode(mode).open(&path);
            std::io::Write::write_all(&mut file.unwrap(), text.as_bytes()).unwrap();
            hint(&format!("exe:{}", path.display()), &[])
        };
        assert!(rule("script", "#!/bin/sh\n", 0o755).contains("'comm:script*'"));
        assert!(rule("data", "data", 0o644).contains("not executable"));
        assert_eq!(rule("program", "\x7fELF", 0o755), "");
        assert!(hint("exe:/no/such[1]", &[]).contains("brackets"));
        assert_eq!(hint("exe:/no/such", &[]), "");
    }
}
