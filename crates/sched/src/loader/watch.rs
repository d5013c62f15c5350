//! What the scheduler knows of cgroups, kept current.

use super::lifecycle::LOOK_AGAIN;
use super::{Event, Outgrown, Scheduler, write};
use crate::Error;
use crate::bpf::{Plain, bytes_of, from_bytes, intf, zeroed};
use crate::cgroups;
use crate::error::load_error;
use crate::labelled;
use libbpf_rs::{MapCore, MapFlags, RingBufferBuilder};
use sidelane_kernel::cgroups::LabelChanges;
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// What the scheduler has told.
pub(super) struct Told {
    pub cgroups: Receiver<intf::cgroup_event>,
    pub tasks: Receiver<intf::adopt_event>,
}

/// Hands on what comes from a ring.
fn sends<T: Plain>(to: Sender<T>) -> impl FnMut(&[u8]) -> i32 {
    move |bytes| {
        // nobody listens any more: the scheduler is going
        let _ = from_bytes(bytes).map(|event| to.send(event));
        0
    }
}

/// A path as the table has it.
fn pool_path(path: &str) -> intf::pool_path {
    let mut entry: intf::pool_path = zeroed();
    let last = entry.text.len() - 1;
    for (to, from) in entry.text[..last].iter_mut().zip(path.as_bytes()) {
        *to = *from as libc::c_char;
    }
    entry
}

/// Labels are read now and then only.
fn not_watched(error: &std::io::Error) -> Event {
    Event::Degraded(format!(
        "labels of cgroups that change are seen after {} s: they cannot be watched: {error}; raise \
         fs.inotify.max_user_watches or max_user_instances",
        LOOK_AGAIN.as_secs()
    ))
}

