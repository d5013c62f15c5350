//! What a recording says: tables of cores, tasks and cgroups, and two recordings compared.

mod compare;
mod html;
mod text;

pub(crate) use text::shortened;
pub use text::{digits, wrapped};

pub use compare::{Comparison, Row, Unit};

use crate::histogram::LogHistogram;
use crate::latency::Quantile;
use crate::metrics::SmtMetrics;
use crate::recording::{self, Frame, Header};
use crate::snapshot::{Class, CoreTotals, Interval, Rates, Usage, by_path};
use serde::Serialize;

/// What is wanted.
#[derive(Debug, Clone)]
pub struct Options {
    /// Tasks and cgroups in the tables.
    pub top: usize,
    /// Transactions that were done in the time; nothing: jobs of critical tasks.
    pub transactions: Option<f64>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            top: 10,
            transactions: None,
        }
    }
}

/// A recording, summed up.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What it is called.
    pub name: String,
    /// What was recorded.
    pub header: Header,
    /// Length of what could be read, s.
    pub elapsed_s: f64,
    /// Intervals that could be read.
    pub intervals: u64,
    /// By what work was counted at the end.
    pub rates: Rates,
    /// Lanes that were online.
    pub lanes: usize,
    /// All cores together.
    pub metrics: SmtMetrics,
    /// Share of lanes' time that batch borrowed; none where nobody knew classes all the time.
    pub borrowed: Option<f64>,
    /// Share of lanes' time of forced idleness; none as there.
    pub forced_idle: Option<f64>,
    /// Each core.
    pub cores: Vec<CoreRow>,
    /// Tasks with most MT1-equivalent time.
    pub tasks: Vec<UsageRow>,
    /// Cgroups with most MT1-equivalent time.
    pub cgroups: Vec<UsageRow>,
    /// Transactions, if anything tells them.
    pub transactions: Option<Transactions>,
    /// Of the time in which tasks ran or could have, the share in which they waited for a lane; with any scheduler.
    pub waiting: Option<f64>,
    /// The metrics interval by interval.
    pub series: Vec<Point>,
    /// What limits the figures, each a sentence.
    pub warnings: Vec<String>,
}

/// A core.
#[derive(Debug, Clone, Serialize)]
pub struct CoreRow {
    /// Its number.
    pub core: u32,
    /// CPU numbers of its lanes.
    pub cpus: Vec<u32>,
    /// Share of the time with no lane busy, one, two, ...
    pub densities: Vec<f64>,
    /// Share of its lanes' time of forced idleness; none where nobody knew classes all the time.
    pub forced_idle: Option<f64>,
    /// Its metrics.
    pub metrics: SmtMetrics,
}

/// A task or a cgroup.
#[derive(Debug, Clone, Serialize)]
pub struct UsageRow {
    /// Its name.
    pub name: String,
    /// Thread id; 0 for a cgroup.
    pub pid: u32,
    /// Time on lanes, ms.
    pub raw_ms: f64,
    /// MT1-equivalent time, ms.
    pub mt1_ms: f64,
    /// Time it could have run and did not, ms.
    pub waiting_ms: f64,
    /// Of `raw_ms` of batch, beside critical work; none where nobody knew classes all the time.
    pub borrowed_ms: Option<f64>,
    /// Time that critical work kept its siblings idle while batch waited; none as there.
    pub forced_idle_ms: Option<f64>,
    /// Times it began to run, a second.
    pub runs_per_s: f64,
    /// Jobs, from wake-up to sleep.
    pub jobs: u64,
    /// Their 99th percentile, ms.
    pub job_p99_ms: Option<f64>,
}

/// Transactions, and how long they took.
#[derive(Debug, Clone, Serialize)]
pub struct Transactions {
    /// Where they are from.
    pub source: &'static str,
    /// A second of the recording: the external throughput rate, ETR.
    pub per_s: f64,
    /// A second of busy lanes, as if all were: the internal throughput rate, ITR.
    pub per_busy_s: Option<f64>,
    /// Median of the response time, ms.
    pub p50_ms: Option<f64>,
    /// 99th percentile, ms.
    pub p99_ms: Option<f64>,
}

