//! The collector of SMT metrics: traces context switches, beside any scheduler.
//!
//! Nothing is pinned: when this process ends, the kernel forgets the collector and its totals.

mod cgroups;
mod rates;
mod reading;
mod sampler;
pub(crate) mod tables;

pub(crate) use reading::{entries, latencies};
pub use sampler::SAMPLE_HZ;
pub(crate) use tables::{SCHEDULER_TASKS, online};

use crate::Error;
use crate::bpf::types::metrics_control;
use crate::bpf::{MetricsProgs, MetricsSkel, MetricsSkelBuilder, intf};
use cgroups::{CgroupTable, Limits};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, OpenObject, ProgramInput};
use nix::time::{ClockId, clock_gettime};
use rates::Instructions;
use reading::TaskTable;
use sampler::Sampler;
use sidelane_kernel::{Need, TaskStorage, Urgent, allowed, attached, switch_everywhere};
use sidelane_smt::snapshot::{Notes, RateSource, Rates, Snapshot};
use sidelane_topology::{CpuList, Topology};
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a reading is tried anew because something changed under it.
const TRIES: u32 = 4;

/// How long a lane may be within a switch. That takes moments, unless a hypervisor steps in.
const SWITCH_MAX: Duration = Duration::from_millis(200);

/// Programs that run however switches are seen.
const ALWAYS: [&str; 3] = ["metrics_read", "metrics_tasks_read", "metrics_rmdir"];

/// By what work is to be counted.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// threadPerf and where it is from; nothing: one that is typical, as assumed. Of fewer lanes than
    /// the cores have, it is continued as if further lanes added nothing.
    pub rates: Option<Rates>,
    /// Learn the rates from instructions where the machine counts them.
    pub counters: bool,
    /// Look at all lanes so many times a second ([`SAMPLE_HZ`]) in place of tracing each switch.
    pub sample_hz: Option<u32>,
}

/// Memory in which a [`Collector`] lives.
pub struct Place(MaybeUninit<OpenObject>);

impl Default for Place {
    fn default() -> Place {
        Place(MaybeUninit::uninit())
    }
}

impl Place {
    pub(crate) fn memory(&mut self) -> &mut MaybeUninit<OpenObject> {
        &mut self.0
    }
}

/// A running collector.
pub struct Collector<'a> {
    _links: Vec<Link>,
    sampler: Option<Sampler>,
    task_reader: Link,
    skel: MetricsSkel<'a>,
    topology: Topology,
    rates: Rates,
    instructions: Option<Instructions>,
    begun_ns: u64,
    /// Schedulers that were attached since boot, when the collector began: classes are of that one.
    attached: u64,
    /// It was Sidelane's: classes are known.
    classes: bool,
    /// Lanes that were online at the last reading.
    online: CpuList,
    hotplug: u64,
    inconsistent: u64,
    /// The number of the last reading.
    reading: u32,
    messages: Vec<String>,
    /// What the first interval is to say: messages from the second reading on, for what the first one has
    /// was there before.
    not_told: Vec<String>,
    cgroups: CgroupTable,
    /// Cgroups that were removed up to the last reading.
    removed: u64,
    limits: Limits,
    /// As told last.
    tasks: reading::Tasks,
    /// Busy time of lanes as told last, by CPU number.
    lanes: HashMap<u32, u64>,
    /// Ended tasks that were not listed, as told last.
    unlisted: u64,
    /// The last field: after the object.
    storage: TaskStorage,
}

