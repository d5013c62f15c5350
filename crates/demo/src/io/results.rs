//! Figures of what was found, and their tables.

use super::{Found, IoPlan, Pauses, Run, Setup, Work};
use crate::error::Result;
use crate::experiment::Experiment;
use crate::figures::{self, Document, Facts, HIDDEN, Runs, Spreads, ms, spread_of};
use crate::table::{Table, spread};
use serde::Serialize;
use sidelane_smt::latency::{Spread, Summary};

type Column = figures::Column<Setup, Found>;

/// What is printed as JSON, beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// What works.
    pub work: Work,
    /// Computing processes; none: as many as lanes.
    pub computing: Option<u32>,
    /// The shortest hold, ms; none: the scheduler's own.
    pub hold_min_ms: Option<f64>,
    /// Repetitions.
    pub repetitions: u32,
    /// What a pause costs on this machine; none: no core has two lanes.
    pub pauses: Option<PauseSpreads>,
    /// One for each setup.
    pub rows: Vec<Row>,
}

/// A setup's figures, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Of the work.
    #[serde(flatten)]
    pub work: figures::Row<Setup>,
    /// Where the lanes' time went.
    pub lanes: Spreads,
}

/// What was done: commands that were answered, or round trips of all players; latencies of a command, which players
/// have not; what was computed, as whole cores: over that of one process that has a core to itself.
fn work() -> Vec<Column> {
    let quantile = |value: fn(&Summary) -> u64| {
        move |run: &Found| run.latency.as_ref().map(|latency| ms(value(latency)))
    };
    vec![
        Column::new("round_trips_per_s", ("round trips/s", 25, 0), |run| {
            run.round_trips_per_s
        }),
        Column::new(
            "p50_ms",
            ("p50 ms", 20, 2),
            quantile(|latency| latency.p50_ns),
        ),
        Column::new(
            "p99_ms",
            ("p99 ms", 20, 1),
            quantile(|latency| latency.p99_ns),
        ),
        Column::new(
            "computed_cores",
            ("computed, cores", 0, 2),
            Found::computed_cores,
        ),
    ]
}

/// The same over what it is under the kernel's default scheduler in the same repetition, and context switches: of the
/// machine, those to the idle task too, and those by which computing processes lost their lanes.
fn ratios() -> Vec<Column> {
    let (trips, computed) = (
        ("round trips × default", 25, 2),
        ("computed × default", 23, 2),
    );
    let (switches, own) = (("switches/s", 20, 0), ("of computing", 0, 0));
    vec![
        Column::ratio("round_trips_over_default", trips, Setup::Default, |run| {
            run.round_trips_per_s
        }),
        Column::ratio(
            "computed_over_default",
            computed,
            Setup::Default,
            Found::computed_cores,
        ),
        Column::new("switches_per_s", switches, |run| run.switches_per_s),
        Column::new("computing_switches_per_s", own, |run| {
            run.computing_switches_per_s
        }),
    ]
}

/// Lanes that were busy; and how long one of the scheduler's programs ran, which the kernel's own has not.
fn lanes() -> Vec<Column> {
    vec![
        Column::new("io", ("I/O", 20, 2), |run| run.lanes.io),
        Column::new("computing", ("computing", 20, 2), |run| run.lanes.computing),
        Column::new("rest", ("nothing, kernel", 20, 2), |run| run.lanes.rest),
        Column::new("scheduler", ("scheduler", 20, 2), |run| run.lanes.scheduler),
        Column::new("scheduler_run_us", HIDDEN, |run| run.lanes.scheduler_run_us),
    ]
}

impl Found {
    fn computed_cores(&self) -> f64 {
        self.computed_per_s / self.core_computed_per_s
    }
}

/// [`Pauses`], over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PauseSpreads {
    /// On a lane that idles meanwhile, us.
    pub idle_us: Spread,
    /// On one that computation fills.
    pub filled_us: Spread,
}

/// Figures of all runs.
///
/// # Errors
/// Runs are missing, or one did nothing that can be measured.
pub(super) fn document(plan: &IoPlan, facts: Facts, runs: Vec<Run>) -> Result<Document<Figures>> {
    let runs = Runs::complete(runs, plan.turns(facts.lanes()).len())?;
    let columns: Vec<Column> = work().into_iter().chain(ratios()).collect();
    let rows = runs.rows(&plan.work().setups(), &columns);
    let row = |work: figures::Row<Setup>| {
        let lanes = runs.figures(work.setup, &lanes())?;
        Some(Row { work, lanes })
    };
    let rows: Option<Vec<Row>> = rows.and_then(|rows| rows.into_iter().map(row).collect());
    facts.document(rows.map(|rows| Figures {
        work: plan.work(),
        computing: plan.computing,
        hold_min_ms: plan.hold_min_ms,
        repetitions: plan.repetitions,
        pauses: pause_spreads(&runs),
        rows,
    }))
}

fn pause_spreads(runs: &Runs<Setup, Found>) -> Option<PauseSpreads> {
    let spread = |value: fn(&Pauses) -> f64| {
        spread_of(
            runs.0
                .iter()
                .map(|run| run.found.pauses.as_ref().map(value)),
        )
    };
    Some(PauseSpreads {
        idle_us: spread(|pauses| pauses.idle_us)?,
        filled_us: spread(|pauses| pauses.filled_us)?,
    })
}