/// An interval.
#[derive(Debug, Clone, Serialize)]
pub struct Point {
    /// When it began and ended, s after the recording's begin.
    pub from_s: f64,
    /// See there.
    pub to_s: f64,
    /// All cores together.
    pub metrics: SmtMetrics,
}

/// Sums up a recording that was read whole.
///
/// # Errors
/// It is no recording, or nothing in it can be read.
pub fn report(name: &str, bytes: &[u8], options: &Options) -> Result<Report, recording::Error> {
    let (header, frames) = recording::open(bytes)?;
    let mut sum = Sum::default();
    for frame in frames {
        match frame {
            Ok(Frame::Interval(interval)) => sum.add(&interval),
            Ok(Frame::Restarted(reason)) => sum.restarted(&reason),
            Ok(Frame::End(_)) => sum.ended = true,
            Ok(Frame::Header(_)) => sum.warn("it has a second beginning, which is left out"),
            Err(fault) => sum.warn(&fault.to_string()),
        }
    }
    sum.report(name, header, options)
}

/// So many tasks are added up; of more, those with least time are left out.
const TASKS_MAX: usize = 50_000;

/// Intervals that were added up.
#[derive(Default)]
struct Sum {
    /// Latencies of critical tasks' jobs.
    critical: LogHistogram,
    total: Option<Interval>,
    begin_ns: u64,
    covered_ns: u64,
    intervals: u64,
    series: Vec<Point>,
    warnings: Vec<String>,
    /// The collector was started anew since the last interval.
    restarted: bool,
    ended: bool,
}

impl Sum {
    fn warn(&mut self, what: &str) {
        if !self.warnings.iter().any(|known| known == what) {
            self.warnings.push(what.to_owned());
        }
    }

    fn restarted(&mut self, reason: &str) {
        self.restarted = true;
        self.warn(&format!("the collector was started anew: {reason}"));
    }

    fn add(&mut self, interval: &Interval) {
        self.tell_clocks(interval);
        let metrics = match interval.metrics() {
            Ok(metrics) => metrics,
            Err(error) => return self.warn(&format!("an interval is left out: {error}")),
        };
        let added = match &mut self.total {
            None => {
                self.begin_ns = interval.from_ns;
                self.total = Some(interval.clone());
                Ok(())
            }
            Some(total) => {
                let missing_ns = interval.from_ns.saturating_sub(total.to_ns);
                let added = total.add(interval);
                if missing_ns > 0 {
                    let why = if self.restarted {
                        "not recorded"
                    } else {
                        "missing"
                    };
                    self.warn(&format!("{:.3} s are {why}", missing_ns as f64 / 1e9));
                }
                added
            }
        };
        if let Err(error) = added {
            return self.warn(&format!("an interval is left out: {error}"));
        }
        let tasks = (interval.tasks.iter()).filter(|task| task.class == Some(Class::Critical));
        tasks.for_each(|task| self.critical.merge(&task.usage.jobs));
        self.drop_least();
        self.restarted = false;
        self.intervals += 1;
        self.covered_ns += interval.elapsed_ns();
        let seconds = |at_ns: u64| at_ns.saturating_sub(self.begin_ns) as f64 / 1e9;
        self.series.push(Point {
            from_s: seconds(interval.from_ns),
            to_s: seconds(interval.to_ns),
            metrics,
        });
    }

    /// Keeps memory bounded, however many tasks come and go.
    fn drop_least(&mut self) {
        let Some(total) = &mut self.total else { return };
        if total.tasks.len() <= TASKS_MAX {
            return;
        }
        let mut times: Vec<u64> = total.tasks.iter().map(|task| task.usage.mt1_ns).collect();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let least = times.get(TASKS_MAX / 2).copied().unwrap_or(0);
        total.tasks.retain(|task| task.usage.mt1_ns > least);
        self.warn("tasks with least time were dropped while adding up; cgroups have all time");
    }

