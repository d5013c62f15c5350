//! Deadlines and partial results: how much load an option pricing server bears at a quality, with the
//! kernel's default scheduler and with Sidelane's.
//!
//! The live counterpart of FOF's finance server (Ren, He, Elnikety and McKinley, ICAC 2013). No batch
//! runs: what is compared is where requests run, on lanes that share a core or have one to themselves.

use crate::arguments::{between, demands_ms, seconds_as_ms, within, within_ms};
use crate::error::{During, Error, Result};
use crate::experiment::{Experiment, Site, Turn};
use crate::figures::{self, Facts, Runs, ms, spread_of};
use crate::machine::Cgroups;
use crate::plan::setups;
use crate::scheduler::Scheduler;
use crate::sys::{Guarded, in_real_time};
use crate::table::{Table, range};
use serde::{Deserialize, Serialize};
use sidelane_options::load::{self, Load, Outcome};
use sidelane_options::server::{self, Totals};
use sidelane_smt::latency::Spread;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Pause after each change of the scheduler.
const SETTLE: Duration = Duration::from_millis(500);
/// The beginning of a run at one load that does not count, ms.
const SETTLE_MS: u64 = 500;

setups! {
    /// Which scheduler.
    pub enum Setup {
        /// The kernel's default one.
        Default = "default",
        /// Sidelane's; the server is critical.
        Sidelane = "sidelane",
    }
}

/// What is measured. Demand and deadline are in the proportion of the stand-in for FOF's search service on a core
/// of speed 4: a mean of 192 units of 4,000 a second, a deadline of 150 ms. Both are assumptions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, clap::Args)]
pub struct OptionsPlan {
    /// How often each scheduler is measured.
    #[arg(long, default_value_t = 5, value_name = "N")]
    repetitions: u32,
    /// Loads in rising order, as shares of all cores.
    #[arg(long, value_delimiter = ',', value_name = "SHARE,...", default_values_t = [0.5, 0.65, 0.8, 0.95, 1.1])]
    loads: Vec<f64>,
    /// Length of a run at one load.
    #[arg(long = "seconds", default_value = "6", value_parser = seconds_as_ms, value_name = "S")]
    run_ms: u64,
    /// Mean demand of a request, ms of a whole core; the largest demands are five times as great.
    #[arg(long = "mean-ms", default_value_t = 16.0, value_name = "MS")]
    mean_demand_ms: f64,
    /// Deadline of a request, after its arrival.
    #[arg(long, default_value_t = 50.0, value_name = "MS")]
    deadline_ms: f64,
    /// Qualities at which the schedulers are compared.
    #[arg(long, value_delimiter = ',', value_name = "Q,...", default_values_t = [0.99, 0.995])]
    qualities: Vec<f64>,
    /// Start of all random numbers: same seed, same requests.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// What is found in a run through all loads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// One for each load, in their order.
    pub outcomes: Vec<Outcome>,
}

type Run = figures::Run<Setup, Found>;

/// What is alive while measuring.
pub struct Rig {
    client: UdpSocket,
    _server: Guarded,
    cgroups: Cgroups,
}

/// What is printed as JSON, beside the machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// Mean demand, ms of a whole core.
    pub mean_demand_ms: f64,
    /// Deadline, ms.
    pub deadline_ms: f64,
    /// Repetitions.
    pub repetitions: u32,
    /// One for each scheduler.
    pub rows: Vec<Row>,
    /// One for each quality.
    pub gains: Vec<Gain>,
}

/// A scheduler's figures.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Which.
    pub setup: Setup,
    /// One for each load.
    pub cells: Vec<Cell>,
}

/// A load under a scheduler, over the repetitions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    /// Share of all cores.
    pub load: f64,
    /// Mean quality of the requests.
    pub quality: Spread,
    /// Share of the requests that were not complete at their deadline.
    pub missed: Spread,
    /// 99th percentile of the latency, ms.
    pub p99_ms: Spread,
    /// Requests that were never answered, all repetitions.
    pub lost: u64,
}

