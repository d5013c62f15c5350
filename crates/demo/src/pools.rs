//! Two pools of the same entitlement, one of whose work shares a core: what each of them gets, with SMT on
//! and off, charged by MT1-equivalent time and by raw time.
//!
//! The live counterpart of the source's seventh table. There pools with a capacity limit lose work when SMT
//! is switched on, since they are charged for the time on a lane whatever else its core does.

use crate::arguments::{between, seconds_as_ms, within, within_ms};
use crate::batch::Batch;
use crate::error::{Error, Result};
use crate::experiment::{Experiment, Site, Turn};
use crate::figures::{self, Facts, HIDDEN, Row, Runs};
use crate::machine::{Cgroups, Machine, SmtSwitch};
use crate::plan::setups;
use crate::reference;
use crate::scheduler::Scheduler;
use crate::sys::{cpu_time_ns, pin};
use crate::table::Table;
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// Length of a measurement of the cores' speed.
const REFERENCE: Duration = Duration::from_millis(700);
/// Pause after each change of places: several of the pools' periods.
const SETTLE: Duration = Duration::from_millis(500);
/// The pools' cgroups.
const POOLS: [&str; 2] = ["alone", "sharing"];
/// Period of the pools and slice of their processes: an emulated wake-up or switch costs about a
/// millisecond of work, the pool that shares has more of them, and they are not what is compared.
const PERIOD_MS: u32 = 250;
const SLICE_MS: u32 = 100;

setups! {
    /// How pools are charged, and whether there is SMT.
    pub enum Setup {
        /// One lane a core: both ways to charge are the same.
        SmtOff = "SMT off",
        /// All lanes, charged by MT1-equivalent time.
        Mt1 = "SMT on, MT1 time",
        /// All lanes, charged by time on a lane.
        Raw = "SMT on, raw time",
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct PoolsPlan {
    /// How often each setup is measured.
    #[arg(long, default_value_t = 5, value_name = "N")]
    repetitions: u32,
    // 0.4 of a core is less than a core does however it is charged, so that the limit decides
    /// Capacity limit of each pool; lanes where raw time is charged.
    #[arg(long = "capacity", default_value_t = 0.4, value_name = "CORES")]
    capacity_cores: f64,
    // in it each process is the one alone on each core once
    /// Length of a run.
    #[arg(long = "seconds", default_value = "12", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    /// Start of all random numbers: same seed, same text to compress.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What is found in a run, on two cores; pools and processes have changed places several times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Speed of a lane when 1, 2, ... lanes of its core work, as the scheduler was told: measured before.
    pub thread_perf: Vec<f64>,
    /// The pool with one process, alone on its core.
    pub alone: Pool,
    /// The pool with a process for each lane of its core.
    pub sharing: Pool,
}

/// What a pool got.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pool {
    /// Its work, in units of what the core does whose first lane alone works: cores.
    pub work_cores: f64,
    /// Time on lanes per time: lanes.
    pub lanes: f64,
}

type Run = figures::Run<Setup, Found>;
type Column = figures::Column<Setup, Found>;

/// What is alive while measuring.
pub struct Rig {
    /// Back on when this value goes.
    smt: SmtSwitch,
    /// The cores in use.
    machine: Machine,
    /// Speed of a lane of theirs when 1, 2, ... lanes work.
    thread_perf: Vec<f64>,
    /// One more than a core has lanes: one is alone, the others share.
    work: Batch,
    cgroups: Cgroups,
}

/// What is printed as JSON, beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Speed of a lane when 1, 2, ... lanes of its core work, measured with this work; the scheduler was
    /// told so.
    pub thread_perf: Vec<f64>,
    /// Entitlement of each pool: cores, or lanes where raw time is charged.
    pub capacity_cores: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each setup.
    pub rows: Vec<Row<Setup>>,
}

