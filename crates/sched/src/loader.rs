//! Loads the scheduler, keeps its rules current, and takes it away again.
//!
//! Nothing is pinned: when this process ends, however it ends, the kernel drops the
//! scheduler and its default one takes over.

mod adopting;
mod lifecycle;
mod size;
mod watch;

pub use lifecycle::{Requests, check_machine, run};

use crate::adopt::News;
use crate::bpf::{BpfSkel, BpfSkelBuilder, Plain, bytes_of, from_bytes, intf, zeroed};
use crate::carried::Carried;
use crate::cgroups;
use crate::config::Config;
use crate::counters::{self, Counters, NoCounters};
use crate::error::{load_error, until_nul};
use crate::idle::IdleBound;
use crate::labelled::LabelledTable;
use crate::layout::Layout;
use crate::pool::PoolTable;
use crate::printed::Printed;
use crate::resolve;
use crate::rules::Class;
use crate::signal;
use crate::{Error, ExitReason};
use adopting::Looks;
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, RingBuffer};
use scx_utils::{scx_ops_attach, scx_ops_load, scx_ops_open};
use sidelane_kernel::Urgent;
use sidelane_kernel::cgroups::LabelChanges;
use sidelane_topology::{CpuList, Topology};
use size::Rooms;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::time::Duration;
use watch::{Reads, Told};

/// How long the loader sleeps at most; where it watches cgroups, signals and new ones end that sooner. Each
/// look takes a lane from batch for a moment.
const POLL: Duration = Duration::from_millis(250);

/// What happens while the scheduler runs, for whoever tells the operator.
#[derive(Clone, Debug)]
pub enum Event {
    /// The scheduler runs now.
    Attached {
        /// Cores it schedules.
        cores: usize,
        /// Online lanes of those.
        lanes: usize,
        /// Class rules in force.
        rules: usize,
    },
    /// Some budgets are dynamic. They are charged by counters once these have shown what is lost,
    /// and by `thread_perf` until then; or always by that, for this reason.
    Dynamic(Result<(), NoCounters>),
    /// Computation is placed by what siblings bear, by stalled cycles (true) or cache misses; or by the order of the vector
    /// alone, and why.
    Symbiotic(Result<bool, NoCounters>),
    /// How long lanes are held follows computation by counters of instructions, or by lane time, and why.
    Timeouts(Result<(), NoCounters>),
    /// What happened to the tasks of a scheduler of batch alone.
    Tasks(News),
    /// Something that works less well than it could.
    Degraded(String),
    /// The kernel detached it and asked for a restart; it is being loaded again.
    Restarting(ExitReason),
    /// There is more of something than its table has room for; the scheduler is being loaded with larger ones.
    Outgrown(Outgrown),
    /// These lanes are online, others than it was made for; it is being loaded again.
    OtherLanes(CpuList),
    /// The configuration that was read again is another one; it is being loaded.
    Reloading,
    /// The configuration that was read again says what the one in force does.
    Unchanged,
    /// The configuration was read again and cannot be used; the one in force stays.
    NotReloaded(String),
}

/// More than a table has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgrown {
    /// Of what.
    pub what: &'static str,
    /// How many there are.
    pub found: usize,
    /// For how many there is room.
    pub room: usize,
}

impl std::fmt::Display for Outgrown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Outgrown { what, found, room } = self;
        write!(f, "{found} {what}, there was room for {room}")
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Event::Attached {
                cores,
                lanes,
                rules,
            } => {
                write!(
                    f,
                    "attached: {cores} cores, {lanes} lanes, {rules} class rules"
                )
            }
            Event::Dynamic(Ok(())) => write!(
                f,
                "dynamic budgets: charged by counters of instructions and cycles, by thread_perf \
                 until these are known ('sidelane stat' tells)"
            ),
            Event::Dynamic(Err(reason)) => {
                write!(f, "dynamic budgets: charged by thread_perf: {reason}")
            }
            Event::Symbiotic(Ok(stalls)) => write!(
                f,
                "symbiotic: by counters of cycles and {}, while a task's siblings idle",
                if *stalls { "stalls" } else { "cache misses" }
            ),
            Event::Symbiotic(Err(reason)) => {
                write!(f, "symbiotic: order of the vector alone: {reason}")
            }
            Event::Timeouts(Ok(())) => {
                write!(f, "retention: what others do is counted in instructions")
            }
            Event::Timeouts(Err(reason)) => {
                write!(
                    f,
                    "retention: what others do is lane time by thread_perf: {reason}"
                )
            }
            Event::Tasks(news) => news.fmt(f),
            Event::Degraded(what) => write!(f, "warning: {what}"),
            Event::Restarting(reason) => write!(f, "attaching again: {reason}"),
            Event::Outgrown(outgrown) => write!(f, "attaching again: {outgrown}"),
            Event::OtherLanes(online) => {
                write!(f, "attaching again: CPUs {online} are online now")
            }
            Event::Reloading => write!(f, "attaching again: the configuration has changed"),
            Event::Unchanged => write!(f, "the configuration is as before: nothing to reload"),
            Event::NotReloaded(why) => write!(
                f,
                "warning: the configuration is not reloaded, what was in force stays: {why}"
            ),
        }
    }
}

