//! Figures from messages.

use super::{IoPlan, LaneUse, Message, Pauses, Run, Setup, Work};
use crate::error::{Error, Result};
use crate::experiment::{Measured, collect};
use serde::Serialize;
use sidelane_smt::latency::{Spread, Summary};

/// What is printed as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// Whether SMT was emulated.
    pub emulated_smt: bool,
    /// The machine; its speed was measured before each run.
    #[serde(flatten)]
    pub measured: Measured,
    /// Who works.
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
    /// Which.
    pub setup: Setup,
    /// Commands that were answered, or round trips of all players, 1/s.
    pub round_trips_per_s: Spread,
    /// The same over that of the kernel's default scheduler in the same repetition.
    pub round_trips_over_default: Spread,
    /// Median latency of a command, ms; none of players.
    pub p50_ms: Option<Spread>,
    /// 99th percentile, ms.
    pub p99_ms: Option<Spread>,
    /// What was computed, as whole cores: over that of one process that has a core to itself.
    pub computed_cores: Spread,
    /// The same over that under the kernel's default scheduler in the same repetition.
    pub computed_over_default: Spread,
    /// Context switches of the machine, those to the idle task too, 1/s.
    pub switches_per_s: Spread,
    /// Context switches by which computing processes lost their lanes, 1/s.
    pub computing_switches_per_s: Spread,
    /// Where the lanes' time went.
    pub lanes: LaneSpreads,
}

/// [`Pauses`], over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PauseSpreads {
    /// On a lane that idles meanwhile, us.
    pub idle_us: Spread,
    /// On one that computation fills.
    pub filled_us: Spread,
}

/// [`LaneUse`], over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LaneSpreads {
    /// Lanes busy with I/O-bound work.
    pub io: Spread,
    /// With computation.
    pub computing: Spread,
    /// With nothing, the kernel, and others.
    pub rest: Spread,
    /// With the scheduler's programs but its timers, in all of these.
    pub scheduler: Spread,
    /// How long one of these ran, us; none of the kernel's own scheduler.
    pub scheduler_run_us: Option<Spread>,
}

impl Document {
    /// # Errors
    /// Runs are missing, or one did nothing that can be measured.
    pub fn new(plan: &IoPlan, messages: &[Message], emulated_smt: bool) -> Result<Document> {
        let (measured, runs) = collect(messages)?;
        let setups = plan.work.setups();
        if runs.len() != setups.len() * plan.repetitions as usize {
            return Err(Error::Incomplete(format!("{} runs", runs.len())));
        }
        let rows: Option<Vec<Row>> = setups.iter().map(|setup| row(&runs, *setup)).collect();
        Ok(Document {
            emulated_smt,
            measured,
            work: plan.work,
            computing: plan.computing,
            hold_min_ms: plan.hold_min_ms,
            repetitions: plan.repetitions,
            pauses: pause_spreads(&runs),
            rows: rows.ok_or_else(|| Error::Incomplete("a figure is not a number".into()))?,
        })
    }
}

fn row(runs: &[Run], setup: Setup) -> Option<Row> {
    let own: Vec<&Run> = runs.iter().filter(|run| run.setup == setup).collect();
    let spread = |value: fn(&Run) -> f64| finite(own.iter().map(|run| value(run)));
    let over_default = |value: fn(&Run) -> f64| {
        finite(own.iter().map(|run| {
            let mut same = runs.iter().filter(|other| {
                other.setup == Setup::Default && other.repetition == run.repetition
            });
            same.next()
                .map_or(f64::NAN, |default| value(run) / value(default))
        }))
    };
    let cores = |run: &Run| run.computed_per_s / run.core_computed_per_s;
    let quantile = |value: fn(&Summary) -> u64| {
        let each = own.iter().map(|run| run.latency.as_ref().map(value));
        let known: Option<Vec<u64>> = each.collect();
        finite(known?.into_iter().map(|ns| ns as f64 / 1e6))
    };
    Some(Row {
        setup,
        round_trips_per_s: spread(|run| run.round_trips_per_s)?,
        round_trips_over_default: over_default(|run| run.round_trips_per_s)?,
        p50_ms: quantile(|latency| latency.p50_ns),
        p99_ms: quantile(|latency| latency.p99_ns),
        computed_cores: spread(cores)?,
        computed_over_default: over_default(cores)?,
        switches_per_s: spread(|run| run.switches_per_s)?,
        computing_switches_per_s: spread(|run| run.computing_switches_per_s)?,
        lanes: lane_spreads(&own)?,
    })
}