/// Lanes that each pool used, its work, and ratios of work: within a run, and of both pools to theirs with SMT off in
/// the same repetition.
fn columns() -> [Column; 6] {
    let both = |run: &Found| run.alone.work_cores + run.sharing.work_cores;
    let (sharing, both_pools) = (("sharing / alone", 25, 3), ("both, of SMT off", 0, 3));
    [
        Column::new("alone_lanes", HIDDEN, |run| run.alone.lanes),
        Column::new("alone_work", HIDDEN, |run| run.alone.work_cores),
        Column::new("sharing_lanes", HIDDEN, |run| run.sharing.lanes),
        Column::new("sharing_work", HIDDEN, |run| run.sharing.work_cores),
        Column::new("sharing_over_alone", sharing, |run| {
            run.sharing.work_cores / run.alone.work_cores
        }),
        Column::ratio("over_smt_off", both_pools, Setup::SmtOff, both),
    ]
}

impl PoolsPlan {
    /// The scheduler's configuration: two pools, the cgroups given by path, and the speeds of lanes.
    fn configuration(&self, setup: Setup, pools: &[String; 2], thread_perf: &[f64]) -> String {
        let charge = match setup {
            Setup::SmtOff | Setup::Mt1 => "mt1",
            Setup::Raw => "raw",
        };
        let capacity = self.capacity_cores;
        let pool = |cgroup: &String| {
            format!(
                "[[pool]]\ncgroup = \"{cgroup}\"\ncapacity_cores = {capacity}\ncharge = \"{charge}\"\n\
                 period_ms = {PERIOD_MS}\n"
            )
        };
        pools.iter().map(pool).collect::<String>()
            + &format!("[scheduler]\nthread_perf = {thread_perf:?}\nslice_ms = {SLICE_MS}\n")
    }
}

impl Experiment for PoolsPlan {
    const COMMAND: &'static [&'static str] = &["demo", "pools"];
    type Setup = Setup;
    type Finding = Run;
    type Rig = Rig;
    type Document = figures::Document<Figures>;

    fn repetitions(&self) -> u32 {
        self.repetitions
    }

    fn setups(&self, _lanes: usize) -> Vec<Setup> {
        Setup::ALL.to_vec()
    }

    fn validate(&self) -> Result<()> {
        // each pool has a core
        within("--capacity", self.capacity_cores, between(0.0, 1.0))?;
        within_ms("--seconds", self.run_ms, 1000)
    }

    fn seconds(&self, lanes: usize) -> f64 {
        self.turns(lanes).len() as f64 * (self.run_ms as f64 / 1000.0 + 13.0)
    }

    fn set_up(&self, site: &mut Site<'_, Run>) -> Result<Rig> {
        let machine = two_cores(&site.machine)?;
        let smt = SmtSwitch::new(Path::new("/sys"), &site.machine);
        smt.check()?;
        let cgroups = site.pools()?;
        let work = Batch::start_normal(1 + machine.lanes_max(), self.seed)?;
        Ok(Rig {
            smt,
            thread_perf: reference::batch_thread_perf(&machine, &work)?,
            machine,
            work,
            cgroups,
        })
    }

    fn measure(&self, rig: &mut Rig, turn: Turn<Setup>, site: &mut Site<'_, Run>) -> Result<()> {
        site.speed()?;
        let before = rig.core_speed()?;
        rig.smt.set(turn.setup != Setup::SmtOff)?;
        let pools = POOLS.map(|name| rig.cgroups.path(name));
        let configuration = self.configuration(turn.setup, &pools, &rig.thread_perf);
        let scheduler = Scheduler::attach_configured(site.sidelane, &configuration)?;
        let measured = rig.in_all_places(Duration::from_millis(self.run_ms), site);
        rig.work.stop()?;
        scheduler.detach()?;
        rig.smt.set(true)?;
        let speed = f64::midpoint(before, rig.core_speed()?);
        let [alone, sharing] = measured?.map(|[work_per_s, lanes]| Pool {
            work_cores: work_per_s / speed,
            lanes,
        });
        site.found(turn.run(Found {
            thread_perf: rig.thread_perf.clone(),
            alone,
            sharing,
        }))
    }

    fn document(&self, facts: Facts, runs: Vec<Run>) -> Result<Self::Document> {
        let runs = Runs::complete(runs, self.turns(facts.lanes()).len())?;
        let rows = runs.rows(Setup::ALL, &columns());
        let thread_perf = runs.0.first().map(|run| run.found.thread_perf.clone());
        facts.document(rows.map(|rows| Figures {
            thread_perf: thread_perf.unwrap_or_default(),
            capacity_cores: self.capacity_cores,
            repetitions: self.repetitions,
            rows,
        }))
    }

    fn render(document: &Self::Document) -> String {
        let pools = document.rows.iter().flat_map(|row| {
            let of = |name| row.figures.get(name);
            [
                (
                    row.setup.name(),
                    "alone",
                    of("alone_lanes"),
                    of("alone_work"),
                ),
                ("", "sharing", of("sharing_lanes"), of("sharing_work")),
            ]
        });
        let pools: Vec<_> = pools.collect();
        let pools = Table::of(&pools)
            .left("", 18, |row| row.0.into())
            .left("pool", 9, |row| row.1.into())
            .spread("lanes used", 24, 3, |row| row.2)
            .spread("work, cores", 0, 3, |row| row.3);
        let ratios = Table::of(&document.rows)
            .left("work", 18, |row| row.setup.to_string())
            .columns(&columns(), |row| &row.figures);
        document.page(&format!(
            "threadPerf {:.3?}, measured with this work\nTwo pools of {} cores each; median (min … max) of {} \
             repetitions\n\n{pools}\n{ratios}\nWork: in units of what a core does whose first lane alone works. \
             Processes and cores change in turn.\n",
            document.thread_perf, document.capacity_cores, document.repetitions
        ))
    }
}