/// An attached scheduler.
struct Scheduler<'a> {
    skel: BpfSkel<'a>,
    link: Option<Link>,
    config: &'a Config,
    rules: Vec<intf::rule>,
    labelled: LabelledTable,
    /// Budgets that objectives of labels had learnt, by the ids of cgroups.
    learnt_ns: BTreeMap<u64, u64>,
    /// What was said of labels that are wrong.
    label_faults: Vec<String>,
    pools: PoolTable,
    /// What was written of that: others may tune it since.
    limits: Vec<intf::pool_limit>,
    paths: Vec<String>,
    /// It was told that pools are nested too deeply.
    told_depth: bool,
    /// For so many cgroups there is room.
    cgroup_room: usize,
    /// Whether weights of cgroups count.
    weights: bool,
    /// It has to be loaded again, with more room.
    outgrown: Option<Outgrown>,
    /// As they were when it was attached.
    live: intf::live_settings,
    events: Option<(RingBuffer<'a>, Told)>,
    looks: Looks,
    reads: Reads,
    cgroup_mount: Option<PathBuf>,
    /// None unless rules look at labels.
    label_changes: Option<LabelChanges>,
    signal: Option<signal::Service>,
    /// They count as long as they are open.
    _counters: Option<Counters>,
    /// Where what it prints is traced, until it goes.
    printed: Option<Printed>,
    /// Lanes that were online when it was made for them.
    online: CpuList,
    /// None without retention, or once it could not be kept.
    idle: Option<IdleBound>,
}

impl<'a> Scheduler<'a> {
    fn attach(
        config: &'a Config,
        carried: &Carried,
        object: &'a mut MaybeUninit<OpenObject>,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<Self, Error> {
        let urgent = Urgent::begin();
        let Found {
            topology,
            layout,
            rules,
            labelled,
            mut pools,
            cgroup_room,
            weights,
        } = Found::by(config)?;
        let widest = layout.lanes_per_core_max;
        let mut live = config.scheduler.live(widest);
        live.cores_awake = layout.cores.len() as u32;
        carried.apply(&mut live);
        pools.set_tuned(carried.pools_ns.clone());
        let counters = open_counters(config, &layout);
        let misses = (counters.as_ref().map_err(Clone::clone)).and_then(Counters::misses);
        let stalls = counters.as_ref().is_ok_and(Counters::stalls);
        let by_instructions = counts_work(config, &counters);
        let settings = config.scheduler.fixed(widest);
        let fixed = intf::fixed_settings {
            nr_rules: rules.len() as u32,
            nr_budgets: (1 + rules.len() + labelled.room()) as u32,
            has_cgroup_rules: cgroups::needed(&config.rules).into(),
            nr_pools: pools.len() as u32,
            cgroup_weights: weights.into(),
            counters: (counters.is_ok() && config.is_dynamic()).into(),
            symbiotic: misses.is_ok().into(),
            wait_counts: stalls.into(),
            miss_cycles: if stalls { 1 } else { settings.miss_cycles },
            retain_counts: by_instructions.is_ok().into(),
            ..settings
        };
        let fixed = for_others(fixed, config);
        let printed = Printed::before();
        let skel = load(&fixed, &live, &layout, cgroup_room, object)?;
        let mut scheduler = Scheduler {
            skel,
            link: None,
            config,
            rules,
            labelled,
            learnt_ns: carried.labelled_ns.clone(),
            label_faults: Vec::new(),
            pools,
            limits: Vec::new(),
            paths: Vec::new(),
            told_depth: false,
            cgroup_room,
            weights,
            outgrown: None,
            live,
            events: None,
            looks: Looks::default(),
            reads: Reads::default(),
            cgroup_mount: None,
            label_changes: None,
            signal: None,
            _counters: None,
            printed: None,
            online: topology.online().clone(),
            idle: IdleBound::of(&config.scheduler),
        };
        scheduler.fill_lanes(&layout)?;
        signal::fill_lines(&scheduler.skel.maps.lane_signals, &topology)?;
        scheduler.write_rules()?;
        scheduler.write_limits()?;
        carried.teach(&scheduler.skel.maps.sidelane_slo)?;
        scheduler.subscribe()?;
        if config.looks_at_cgroups() {
            scheduler.watch_cgroups(on_event)?;
        }
        if let Ok(counters) = &counters {
            counters.lend(&scheduler.skel)?;
        }
        let skel = &mut scheduler.skel;
        let link = scx_ops_attach!(skel, sidelane_ops).map_err(load_error("attach"))?;
        scheduler.link = Some(link);
        scheduler.follow_names();
        scheduler.printed = config.scheduler.trace.then_some(printed);
        drop(urgent); // before it starts threads
        scheduler.serve_signal(on_event);
        on_event(Event::Attached {
            cores: layout.cores.len(),
            lanes: layout.core_lanes.len(),
            rules: config.rules.len(),
        });
        if config.is_dynamic() {
            let counted = counters.as_ref().map(|_| ()).map_err(Clone::clone);
            on_event(Event::Dynamic(counted));
        }
        if config.scheduler.retains_by_counters() {
            on_event(Event::Timeouts(by_instructions));
        }
        if config.scheduler.symbiotic {
            on_event(Event::Symbiotic(misses.map(|()| stalls)));
        }
        scheduler._counters = counters.ok();
        Ok(scheduler)
    }