impl Scheduler<'_> {
    /// Listens to what the scheduler tells, if anything is of interest.
    pub(super) fn subscribe(&mut self) -> Result<(), Error> {
        if !self.config.looks_at_cgroups() && !self.config.scheduler.only_batch() {
            return Ok(());
        }
        let (cgroups, tasks) = (channel(), channel());
        let maps = &self.skel.maps;
        let mut builder = RingBufferBuilder::new();
        let added = builder.add(&maps.cgroup_events, sends(cgroups.0));
        added.map_err(load_error("watch cgroups for"))?;
        let added = builder.add(&maps.adopt_events, sends(tasks.0));
        added.map_err(load_error("watch tasks for"))?;
        let ring = builder.build().map_err(load_error("watch cgroups for"))?;
        let told = Told {
            cgroups: cgroups.1,
            tasks: tasks.1,
        };
        self.events = Some((ring, told));
        Ok(())
    }

    /// Reads the cgroups that there are: those that come and go are told.
    pub(super) fn watch_cgroups(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.cgroup_mount = cgroups::mount_point(Path::new("/")).ok().flatten();
        let named = cgroups::needed(&self.config.rules) || !self.config.pools.is_empty();
        if self.cgroup_mount.is_none() && named {
            on_event(Event::Degraded(
                "cgroup v2 is not mounted: cgroup and unit rules and pools match nothing"
                    .to_owned(),
            ));
            return Ok(());
        }
        if cgroups::labelled(&self.config.rules) {
            match LabelChanges::begin() {
                Ok(changes) => self.label_changes = Some(changes),
                Err(error) => on_event(not_watched(&error)),
            }
        }
        self.read_cgroups(on_event)
    }

    /// Writes the limits that are others now.
    pub(super) fn write_limits(&mut self) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.limits, self.pools.limits());
        for (key, limit) in self.limits.iter().enumerate() {
            if before.get(key).map(bytes_of) != Some(bytes_of(limit)) {
                write(&self.skel.maps.sidelane_limits, key, limit)?;
            }
        }
        let before = std::mem::replace(&mut self.paths, self.pools.cgroups());
        for (key, path) in self.paths.iter().enumerate() {
            if before.get(key) != Some(path) {
                write(&self.skel.maps.sidelane_paths, key, &pool_path(path))?;
            }
        }
        Ok(())
    }

    /// Notes what has no room, so that the scheduler is loaded again with more.
    fn outgrow(&mut self, what: &'static str, found: usize, room: usize) {
        self.outgrown.get_or_insert(Outgrown { what, found, room });
    }

    /// Takes over what `cpu.max` of these cgroups says.
    fn read_quotas(&mut self, mount: &Path, cgroups: &HashMap<u64, String>) -> Result<(), Error> {
        if !self.config.holds_quotas() {
            return Ok(());
        }
        let quotas = cgroups::quotas(mount, cgroups.values());
        let found = quotas.len();
        let changed = self.pools.set_quotas(quotas);
        for entry in changed.begun {
            let nothing: intf::pool = zeroed();
            write(&self.skel.maps.sidelane_pools, entry, &nothing)?;
        }
        if changed.left_out > 0 {
            self.outgrow("cgroups have a cpu.max", found, self.pools.quota_room());
        }
        self.write_limits()
    }

    /// Says once if pools are nested too deeply.
    fn tell_depth(&mut self, on_event: &mut dyn FnMut(Event)) {
        let (depth, most) = (self.pools.depth(), intf::limits_POOL_DEPTH_MAX as usize);
        if depth > most && !std::mem::replace(&mut self.told_depth, true) {
            on_event(Event::Degraded(format!(
                "{depth} pools within each other: of more than {most} around a task the outer ones do not hold"
            )));
        }
    }

    /// Writes what is to be known of every cgroup there is.
    pub(super) fn read_cgroups(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let Some(mount) = self.cgroup_mount.clone() else {
            return Ok(());
        };
        let mount = &mount;
        let cgroups = cgroups::list(mount);
        if cgroups.len() > self.cgroup_room {
            self.outgrow("cgroups", cgroups.len(), self.cgroup_room);
            return Ok(());
        }
        self.read_quotas(mount, &cgroups)?;
        self.tell_depth(on_event);
        if self.config.holds_weights() && !self.weights {
            let found = cgroups::weighed(mount, cgroups.values());
            if found > 0 {
                self.outgrow("cgroups have a cpu.weight of their own", found, 0);
            }
        }
        let labels = self.read_labels(mount, &cgroups, on_event);
        self.read_objectives(&cgroups, &labels, on_event)?;
        let weighs = self.weights;
        let weight = |path: &str| weighs.then(|| cgroups::weight(mount, path)).flatten();
        for (id, facts) in cgroups::facts(&cgroups, weight) {
            let path = cgroups.get(&id).map_or("/", String::as_str);
            let rule = cgroups::first_rule(&self.config.rules, path, &labels);
            let rules = &self.config.rules;
            let known = intf::cgroup_known {
                pool: self.pools.of_cgroup(path),
                group: facts.group,
                parent: facts.parent,
                weight: facts.weight.unwrap_or(0),
                rule,
                budget: self.labelled.budget(rules, rule, path, &labels),
            };
            self.write_cgroup(id, &known)?;
        }
        Ok(())
    }

    /// The labels, if rules look at them. What changes from now on is seen.
    fn read_labels(
        &mut self,
        mount: &Path,
        cgroups: &HashMap<u64, String>,
        on_event: &mut dyn FnMut(Event),
    ) -> cgroups::Labels {
        if !cgroups::labelled(&self.config.rules) {
            return cgroups::Labels::new();
        }
        if let Some(changes) = &self.label_changes
            && let Err(error) = changes.watch(mount, cgroups.values())
        {
            on_event(not_watched(&error));
            self.label_changes = None;
        }
        cgroups::labels(mount, cgroups.values())
    }

    /// Takes over the objectives that labels have.
    fn read_objectives(
        &mut self,
        cgroups: &HashMap<u64, String>,
        labels: &cgroups::Labels,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        if self.labelled.room() == 0 {
            return Ok(());
        }
        let said = labelled::said(
            &self.config.rules,
            cgroups.iter().map(|(&id, path)| (id, path)),
            labels,
        );
        let found = said.objectives.len();
        let changed = self.labelled.set(said.objectives);
        for entry in changed.entries {
            let (key, rule, cgroup) = self.labelled.entry(entry);
            let objective = intf::objective {
                cgroup,
                budget_ns: self.learnt_ns.remove(&cgroup).unwrap_or(0),
                ..zeroed()
            };
            // budget 0 is that of the settings
            write(&self.skel.maps.sidelane_slo, key + 1, &objective)?;
            write(&self.skel.maps.rules, key, &rule)?;
        }
        let mut faults = said.faults;
        if changed.left_out > 0 {
            match self.labelled.room() {
                labelled::MOST => faults.push(format!(
                    "{found} labels have an objective: of more than {} the last by their paths do not count",
                    labelled::MOST
                )),
                room => self.outgrow("labels have an objective", found, room),
            }
        }
        let told = std::mem::replace(&mut self.label_faults, faults);
        let new = |fault: &&String| !told.contains(fault);
        for fault in self.label_faults.iter().filter(new) {
            on_event(Event::Degraded(fault.clone()));
        }
        Ok(())
    }

    /// Reads cgroups again if some came or labels have changed, and it is time.
    pub(super) fn follow_cgroups(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let came = self.take_cgroup_events();
        let relabelled = self.label_changes.as_ref().is_some_and(LabelChanges::any);
        self.reads.wanted |= came || relabelled;
        if !self.reads.begin() {
            return Ok(());
        }
        self.read_cgroups(on_event)?;
        self.reads.ended();
        self.looks.again();
        Ok(())
    }

    /// Unless that is what stands there: an entry that is replaced may be used for another cgroup while
    /// the scheduler still reads it.
    fn write_cgroup(&self, id: u64, known: &intf::cgroup_known) -> Result<(), Error> {
        let (id, maps) = (id.to_ne_bytes(), &self.skel.maps);
        let written = maps.cgroups_known.lookup(&id, MapFlags::ANY);
        if written.is_ok_and(|bytes| bytes.as_deref() == Some(bytes_of(known))) {
            return Ok(());
        }
        if known.weight > 0 {
            let nothing: intf::cgroup_demand = zeroed();
            // there already, unless the cgroup is new
            let _ = (maps.cgroup_demands).update(&id, bytes_of(&nothing), MapFlags::NO_EXIST);
        }
        maps.cgroups_known
            .update(&id, bytes_of(known), MapFlags::ANY)
            .map_err(load_error("write the cgroup rules of"))
    }

    /// Forgets cgroups that are gone. True: others came.
    fn take_cgroup_events(&self) -> bool {
        let Some((_, told)) = &self.events else {
            return false;
        };
        let mut created = false;
        for event in told.cgroups.try_iter() {
            if event.removed == 0 {
                created = true;
            } else {
                // gone already if it came and went between two looks
                let id = event.id.to_ne_bytes();
                let _ = self.skel.maps.cgroups_known.delete(&id);
                let _ = self.skel.maps.cgroup_demands.delete(&id);
            }
        }
        created
    }
}

