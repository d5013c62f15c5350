//! From attachment to attachment: CPU hotplug, a configuration that is read again, the end.

use super::{Event, Found, Outgrown, Scheduler};
use crate::adopt::{self, Adopter, News};
use crate::carried::Carried;
use crate::cgroups;
use crate::config::Config;
use crate::doctor;
use crate::resolve;
use crate::{Error, ExitReason};
use sidelane_kernel::{Need, TaskStorage, allowed};
use sidelane_topology::CpuList;
use std::fs;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often executables named by rules are looked up again.
const RESOLVE_AGAIN: Duration = Duration::from_secs(1);
/// How often cgroups are asked for weights and limits while none has any, and for labels; new ones are asked at once.
pub(super) const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What is asked of a running scheduler.
pub struct Requests<'a> {
    /// Detach and end.
    pub stop: &'a AtomicBool,
    /// Read the configuration again.
    pub reload: &'a AtomicBool,
}

impl Requests<'_> {
    fn stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// How an attachment ended.
enum Ended {
    /// It could not begin.
    NotAttached(Error),
    Detached(ExitReason),
    /// For larger tables.
    Outgrown(Outgrown),
    /// For lanes that came or went while it was being attached.
    OtherLanes(CpuList),
    /// For another configuration.
    Changed(Box<Config>),
}

/// Runs the scheduler as `read` says until it is asked to stop or the kernel detaches it for good. Attaches
/// it again where the kernel asks for it (CPU hotplug, SMT control), where a table has no room for all
/// cgroups, and when `read` is asked again and says something else.
///
/// # Errors
/// What prevented loading, or [`Error::Ejected`]. A configuration that is read again and cannot be used is none: the one
/// before stays.
pub fn run(
    read: &mut dyn FnMut() -> Result<Config, Error>,
    requests: &Requests,
    on_event: &mut dyn FnMut(Event),
) -> Result<ExitReason, Error> {
    let config = read()?;
    check_machine()?;
    sidelane_kernel::prepare();
    // of a scheduler that crashed
    tell_tasks(adopt::restore()?, on_event);
    let mut adopter = Adopter::new();
    let ended = attachments(config, &mut adopter, read, requests, on_event);
    match adopter.end() {
        Ok(news) => tell_tasks(news, on_event),
        Err(error) if ended.is_ok() => return Err(error),
        Err(error) => on_event(Event::Degraded(error.to_string())),
    }
    ended
}

fn tell_tasks(news: Option<News>, on_event: &mut dyn FnMut(Event)) {
    news.into_iter()
        .for_each(|news| on_event(Event::Tasks(news)));
}

/// One after the other.
fn attachments(
    mut config: Config,
    adopter: &mut Adopter,
    read: &mut dyn FnMut() -> Result<Config, Error>,
    requests: &Requests,
    on_event: &mut dyn FnMut(Event),
) -> Result<ExitReason, Error> {
    let mut carried = Carried::default();
    let mut storage = TaskStorage::default();
    let mut before = None;
    loop {
        let begun = match config.scheduler.only_batch() {
            true => adopter.begin().map(|()| None),
            false => adopter.end(),
        };
        let ended = match begun {
            Ok(news) => {
                tell_tasks(news, on_event);
                let left = (&mut carried, &mut storage, &mut *adopter);
                Scheduler::live(&config, left, read, requests, on_event)?
            }
            Err(error) => Ended::NotAttached(error),
        };
        match (ended, before.take()) {
            (Ended::NotAttached(error), None) => return Err(machine_error(error)),
            (Ended::NotAttached(error), Some(kept)) => {
                on_event(Event::NotReloaded(error.to_string()));
                (config, carried) = kept;
            }
            (Ended::Outgrown(outgrown), _) => on_event(Event::Outgrown(outgrown)),
            (Ended::OtherLanes(online), _) => on_event(Event::OtherLanes(online)),
            (Ended::Changed(changed), _) => {
                on_event(Event::Reloading);
                let kept = carried.clone();
                carried.give_way(&config, &changed);
                before = Some((std::mem::replace(&mut config, *changed), kept));
            }
            (Ended::Detached(reason), _) if !reason.is_graceful() => {
                return Err(Error::Ejected(reason));
            }
            (Ended::Detached(reason), _) if !reason.asks_for_restart() || requests.stop() => {
                return Ok(reason);
            }
            (Ended::Detached(reason), _) => on_event(Event::Restarting(reason)),
        }
    }
}