    /// Hands the lane signal to programs; where that is impossible they do without.
    fn serve_signal(&mut self, on_event: &mut dyn FnMut(Event)) {
        let maps = &self.skel.maps;
        let boards = signal::Boards::new(&maps.job_boards, &maps.job_boards_kept);
        let boards = boards.map_err(|e| Error::Signal(format!("share the maps: {e}")));
        let maps = boards.and_then(|boards| {
            signal::Maps::new(
                &maps.lane_signals,
                &maps.signal_events,
                &maps.signal_waiters,
                Some(boards),
            )
        });
        let served = maps.and_then(|maps| signal::Service::start(maps, &signal::socket_path()));
        match served {
            Ok(service) => self.signal = Some(service),
            Err(error) => on_event(Event::Degraded(error.to_string())),
        }
    }

    fn fill_lanes(&mut self, layout: &Layout) -> Result<(), Error> {
        fill(&self.skel.maps.lanes, &layout.lanes)?;
        fill(&self.skel.maps.cores, &layout.cores)?;
        fill(&self.skel.maps.core_lanes, &layout.core_lanes)
    }

    fn write_rules(&self) -> Result<(), Error> {
        fill(&self.skel.maps.rules, &self.rules)
    }

    /// How long lanes were held so far, ns; 0 where that cannot be read.
    fn held_ns(&self) -> u64 {
        let stats = &self.skel.maps.sidelane_stats;
        let lanes = stats.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY);
        let lanes = lanes.ok().flatten().unwrap_or_default();
        let of = |bytes: &Vec<u8>| from_bytes(bytes).map_or(0, |of: intf::counters| of.held_ns);
        lanes.iter().map(of).sum()
    }

    /// While lanes are held they do not sleep deeply; where that cannot be had it is said once.
    fn bound_idle(&mut self, on_event: &mut dyn FnMut(Event)) {
        let held_ns = self.idle.as_ref().map(|_| self.held_ns());
        if let (Some(idle), Some(held_ns)) = (&mut self.idle, held_ns)
            && let Err(error) = idle.look(held_ns)
        {
            on_event(Event::Degraded(format!(
                "lanes that are held may sleep deeply: {error}"
            )));
            self.idle = None;
        }
    }

    fn wait(&self) {
        match &self.events {
            // an interrupted poll is as good as a time-out
            Some((ring, _)) => drop(ring.poll(POLL)),
            None => std::thread::sleep(POLL),
        }
    }

    /// Notes what the next attachment is to keep.
    fn hand_over(&self, carried: &mut Carried) {
        if let Some(data) = &self.skel.maps.data_sidelane_data {
            let mut ended = zeroed();
            copy_bytes(&data.live, &mut ended);
            carried.note_settings(&self.live, &ended);
        }
        carried.note_learnt(&self.skel.maps.sidelane_slo);
        let limit = |key: usize| {
            let map = &self.skel.maps.sidelane_limits;
            let bytes = map.lookup(&(key as u32).to_ne_bytes(), MapFlags::ANY);
            from_bytes(&bytes.ok()??)
        };
        // one that cannot be read is as it was written
        let now = self.limits.iter().enumerate();
        let now: Vec<_> = now
            .map(|(key, written)| limit(key).unwrap_or(*written))
            .collect();
        carried.pools_ns = self.pools.tuned(&self.limits, &now);
    }

    fn exited(&self) -> bool {
        self.exit_kind() != 0
    }

    fn exit_kind(&self) -> i32 {
        match &self.skel.maps.data_data {
            // SAFETY: the kernel writes this word of a mapping that lives as long as self
            Some(data) => unsafe { std::ptr::read_volatile(&data.uei.kind) },
            None => 0,
        }
    }

    /// What the kernel wrote down when it ejected the scheduler.
    fn dump(&self) -> String {
        let dump = self
            .skel
            .maps
            .data_uei_dump
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        until_nul(&dump.ok().flatten().unwrap_or_default())
    }

    fn exit_reason(&self) -> ExitReason {
        let data = self.skel.maps.data_data.as_ref();
        let unknown = zeroed();
        ExitReason {
            kind: self.exit_kind(),
            dump: self.dump(),
            ..ExitReason::of(data.map_or(&unknown, |data| &data.uei))
        }
    }
}