/// The highest load at a quality.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Gain {
    /// The quality.
    pub quality: f64,
    /// Of the default scheduler and of Sidelane, over the repetitions in which the loads measured reach
    /// that quality and fall below it.
    pub loads: Option<[Spread; 2]>,
    /// Sidelane's as a multiple of the default's, repetition by repetition.
    pub ratio: Option<Spread>,
    /// Repetitions that show both.
    pub repetitions: usize,
}

impl Experiment for OptionsPlan {
    const COMMAND: &'static [&'static str] = &["demo", "options"];
    // the source's
    const THREAD_PERF: &'static [f64] = &[1.0, 0.63];
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
        if self.loads.len() < 2 || !self.loads.is_sorted_by(|a, b| a < b) {
            let problem = "--loads: give two or more, in rising order";
            return Err(Error::BadPlan(problem.into()));
        }
        for load in &self.loads {
            within("--loads", *load, 0.01..=4.0)?;
        }
        within_ms("--seconds", self.run_ms, SETTLE_MS + 1)?;
        within("--mean-ms", self.mean_demand_ms, demands_ms())?;
        within("--deadline-ms", self.deadline_ms, demands_ms())?;
        for quality in &self.qualities {
            within("--qualities", *quality, between(0.0, 1.0))?;
        }
        Ok(())
    }

    fn seconds(&self, lanes: usize) -> f64 {
        let run_s = self.run_ms as f64 / 1000.0 + 0.2;
        self.turns(lanes).len() as f64 * (run_s * self.loads.len() as f64 + 3.0)
    }

    fn set_up(&self, site: &mut Site<'_, Run>) -> Result<Rig> {
        let cgroups = site.cgroups()?;
        let (client, server_end) = connected()?;
        let workers = site.machine.lane_count().to_string();
        let mut command = Command::new(site.sidelane);
        command
            .args(["demo", "serve-options", "--workers", &workers])
            .stdin(Stdio::from(OwnedFd::from(server_end)));
        let server = Guarded::spawn(&mut command, "the option server")?;
        cgroups.add("critical", server.pid())?;
        Ok(Rig {
            client,
            _server: server,
            cgroups,
        })
    }

    /// Goes through all loads: the same requests for all setups of a repetition, but for the speed of the moment.
    fn measure(&self, rig: &mut Rig, turn: Turn<Setup>, site: &mut Site<'_, Run>) -> Result<()> {
        let units_per_core_s = site.speed()?;
        let (critical, batch) = (rig.cgroups.path("critical"), rig.cgroups.path("batch"));
        let scheduler = match turn.setup {
            Setup::Sidelane => Some(Scheduler::attach(site.sidelane, &critical, &batch)?),
            Setup::Default => None,
        };
        site.sleep(SETTLE)?;
        let mean_s = self.mean_demand_ms / 1000.0;
        let of = |share: &f64| {
            let load = Load {
                rate_per_s: share * site.machine.cores.len() as f64 / mean_s,
                run_ms: self.run_ms,
                settle_ms: SETTLE_MS,
                mean_paths: units_per_core_s * mean_s,
                deadline_us: (self.deadline_ms * 1000.0) as u64,
                seed: self.seed + u64::from(turn.repetition),
            };
            // the load generator stands for other machines
            in_real_time(|| load::run(&rig.client, &load, site.stop).map_err(Error::from))
        };
        let outcomes = self.loads.iter().map(of).collect::<Result<_>>()?;
        scheduler.map_or(Ok(()), Scheduler::detach)?;
        site.found(turn.run(Found { outcomes }))
    }

    fn document(&self, facts: Facts, runs: Vec<Run>) -> Result<Self::Document> {
        let runs = Runs::complete(runs, self.turns(facts.lanes()).len())?;
        let rows: Option<Vec<Row>> = Setup::ALL.iter().map(|s| self.row(&runs, *s)).collect();
        let gains = self
            .qualities
            .iter()
            .map(|quality| self.gain(&runs, *quality));
        facts.document(rows.map(|rows| Figures {
            mean_demand_ms: self.mean_demand_ms,
            deadline_ms: self.deadline_ms,
            repetitions: self.repetitions,
            rows,
            gains: gains.collect(),
        }))
    }

    fn render(document: &Self::Document) -> String {
        let rows = document.rows.iter();
        let cells = rows.flat_map(|row| row.cells.iter().map(|cell| (row.setup, cell)));
        let cells: Vec<(Setup, &Cell)> = cells.collect();
        let table = Table::of(&cells)
            .left("", 10, |row| row.0.to_string())
            .number("load", 6, 2, |row| row.1.load)
            .number("quality", 9, 4, |row| row.1.quality.median)
            .left("(min … max)", 19, |row| range(row.1.quality, 4))
            .right("missed", 8, |row| {
                format!("{:.2} %", row.1.missed.median * 100.0)
            })
            .number("p99 ms", 11, 2, |row| row.1.p99_ms.median)
            .right("lost", 8, |row| row.1.lost.to_string());
        let gains = document
            .gains
            .iter()
            .map(|gain| gain_line(gain, document.repetitions));
        document.page(&format!(
            "Option server: mean demand {} ms of a whole core, deadline {} ms; medians of {} repetitions\n\n\
             {table}\n{}",
            document.mean_demand_ms,
            document.deadline_ms,
            document.repetitions,
            gains.collect::<String>()
        ))
    }
}