/// Two cores with as many lanes as there are on any.
fn two_cores(machine: &Machine) -> Result<Machine> {
    let widest = machine.lanes_max();
    let wide = machine.cores.iter().filter(|lanes| lanes.len() == widest);
    let cores: Vec<Vec<u32>> = wide.take(2).cloned().collect();
    match cores.len() == 2 && widest > 1 {
        true => Ok(Machine { cores }),
        false => Err(Error::Unsupported(
            "two cores with several lanes online are needed, as many on each: one for each pool"
                .into(),
        )),
    }
}

impl Rig {
    /// Work a second of a core with one process: what it is measured in.
    fn core_speed(&self) -> Result<f64> {
        reference::batch_speed(&self.machine, &self.work, REFERENCE)
    }

    /// Work and lane time a second, of each pool, in a time.
    ///
    /// Processes that do the same differ in speed, by where their memory lies: so each is alone on each
    /// core once.
    fn in_all_places(&self, length: Duration, site: &Site<'_, Run>) -> Result<[[f64; 2]; 2]> {
        let processes = self.work.pids().count();
        self.work.resume(processes)?;
        let places = 2 * processes;
        let (mut pools, mut elapsed_s) = ([[0.0; 2]; 2], 0.0);
        for number in 0..places {
            let alone = number % processes;
            self.place(alone, number / processes)?;
            site.sleep(SETTLE)?;
            let (before, start) = (self.totals()?, Instant::now());
            site.sleep(length / places as u32)?;
            let (after, place_s) = (self.totals()?, start.elapsed().as_secs_f64());
            for (process, (before, after)) in before.iter().zip(&after).enumerate() {
                let pool = &mut pools[usize::from(process != alone)];
                pool[0] += (after.work - before.work) as f64;
                pool[1] += (after.lane_ns - before.lane_ns) as f64 / 1e9;
            }
            elapsed_s += place_s;
        }
        Ok(pools.map(|pool| pool.map(|total| total / elapsed_s)))
    }

    /// Puts process `alone` on `core` (0 or 1), in a pool for itself, and all others on the other one.
    fn place(&self, alone: usize, core: usize) -> Result<()> {
        let lanes = |core: usize| {
            let lanes = self.machine.cores.iter().cycle().nth(core);
            lanes.map(Vec::as_slice).unwrap_or_default()
        };
        for (process, pid) in self.work.pids().enumerate() {
            let shares = process != alone;
            self.cgroups.add(POOLS[usize::from(shares)], pid)?;
            pin(pid, lanes(core + usize::from(shares)))?;
        }
        Ok(())
    }

    fn totals(&self) -> Result<Vec<Totals>> {
        let work = self.work.work_done_each()?;
        let total = |(pid, work): (Pid, u64)| {
            let lane_ns = cpu_time_ns(pid)?;
            Ok(Totals { work, lane_ns })
        };
        self.work.pids().zip(work).map(total).collect()
    }
}

