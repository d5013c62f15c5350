//! A service of the operator's own: its cgroups by name, what they are labelled, and what SMT costs it now.

use crate::daemon::nothing_to_do;
use crate::{Error, Result};
use sidelane_collect::collector::Place;
use sidelane_collect::service::{Members, ServiceWatch};
use sidelane_kernel::cgroups;
pub use sidelane_kernel::cgroups::Label;
use sidelane_sched::rules::{Matcher, matches_cgroup};
use sidelane_sched::{Class, ClassRule, Objective, Rule};
use sidelane_smt::service::{Answer, NoSmt, answer};
use sidelane_smt::snapshot::Rates;
use sidelane_topology::{CpuList, Topology, printable};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often a watch looks whether the end has come.
pub(crate) const POLL: Duration = Duration::from_millis(50);

/// A service by its name.
#[derive(Debug, Clone)]
pub struct Service {
    /// As it was written.
    pub name: String,
    /// The rule that finds it.
    pub rule: Rule,
}

impl Service {
    /// Reads `nginx.service`, `unit:nginx.service`, `user-unit:NAME`, `cgroup:/PATH` or `/PATH`.
    ///
    /// # Errors
    /// It is none of them.
    pub fn parse(name: &str) -> Result<Service> {
        let text = match name {
            path if path.starts_with('/') => format!("cgroup:{path}"),
            rule if rule.contains(':') && !rule.contains('@') => rule.to_owned(),
            rule if KINDS.iter().any(|kind| rule.starts_with(kind)) => rule.to_owned(),
            unit => format!("unit:{unit}"),
        };
        let rule: Rule = text.parse()?;
        check_by_cgroup(&rule)?;
        let name = name.to_owned();
        Ok(Service { name, rule })
    }

    /// Its cgroup, by path from the cgroup root: the only one that holds all others of it.
    ///
    /// # Errors
    /// Cgroups cannot be listed, or there are none or several.
    pub fn cgroup(&self, root: &Path) -> Result<String> {
        match &self.cgroups(root)?[..] {
            [one] => Ok(one.clone()),
            several => Err(Error::SeveralCgroups {
                rule: self.rule.to_string(),
                found: printable(several.join(", ").as_bytes()),
            }),
        }
    }

    /// Its cgroups, without those below another of them; there is one at least.
    fn cgroups(&self, root: &Path) -> Result<Vec<String>> {
        let Cgroups(all) = Cgroups::read(root)?;
        let top = topmost(&self.rule, all.into_values());
        match top.is_empty() {
            false => Ok(top),
            true => Err(Error::NoCgroup {
                rule: self.rule.to_string(),
            }),
        }
    }

    /// The rule by which the scheduler knows it.
    pub(crate) fn critical(&self) -> ClassRule {
        ClassRule::new(Class::Critical, self.rule.clone())
    }
}

/// Rules that look at cgroups.
const KINDS: [&str; 3] = ["unit:", "user-unit:", "cgroup:"];

/// Only those are counted as a whole: threads that come and go count in their cgroup.
///
/// # Errors
/// The rule looks at something else.
pub fn check_by_cgroup(rule: &Rule) -> Result<()> {
    match rule.matcher {
        Matcher::Cgroup(_) | Matcher::Unit { .. } => Ok(()),
        _ => Err(Error::NotByCgroup {
            rule: rule.to_string(),
        }),
    }
}

/// Of these cgroups those that the rule finds, without those below them.
fn topmost(rule: &Rule, paths: impl Iterator<Item = String>) -> Vec<String> {
    cgroups::topmost(paths.filter(|path| matches_cgroup(&rule.matcher, path)))
}

/// The cgroups that there are now.
struct Cgroups(HashMap<u64, String>);

impl Cgroups {
    fn read(root: &Path) -> Result<Cgroups> {
        let mount = sidelane_sched::signal::lanes::mount_point(root)?;
        Ok(Cgroups(cgroups::list(&mount)))
    }

    /// The ids of those that a rule finds.
    fn of(&self, rule: &Rule) -> Vec<u64> {
        let matches = |(_, path): &(&u64, &String)| matches_cgroup(&rule.matcher, path);
        self.0.iter().filter(matches).map(|(id, _)| *id).collect()
    }

    /// The same; there has to be one.
    fn some(&self, rule: &Rule) -> Result<Vec<u64>> {
        let ids = self.of(rule);
        match ids.is_empty() {
            false => Ok(ids),
            true => Err(Error::NoCgroup {
                rule: rule.to_string(),
            }),
        }
    }
}

