//! The text of a reading.

use super::series::{Jobs, Latencies, OTHERS, Series};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use sidelane_smt::metrics::SmtMetrics;
use sidelane_smt::snapshot::{CoreTotals, Interval, RateSource, Snapshot, Usage};
use std::collections::BTreeSet;
use std::fmt;

/// All that is told at a time.
pub(crate) struct Exported<'a> {
    /// The reading.
    pub now: &'a Snapshot,
    /// What passed since an earlier one, from which the SMT metrics follow, if there was one.
    pub recent: Option<&'a Interval>,
    /// Of its cgroups.
    pub series: &'a Series<String>,
    /// How long jobs took, while Sidelane's scheduler gives tasks classes.
    pub jobs: Option<&'a Jobs>,
    /// Of the scheduler, and of pods.
    pub families: Vec<Family>,
    /// Collectors that were started.
    pub starts: u64,
}

/// A metric and its samples.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    /// Labels and values.
    pub samples: Samples<'static>,
}

/// What kind of metric it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    /// A counter of seconds.
    Time,
    Gauge,
    /// A gauge in seconds.
    Seconds,
}

/// It in the OpenMetrics text format.
///
/// # Errors
/// The text cannot be written.
pub(crate) fn text(exported: Exported<'_>) -> Result<String, fmt::Error> {
    let series = exported.series;
    let cgroups = series.totals();
    let mut registry = Registry::with_prefix("sidelane");
    registry.register_collector(Box::new(Reading {
        now: exported.now.clone(),
        recent: exported.recent.and_then(|interval| interval.metrics().ok()),
        cgroups: cgroups
            .map(|(path, used)| (path.map_or(OTHERS, |path| path).to_owned(), used.clone()))
            .collect(),
        folded: series.folded(),
        ended: series.ended(),
        forgotten: series.forgotten(),
        jobs: (exported.jobs).map_or(Vec::new(), |jobs| jobs.latencies().collect()),
        families: exported.families,
        starts: exported.starts,
    }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

/// The text of [`text`] in the format that was before OpenMetrics (0.0.4): a counter's family has its samples'
/// name there, units and the end are not said.
pub fn plain(open_metrics: &str) -> String {
    let family = |line: &str, keyword: &str| -> Option<(String, String)> {
        let (name, rest) = line.strip_prefix(keyword)?.split_once(' ')?;
        Some((name.to_owned(), rest.to_owned()))
    };
    let counters: BTreeSet<String> = (open_metrics.lines())
        .filter_map(|line| family(line, "# TYPE "))
        .filter_map(|(name, kind)| (kind == "counter").then_some(name))
        .collect();
    let mut plain = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let found = ["# HELP ", "# TYPE "].map(|word| family(line, word).map(|of| (word, of)));
        match found.into_iter().flatten().next() {
            Some((word, (name, rest))) => {
                let total = if counters.contains(&name) {
                    "_total"
                } else {
                    ""
                };
                plain += &format!("{word}{name}{total} {rest}\n");
            }
            None if line.starts_with('#') => {}
            None => plain += &format!("{line}\n"),
        }
    }
    plain
}

#[derive(Debug)]
struct Reading {
    now: Snapshot,
    recent: Option<SmtMetrics>,
    /// Cgroups by path.
    cgroups: Vec<(String, Usage)>,
    folded: usize,
    ended: u64,
    forgotten: u64,
    jobs: Vec<(&'static str, Latencies)>,
    families: Vec<Family>,
    starts: u64,
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.encode_cores(encoder)?;
        self.encode_smt(encoder)?;
        self.encode_cgroups(encoder)?;
        self.encode_jobs(encoder)?;
        for family in &self.families {
            family.encode(encoder)?;
        }
        self.encode_notes(encoder)
    }
}

/// One of a cgroup's times, ns, if it is known.
type Time = fn(&Usage) -> Option<u64>;

/// Samples of one metric: labels and value.
pub(crate) type Samples<'a> = Vec<(Vec<(&'a str, String)>, f64)>;

