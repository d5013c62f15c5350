//! Batch that steps aside by itself on lanes of its own (`sidelane lanes`, with the kernel's default
//! scheduler) beside batch that the scheduler evicts (`sidelane run`).
//!
//! The first is the design of Elfen (Yang, Blackburn and McKinley, USENIX ATC 2016). Batch is the same
//! program everywhere, with a check of the lane signal in each basic block.
//!
//! The **batch share** of a run is the multiplications done, as a share of what the cores could have done
//! in the time that the requests do not need: multiplications/s ÷ (those of one whole core × (cores −
//! cores that the requests need)). The speed of a whole core is the mean of those measured before the runs
//! of the repetition.

use crate::arguments::{between, demands_ms, seconds_as_ms, within, within_ms};
use crate::arrivals::Phase;
use crate::batch::Batch;
use crate::compute::{ComputeServer, units_of};
use crate::error::Result;
use crate::experiment::{Experiment, Requests, Site, Turn};
use crate::figures::{self, Facts, HIDDEN, Row, Runs, ms};
use crate::machine::Cgroups;
use crate::plan::setups;
use crate::reference;
use crate::scheduler::Scheduler;
use crate::table::Table;
use serde::{Deserialize, Serialize};
use sidelane_smt::latency::Summary;
use std::time::{Duration, Instant};

/// Length of a measurement of batch's speed.
const REFERENCE: Duration = Duration::from_millis(500);
/// Pause after each change of the setup: programs look for the lane signal every quarter of a second.
const SETTLE: Duration = Duration::from_secs(1);

setups! {
    /// How batch shares the machine with critical work.
    pub enum Setup {
        /// There is no batch; the kernel's default scheduler.
        Alone = "alone",
        /// As `SCHED_IDLE`; the kernel's default scheduler.
        Default = "default",
        /// The same, on lanes of its own where it steps aside.
        Lanes = "lanes",
        /// Sidelane's scheduler, borrow-idle.
        Sidelane = "sidelane",
    }
}

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct LanesPlan {
    /// How often each setup is measured.
    #[arg(long, default_value_t = 8, value_name = "N")]
    repetitions: u32,
    /// Offered load, as a share of all cores.
    #[arg(long, default_value_t = 0.24, value_name = "SHARE")]
    load: f64,
    /// Mean demand of a request, ms of a whole core.
    #[arg(long = "mean-ms", default_value_t = 8.0, value_name = "MS")]
    mean_demand_ms: f64,
    /// Length of a run.
    #[arg(long = "seconds", default_value = "7", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What could be done in a run of the server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Of the requests, from the intended moment.
    pub latency: Summary,
    /// Cores of the machine.
    pub cores: f64,
    /// Those that the requests needed, on the mean.
    pub critical_cores: f64,
    /// Multiplications of all batch, 1/s.
    pub batch_per_s: f64,
    /// How often batch stepped aside by itself, 1/s.
    pub naps_per_s: f64,
    /// Multiplications of one process that has a core to itself, just before, 1/s.
    pub batch_per_core_s: f64,
}

type Run = figures::Run<Setup, Found>;
type Column = figures::Column<Setup, Found>;

/// What is alive while measuring.
pub struct Rig {
    compute: ComputeServer,
    batch: Batch,
    cgroups: Cgroups,
}

/// What is printed as JSON, beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Offered load, as a share of all cores.
    pub load: f64,
    /// Mean demand of a request, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each setup.
    pub rows: Vec<Row<Setup>>,
}

/// Multiplications, as a share of what could have been done in the capacity that the requests leave; none without
/// batch. Then how often batch stepped aside by itself.
fn columns() -> [Column; 5] {
    [
        Column::new("p50_ms", ("p50 ms", 24, 2), |run| ms(run.latency.p50_ns)),
        Column::new("p95_ms", ("p95 ms", 24, 2), |run| ms(run.latency.p95_ns)),
        Column::new("p99_ms", ("p99 ms", 24, 2), |run| ms(run.latency.p99_ns)),
        Column::among("batch_share", ("batch share", 0, 2), batch_share),
        Column::new("naps_per_s", HIDDEN, |run| run.naps_per_s),
    ]
}