    fn tell_clocks(&mut self, interval: &Interval) {
        // below it, it is the clock's steady adjustment
        const SET_MS: i64 = 100;
        // below it, it is the time between two looks at clocks
        const SUSPENDED_NS: u64 = 100_000_000;
        if interval.clock_set_ms.abs() >= SET_MS {
            let ms = interval.clock_set_ms;
            self.warn(&format!(
                "the wall clock was set by {ms} ms; lengths are not affected"
            ));
        }
        if interval.suspended_ns >= SUSPENDED_NS {
            let seconds = interval.suspended_ns as f64 / 1e9;
            self.warn(&format!(
                "the machine was suspended for {seconds:.1} s, which count as no time"
            ));
        }
    }

    fn report(
        mut self,
        name: &str,
        header: Header,
        options: &Options,
    ) -> Result<Report, recording::Error> {
        let Some(total) = self.total.take() else {
            return Err(recording::no_interval(&self.warnings));
        };
        if !self.ended {
            self.warn("its end is missing: the recorder was killed, or the file was cut");
        }
        let sentences = total.notes.sentences();
        sentences.iter().for_each(|sentence| self.warn(sentence));
        let metrics = total.metrics()?;
        let elapsed_s = self.covered_ns as f64 / 1e9;
        let waiting = waiting(&total);
        let cores: Result<Vec<CoreRow>, _> = (total.cores.iter())
            .map(|core| core_row(core, &total.rates))
            .collect();
        Ok(Report {
            name: name.to_owned(),
            elapsed_s,
            intervals: self.intervals,
            lanes: (total.cores.iter()).map(|core| core.online_lanes()).sum(),
            borrowed: borrowed(&total),
            forced_idle: forced_idle(&total.cores),
            cores: cores?,
            tasks: top(options.top, elapsed_s, total.tasks.iter().map(named_task)),
            cgroups: top(
                options.top,
                elapsed_s,
                by_path(total.cgroups).iter().map(named_cgroup),
            ),
            transactions: transactions(&self.critical, elapsed_s, &metrics, options),
            waiting,
            metrics,
            rates: total.rates,
            header,
            series: self.series,
            warnings: self.warnings,
        })
    }
}

/// Of the time in which tasks ran or could have, the share in which they waited.
fn waiting(total: &Interval) -> Option<f64> {
    let sum = |of: fn(&Usage) -> u64| {
        total
            .cgroups
            .iter()
            .map(|group| of(&group.usage))
            .sum::<u64>()
    };
    let waiting_ns = sum(|usage| usage.waiting_ns);
    let wanted_ns = waiting_ns + sum(|usage| usage.raw_ns);
    (wanted_ns > 0).then(|| waiting_ns as f64 / wanted_ns as f64)
}

/// Of all lanes' time, the share that batch borrowed.
fn borrowed(total: &Interval) -> Option<f64> {
    let mut times = total.cgroups.iter().map(|group| group.usage.borrowed_ns);
    // nothing tells it where nothing ran
    times.clone().next()?;
    let borrowed_ns: Option<u64> = times.try_fold(0u64, |sum, ns| sum.checked_add(ns?));
    share_of_lanes(borrowed_ns?, &total.cores)
}

/// Of the time of the lanes of `cores`, the share that they were forced to idle.
fn forced_idle(cores: &[CoreTotals]) -> Option<f64> {
    let mut times = cores.iter().map(|core| core.forced_idle_ns);
    let forced_ns: Option<u64> = times.try_fold(0u64, |sum, ns| sum.checked_add(ns?));
    share_of_lanes(forced_ns?, cores)
}