impl<'a> Collector<'a> {
    /// Starts to collect.
    ///
    /// # Errors
    /// No privilege, a kernel without what is needed, a machine beyond the limits, no valid threadPerf.
    pub fn start(settings: &Settings, place: &'a mut Place) -> Result<Collector<'a>, Error> {
        allowed(Need::Load).map_err(sidelane_kernel::Error::from)?;
        if settings.sample_hz.is_some() {
            sampler::check(Path::new("/"))?;
        }
        sidelane_kernel::prepare();
        let topology = Topology::read(Path::new("/"))?;
        let (rates, tail) = rates::rates(settings, topology.lanes_per_core_max())?;
        let mut tables = tables::Tables::new(&topology)?;
        let builder = MetricsSkelBuilder::default();
        let mut open = builder.open(&mut place.0).map_err(failed("open"))?;
        // what the library of sched_ext adds for schedulers; kernels without sched_ext refuse it
        for mut program in open.open_object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            let always = ALWAYS.contains(&name.as_str());
            let sampler = name == "metrics_sample";
            let wanted = always || sampler == settings.sample_hz.is_some();
            program.set_autoload(wanted && name.starts_with("metrics_"));
        }
        tables.size(&mut open)?;
        let attached = attached::enable_seq();
        let mut unknown = None;
        let classes = tables.share_scheduler(&mut open, &mut |text| unknown = Some(text))?;
        let urgent = Urgent::begin();
        let mut skel = open.load().map_err(failed("load"))?;
        drop(urgent);
        tables.fill(&skel)?;
        set_speeds(&mut skel, &rates.thread_perf);
        let progs = &skel.progs;
        let mut links = vec![
            progs
                .metrics_rmdir
                .attach_trace()
                .map_err(failed("attach"))?,
        ];
        let sampler = match settings.sample_hz {
            None => {
                links.extend(trace(progs)?);
                None
            }
            Some(hz) => Some(Sampler::start(&progs.metrics_sample, &topology, hz)?),
        };
        let task_reader = progs.metrics_tasks_read.attach();
        let task_reader = task_reader.map_err(failed("attach"))?;
        switch_everywhere(&topology);
        let begun_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        if let Some(data) = skel.maps.data_metrics_data.as_mut() {
            // SAFETY: one aligned word of a mapping that the kernel reads, too
            unsafe { std::ptr::write_volatile(&raw mut data.control.began_ns, begun_ns) };
        }
        let mut messages = Vec::new();
        let cgroup_mount = sidelane_kernel::cgroups::mount_point(Path::new("/"))
            .ok()
            .flatten();
        let instructions = (settings.counters)
            .then(|| Instructions::start(&topology))
            .and_then(|counted| counted.map_err(|e| messages.push(e.to_string())).ok());
        let storage = TaskStorage::of(&skel.maps.metrics_tasks);
        Ok(Collector {
            _links: links,
            sampler,
            task_reader,
            skel,
            online: topology.online().clone(),
            topology,
            rates,
            instructions,
            begun_ns,
            attached,
            classes,
            hotplug: 0,
            inconsistent: 0,
            reading: 0,
            messages,
            not_told: tail
                .into_iter()
                .chain(settings.sample_hz.map(Sampler::note))
                .chain(unknown)
                .collect(),
            limits: Limits::new(cgroup_mount.clone(), classes),
            cgroups: CgroupTable::new(cgroup_mount),
            removed: 0,
            tasks: reading::Tasks::new(),
            lanes: HashMap::new(),
            unlisted: 0,
            storage,
        })
    }

    /// Reads the totals.
    ///
    /// # Errors
    /// The kernel refuses to tell them, or they change too fast to be read.
    pub fn read(&mut self) -> Result<Snapshot, Error> {
        // before the tables are read: what ends meanwhile may be in them, and is not missing
        let ended = self.control(|control| &control.ended);
        let removed_before = self.control(|control| &control.removed);
        let removed = cgroups::removed(&self.skel)?;
        let (taken_ns, tasks, groups) = self.read_tasks()?;
        self.inconsistent += tasks.torn;
        self.unlisted = self.unlisted.max(ended.saturating_sub(tasks.ended));
        let wall_ms = wall_ms();
        let suspended_ns = suspended_ns()?;
        self.look_at_online()?;
        let mut cores = reading::cores(&self.skel, &self.topology, &self.online, self.classes)?;
        // clocks of lanes may differ, above all where lanes come online
        for lane in cores.iter_mut().flat_map(|core| &mut core.lanes) {
            let told = self.lanes.entry(lane.cpu).or_default();
            *told = lane.busy_ns.max(*told);
            lane.busy_ns = *told;
        }
        self.count_instructions(&mut cores);
        cgroups::forget(&self.skel, &removed)?;
        self.removed = removed_before;
        let notes = self.notes();
        self.messages.append(&mut self.not_told);
        Ok(Snapshot {
            begun_ns: self.begun_ns,
            taken_ns,
            wall_ms,
            suspended_ns,
            rates: self.rates.clone(),
            cores,
            tasks: tasks.into_totals(&mut self.tasks),
            cgroups: self.cgroups.update(groups, &removed),
            notes,
            limits: self.limits.now(),
        })
    }