/// The server, on the socket that is its standard input, until it is killed.
///
/// # Errors
/// Standard input is no such socket, or the server fails.
pub fn serve_standard_input(workers: usize) -> Result<()> {
    let socket: OwnedFd = std::io::stdin()
        .as_fd()
        .try_clone_to_owned()
        .during(|| "standard input".into())?;
    let totals = Totals::default();
    server::serve(&socket.into(), workers, &AtomicBool::new(false), &totals)?;
    Ok(())
}

/// A client's socket, and the server's to which it is connected.
fn connected() -> Result<(UdpSocket, UdpSocket)> {
    let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).during(|| "a socket".into());
    let (client, server) = (bind()?, bind()?);
    let address = server.local_addr().during(|| "a socket's address".into())?;
    client
        .connect(address)
        .during(|| "connecting a socket".into())?;
    server::prepare(&server)?;
    Ok((client, server))
}

impl OptionsPlan {
    fn row(&self, runs: &Runs<Setup, Found>, setup: Setup) -> Option<Row> {
        let cell = |(at, load): (usize, &f64)| {
            let spread = |value: fn(&Outcome) -> f64| {
                runs.spread(setup, |run| run.outcomes.get(at).map(value))
            };
            let own = runs.of(setup).filter_map(|run| run.found.outcomes.get(at));
            Some(Cell {
                load: *load,
                quality: spread(|outcome| outcome.quality)?,
                missed: spread(|outcome| outcome.missed as f64 / outcome.requests.max(1) as f64)?,
                p99_ms: spread(|outcome| ms(outcome.latency.p99_ns))?,
                lost: own.map(|outcome| outcome.lost).sum(),
            })
        };
        let cells = self.loads.iter().enumerate().map(cell);
        Some(Row {
            setup,
            cells: cells.collect::<Option<_>>()?,
        })
    }

    fn gain(&self, runs: &Runs<Setup, Found>, quality: f64) -> Gain {
        let load_of = |setup: Setup, repetition: u32| {
            let run = runs.at(setup, repetition)?;
            let qualities: Vec<f64> = run.found.outcomes.iter().map(|o| o.quality).collect();
            highest_load(&self.loads, &qualities, quality)
        };
        let pairs: Vec<(f64, f64)> = (0..self.repetitions)
            .filter_map(|n| Some((load_of(Setup::Default, n)?, load_of(Setup::Sidelane, n)?)))
            .collect();
        let spread = |of: fn(&(f64, f64)) -> f64| spread_of(pairs.iter().map(of));
        let loads = spread(|pair| pair.0).zip(spread(|pair| pair.1));
        Gain {
            quality,
            loads: loads.map(|(default, sidelane)| [default, sidelane]),
            ratio: spread(|pair| pair.1 / pair.0),
            repetitions: pairs.len(),
        }
    }
}

