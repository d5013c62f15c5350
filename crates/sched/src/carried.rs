//! What outlives an attachment: settings that were tuned, and budgets that were learnt.
//!
//! When lanes come or go the kernel asks for the scheduler to be loaded again. What an operator or
//! `sidelane control` changed meanwhile stays, and what became of objectives is not learnt anew.

use crate::Config;
use crate::Error;
use crate::bpf::{bytes_of, from_bytes, intf, zeroed};
use crate::error::load_error;
use libbpf_rs::{MapCore, MapFlags};
use sidelane_policy::settings::{Place, live_places};
use std::collections::BTreeMap;

/// Kept from one attachment to the next.
#[derive(Clone, Default)]
pub(crate) struct Carried {
    /// Settings that were changed: their bytes.
    tuned: BTreeMap<Place, Vec<u8>>,
    /// Allowances of pools, by cgroup.
    pub pools_ns: BTreeMap<String, u64>,
    /// By budget: the rule's number, 0 for `[scheduler]`.
    learnt_ns: Vec<(u32, u64)>,
    /// By the ids of the cgroups whose labels have the objectives.
    pub labelled_ns: BTreeMap<u64, u64>,
}

/// What is kept there.
fn at(settings: &intf::live_settings, place: Place) -> &[u8] {
    &bytes_of(settings)[place.offset..place.offset + place.len]
}

/// Where two differ, of the settings that may be changed.
fn differences(
    one: &intf::live_settings,
    other: &intf::live_settings,
) -> impl Iterator<Item = Place> {
    let places = live_places().into_iter();
    places.filter(|&place| at(one, place) != at(other, place))
}

impl Carried {
    /// Notes what was changed, of settings that were loaded as `loaded`.
    pub fn note_settings(&mut self, loaded: &intf::live_settings, ended: &intf::live_settings) {
        let changed = differences(loaded, ended);
        self.tuned
            .extend(changed.map(|place| (place, at(ended, place).to_vec())));
    }

    /// Changes fresh settings in the same way.
    pub fn apply(&self, fresh: &mut intf::live_settings) {
        let mut bytes = bytes_of(fresh).to_vec();
        for (place, tuned) in &self.tuned {
            bytes[place.offset..place.offset + place.len].copy_from_slice(tuned);
        }
        *fresh = from_bytes(&bytes).unwrap_or(*fresh);
    }

    /// Forgets what a changed configuration says anew.
    pub fn give_way(&mut self, before: &Config, after: &Config) {
        let lanes = intf::limits_MAX_LANES_PER_CORE; // whatever it is, for both
        let [old, new] = [before, after].map(|config| config.scheduler.live(lanes));
        for place in differences(&old, &new) {
            self.tuned.remove(&place);
        }
        if before.pools != after.pools {
            self.pools_ns.clear();
        }
        if before.rules != after.rules || before.scheduler.budget != after.scheduler.budget {
            self.learnt_ns.clear(); // they go by the rules' numbers
            self.labelled_ns.clear();
        }
    }

    /// Notes the budgets that were learnt: `sidelane_slo`.
    pub fn note_learnt(&mut self, objectives: &impl MapCore) {
        let budget = |index: u32| {
            // one that cannot be read is learnt anew
            let bytes = objectives.lookup(&index.to_ne_bytes(), MapFlags::ANY);
            let objective = from_bytes::<intf::objective>(&bytes.ok()??)?;
            (objective.budget_ns > 0).then_some((index, objective))
        };
        self.learnt_ns.clear();
        self.labelled_ns.clear();
        for (index, objective) in (0..objectives.max_entries()).filter_map(budget) {
            match objective.cgroup {
                0 => self.learnt_ns.push((index, objective.budget_ns)),
                cgroup => {
                    self.labelled_ns.insert(cgroup, objective.budget_ns);
                }
            }
        }
    }

    /// Puts those of rules back; windows begin afresh.
    pub fn teach(&self, objectives: &impl MapCore) -> Result<(), Error> {
        for &(index, budget_ns) in &self.learnt_ns {
            let objective = intf::objective {
                budget_ns,
                ..zeroed()
            };
            objectives
                .update(&index.to_ne_bytes(), bytes_of(&objective), MapFlags::ANY)
                .map_err(load_error("put the learnt budgets back into"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(smt_level: u32, budget_ns: u64) -> intf::live_settings {
        let mut settings: intf::live_settings = zeroed();
        settings.smt_level = smt_level;
        settings.budget.budget_ns = budget_ns;
        settings
    }

    #[test]
    fn what_was_tuned_stays_and_the_rest_is_as_loaded() {
        let mut carried = Carried::default();
        carried.note_settings(&settings(2, 0), &settings(2, 7));
        // lanes went: the widest core has one
        let mut second = settings(1, 0);
        carried.apply(&mut second);
        assert_eq!((second.smt_level, second.budget.budget_ns), (1, 7));
        // nothing is tuned meanwhile, and lanes came back
        carried.note_settings(&second, &second);
        let mut third = settings(2, 0);
        carried.apply(&mut third);
        assert_eq!((third.smt_level, third.budget.budget_ns), (2, 7));
        // tuned back to what the file says
        carried.note_settings(&third, &settings(1, 0));
        let mut last = settings(2, 0);
        carried.apply(&mut last);
        assert_eq!((last.smt_level, last.budget.budget_ns), (1, 0));
    }

    #[test]
    fn a_changed_configuration_says_anew_only_what_it_changes() {
        let [before, level, rules] = [
            "[scheduler]\nsmt_level = 2",
            "[scheduler]\nsmt_level = 1",
            "[[rule]]\nclass = \"batch\"\nmatch = \"cgroup:/b\"\n[scheduler]\nsmt_level = 2",
        ]
        .map(|text| Config::parse(text, "c.toml").unwrap());
        let loaded = before.scheduler.live(4);
        let mut changed = loaded;
        (changed.smt_level, changed.vertical) = (3, 1);
        let mut tuned = Carried {
            learnt_ns: vec![(0, 5)],
            ..Carried::default()
        };
        tuned.note_settings(&loaded, &changed);
        let kept = |after: &Config| {
            let mut carried = tuned.clone();
            carried.give_way(&before, after);
            let mut fresh: intf::live_settings = zeroed();
            carried.apply(&mut fresh);
            (fresh.smt_level, fresh.vertical, carried.learnt_ns.len())
        };
        assert_eq!(kept(&before), (3, 1, 1));
        assert_eq!(kept(&level), (0, 1, 1));
        assert_eq!(kept(&rules), (3, 1, 0));
    }
}