/// Of a process, since it started.
struct Totals {
    work: u64,
    lane_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{facts, fits, is_described, plan, plans_make_sense};
    use sidelane_interface::Kind;

    #[test]
    fn the_pools_get_two_alike_cores_of_the_widest() {
        let cores = |cores: &[&[u32]]| {
            let cores = cores.iter().map(|lanes| lanes.to_vec()).collect();
            two_cores(&Machine { cores }).map(|two| two.cores).ok()
        };
        let wide = vec![vec![1, 5], vec![2, 6]];
        assert_eq!(cores(&[&[0], &[1, 5], &[2, 6], &[3, 7]]), Some(wide));
        assert_eq!(cores(&[&[0, 1], &[2]]), None);
        assert_eq!(cores(&[&[0], &[1]]), None);
        assert_eq!(cores(&[]), None);
    }

    #[test]
    fn the_configuration_is_one() {
        let pools = ["/x/alone".to_owned(), "/x/sharing".to_owned()];
        let charges = [
            (Setup::SmtOff, "mt1"),
            (Setup::Mt1, "mt1"),
            (Setup::Raw, "raw"),
        ];
        for (setup, charge) in charges {
            let text = plan::<PoolsPlan>("").configuration(setup, &pools, &[1.0, 0.6]);
            let pool = |name| {
                format!("cgroup = \"/x/{name}\"\ncapacity_cores = 0.4\ncharge = \"{charge}\"\n")
            };
            assert!(text.contains(&pool("alone")) && text.contains(&pool("sharing")));
            let speeds = "[scheduler]\nthread_perf = [1.0, 0.6]\n";
            assert!(text.contains(speeds), "{text}");
        }
    }

    /// Two repetitions; the second on a machine that says to do half as much.
    fn runs(plan: &PoolsPlan) -> Vec<Run> {
        let run = |turn: Turn<Setup>| {
            let (lanes, work) = match turn.setup {
                Setup::SmtOff => (0.4, 0.4),
                Setup::Mt1 => (0.8, 0.4),
                Setup::Raw => (0.4, 0.2),
            };
            let pool = |lanes, work: f64| Pool {
                work_cores: work / f64::from(turn.repetition + 1),
                lanes,
            };
            turn.run(Found {
                thread_perf: vec![1.0, 0.5],
                alone: pool(0.4, 0.4),
                sharing: pool(lanes, work),
            })
        };
        plan.turns(2).into_iter().map(run).collect()
    }

    #[test]
    fn ratios_are_those_within_a_run_and_a_repetition() {
        let plan: PoolsPlan = plan("--repetitions 2");
        let document = plan.document(facts(2), runs(&plan)).unwrap();
        let of = |index: usize, name| document.rows[index].figures.get(name).unwrap();
        for index in 0..2 {
            for name in ["sharing_over_alone", "over_smt_off"] {
                let ratio = of(index, name);
                assert_eq!((ratio.min, ratio.max), (1.0, 1.0), "{index}: {name}");
            }
        }
        let ratio = of(2, "sharing_over_alone");
        assert_eq!((ratio.min, ratio.max), (0.5, 0.5));
        assert!((of(2, "over_smt_off").max - 0.75).abs() < 1e-9);
        assert!((of(1, "sharing_work").median - 0.3).abs() < 1e-9);
        is_described(Kind::DemoPools, &document);
        let text = PoolsPlan::render(&document);
        fits(&text, Setup::ALL.iter().map(|setup| setup.name()));
        assert!(text.contains("0.500 (0.500 … 0.500)"), "{text}");
    }

    #[test]
    fn missing_runs_and_idle_pools_are_errors() {
        let plan: PoolsPlan = plan("--repetitions 2");
        let mut runs = runs(&plan);
        for run in &mut runs {
            (run.found.alone.work_cores, run.found.sharing.work_cores) = (0.0, 0.0);
        }
        assert!(plan.document(facts(2), runs.clone()).is_err());
        runs.pop();
        assert!(plan.document(facts(2), runs).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        plans_make_sense::<PoolsPlan>(&["--capacity nan", "--capacity 1", "--seconds 0"]);
    }
}