fn share_of_lanes(ns: u64, cores: &[CoreTotals]) -> Option<f64> {
    let of_core = |core: &CoreTotals| core.elapsed_ns as f64 * core.online_lanes() as f64;
    let lanes_ns = cores.iter().map(of_core).sum::<f64>();
    (lanes_ns > 0.0).then(|| ns as f64 / lanes_ns)
}

fn core_row(core: &CoreTotals, rates: &Rates) -> Result<CoreRow, crate::metrics::Error> {
    let busy_ns: u64 = core.by_density_ns.iter().sum();
    let idle_ns = core.elapsed_ns.saturating_sub(busy_ns);
    let share = |ns: u64| ns as f64 / core.elapsed_ns.max(1) as f64;
    let times = std::iter::once(idle_ns).chain(core.by_density_ns.iter().copied());
    Ok(CoreRow {
        core: core.core,
        cpus: core.lanes.iter().map(|lane| lane.cpu).collect(),
        densities: times.map(share).collect(),
        forced_idle: forced_idle(std::slice::from_ref(core)),
        metrics: core.smt(rates)?.metrics(),
    })
}

fn named_task(task: &crate::snapshot::TaskTotals) -> (String, u32, &Usage) {
    (task.comm.clone(), task.pid, &task.usage)
}

fn named_cgroup(group: &crate::snapshot::CgroupTotals) -> (String, u32, &Usage) {
    let name = match (&group.path, group.id) {
        (Some(path), _) => path.clone(),
        (None, 0) => "(those without room)".to_owned(),
        (None, id) => format!("(removed, id {id})"),
    };
    (name, 0, &group.usage)
}

fn top<'a>(
    count: usize,
    elapsed_s: f64,
    usages: impl Iterator<Item = (String, u32, &'a Usage)>,
) -> Vec<UsageRow> {
    let mut usages: Vec<_> = usages.collect();
    usages.sort_by_key(|(_, pid, usage)| (std::cmp::Reverse(usage.mt1_ns), *pid));
    let row = |(name, pid, usage): (String, u32, &Usage)| UsageRow {
        name,
        pid,
        raw_ms: usage.raw_ns as f64 / 1e6,
        mt1_ms: usage.mt1_ns as f64 / 1e6,
        waiting_ms: usage.waiting_ns as f64 / 1e6,
        borrowed_ms: usage.borrowed_ns.map(|ns| ns as f64 / 1e6),
        forced_idle_ms: usage.forced_idle_ns.map(|ns| ns as f64 / 1e6),
        runs_per_s: usage.runs as f64 / elapsed_s.max(f64::MIN_POSITIVE),
        jobs: usage.jobs.count(),
        job_p99_ms: quantile_ms(&usage.jobs, Quantile::P99),
    };
    usages.into_iter().take(count).map(row).collect()
}

fn quantile_ms(jobs: &LogHistogram, q: Quantile) -> Option<f64> {
    jobs.quantile(q).map(|ns| ns as f64 / 1e6)
}

/// Transactions that were told, or jobs of critical tasks.
fn transactions(
    jobs: &LogHistogram,
    elapsed_s: f64,
    metrics: &SmtMetrics,
    options: &Options,
) -> Option<Transactions> {
    let (source, count) = match (options.transactions, jobs.count()) {
        (Some(count), _) => ("as given", count),
        (None, 0) => return None,
        (None, count) => ("jobs of critical tasks", count as f64),
    };
    if elapsed_s <= 0.0 {
        return None;
    }
    let per_s = count / elapsed_s;
    let busy = metrics.lane_utilization.filter(|busy| *busy > 0.0);
    Some(Transactions {
        source,
        per_s,
        per_busy_s: busy.map(|busy| per_s / busy),
        p50_ms: quantile_ms(jobs, Quantile::P50),
        p99_ms: quantile_ms(jobs, Quantile::P99),
    })
}

#[cfg(test)]
mod tests;