    /// Whether so many cgroups were removed since the last reading that another should make room for those
    /// to come.
    pub fn crowded(&self) -> bool {
        self.control(|control| &control.removed) >= self.removed + cgroups::CROWD
    }

    /// Ends it, but not yet the storage of tasks.
    pub fn into_storage(self) -> TaskStorage {
        self.storage
    }

    /// Why it does not see all of the machine any more, by the last reading, and should be started anew.
    pub fn outdated(&self) -> Option<&'static str> {
        let known = self.topology.lanes().map(|lane| lane.cpu).collect();
        if !self.online.is_subset(&known) {
            return Some(LANES_CAME);
        }
        let sampler = self.sampler.as_ref();
        if sampler.is_some_and(|sampler| !self.online.contains(sampler.cpu)) {
            return Some("the lane from which it looked at the others went offline");
        }
        if attached::enable_seq() != self.attached {
            return Some("a scheduler was attached, whose classes it does not know");
        }
        let ended = self.classes && !attached::is_attached();
        ended.then_some("the scheduler has ended, whose classes it knew")
    }

    /// Begins a reading: has the kernel write down what cores and lanes did until now, and count what is
    /// charged from then on as late. Returns how much of cgroups' totals was late before.
    fn ask_for_view(&mut self) -> Result<reading::LateBefore, Error> {
        let begin = Instant::now();
        loop {
            self.reading = self.reading.wrapping_add(1).max(1);
            let before = reading::late(&self.skel)?;
            self.tell_reading(self.reading);
            let run = (self.skel.progs.metrics_read).test_run(ProgramInput::default());
            if run.map_err(failed("read"))?.return_value == 0 {
                return Ok(before);
            }
            if begin.elapsed() > SWITCH_MAX {
                let reason = "cores change faster than they can be read";
                return Err(Error::Metrics(reason.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells the kernel the number of the reading that is under way; 0: none is.
    fn tell_reading(&mut self, number: u32) {
        if let Some(data) = self.skel.maps.data_metrics_data.as_mut() {
            // SAFETY: one aligned word of a mapping that the kernel reads, too
            unsafe { std::ptr::write_volatile(&raw mut data.control.reading, number) };
        }
    }

    /// Takes a view, and reads tasks and cgroups as of its moment; returns when that was. A task whose lane
    /// a hypervisor stopped within a switch is soon told when asked again.
    fn read_tasks(&mut self) -> Result<(u64, TaskTable, reading::Cgroups), Error> {
        let mut tries = 0;
        loop {
            let read = self.read_tasks_once();
            self.tell_reading(0);
            let (taken_ns, tasks, groups) = read?;
            tries += 1;
            if tasks.torn == 0 || tries == TRIES {
                return Ok((taken_ns, tasks, groups));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What a running task has not been charged for yet is added to its cgroup, unless it was charged before
    /// that was read. Where that is unknown, since it left its lane meanwhile, cgroups are read again: it
    /// leaves only once what the view saw.
    fn read_tasks_once(&mut self) -> Result<(u64, TaskTable, reading::Cgroups), Error> {
        let late_before = self.ask_for_view()?;
        let taken_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        let mut tasks = TaskTable::read(&self.skel, &self.task_reader, self.classes, self.reading)?;
        tasks.look_who_left(&self.skel)?;
        loop {
            let mut groups = reading::cgroups(&self.skel, self.classes, &late_before)?;
            if tasks.look_who_left(&self.skel)? == 0 {
                tasks.add_pending(&mut groups);
                return Ok((taken_ns, tasks, groups));
            }
        }
    }

    fn look_at_online(&mut self) -> Result<(), Error> {
        let online = tables::online(Path::new("/"))?;
        if online != self.online {
            self.hotplug += 1;
            self.online = online;
        }
        Ok(())
    }

    fn count_instructions(&mut self, cores: &mut [sidelane_smt::snapshot::CoreTotals]) {
        let Some(instructions) = &mut self.instructions else {
            return;
        };
        match instructions.count(cores, &self.rates.thread_perf) {
            Ok(Some(thread_perf)) => {
                set_speeds(&mut self.skel, &thread_perf);
                self.rates = Rates {
                    source: RateSource::Counters,
                    thread_perf,
                };
            }
            Ok(None) => {}
            Err(reason) => {
                self.messages.push(reason);
                self.instructions = None;
            }
        }
    }

    /// A word that the kernel counts.
    fn control(&self, word: fn(&metrics_control) -> &u64) -> u64 {
        let data = self.skel.maps.data_metrics_data.as_ref();
        // SAFETY: an aligned word of a mapping that the kernel writes
        data.map_or(0, |data| unsafe {
            std::ptr::read_volatile(word(&data.control))
        })
    }

    fn notes(&self) -> Notes {
        Notes {
            hotplug: self.hotplug,
            unknown_lanes: self.control(|c| &c.unknown_lanes),
            lost: self.control(|c| &c.lost),
            inconsistent: self.inconsistent,
            unlisted_tasks: self.unlisted,
            unlisted_cgroups: self.control(|c| &c.unlisted_cgroups),
            messages: self.messages.clone(),
        }
    }
}

/// Why a collector does not see the whole machine any more.
pub(crate) const LANES_CAME: &str = "lanes came online that were not there before";

/// Attaches what traces switches.
fn trace(progs: &MetricsProgs) -> Result<Vec<Link>, Error> {
    let tracers = [
        &progs.metrics_switch,
        &progs.metrics_wakeup,
        &progs.metrics_wakeup_new,
        &progs.metrics_offline,
    ];
    let links: Result<_, _> = tracers.map(|p| p.attach_trace()).into_iter().collect();
    links.map_err(failed("attach"))
}

/// The error of a step.
fn failed<E: std::fmt::Display>(step: &'static str) -> impl Fn(E) -> Error {
    move |error| {
        let details = sidelane_kernel::warnings();
        Error::Metrics(format!("cannot {step} the collector: {error}\n{details}"))
    }
}

/// Sets the speeds of lanes by which MT1 clocks go.
fn set_speeds(skel: &mut MetricsSkel<'_>, thread_perf: &[f64]) {
    let Some(data) = skel.maps.data_metrics_data.as_mut() else {
        return;
    };
    let one = f64::from(1u32 << intf::metrics_limits_METRICS_SPEED_SHIFT);
    let speeds = data.control.speeds.iter_mut().skip(1);
    for (word, speed) in speeds.zip(thread_perf) {
        // SAFETY: one aligned word of a mapping that the kernel reads, too
        unsafe { std::ptr::write_volatile(word, (speed * one).round() as u32) };
    }
}

/// A clock of the kernel.
pub(crate) fn now_ns(clock: ClockId) -> Result<u64, Error> {
    let time = clock_gettime(clock).map_err(|e| Error::Metrics(e.to_string()))?;
    Ok(Duration::from(time).as_nanos() as u64)
}

/// How long the machine was suspended since boot.
fn suspended_ns() -> Result<u64, Error> {
    // between two clocks anything may happen: the least is nearest
    let mut least_ns = u64::MAX;
    for _ in 0..5 {
        let running_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        let ns = now_ns(ClockId::CLOCK_BOOTTIME)?.saturating_sub(running_ns);
        least_ns = least_ns.min(ns);
    }
    Ok(least_ns)
}

pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