/// What a configuration names on this machine, looked up and counted without loading anything.
struct Found {
    topology: Topology,
    layout: Layout,
    rules: Vec<intf::rule>,
    labelled: LabelledTable,
    pools: PoolTable,
    cgroup_room: usize,
    weights: bool,
}

impl Found {
    fn by(config: &Config) -> Result<Found, Error> {
        let topology = Topology::read(Path::new("/"))?;
        let layout = Layout::new(&topology)?;
        let rules = resolve::table(&config.rules)?;
        let rooms = Rooms::now(config);
        let pools = PoolTable::new(&config.pools, layout.capacity(), rooms.quotas);
        Ok(Found {
            topology,
            layout,
            labelled: LabelledTable::new(rules.len(), rooms.objectives),
            rules,
            pools,
            cgroup_room: rooms.cgroups,
            weights: rooms.weights,
        })
    }
}

/// Opens counters on all lanes if they are of use.
fn open_counters(config: &Config, layout: &Layout) -> Result<Counters, NoCounters> {
    let symbiotic = config.scheduler.symbiotic;
    if !config.is_dynamic() && !symbiotic && !config.scheduler.retains_by_counters() {
        return Err(NoCounters::NotNeeded);
    }
    if config.scheduler.only_batch() {
        return Err(NoCounters::OnlyBatch);
    }
    let cpus = layout.core_lanes.iter().copied();
    Counters::open(config.scheduler.counters, symbiotic, cpus)
}

/// Whether counters say what tasks do while lanes are held.
fn counts_work(config: &Config, counters: &Result<Counters, NoCounters>) -> Result<(), NoCounters> {
    if !config.scheduler.retains_by_counters() {
        return Err(NoCounters::NotNeeded);
    }
    counters.as_ref().map_err(Clone::clone)?;
    match counters::ticks_can_be_seen() {
        true => Ok(()),
        // a task that runs alone would be read once it sleeps
        false => Err(NoCounters::NoTicks),
    }
}

/// With what the scheduler takes the tasks for that the kernel's own keeps, where it has batch alone.
fn for_others(fixed: intf::fixed_settings, config: &Config) -> intf::fixed_settings {
    let names = |class| config.rules.iter().any(|rule| rule.class == class);
    let (critical, normal) = (names(Class::Critical), names(Class::Normal));
    intf::fixed_settings {
        others: match critical {
            true => intf::task_class_CLASS_NORMAL,
            false => intf::task_class_CLASS_CRITICAL,
        },
        others_ruled: (critical || normal).into(),
        ..fixed
    }
}