/// The load at which the quality falls below `target` for good, on straight lines between the loads
/// measured. None: it never reaches it, or is not below it at the end.
fn highest_load(loads: &[f64], qualities: &[f64], target: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = loads
        .iter()
        .copied()
        .zip(qualities.iter().copied())
        .collect();
    let last_above = points.iter().rposition(|(_, quality)| *quality >= target)?;
    let (load, quality) = *points.get(last_above)?;
    let (next_load, next_quality) = *points.get(last_above + 1)?;
    Some(load + (next_load - load) * (quality - target) / (quality - next_quality))
}

fn gain_line(gain: &Gain, repetitions: u32) -> String {
    let quality = gain.quality;
    let (Some([default, sidelane]), Some(ratio)) = (gain.loads, gain.ratio) else {
        return format!("Quality {quality}: not crossed within these loads by both schedulers\n");
    };
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    format!(
        "Quality {quality}: up to load {:.3} (default), {:.3} (sidelane):\n  {:+.1} % ({:+.1} … {:+.1}; {} of {} \
         repetitions)\n",
        default.median,
        sidelane.median,
        percent(ratio.median),
        percent(ratio.min),
        percent(ratio.max),
        gain.repetitions,
        repetitions
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::testing::{facts, fits, is_described, plan, plans_make_sense};
    use sidelane_interface::Kind;
    use sidelane_smt::latency::Summary;

    #[test]
    fn the_load_at_a_quality() {
        let loads = [0.5, 0.7, 0.9];
        let at = |qualities: [f64; 3]| highest_load(&loads, &qualities, 0.99);
        let halfway = at([1.0, 0.995, 0.985]).unwrap();
        assert!((halfway - 0.8).abs() < 1e-9);
        // noise below is not the end
        assert!((at([0.98, 0.995, 0.985]).unwrap() - 0.8).abs() < 1e-9);
        assert_eq!(at([0.98, 0.98, 0.98]), None);
        assert_eq!(at([1.0, 1.0, 0.99]), None);
    }

    #[test]
    fn gains_are_taken_repetition_by_repetition() {
        let plan: OptionsPlan = plan("--repetitions 2 --loads 0.5,1,2 --qualities 0.9,0.5");
        let run = |turn: Turn<Setup>| {
            // Sidelane is as good at 0.2 more
            let shift = if turn.setup == Setup::Sidelane {
                0.2
            } else {
                0.0
            };
            let outcome = |load: &f64| Outcome {
                requests: 100,
                missed: 4,
                lost: 1,
                quality: 1.0 - 0.1 * (load - shift),
                latency: Summary::of(&mut [1_000_000]),
            };
            let outcomes = plan.loads.iter().map(outcome).collect();
            turn.run(Found { outcomes })
        };
        let mut runs: Vec<Run> = plan.turns(2).into_iter().map(run).collect();
        let document = plan.document(facts(1), runs.clone()).unwrap();
        let gain = &document.gains[0];
        assert!((gain.ratio.unwrap().median - 1.2).abs() < 1e-9, "{gain:?}");
        assert_eq!(gain.repetitions, 2);
        assert_eq!(document.gains[1].ratio, None);
        let cell = &document.rows[1].cells[0];
        assert!((cell.missed.median - 0.04).abs() < 1e-9 && cell.lost == 2);
        is_described(Kind::DemoOptions, &document);
        let text = OptionsPlan::render(&document);
        fits(
            &text,
            [
                "default",
                "sidelane",
                "Quality 0.9: up to load",
                "Quality 0.5: not",
            ],
        );
        runs[0].found.outcomes.pop();
        assert!(
            plan.document(facts(1), runs.clone()).is_err(),
            "a load is missing"
        );
        runs.pop();
        assert!(plan.document(facts(1), runs).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        plans_make_sense::<OptionsPlan>(&[
            "--loads 0.5",
            "--loads 0.5,0.4",
            "--loads 0.5,nan",
            "--loads 0.5,5",
            "--deadline-ms 0",
            "--mean-ms inf",
            "--qualities 1",
            "--seconds 0.5",
        ]);
    }
}