/// Fails early, with a remedy, where loading could not succeed.
///
/// # Errors
/// No sched_ext, no privilege, a scheduler that is attached, or tasks with a core-scheduling cookie.
pub fn check_machine() -> Result<(), Error> {
    let sched_ext = Path::new("/sys/kernel/sched_ext");
    if !sched_ext.exists() {
        return Err(Error::NoSchedExt);
    }
    allowed(Need::Load).map_err(sidelane_kernel::Error::from)?;
    let state = fs::read_to_string(sched_ext.join("state")).unwrap_or_default();
    if state.trim() == "enabled" {
        let name = fs::read_to_string(sched_ext.join("root/ops")).unwrap_or_default();
        return Err(Error::OtherScheduler {
            name: name.trim().to_owned(),
        });
    }
    match doctor::cookie_holders() {
        Some(holders) => Err(Error::CoreScheduling { holders }),
        None => Ok(()),
    }
}

/// Where the kernel refuses to load what this machine cannot run: that it cannot.
fn machine_error(error: Error) -> Error {
    if !matches!(error, Error::Load { .. }) {
        return error;
    }
    if let Err(error) = check_machine() {
        return error; // another scheduler came first
    }
    match doctor::examine(Path::new("/")).cannot_attach() {
        Some(why) => Error::Unable {
            load: error.into(),
            why,
        },
        None => error,
    }
}

impl Scheduler<'_> {
    /// An attachment from beginning to end; what those before left goes in, what it leaves comes out.
    fn live(
        config: &Config,
        (carried, storage, adopter): (&mut Carried, &mut TaskStorage, &mut Adopter),
        read: &mut dyn FnMut() -> Result<Config, Error>,
        requests: &Requests,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Ended, Error> {
        let mut object = MaybeUninit::uninit();
        let mut scheduler = match Scheduler::attach(config, carried, &mut object, on_event) {
            Ok(scheduler) => scheduler,
            Err(error) => return Ok(Ended::NotAttached(error)),
        };
        let kept = (&mut *storage, &mut *adopter);
        let ended = scheduler.serve(kept, read, requests, on_event);
        if ended.is_err() {
            scheduler.detach(adopter);
        }
        storage.retire(TaskStorage::of(&scheduler.skel.maps.tasks));
        let ended = ended?;
        scheduler.hand_over(carried);
        Ok(ended)
    }

    fn detach(&mut self, adopter: &mut Adopter) {
        self.adopt_no_more(adopter);
        drop(self.link.take());
    }

    /// Waits; keeps rules current; returns when stopped, detached, or differently configured.
    fn serve(
        &mut self,
        (storage, adopter): (&mut TaskStorage, &mut Adopter),
        read: &mut dyn FnMut() -> Result<Config, Error>,
        requests: &Requests,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Ended, Error> {
        let mut resolved = Instant::now();
        let mut looked = resolved;
        while !requests.stop() && !self.exited() {
            self.wait();
            storage.let_go();
            self.bound_idle(on_event);
            self.follow_cgroups(on_event)?;
            self.adopt(adopter, on_event)?;
            if resolved.elapsed() >= RESOLVE_AGAIN {
                resolved = Instant::now();
                if let Some(online) = self.other_lanes()
                    && !self.exited()
                {
                    self.detach(adopter);
                    return Ok(Ended::OtherLanes(online));
                }
                if resolve::follow(&mut self.rules, &self.config.rules) {
                    self.write_rules()?;
                    self.looks.again();
                }
                // what they say may have changed
                let often = self.weights || self.pools.quota_room() > 0;
                if often || looked.elapsed() >= LOOK_AGAIN {
                    looked = Instant::now();
                    let labelled = cgroups::labelled(&self.config.rules);
                    if self.config.holds_weights() || self.config.holds_quotas() || labelled {
                        self.read_cgroups(on_event)?;
                    }
                }
            }
            if let Some(outgrown) = self.outgrown
                && !self.exited()
            {
                self.detach(adopter);
                return Ok(Ended::Outgrown(outgrown));
            }
            if requests.reload.swap(false, Ordering::Relaxed)
                && let Some(changed) = self.changed(read, on_event)
                && !self.exited()
            {
                self.detach(adopter);
                return Ok(Ended::Changed(Box::new(changed)));
            }
        }
        self.detach(adopter);
        Ok(Ended::Detached(self.exit_reason()))
    }

    /// Lanes that are online, if the scheduler was made for others. What comes or goes while it is attached the kernel tells; this
    /// is for what did between the look at the machine and that.
    fn other_lanes(&self) -> Option<CpuList> {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
        let online: CpuList = online.trim().parse().ok()?;
        (online != self.online).then_some(online)
    }

    /// The configuration as it is now, if it can be used and is not the one in force.
    fn changed(
        &self,
        read: &mut dyn FnMut() -> Result<Config, Error>,
        on_event: &mut dyn FnMut(Event),
    ) -> Option<Config> {
        let config = read().and_then(|config| Found::by(&config).map(|_| config));
        match config {
            Ok(config) if config == *self.config => on_event(Event::Unchanged),
            Ok(config) => return Some(config),
            Err(error) => on_event(Event::NotReloaded(error.to_string())),
        }
        None
    }
}
