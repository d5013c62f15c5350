//! Rules as the BPF side compares them: user ids, inode numbers, policy numbers.

use crate::Error;
use crate::bpf::{bytes_of, intf, zeroed};
use crate::rules::{ClassRule, Matcher, Policy, Rule};
use sidelane_policy::Budget;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// No file has this inode number: the rule matches nothing for now.
const NO_INODE: u64 = 0;
/// A rule without a budget of its own.
pub(crate) const INHERIT: intf::budget = intf::budget {
    policy: intf::budget_policy_BUDGET_INHERIT,
    beyond: 0,
    budget_ns: 0,
    objective_ns: 0,
};

/// The table for the `rules` map.
///
/// # Errors
/// [`Error::Rule`] for a user that does not exist, and for a folder in place of an executable. An
/// executable that does not exist (yet) is no error.
pub(crate) fn table(rules: &[ClassRule]) -> Result<Vec<intf::rule>, Error> {
    rules.iter().map(entry).collect()
}

/// Looks executables up again: they may have been replaced. True: some were.
pub(crate) fn follow(table: &mut [intf::rule], rules: &[ClassRule]) -> bool {
    let mut replaced = false;
    for (entry, class_rule) in table.iter_mut().zip(rules) {
        if let Matcher::Exe(path) = &class_rule.rule.matcher {
            let before = *entry;
            exe(entry, path);
            replaced |= bytes_of(&before) != bytes_of(entry);
        }
    }
    replaced
}

fn entry(class_rule: &ClassRule) -> Result<intf::rule, Error> {
    let mut entry = intf::rule {
        class: class_rule.class as u32,
        budget: class_rule.budget.as_ref().map_or(INHERIT, Budget::native),
        ..zeroed()
    };
    match &class_rule.rule.matcher {
        Matcher::Cgroup(_) | Matcher::Unit { .. } | Matcher::Label(_) => {
            entry.kind = intf::rule_kind_RULE_CGROUP
        }
        Matcher::Exe(path) => {
            entry.kind = intf::rule_kind_RULE_EXE;
            if path.is_dir() {
                let problem = "a directory is not executed; name a file in it";
                return Err(class_rule.rule.error(problem.to_owned()));
            }
            exe(&mut entry, path);
        }
        Matcher::Comm { name, prefix } => {
            entry.kind = intf::rule_kind_RULE_COMM;
            entry.prefix = u32::from(*prefix);
            set_text(&mut entry, name.as_bytes());
        }
        Matcher::User(name) => {
            entry.kind = intf::rule_kind_RULE_USER;
            entry.uid = uid(&class_rule.rule, name)?;
        }
        Matcher::Policy(policy) => {
            entry.kind = intf::rule_kind_RULE_POLICY;
            entry.policy = match policy {
                Policy::Normal => libc::SCHED_OTHER as u32,
                Policy::Batch => libc::SCHED_BATCH as u32,
                Policy::Idle => libc::SCHED_IDLE as u32,
            };
        }
        Matcher::Nice { min, max } => {
            entry.kind = intf::rule_kind_RULE_NICE;
            (entry.nice_min, entry.nice_max) = (*min, *max);
        }
    }
    Ok(entry)
}

/// Inode number and file name of what the path leads to now.
fn exe(entry: &mut intf::rule, path: &Path) {
    entry.exe_inode = NO_INODE;
    entry.text.fill(0);
    let Ok(target) = path.canonicalize() else {
        return;
    };
    let Ok(metadata) = target.metadata() else {
        return;
    };
    entry.exe_inode = metadata.ino();
    if let Some(name) = target.file_name() {
        set_text(entry, name.as_encoded_bytes());
    }
}

fn set_text(entry: &mut intf::rule, text: &[u8]) {
    let len = text.len().min(entry.text.len() - 1);
    for (to, from) in entry.text.iter_mut().zip(&text[..len]) {
        *to = *from as libc::c_char;
    }
    entry.text_len = len as u32;
}

fn uid(rule: &Rule, name: &str) -> Result<u32, Error> {
    if let Ok(uid) = name.parse() {
        return Ok(uid);
    }
    match nix::unistd::User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(rule.error(format!(
            "there is no user '{name}'; write a number for users of containers"
        ))),
        Err(e) => Err(rule.error(format!("cannot look up user '{name}': {e}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::Class;

    fn resolve(text: &str) -> Result<intf::rule, Error> {
        entry(&ClassRule {
            class: Class::Batch,
            rule: text.parse().unwrap(),
            budget: None,
        })
    }

    #[test]
    fn an_executable_is_known_by_inode_and_name() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("server-1.2");
        std::fs::write(&target, "").unwrap();
        let link = folder.path().join("server");
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let entry = resolve(&format!("exe:{}", link.display())).unwrap();
        assert_eq!(entry.exe_inode, target.metadata().unwrap().ino());
        assert_eq!(entry.text_len as usize, "server-1.2".len());
    }

    #[test]
    fn a_missing_executable_matches_nothing_until_it_is_there() {
        assert_eq!(resolve("exe:/nowhere/server").unwrap().exe_inode, NO_INODE);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s".repeat(200));
        let text = format!("exe:{}", path.display());
        let rules =
            ["user:0", &text].map(|text| ClassRule::new(Class::Batch, text.parse().unwrap()));
        let mut table = table(&rules).unwrap();
        assert!(!follow(&mut table, &rules));
        std::fs::write(&path, "").unwrap();
        assert!(follow(&mut table, &rules));
        assert_eq!(table[1].exe_inode, path.metadata().unwrap().ino());
        assert_eq!(table[1].text_len, intf::limits_EXE_NAME_LEN - 1);
        std::fs::remove_file(&path).unwrap();
        assert!(follow(&mut table, &rules));
    }

    #[test]
    fn a_folder_is_no_executable() {
        let error = resolve("exe:/proc").unwrap_err().to_string();
        assert!(error.contains("'exe:/proc': a directory"), "{error}");
    }

    #[test]
    fn users_are_numbers_or_names() {
        assert_eq!(resolve("user:12").unwrap().uid, 12);
        assert_eq!(resolve("user:root").unwrap().uid, 0);
        let unknown: Rule = "user:no-such-user".parse().unwrap();
        let rule = ClassRule::new(Class::Batch, unknown.at("a.toml:3:9".to_owned()));
        let error = entry(&rule).unwrap_err().to_string();
        let told = "a.toml:3:9: rule 'user:no-such-user': there is no user";
        assert!(error.starts_with(told), "{error}");
    }
}