/// When cgroups are read: where they come and go all the time, a tenth of the time goes by with that.
#[derive(Default)]
pub(super) struct Reads {
    wanted: bool,
    began: Option<Instant>,
    /// Not before.
    next: Option<Instant>,
}

impl Reads {
    /// What came has the class of the cgroup around it for so long at most, unless reading takes longer.
    const PAUSE_MAX: Duration = Duration::from_millis(500);

    /// Whether it begins now.
    fn begin(&mut self) -> bool {
        let now = Instant::now();
        if !self.wanted || self.next.is_some_and(|next| now < next) {
            return false;
        }
        self.wanted = false;
        self.began = Some(now);
        true
    }

    fn ended(&mut self) {
        let took = self.began.map_or(Duration::ZERO, |began| began.elapsed());
        self.next = Some(Instant::now() + Reads::pause(took));
    }

    /// Until the next one, after one that took so long.
    fn pause(took: Duration) -> Duration {
        (9 * took).min(Reads::PAUSE_MAX.max(took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroups_are_read_at_once_and_then_for_a_tenth_of_the_time() {
        let mut reads = Reads::default();
        assert!(!reads.begin(), "nothing came");
        reads.wanted = true;
        assert!(reads.begin() && !reads.begin());
        let pause = |ms| Reads::pause(Duration::from_millis(ms)).as_millis();
        assert_eq!([0, 10, 55, 100, 900].map(pause), [0, 90, 495, 500, 900]);
        reads.next = Some(Instant::now() + Duration::from_secs(60));
        reads.wanted = true;
        assert!(!reads.begin() && reads.wanted, "not lost");
        reads.next = Some(Instant::now());
        assert!(reads.begin());
    }
}