/// The cgroups of a task, or those that a name finds, but for those below another of them.
fn named(target: &str, root: &Path) -> Result<Vec<String>> {
    if let Ok(pid) = target.parse::<u32>() {
        let file = root.join(format!("proc/{pid}/cgroup"));
        let text = fs::read_to_string(&file).map_err(|e| Error::io("read", &file, e))?;
        let path = text.lines().find_map(|line| line.strip_prefix("0::"));
        return match path {
            Some(path) => Ok(vec![path.to_owned()]),
            None => Err(Error::NoCgroup {
                rule: format!("task {pid}"),
            }),
        };
    }
    Service::parse(target)?.cgroups(root)
}

/// Labels the cgroups of a service, or of a task by its number, so that rules `label:WORD` find them and what is below; without
/// a label takes theirs away. Returns their paths.
///
/// # Errors
/// A malformed word or objective, no such cgroup, or no right to write there.
pub fn mark(target: &str, label: Option<&Label>, root: &Path) -> Result<Vec<String>> {
    if let Some(label) = label {
        format!("label:{}", label.word).parse::<Rule>()?;
        let objective = label.objective.as_deref().map(str::parse::<Objective>);
        objective.transpose().map_err(Error::Objective)?;
    }
    let mount = sidelane_sched::signal::lanes::mount_point(root)?;
    let paths = named(target, root)?;
    for path in &paths {
        cgroups::set_label(&mount, path, label)
            .map_err(|e| Error::io("label", &cgroups::folder(&mount, path), e))?;
    }
    Ok(paths)
}

/// The ids of the cgroups that these rules find now. Batch may have come or be done.
///
/// # Errors
/// Cgroups cannot be listed, or the service's rule finds none.
pub(crate) fn members(service: &Service, batch: &[Rule], root: &Path) -> Result<Members> {
    let cgroups = Cgroups::read(root)?;
    Ok(Members {
        service: cgroups.some(&service.rule)?,
        batch: batch.iter().flat_map(|rule| cgroups.of(rule)).collect(),
    })
}

/// Does each of these rules find a cgroup?
///
/// # Errors
/// Cgroups cannot be listed, or the first rule that finds none.
pub(crate) fn check_found(service: &Service, batch: &[Rule], root: &Path) -> Result<()> {
    let cgroups = Cgroups::read(root)?;
    let mut rules = batch.iter().chain([&service.rule]);
    rules.try_for_each(|rule| cgroups.some(rule).map(drop))
}

/// What SMT costs a service, or why nothing is to be said.
#[derive(Debug, Clone)]
pub enum Asked {
    /// There is no SMT.
    NoSmt(NoSmt),
    /// The answer.
    Answered(Box<Answer>),
}

/// Watches a service for so long, or until `stop`, with whatever scheduler there is. `rates`: speeds of lanes,
/// for machines that count no instructions.
///
/// # Errors
/// No such cgroup, no privilege, or a kernel without what is needed.
pub fn ask(service: &Service, rates: &Rates, length: Duration, stop: &AtomicBool) -> Result<Asked> {
    let root = Path::new("/");
    if let Some(why) = nothing_to_do(&Topology::read(root)?, &CpuList::new()) {
        return Ok(Asked::NoSmt(NoSmt::new(&service.name, why)));
    }
    let members = members(service, &[], root)?;
    let mut place = Place::default();
    let mut watch = ServiceWatch::start(&members, &mut place)?;
    let end = Instant::now() + length;
    while Instant::now() < end && !stop.load(Ordering::Relaxed) {
        std::thread::sleep(POLL);
    }
    Ok(Asked::Answered(Box::new(answer(
        &service.name,
        &watch.read()?,
        rates,
    ))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_as_operators_do() {
        for (name, rule) in [
            ("nginx.service", "unit:nginx.service"),
            ("web@1.service", "unit:web@1.service"),
            ("unit:web@1.service", "unit:web@1.service"),
            ("/kubepods/x", "cgroup:/kubepods/x"),
            ("cgroup:/a", "cgroup:/a"),
        ] {
            assert_eq!(Service::parse(name).unwrap().rule.to_string(), rule);
        }
        let cgroups = [
            "/a.slice/web.service/x",
            "/a.slice/web.service",
            "/b.slice/web.service",
        ];
        let top = |rule: &str| {
            let cgroups = cgroups.into_iter().map(str::to_owned);
            topmost(&rule.parse().unwrap(), cgroups)
        };
        assert_eq!(top("unit:web.service"), [cgroups[1], cgroups[2]]);
        assert_eq!(top("cgroup:/a.slice/web.service"), [cgroups[1]]);
        assert!(top("cgroup:/none").is_empty());
        for (name, part) in [
            ("nginx", "did you mean 'unit:nginx.service'"),
            ("comm:redis", "counts by cgroups"),
        ] {
            let error = Service::parse(name).unwrap_err();
            assert!(
                error.is_input() && error.to_string().contains(part),
                "{error}"
            );
        }
    }
}