/// A label's value as the format wants it, which the library leaves to us. Names of cgroups may have any
/// character.
pub(crate) fn escaped(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '"' => escaped.push_str("\\\""),
            '\n' => escaped.push_str("\\n"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(crate) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    samples: Samples<'_>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Counter)?;
    for (labels, value) in samples {
        match labels.is_empty() {
            true => metric.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            false => (metric.encode_family(&labels)?)
                .encode_counter::<NoLabelSet, _, u64>(&value, None)?,
        }
    }
    Ok(())
}

/// Times, if anything is known of them.
fn known_counters(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: Samples<'_>,
) -> fmt::Result {
    match samples.is_empty() {
        true => Ok(()),
        false => counters(encoder, name, help, Some(&Unit::Seconds), samples),
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: Samples<'_>,
) -> fmt::Result {
    gauges_in(encoder, name, help, None, samples)
}

fn gauges_in(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    samples: Samples<'_>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
    for (labels, value) in samples {
        match labels.is_empty() {
            true => metric.encode_gauge(&value)?,
            false => metric.encode_family(&labels)?.encode_gauge(&value)?,
        }
    }
    Ok(())
}

impl Family {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help, samples) = (self.name, self.help, self.samples.clone());
        match self.kind {
            Kind::Counter => counters(encoder, name, help, None, samples),
            Kind::Time => counters(encoder, name, help, Some(&Unit::Seconds), samples),
            Kind::Gauge => gauges(encoder, name, help, samples),
            Kind::Seconds => gauges_in(encoder, name, help, Some(&Unit::Seconds), samples),
        }
    }
}

impl Reading {
    fn encode_cores(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let cores = &self.now.cores;
        let label = |core: &CoreTotals| ("core", core.core.to_string());
        let of_cores = cores.iter();
        let elapsed = of_cores.map(|core| (vec![label(core)], seconds(core.elapsed_ns)));
        let unit = Some(&Unit::Seconds);
        let help = "Time that the core was watched";
        counters(encoder, "core_elapsed", help, unit, elapsed.collect())?;
        let densities = cores.iter().flat_map(|core| {
            let numbered = core.by_density_ns.iter().zip(1..);
            numbered.map(move |(ns, busy): (&u64, u32)| {
                (vec![label(core), ("lanes", busy.to_string())], seconds(*ns))
            })
        });
        let help = "Time during which exactly so many lanes of the core ran";
        counters(encoder, "core_busy", help, unit, densities.collect())?;
        let lanes = || cores.iter().flat_map(|core| &core.lanes);
        let cpu = |cpu: u32| vec![("cpu", cpu.to_string())];
        let busy = lanes().map(|lane| (cpu(lane.cpu), seconds(lane.busy_ns)));
        let help = "Time during which the lane ran a task";
        counters(encoder, "lane_busy", help, unit, busy.collect())?;
        let forced = cores.iter().filter_map(|core| {
            let forced_ns = core.forced_idle_ns?;
            Some((vec![label(core)], seconds(forced_ns)))
        });
        let help = "Time that lanes of the core idled because batch had to stay away";
        known_counters(encoder, "core_forced_idle", help, forced.collect())?;
        let online = lanes().map(|lane| (cpu(lane.cpu), f64::from(u8::from(lane.online))));
        gauges(
            encoder,
            "lane_online",
            "1: the lane is online",
            online.collect(),
        )
    }

    /// Over the interval before the reading.
    fn encode_smt(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let source = match self.now.rates.source {
            RateSource::Counters => "counters",
            RateSource::Calibrated => "calibrated",
            RateSource::Given => "given",
            RateSource::Assumed => "assumed",
        };
        let speeds = self.now.rates.thread_perf.iter().zip(1..);
        let speeds = speeds.map(|(speed, lanes): (&f64, u32)| {
            (
                vec![("lanes", lanes.to_string()), ("source", source.to_owned())],
                *speed,
            )
        });
        let help =
            "Speed of a lane when so many lanes of its core run, and where that is known from";
        gauges(encoder, "thread_perf", help, speeds.collect())?;
        let Some(recent) = &self.recent else {
            return Ok(());
        };
        let metrics = [
            (
                "thread_density",
                "Lanes busy while a core was busy",
                recent.thread_density,
            ),
            (
                "capacity_factor",
                "Work done while a core was busy, relative to one lane alone",
                recent.capacity_factor,
            ),
            (
                "max_capacity_factor",
                "Capacity factor with all lanes busy",
                recent.max_capacity_factor,
            ),
            (
                "productivity_ratio",
                "Work done while a core was busy, relative to all lanes busy",
                recent.productivity,
            ),
            (
                "mt_utilization_ratio",
                "Work done, relative to all lanes always busy",
                recent.mt_utilization,
            ),
            (
                "core_utilization_ratio",
                "Share of the time during which a core was busy",
                recent.core_utilization,
            ),
        ];
        for (name, help, value) in metrics {
            let samples = value.map(|value| (Vec::new(), value));
            gauges(encoder, name, help, samples.into_iter().collect())?;
        }
        Ok(())
    }