impl Experiment for LanesPlan {
    const COMMAND: &'static [&'static str] = &["demo", "lanes"];
    const CONTROLLERS: &'static [&'static str] = &["cpuset"];
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
        within("--load", self.load, between(0.0, 1.0))?;
        within("--mean-ms", self.mean_demand_ms, demands_ms())?;
        within_ms("--seconds", self.run_ms, 100)
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_s = self.run_ms as f64 / 1000.0 + SETTLE.as_secs_f64();
        self.turns(lanes).len() as f64 * (run_s + 2.5)
    }

    fn set_up(&self, site: &mut Site<'_, Run>) -> Result<Rig> {
        site.machine.check_smt("there is no lane for batch")?;
        let cgroups = site.cgroups()?;
        let compute = site.critical_server(&cgroups)?;
        let batch = Batch::multiplying(site.machine.lane_count(), site.sidelane)?;
        batch.pids().try_for_each(|pid| cgroups.add("batch", pid))?;
        Ok(Rig {
            compute,
            batch,
            cgroups,
        })
    }

    fn measure(&self, rig: &mut Rig, turn: Turn<Setup>, site: &mut Site<'_, Run>) -> Result<()> {
        let units_per_core_s = site.speed()?;
        let batch_per_core_s = reference::batch_speed(&site.machine, &rig.batch, REFERENCE)?;
        let service = rig.begin(turn.setup, site)?;
        site.sleep(SETTLE)?;
        let phase = Phase {
            load: self.load,
            run_ms: self.run_ms,
            seed: self.seed + u64::from(turn.repetition),
        };
        let mean_demand_ms = self.mean_demand_ms;
        let requests = Requests::new(&site.machine, units_per_core_s, mean_demand_ms, &[phase]);
        let (before, start) = (rig.batch_totals()?, Instant::now());
        let mut outcome = requests.send(&mut rig.compute, site.stop)?;
        let (after, elapsed_s) = (rig.batch_totals()?, start.elapsed().as_secs_f64());
        rig.batch.stop()?;
        service.map_or(Ok(()), Scheduler::detach)?;
        let units = requests.schedule.iter();
        let units: u64 = units.map(|a| units_of(a, requests.mean_units)).sum();
        site.found(turn.run(Found {
            latency: Summary::of(&mut outcome.latency_ns),
            cores: site.machine.cores.len() as f64,
            critical_cores: units as f64 / units_per_core_s / elapsed_s,
            batch_per_s: (after[0] - before[0]) as f64 / elapsed_s,
            naps_per_s: (after[1] - before[1]) as f64 / elapsed_s,
            batch_per_core_s,
        }))
    }

    fn document(&self, facts: Facts, runs: Vec<Run>) -> Result<Self::Document> {
        let runs = Runs::complete(runs, self.turns(facts.lanes()).len())?;
        let rows = runs.rows(Setup::ALL, &columns());
        facts.document(rows.map(|rows| Figures {
            load: self.load,
            mean_demand_ms: self.mean_demand_ms,
            repetitions: self.repetitions,
            rows,
        }))
    }

    fn render(document: &Self::Document) -> String {
        let Figures {
            load,
            mean_demand_ms,
            repetitions,
            rows,
        } = &document.figures;
        let table = Table::of(rows)
            .left("", 10, |row| row.setup.to_string())
            .columns(&columns(), |row| &row.figures);
        let naps = rows.iter().filter(|row| row.setup != Setup::Alone);
        let naps = naps.filter_map(|row| Some((row.setup, row.figures.get("naps_per_s")?.median)));
        let naps: Vec<String> = naps
            .map(|(setup, naps)| format!("{setup} {naps:.1}"))
            .collect();
        document.page(&format!(
            "Requests of {mean_demand_ms} ms of a whole core, load {load}; median (min … max) of {repetitions} \
             repetitions\n\n{table}\nBatch stepped aside by itself, times a second: {}\n",
            naps.join(", ")
        ))
    }
}