/// The tables, for people.
pub(super) fn render(document: &Document<Figures>) -> String {
    let rows = |head| Table::of(&document.rows).left(head, 12, |row| row.work.setup.to_string());
    let done = rows("").columns(&work(), |row| &row.work.figures);
    let ratios = rows("").columns(&ratios(), |row| &row.work.figures);
    let busy = rows("lanes busy:").columns(&lanes(), |row| &row.lanes);
    let busy = busy.left("µs a run", 0, |row| {
        let run_us = row.lanes.get("scheduler_run_us");
        run_us.map_or("-".into(), |us| format!("{:.0}", us.median))
    });
    document.page(&format!(
        "{}\nAll of normal class; median (min … max) of {} repetitions\n\n{done}\n{ratios}\n\
         Switches of all lanes, those to the idle task too; and those by which computation lost a lane\n\n\
         {busy}\nOn the mean. Sidelane's programs are in all columns; their timers are not measured, the kernel's own\n\
         scheduler is not told apart. To measure them slows them a little\n{}",
        work_in_words(document),
        document.repetitions,
        document.pauses.map_or(String::new(), pauses_in_words)
    ))
}

fn pauses_in_words(pauses: PauseSpreads) -> String {
    format!(
        "\nA pause of a thread costs {} µs of a core on a lane that idles meanwhile,\n{} µs on one that \
         computation fills; the difference is what holding a lane can gain\n",
        spread(pauses.idle_us, 0),
        spread(pauses.filled_us, 0)
    )
}

fn work_in_words(document: &Document<Figures>) -> String {
    let lanes = || document.measured.cores.iter().map(Vec::len).sum::<usize>();
    let computing = document
        .computing
        .map_or_else(lanes, |count| count as usize);
    match document.work {
        Work::Processes { connections } => format!(
            "redis with {connections} client(s) that wait for one reply at a time; {computing} compressors"
        ),
        Work::VirtualMachines {
            players,
            turns,
            wait_us,
        } => {
            let players = players.map_or_else(|| lanes().next_multiple_of(2), |n| n as usize);
            let wait = match wait_us {
                Some(us) => format!("wait {us} µs for a device"),
                None => "play ping-pong in pairs".into(),
            };
            format!(
                "{players} virtual CPUs that {wait} after {turns} turns each time; {computing} that multiply"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LaneUse;
    use super::*;
    use crate::experiment::Turn;
    use crate::experiment::testing::{facts, fits, is_described, plan};
    use sidelane_interface::Kind;

    fn runs(plan: &IoPlan) -> Vec<Run> {
        let run = |turn: Turn<Setup>| {
            let times = if turn.setup == Setup::Pair { 3.0 } else { 1.0 };
            // the second repetition on a machine of half the speed
            let speed = if turn.repetition == 1 { 0.5 } else { 1.0 };
            let has_commands = !plan.virtual_machines;
            turn.run(Found {
                round_trips_per_s: 1000.0 * times * speed,
                latency: has_commands.then(|| Summary::of(&mut [1_000_000, 2_000_000])),
                computed_per_s: 15e6 * speed,
                core_computed_per_s: 10e6 * speed,
                switches_per_s: 4000.0,
                computing_switches_per_s: 400.0,
                pauses: Some(Pauses {
                    idle_us: 20.0,
                    filled_us: 30.0,
                }),
                lanes: LaneUse {
                    io: 0.5,
                    computing: 3.0,
                    rest: 0.5,
                    scheduler: 0.1,
                    scheduler_run_us: Some(20.0),
                },
            })
        };
        plan.turns(2).into_iter().map(run).collect()
    }

    #[test]
    fn ratios_are_within_repetitions_and_the_tables_fit() {
        for words in ["", " --virtual-machines"] {
            let plan: IoPlan = plan(&format!("--repetitions 2{words}"));
            let document = plan.document(facts(2), runs(&plan)).unwrap();
            let pair = document
                .rows
                .iter()
                .find(|row| row.work.setup == Setup::Pair)
                .unwrap();
            let of = |name| pair.work.figures.get(name);
            let over = of("round_trips_over_default").unwrap();
            assert_eq!((over.min, over.max), (3.0, 3.0));
            assert_eq!(of("round_trips_per_s").unwrap().min, 1500.0);
            let cores = of("computed_cores").unwrap();
            assert_eq!((cores.min, cores.max), (1.5, 1.5));
            assert_eq!(of("p99_ms").is_some(), !plan.virtual_machines);
            is_described(Kind::DemoIo, &document);
            let text = IoPlan::render(&document);
            assert!(text.contains("3.00 (3.00 … 3.00)"), "{text}");
            let setups = plan.work().setups();
            fits(&text, setups.iter().map(|setup| setup.name()));
            for setup in &setups {
                assert_eq!(text.matches(&format!("\n{setup:12}")).count(), 3);
            }
            let second = if plan.virtual_machines {
                Setup::Polling
            } else {
                Setup::Sidelane
            };
            assert_eq!((setups.len(), setups[1]), (6, second));
        }
    }

    #[test]
    fn missing_runs_and_still_computation_are_errors() {
        let plan: IoPlan = plan("--repetitions 2");
        let mut runs = runs(&plan);
        runs.iter_mut()
            .for_each(|run| run.found.core_computed_per_s = 0.0);
        assert!(plan.document(facts(2), runs.clone()).is_err());
        runs.pop();
        assert!(plan.document(facts(2), runs).is_err());
    }
}