fn pause_spreads(runs: &[Run]) -> Option<PauseSpreads> {
    let spread = |value: fn(&Pauses) -> f64| {
        let known: Option<Vec<f64>> = runs
            .iter()
            .map(|run| run.pauses.as_ref().map(value))
            .collect();
        finite(known?.into_iter())
    };
    Some(PauseSpreads {
        idle_us: spread(|pauses| pauses.idle_us)?,
        filled_us: spread(|pauses| pauses.filled_us)?,
    })
}

fn lane_spreads(own: &[&Run]) -> Option<LaneSpreads> {
    let spread = |value: fn(&LaneUse) -> f64| finite(own.iter().map(|run| value(&run.lanes)));
    let runs: Option<Vec<f64>> = own.iter().map(|run| run.lanes.scheduler_run_us).collect();
    Some(LaneSpreads {
        io: spread(|lanes| lanes.io)?,
        computing: spread(|lanes| lanes.computing)?,
        rest: spread(|lanes| lanes.rest)?,
        scheduler: spread(|lanes| lanes.scheduler)?,
        scheduler_run_us: runs.and_then(|runs| finite(runs.into_iter())),
    })
}

fn finite(values: impl Iterator<Item = f64>) -> Option<Spread> {
    let values: Vec<f64> = values.collect();
    match values.iter().all(|value| value.is_finite()) {
        true => Spread::of(&values),
        false => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::lines::MachineFacts;

    fn messages(plan: &IoPlan) -> Vec<Message> {
        let commands = matches!(plan.work, Work::Processes { .. });
        let mut messages = vec![Message::Machine(MachineFacts {
            kernel: "7.0".into(),
            cores: vec![vec![0, 1], vec![2, 3]],
        })];
        for repetition in 0..plan.repetitions {
            for setup in plan.setups(repetition) {
                let times = if setup == Setup::Pair { 3.0 } else { 1.0 };
                // the second repetition on a machine of half the speed
                let speed = if repetition == 1 { 0.5 } else { 1.0 };
                messages.push(Message::Speed(1e6));
                messages.push(Message::Run(Run {
                    setup,
                    repetition,
                    round_trips_per_s: 1000.0 * times * speed,
                    latency: commands.then(|| Summary::of(&mut [1_000_000, 2_000_000])),
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
                }));
            }
        }
        messages
    }

    fn plan(work: Work) -> IoPlan {
        IoPlan {
            repetitions: 2,
            work,
            ..IoPlan::default()
        }
    }

    pub const PROCESSES: Work = Work::Processes { connections: 1 };
    pub const PLAYERS: Work = Work::VirtualMachines {
        players: None,
        turns: 100,
        wait_us: Some(2000),
    };

    pub fn document(work: Work) -> Result<Document> {
        let plan = plan(work);
        Document::new(&plan, &messages(&plan), true)
    }

    #[test]
    fn ratios_are_within_repetitions() {
        let rows = document(PROCESSES).unwrap().rows;
        let pair = rows.iter().find(|row| row.setup == Setup::Pair).unwrap();
        let over = pair.round_trips_over_default;
        assert_eq!((over.min, over.max), (3.0, 3.0));
        assert_eq!(pair.round_trips_per_s.min, 1500.0);
        let cores = pair.computed_cores;
        assert_eq!((cores.min, cores.max), (1.5, 1.5));
        assert!(pair.p99_ms.is_some());
        let players = document(PLAYERS).unwrap().rows;
        assert!(players.iter().all(|row| row.p99_ms.is_none()));
        assert_eq!(players[1].setup, Setup::Polling);
    }

    #[test]
    fn missing_runs_and_still_computation_are_errors() {
        let plan = plan(PROCESSES);
        let mut messages = messages(&plan);
        for message in &mut messages {
            if let Message::Run(run) = message {
                run.core_computed_per_s = 0.0;
            }
        }
        assert!(Document::new(&plan, &messages, true).is_err());
        messages.pop();
        assert!(Document::new(&plan, &messages, true).is_err());
    }
}