impl Rig {
    /// Starts what a setup needs, and lets batch run if it has any.
    fn begin(&self, setup: Setup, site: &Site<'_, Run>) -> Result<Option<Scheduler>> {
        let (critical, batch) = (self.cgroups.path("critical"), self.cgroups.path("batch"));
        let service = match setup {
            Setup::Alone => return Ok(None),
            Setup::Default => None,
            Setup::Lanes => Some(Scheduler::bind_lanes(site.sidelane, &critical, &batch)?),
            Setup::Sidelane => Some(Scheduler::attach(site.sidelane, &critical, &batch)?),
        };
        self.batch.resume(site.machine.lane_count())?;
        Ok(service)
    }

    /// Multiplications and naps of batch so far.
    fn batch_totals(&self) -> Result<[u64; 2]> {
        Ok([self.batch.work_done()?, self.batch.naps()?])
    }
}

fn batch_share(runs: &Runs<Setup, Found>, run: &Run) -> Option<f64> {
    let whole_core_per_s = whole_core_per_s(runs, run.repetition);
    let idle_cores = run.found.cores - run.found.critical_cores;
    (run.setup != Setup::Alone).then(|| run.found.batch_per_s / (whole_core_per_s * idle_cores))
}

/// Multiplications of one whole core in a repetition, 1/s.
fn whole_core_per_s(runs: &Runs<Setup, Found>, repetition: u32) -> f64 {
    let of = runs.0.iter().filter(|run| run.repetition == repetition);
    let (sum, count) = of.fold((0.0, 0.0), |(sum, count), run| {
        (sum + run.found.batch_per_core_s, count + 1.0)
    });
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{facts, fits, is_described, plan, plans_make_sense};
    use sidelane_interface::Kind;

    fn runs(plan: &LanesPlan) -> Vec<Run> {
        let run = |turn: Turn<Setup>| {
            turn.run(Found {
                latency: Summary::of(&mut [u64::from(turn.repetition + 1) * 1_000_000]),
                cores: 2.0,
                critical_cores: 0.5,
                batch_per_s: match turn.setup {
                    Setup::Alone => 0.0,
                    Setup::Default => 1500.0,
                    Setup::Lanes => 750.0,
                    Setup::Sidelane => 1200.0,
                },
                naps_per_s: if turn.setup == Setup::Lanes {
                    40.0
                } else {
                    0.0
                },
                // 1000 on the mean, in both repetitions
                batch_per_core_s: if turn.setup == Setup::Lanes {
                    1300.0
                } else {
                    900.0
                },
            })
        };
        plan.turns(2).into_iter().map(run).collect()
    }

    #[test]
    fn shares_are_of_what_the_requests_leave() {
        let plan: LanesPlan = plan("--repetitions 2");
        let document = plan.document(facts(2), runs(&plan)).unwrap();
        let rows = document.rows.iter();
        let shares = rows.map(|row| row.figures.get("batch_share").map(|share| share.median));
        assert_eq!(
            shares.collect::<Vec<_>>(),
            [None, Some(1.0), Some(0.5), Some(0.8)]
        );
        let p99_ms = document.rows[2].figures.get("p99_ms").unwrap();
        assert_eq!((p99_ms.min, p99_ms.max), (1.0, 2.0));
        is_described(Kind::DemoLanes, &document);
        let text = LanesPlan::render(&document);
        fits(&text, Setup::ALL.iter().map(|setup| setup.name()));
        assert!(text.contains("0.80 (0.80 … 0.80)"), "{text}");
        assert!(
            text.contains("default 0.0, lanes 40.0, sidelane 0.0"),
            "{text}"
        );
    }

    #[test]
    fn missing_runs_and_a_still_batch_are_errors() {
        let plan: LanesPlan = plan("--repetitions 2");
        let mut runs = runs(&plan);
        runs.iter_mut()
            .for_each(|run| run.found.batch_per_core_s = 0.0);
        assert!(plan.document(facts(2), runs.clone()).is_err());
        runs.pop();
        assert!(plan.document(facts(2), runs).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        let refused = [
            "--load 1",
            "--load nan",
            "--mean-ms 0",
            "--seconds 0",
            "--seconds 601",
        ];
        plans_make_sense::<LanesPlan>(&refused);
    }
}
