//! Counters of the running scheduler, read from its map by whoever may.

use crate::Class;
pub use crate::adopt::Adopted;
use crate::adopt::adopted;
use crate::bpf::{from_bytes, intf, types};
use crate::charge::{ChargeState, Charges};
use crate::error::ExitReason;
use crate::running::scope;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapInfo, ProgramType};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use sidelane_kernel::pools::{PoolRates, PoolState, Pools};
use sidelane_kernel::{Error, attached, cgroups};
use sidelane_policy::settings::Scope;
use sidelane_policy::{Budget, Polarization};
use sidelane_topology::printable;
use std::collections::HashMap;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The counters' map; the kernel keeps 15 bytes of a name.
const MAP_NAME: &[u8] = b"sidelane_stats";
/// The map of what became of objectives.
const OBJECTIVES: &[u8] = b"sidelane_slo";

/// What has an objective.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whose {
    /// The rule, from 1 in their order; 0: `[scheduler]`.
    Rule(u32),
    /// The label of the cgroup at this path.
    Cgroup(String),
}

/// What became of an objective (`borrow = "slo"`).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveState {
    /// What has it.
    #[serde(flatten)]
    pub of: Whose,
    /// The budget now, ms.
    pub budget_ms: f64,
    /// Tail of the critical jobs in the last window, at the objective's percentile, ms.
    pub tail_ms: f64,
    /// Windows since attach.
    pub windows: u64,
    /// Those whose tail was beyond the objective.
    pub missed: u64,
}

/// A handle on the running scheduler's counters.
pub struct Reader {
    map: MapHandle,
    objectives: MapHandle,
    charges: Charges,
    pools: Pools,
    /// Data of its programs: why it ended.
    data: MapHandle,
    /// Of its counters, as the kernel numbers maps.
    id: u32,
}

/// Settings of the running scheduler that are in force.
#[derive(Clone, Debug, PartialEq)]
pub struct InForce {
    /// Which tasks it has.
    pub scope: Scope,
    /// Lanes of a core that critical and normal work may keep busy.
    pub smt_level: u32,
    /// How long batch may run beside critical work of rules without a budget of their own.
    pub budget: Budget,
    /// Which cores normal and batch work uses.
    pub polarization: Polarization,
    /// With vertical polarization: on how many it does.
    pub cores_awake: Option<u32>,
    /// With scope `batch`: the threads that it has, if that can be read.
    pub threads: Option<Adopted>,
}

/// The map of the programs' data; the kernel keeps 15 bytes of a name.
const DATA: &[u8] = b"bpf_bpf.data";
/// How the names of its programs begin.
const PROGRAMS: &[u8] = b"sidelane_";

impl Reader {
    /// Finds the running scheduler.
    ///
    /// # Errors
    /// [`Error::NotPrivileged`], [`Error::NotRunning`], or [`Error::Running`].
    pub fn open() -> Result<Reader, Error> {
        let map = attached::map(MAP_NAME, size_of::<intf::counters>())?;
        let objectives = attached::map(OBJECTIVES, size_of::<intf::objective>())?;
        let charges = Charges::open()?;
        let pools = Pools::open()?;
        let data = attached::data(DATA, size_of::<types::data>())?;
        let info = MapInfo::new(map.as_fd()).map_err(|e| Error::Running(e.to_string()))?;
        Ok(Reader {
            id: info.info.id,
            map,
            objectives,
            charges,
            pools,
            data,
        })
    }

    /// A number that another scheduler's reader does not have, also when both are of the same program.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// When the scheduler was loaded, a moment before it was attached; none: the kernel does not tell.
    pub fn loaded(&self) -> Option<SystemTime> {
        // the newest, as with the maps
        let programs = ProgInfoIter::default().filter(|program| {
            program.ty == ProgramType::StructOps && program.name.as_bytes().starts_with(PROGRAMS)
        });
        let loaded = programs.map(|program| program.load_time).max()?;
        let now = Duration::from(clock_gettime(ClockId::CLOCK_BOOTTIME).ok()?);
        SystemTime::now().checked_sub(now.checked_sub(loaded)?)
    }

    /// Why it ended; none while it has not. It can be read also then, as long as this lives.
    pub fn exit_reason(&self) -> Option<ExitReason> {
        let data = self
            .data
            .lookup(&0u32.to_ne_bytes(), MapFlags::ANY)
            .ok()??;
        let info = data.get(offset_of!(types::data, uei)..)?;
        let reason = ExitReason::of(&from_bytes::<types::user_exit_info>(info)?);
        (reason.kind != 0).then_some(reason)
    }

