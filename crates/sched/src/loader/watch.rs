//! What the scheduler knows of cgroups, kept current.

use super::{Event, Scheduler, load_error, write};
use crate::Error;
use crate::bpf::{bytes_of, from_bytes, intf, zeroed};
use crate::cgroups;
use libbpf_rs::{MapCore, MapFlags, RingBufferBuilder};
use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::channel;

impl Scheduler<'_> {
    /// Subscribes to cgroups that come and go, then reads those there are.
    pub(super) fn watch_cgroups(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        self.cgroup_mount = cgroups::mount_point(Path::new("/")).ok().flatten();
        if self.cgroup_mount.is_none() {
            on_event(Event::Degraded(
                "cgroup v2 is not mounted: cgroup and unit rules and pools match nothing"
                    .to_owned(),
            ));
            return Ok(());
        }
        let (sender, receiver) = channel();
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.skel.maps.cgroup_events, move |bytes| {
                // nobody listens any more: the scheduler is going
                let _ = from_bytes(bytes).map(|event| sender.send(event));
                0
            })
            .map_err(load_error("watch cgroups for"))?;
        let ring = builder.build().map_err(load_error("watch cgroups for"))?;
        self.cgroup_events = Some((ring, receiver));
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
        Ok(())
    }

    /// Takes over what `cpu.max` of these cgroups says.
    fn read_quotas(
        &mut self,
        mount: &Path,
        cgroups: &HashMap<u64, String>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        if !self.config.scheduler.cgroup_quotas {
            return Ok(());
        }
        let mut paths: Vec<&String> = cgroups.values().collect();
        paths.sort();
        let quotas = paths.iter().filter_map(|path| cgroups::quota(mount, path));
        let (begun, left_out) = self.pools.set_quotas(quotas.collect());
        for entry in begun {
            let nothing: intf::pool = zeroed();
            write(&self.skel.maps.sidelane_pools, entry, &nothing)?;
        }
        if left_out > 0 && !std::mem::replace(&mut self.told_left_out, true) {
            let what = format!("too many pools: cpu.max of {left_out} cgroups has no effect");
            on_event(Event::Degraded(what));
        }
        self.write_limits()
    }

    /// Writes what is to be known of every cgroup there is.
    pub(super) fn read_cgroups(&mut self, on_event: &mut dyn FnMut(Event)) -> Result<(), Error> {
        let Some(mount) = self.cgroup_mount.clone() else {
            return Ok(());
        };
        let mount = &mount;
        let cgroups = cgroups::list(mount);
        self.read_quotas(mount, &cgroups, on_event)?;
        let weighs = self.config.scheduler.cgroup_weights;
        let weight = |path: &str| cgroups::weight(mount, path).filter(|_| weighs);
        for (id, facts) in cgroups::facts(&cgroups, weight) {
            let path = cgroups.get(&id).map_or("/", String::as_str);
            let known = intf::cgroup_known {
                rules: cgroups::rule_mask(&self.config.rules, path),
                pool: self.pools.of_cgroup(path),
                group: facts.group,
                parent: facts.parent,
                weight: facts.weight.unwrap_or(0),
            };
            self.write_cgroup(id, &known)?;
        }
        Ok(())
    }

    /// Unless that is what stands there: an entry that is replaced may be used for another cgroup while
    /// the scheduler still reads it.
    fn write_cgroup(&self, id: u64, known: &intf::cgroup_known) -> Result<(), Error> {
        let (id, maps) = (id.to_ne_bytes(), &self.skel.maps);
        let written = maps.cgroup_masks.lookup(&id, MapFlags::ANY);
        if written.is_ok_and(|bytes| bytes.as_deref() == Some(bytes_of(known))) {
            return Ok(());
        }
        if known.weight > 0 {
            let nothing: intf::cgroup_demand = zeroed();
            // there already, unless the cgroup is new
            let _ = (maps.cgroup_demands).update(&id, bytes_of(&nothing), MapFlags::NO_EXIST);
        }
        maps.cgroup_masks
            .update(&id, bytes_of(known), MapFlags::ANY)
            .map_err(load_error("write the cgroup rules of"))
    }

    pub(super) fn take_cgroup_events(
        &mut self,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), Error> {
        let Some((_, receiver)) = &self.cgroup_events else {
            return Ok(());
        };
        let mut created = false;
        for event in receiver.try_iter() {
            if event.removed == 0 {
                created = true;
            } else {
                // gone already if it came and went between two looks
                let id = event.id.to_ne_bytes();
                let _ = self.skel.maps.cgroup_masks.delete(&id);
                let _ = self.skel.maps.cgroup_demands.delete(&id);
            }
        }
        if created {
            self.read_cgroups(on_event)?;
        }
        Ok(())
    }
}