    fn encode_cgroups(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let times: [(&str, &str, Time); 6] = [
            (
                "cgroup_raw",
                "Time that the cgroup's tasks ran on a lane",
                |usage| Some(usage.raw_ns),
            ),
            (
                "cgroup_mt1",
                "MT1-equivalent time of the cgroup's tasks",
                |usage| Some(usage.mt1_ns),
            ),
            (
                "cgroup_prorated",
                "Prorated core time of the cgroup's tasks",
                |usage| usage.prorated_ns,
            ),
            (
                "cgroup_waiting",
                "Time that the cgroup's tasks waited for a lane",
                |usage| Some(usage.waiting_ns),
            ),
            (
                "cgroup_borrowed",
                "Time that the cgroup's batch tasks ran beside critical work",
                |usage| usage.borrowed_ns,
            ),
            (
                "cgroup_forced_idle",
                "Time that the cgroup's critical tasks kept their siblings idle while batch waited",
                |usage| usage.forced_idle_ns,
            ),
        ];
        for (name, help, time) in times {
            let samples = self.cgroups.iter().filter_map(|(path, usage)| {
                Some((vec![("cgroup", escaped(path))], seconds(time(usage)?)))
            });
            known_counters(encoder, name, help, samples.collect())?;
        }
        Ok(())
    }

    fn encode_jobs(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let help = "How long jobs took, from a wake-up to the next sleep, by class of the task";
        let unit = Some(&Unit::Seconds);
        let mut metric =
            encoder.encode_descriptor("job_latency", help, unit, MetricType::Histogram)?;
        for (class, jobs) in &self.jobs {
            let labels = vec![("class", (*class).to_owned())];
            let mut family = metric.encode_family(&labels)?;
            family.encode_histogram::<NoLabelSet>(jobs.sum_s, jobs.count, &jobs.buckets, None)?;
        }
        Ok(())
    }

    fn encode_notes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let notes = &self.now.notes;
        let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
        let help = "1: the version of this program";
        gauges(encoder, "build_info", help, vec![(version, 1.0)])?;
        let counted = [
            (
                "collector_starts",
                "Collectors that were started; with each, totals of cores and lanes begin at 0",
                self.starts,
            ),
            (
                "hotplug_changes",
                "Changes of the set of online lanes",
                notes.hotplug,
            ),
            (
                "lost_changes",
                "Changes that could not be counted: times are too low",
                notes.lost,
            ),
            (
                "unlisted_tasks",
                "Ended tasks that count only in their cgroups",
                notes.unlisted_tasks,
            ),
            (
                "unlisted_cgroup_switches",
                "Switches of tasks whose cgroups found no room in the table: they count as (others)",
                notes.unlisted_cgroups,
            ),
            (
                "cgroup_series_ended",
                "Series of cgroups whose place another took that ran more of late",
                self.ended,
            ),
            (
                "cgroup_series_forgotten",
                "Of those, series that begin at 0 should they begin again",
                self.forgotten,
            ),
        ];
        for (name, help, count) in counted {
            counters(encoder, name, help, None, vec![(Vec::new(), count as f64)])?;
        }
        let help = "Cgroups that ran between the last two readings and count as (others)";
        let folded = vec![(Vec::new(), self.folded as f64)];
        gauges(encoder, "cgroups_folded", help, folded)
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