    /// The settings in force.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn in_force(&self) -> Result<InForce, Error> {
        let live = self.charges.live()?;
        let live = live.ok_or_else(|| Error::Running("it has no settings".to_owned()))?;
        let scope = scope();
        Ok(InForce {
            scope,
            smt_level: live.smt_level,
            budget: Budget::of_native(&live.budget),
            polarization: Polarization::of_native(live.vertical),
            cores_awake: (live.vertical != 0).then_some(live.cores_awake),
            threads: (scope == Scope::Batch).then(adopted).flatten(),
        })
    }

    /// The pools, in the order of the configuration.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn pools(&self) -> Result<Vec<PoolState>, Error> {
        self.pools.read()
    }

    /// Dynamic budgets, and by what they are charged.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn charges(&self) -> Result<Vec<ChargeState>, Error> {
        self.charges.read()
    }

    /// Objectives that have had a window.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn objectives(&self) -> Result<Vec<ObjectiveState>, Error> {
        let mut states = Vec::new();
        for index in 0..self.objectives.max_entries() {
            let state = attached::entry::<intf::objective>(&self.objectives, index)?;
            states.extend(
                state
                    .filter(|state| state.windows > 0)
                    .map(|it| (index, it)),
            );
        }
        let labelled = states.iter().any(|(_, state)| state.cgroup != 0);
        let mount = labelled.then(|| cgroups::mount_point(Path::new("/")));
        let mount = mount.and_then(|mount| mount.ok().flatten());
        let paths = mount.map_or_else(HashMap::new, |mount| cgroups::list(&mount));
        let told = |(index, state): (u32, intf::objective)| {
            Some(ObjectiveState {
                of: match state.cgroup {
                    0 => Whose::Rule(index),
                    // one that is gone is told no more
                    cgroup => Whose::Cgroup(paths.get(&cgroup)?.clone()),
                },
                budget_ms: state.budget_ns as f64 / 1e6,
                tail_ms: state.tail_ns as f64 / 1e6,
                windows: state.windows,
                missed: state.missed,
            })
        };
        Ok(states.into_iter().filter_map(told).collect())
    }

    /// Reads the totals.
    ///
    /// # Errors
    /// [`Error::NotRunning`] once the scheduler is gone, [`Error::Running`] otherwise.
    pub fn read(&self) -> Result<intf::counters, Error> {
        match attached::is_attached() {
            true => self.last(),
            false => Err(Error::NotRunning),
        }
    }

    /// Reads the totals, also of a scheduler that has ended.
    ///
    /// # Errors
    /// [`Error::Running`].
    pub fn last(&self) -> Result<intf::counters, Error> {
        let none = intf::counters::default();
        let all = self.per_cpu()?;
        Ok(all.iter().fold(none, |sum, lane| sum.plus(lane)))
    }

    /// Time that critical and normal work ran on each lane since attach, ns; by CPU number.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn foreground_ns(&self) -> Result<Vec<u64>, Error> {
        let of = |counters: &intf::counters| {
            counters.run_ns[Class::Critical as usize] + counters.run_ns[Class::Normal as usize]
        };
        if !attached::is_attached() {
            return Err(Error::NotRunning);
        }
        Ok(self.per_cpu()?.iter().map(of).collect())
    }

    fn per_cpu(&self) -> Result<Vec<intf::counters>, Error> {
        let per_cpu = self
            .map
            .lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)
            .map_err(|e| Error::Running(e.to_string()))?
            .ok_or_else(|| Error::Running("the map is empty".to_owned()))?;
        let read = |bytes: &Vec<u8>| {
            from_bytes(bytes).ok_or_else(|| Error::Running("a counter set is too short".to_owned()))
        };
        per_cpu.iter().map(read).collect()
    }
}

/// A number for each class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ByClass {
    /// Of critical work.
    pub critical: f64,
    /// Of normal work.
    pub normal: f64,
    /// Of batch.
    pub batch: f64,
}

impl ByClass {
    fn of(of_class: impl Fn(Class) -> f64) -> ByClass {
        ByClass {
            critical: of_class(Class::Critical),
            normal: of_class(Class::Normal),
            batch: of_class(Class::Batch),
        }
    }
}