/// Between two ticks of the kernel, ns: the step of its coarse clocks. 0 if that cannot be had.
fn tick_ns() -> u64 {
    let mut step = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes the structure it is given
    let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &raw mut step) } != 0;
    if failed {
        return 0;
    }
    step.tv_sec as u64 * 1_000_000_000 + step.tv_nsec as u64
}

/// Opens, sizes and loads the BPF object.
fn load<'a>(
    fixed: &intf::fixed_settings,
    live: &intf::live_settings,
    layout: &Layout,
    cgroup_room: usize,
    object: &'a mut MaybeUninit<OpenObject>,
) -> Result<BpfSkel<'a>, Error> {
    let builder = BpfSkelBuilder::default();
    let mut skel = scx_ops_open!(
        builder,
        object,
        sidelane_ops,
        None::<libbpf_rs::libbpf_sys::bpf_object_open_opts>
    )
    .map_err(load_error("open"))?;
    size::tables(&mut skel.maps, fixed, layout, cgroup_room)?;
    if let Some(rodata) = skel.maps.rodata_data.as_mut() {
        rodata.nr_cores = layout.cores.len() as u32;
        rodata.nr_lanes = layout.lanes.len() as u32;
        rodata.tick_ns = tick_ns();
        rodata.uei_dump_len = size::DUMP_BYTES;
    }
    if let Some(rodata) = skel.maps.rodata_sidelane_data.as_mut() {
        copy_bytes(fixed, &mut rodata.fixed);
    }
    if let Some(data) = skel.maps.data_sidelane_data.as_mut() {
        copy_bytes(live, &mut data.live);
    }
    let counted = fixed.counters > 0 || fixed.symbiotic > 0 || fixed.retain_counts > 0;
    let progs = &mut skel.progs;
    progs.sidelane_count_switch.set_autoload(counted);
    // without it intervals last from switch to switch, and few are of one kind
    let ticks = counters::ticks_can_be_seen();
    (progs.sidelane_count_tick).set_autoload(counted && ticks);
    let only_batch = fixed.only_batch > 0;
    (skel.progs.sidelane_follow_switch).set_autoload(only_batch);
    adopting::autoload(&mut skel.progs, only_batch);
    // without it what waits on a closed core, or behind a real-time task, is seen when something else happens there
    (skel.progs.sidelane_follow_tick).set_autoload(ticks);
    if only_batch {
        let ops = skel.struct_ops.sidelane_ops_mut();
        ops.update_idle = std::ptr::null_mut();
        ops.flags |= *scx_utils::compat::SCX_OPS_SWITCH_PARTIAL;
        skel.progs.sidelane_update_idle.set_autoload(false);
    } else if fixed.cgroup_weights == 0 {
        let ops = skel.struct_ops.sidelane_ops_mut();
        (ops.runnable, ops.quiescent) = (std::ptr::null_mut(), std::ptr::null_mut());
        skel.progs.sidelane_runnable.set_autoload(false);
        skel.progs.sidelane_quiescent.set_autoload(false);
    }
    // what exits is placed like all else: the kernel would leave it on its lane, of a closed core too, and let that idle
    skel.struct_ops.sidelane_ops_mut().flags |=
        *scx_utils::compat::SCX_OPS_ENQ_LAST | *scx_utils::compat::SCX_OPS_ENQ_EXITING;
    scx_ops_load!(skel, sidelane_ops, uei).map_err(load_error("load"))
}

/// Copies between the two bindings (bindgen's, the skeleton's) of one C structure.
fn copy_bytes<A: Copy, B: Copy>(from: &A, to: &mut B) {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: plain data of the same size and the same C layout
    unsafe {
        std::ptr::copy_nonoverlapping(
            from as *const A as *const u8,
            to as *mut B as *mut u8,
            size_of::<A>(),
        )
    };
}

/// Writes a table into an array map.
fn fill<T: Plain>(map: &impl MapCore, table: &[T]) -> Result<(), Error> {
    for (key, entry) in table.iter().enumerate() {
        write(map, key, entry)?;
    }
    Ok(())
}

/// Writes an entry of an array map.
fn write<T: Plain>(map: &impl MapCore, key: usize, entry: &T) -> Result<(), Error> {
    map.update(&(key as u32).to_ne_bytes(), bytes_of(entry), MapFlags::ANY)
        .map_err(load_error("fill the tables of"))
}