/// Critical wake-ups, by where they went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Placed<T> {
    /// To a core that was idle.
    pub idle_core: T,
    /// To a core that was taken back from batch.
    pub borrowed_core: T,
    /// To a core that other critical or normal work shares.
    pub shared_core: T,
    /// Nowhere at once: they had to wait.
    pub queued: T,
}

impl<T> Placed<T> {
    fn of(counters: &intf::counters, count: impl Fn(u64) -> T) -> Placed<T> {
        Placed {
            idle_core: count(counters.critical_idle_core),
            borrowed_core: count(counters.critical_borrowed_core),
            shared_core: count(counters.critical_shared_core),
            queued: count(counters.critical_queued),
        }
    }
}

/// Runs by the starvation bound, of normal and batch work.
fn overdue(counters: &intf::counters) -> u64 {
    counters.overdue[Class::Normal as usize] + counters.overdue[Class::Batch as usize]
}

/// Steals at all distances.
fn steals(counters: &intf::counters) -> u64 {
    counters.steals[1..].iter().sum()
}

/// Makes [`Rates`] and [`Totals`]; the counters named at the end are rates a second in the one and totals in the
/// other, nothing else.
macro_rules! rates {
    ($($(#[$of:meta])* $name:ident,)*) => {
        /// What happened in one interval. Rates are per second, lanes are averages.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Rates {
            /// Length of the interval.
            pub interval_s: f64,
            /// Which tasks the scheduler has. With `batch`, what is said of critical and normal work is 0.
            pub scope: Scope,
            /// With `batch`: the threads that it had at the end.
            pub threads: Option<Adopted>,
            /// Lanes that ran work of each class, on average.
            pub busy_lanes: ByClass,
            /// Critical wake-ups.
            pub critical_placed: Placed<f64>,
            /// Mean time of an eviction from asked to gone; none without one.
            pub evict_wait_us: Option<f64>,
            /// Runs by the starvation bound, of normal and batch work.
            pub overdue: f64,
            /// Steals at all distances.
            pub steals: f64,
            /// Lanes held.
            pub held_lanes: f64,
            /// Of those, in holds at whose beginning or end something waited.
            pub held_waited_lanes: f64,
            $($(#[$of])* pub $name: f64,)*
            /// Objectives that have had a window, as they are at the end.
            pub objectives: Vec<ObjectiveState>,
            /// Dynamic budgets, as they are charged at the end.
            pub dynamic: Vec<ChargeState>,
            /// With vertical polarization: cores on which normal and batch work ran at the end.
            pub cores_awake: Option<u32>,
            /// Pools.
            pub pools: Vec<PoolRates>,
            /// What was counted since the scheduler was attached, by the end of the interval.
            pub totals: Totals,
        }

        /// What was counted since the scheduler was attached.
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        pub struct Totals {
            /// Time that lanes ran work of each class, s.
            pub busy_lane_s: ByClass,
            /// Critical wake-ups.
            pub critical_placed: Placed<u64>,
            /// Sum over evictions from asked to gone, s.
            pub evict_wait_s: f64,
            /// Runs by the starvation bound, of normal and batch work.
            pub overdue: u64,
            /// Steals at all distances.
            pub steals: u64,
            /// Time that lanes were held, s.
            pub held_lane_s: f64,
            /// Of that, in holds at whose beginning or end something waited.
            pub held_waited_lane_s: f64,
            $($(#[$of])* pub $name: u64,)*
        }

        impl Totals {
            fn of(counters: &intf::counters) -> Totals {
                let seconds = |ns: u64| ns as f64 / 1e9;
                Totals {
                    busy_lane_s: ByClass::of(|class| seconds(counters.run_ns[class as usize])),
                    critical_placed: Placed::of(counters, |count| count),
                    evict_wait_s: seconds(counters.evict_wait_ns),
                    overdue: overdue(counters),
                    steals: steals(counters),
                    held_lane_s: seconds(counters.held_ns),
                    held_waited_lane_s: seconds(counters.held_waited_ns),
                    $($name: counters.$name,)*
                }
            }
        }

        impl Rates {
            /// What happened between two readings.
            pub fn between(before: &intf::counters, after: &intf::counters, elapsed: Duration) -> Rates {
                let seconds = elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
                let since = after.since(before);
                let rate = |total: u64| total as f64 / seconds;
                Rates {
                    interval_s: seconds,
                    busy_lanes: ByClass::of(|class| rate(since.run_ns[class as usize]) / 1e9),
                    critical_placed: Placed::of(&since, rate),
                    evict_wait_us: (since.evictions > 0)
                        .then(|| since.evict_wait_ns as f64 / since.evictions as f64 / 1e3),
                    overdue: rate(overdue(&since)),
                    steals: rate(steals(&since)),
                    held_lanes: rate(since.held_ns) / 1e9,
                    held_waited_lanes: rate(since.held_waited_ns) / 1e9,
                    $($name: rate(since.$name),)*
                    totals: Totals::of(after),
                    ..Rates::default()
                }
            }
        }
    };
}

rates! {
    /// Evictions of batch.
    evictions,
    /// Critical jobs that moved to a better core.
    promotions,
    /// Those that were to move, but slept or found the core taken.
    promotions_dropped,
    /// Jobs of critical work that programs marked.
    marked_jobs,
    /// Marked jobs that were not looked at: more at a time than a slot of the job board holds.
    marked_jobs_missed,
    /// Cores woken for normal and batch work (vertical polarization).
    cores_woken,
    /// Cores parked.
    cores_parked,
    /// Tasks that came back to a lane that was held for them (retention).
    retentions,
    /// Those that did not, in time.
    retentions_failed,
    /// Naps of batch tasks for which a lane was held.
    nap_holds,
    /// Normal tasks that made room for I/O-bound ones (pairing).
    hand_backs,
    /// Tasks that went to another core so that its tasks differ.
    swaps,
    /// Tasks that were taken for what ran beside them (symbiosis).
    symbiotic,
}

impl Rates {
    fn columns(&self) -> String {
        let ByClass {
            critical,
            normal,
            batch,
        } = self.busy_lanes;
        let Placed {
            idle_core,
            borrowed_core,
            shared_core,
            queued,
        } = self.critical_placed;
        let wait = (self.evict_wait_us).map_or("-".to_owned(), |us| format!("{us:.0}"));
        let batches = format!(
            "{:7.0} {wait:>7} {:7.1} {:7.0}",
            self.evictions, self.overdue, self.steals
        );
        let threads = |of: fn(&Adopted) -> usize| {
            (self.threads.as_ref()).map_or("-".to_owned(), |threads| of(threads).to_string())
        };
        match self.scope {
            Scope::All => format!(
                "{critical:8.2} {normal:7.2} {batch:7.2} {idle_core:7.0} {borrowed_core:7.0} \
                 {shared_core:7.0} {queued:7.0} {batches} {:7.1}\n",
                self.promotions
            ),
            Scope::Batch => format!(
                "{batch:8.2} {batches} {:>8} {:>7}\n",
                threads(|threads| threads.adopted),
                threads(|threads| threads.lent)
            ),
        }
    }

    /// A table line, with the heading before every twentieth.
    pub fn line(&self, index: u64) -> String {
        let line = self.columns();
        let line = self.objectives.iter().fold(line, |lines, objective| {
            format!("{lines}{}", objective.line())
        });
        let line = self.dynamic.iter().fold(line, |lines, budget| {
            format!("{lines}  {}\n", budget.line())
        });
        let line = match self.cores_awake {
            Some(awake) => format!(
                "{line}  vertical polarization: {awake} cores awake, {:.1} woken and {:.1} parked a \
                 second\n",
                self.cores_woken, self.cores_parked
            ),
            None => line,
        };
        let line = match self.retentions + self.retentions_failed > 0.0 {
            true => format!(
                "{line}  retention: {:.2} lanes held ({:.2} while others waited), {:.0} came back and \
                 {:.0} not in time a second\n",
                self.held_lanes, self.held_waited_lanes, self.retentions, self.retentions_failed
            ),
            false => line,
        };
        let line = match self.nap_holds > 0.0 {
            true => format!(
                "{line}  naps: a lane held for {:.0} of them a second\n",
                self.nap_holds
            ),
            false => line,
        };
        let line = match self.hand_backs + self.swaps > 0.0 {
            true => format!(
                "{line}  pairing: room made {:.0} times a second, {:.1} tasks changed places\n",
                self.hand_backs, self.swaps
            ),
            false => line,
        };
        let line = match self.symbiotic > 0.0 {
            true => format!(
                "{line}  symbiosis: {:.0} tasks a second taken for what ran beside them\n",
                self.symbiotic
            ),
            false => line,
        };
        let pools: String = self.pools.iter().map(PoolRates::line).collect();
        let line = line + &pools;
        if index.is_multiple_of(20) {
            format!("{}{line}", heading(self.scope))
        } else {
            line
        }
    }
}

impl ObjectiveState {
    fn line(&self) -> String {
        let of = match &self.of {
            Whose::Rule(0) => "objective".to_owned(),
            Whose::Rule(rule) => format!("objective of rule {rule}"),
            Whose::Cgroup(path) => format!("objective of {}", printable(path.as_bytes())),
        };
        format!(
            "  {of}: tail {:.3} ms, budget {:.3} ms, missed in {} of {} windows\n",
            self.tail_ms, self.budget_ms, self.missed, self.windows
        )
    }
}

fn heading(scope: Scope) -> &'static str {
    match scope {
        Scope::All => HEADING,
        Scope::Batch => HEADING_OF_BATCH,
    }
}

const HEADING: &str = "\
--------- busy lanes --- ---- critical wake-ups to ----- -- evictions --  starve  steals promote
critical  normal   batch    idle   taken  shared  queued      /s wait_us      /s      /s      /s
";

const HEADING_OF_BATCH: &str = "\
-- batch -- evictions --  starve  steals -- threads of --
   lanes      /s wait_us      /s      /s Sidelane  kernel
";

/// Reads the counters at a steady interval.
pub struct Watch {
    reader: Reader,
    interval: Duration,
    before: intf::counters,
    pools: Vec<PoolState>,
    at: Instant,
}

impl Watch {
    /// Takes the first reading.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn new(reader: Reader, interval: Duration) -> Result<Watch, Error> {
        let before = reader.read()?;
        let pools = reader.pools()?;
        Ok(Watch {
            reader,
            interval,
            before,
            pools,
            at: Instant::now(),
        })
    }

    /// Waits for the end of the interval; none when `stop` was set meanwhile.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn next(&mut self, stop: &AtomicBool) -> Result<Option<Rates>, Error> {
        const LOOK: Duration = Duration::from_millis(50);
        let due = self.at + self.interval;
        while let Some(left) = due.checked_duration_since(Instant::now()) {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            std::thread::sleep(left.min(LOOK));
        }
        let after = self.reader.read()?;
        let now = Instant::now();
        let pools = self.reader.pools()?;
        let pool_rates = pools.iter().filter_map(|after| {
            let before = self.pools.iter().find(|pool| pool.cgroup == after.cgroup)?;
            Some(after.since(before, now - self.at))
        });
        let InForce {
            scope,
            cores_awake,
            threads,
            ..
        } = self.reader.in_force()?;
        let rates = Rates {
            pools: pool_rates.collect(),
            objectives: self.reader.objectives()?,
            dynamic: self.reader.charges()?,
            cores_awake,
            scope,
            threads,
            ..Rates::between(&self.before, &after, now - self.at)
        };
        (self.before, self.pools, self.at) = (after, pools, now);
        Ok(Some(rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_second_of_the_interval() {
        let before = intf::counters {
            evictions: 6,
            ..intf::counters::default()
        };
        let mut after = intf::counters {
            evictions: 10,
            evict_wait_ns: 100_000,
            ..intf::counters::default()
        };
        after.run_ns[Class::Batch as usize] = 6_000_000_000;
        after.steals = [0, 1, 2, 3];
        let rates = Rates::between(&before, &after, Duration::from_secs(2));
        assert_eq!(
            (rates.busy_lanes.critical, rates.busy_lanes.batch),
            (0.0, 3.0)
        );
        assert_eq!((rates.evictions, rates.evict_wait_us), (2.0, Some(25.0)));
        assert_eq!(rates.steals, 3.0);
        let totals = &rates.totals;
        assert_eq!((totals.evictions, totals.steals), (10, 6));
        assert_eq!(totals.busy_lane_s.batch, 6.0);
    }

    #[test]
    fn lines_fit_a_hundred_columns_below_their_heading() {
        let rates = Rates::between(
            &intf::counters::default(),
            &intf::counters {
                evictions: 123_456,
                ..intf::counters::default()
            },
            Duration::from_secs(1),
        );
        let text = rates.line(0);
        assert_eq!(text.lines().count(), 3);
        assert!(
            text.lines()
                .all(|line| line.len() <= 100 && line.len() > 80),
            "{text}"
        );
        assert_eq!(rates.line(1).lines().count(), 1);
        let rates = Rates {
            scope: Scope::Batch,
            threads: Some(Adopted {
                adopted: 12_345,
                lent: 678,
            }),
            ..rates
        };
        let text = rates.line(0);
        let widths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(widths, [widths[0]; 3], "{text}");
        assert!(text.ends_with("   12345     678\n"), "{text}");
    }
}
