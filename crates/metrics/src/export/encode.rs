//! The text of a reading.

use super::CGROUPS_MAX;
use crate::smt::SmtMetrics;
use crate::snapshot::{CgroupTotals, CoreTotals, Interval, RateSource, Snapshot, Usage};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::fmt;

/// The reading `now` in the OpenMetrics text format; `recent` is what passed since an earlier one, from
/// which the SMT metrics follow, if there was one.
///
/// # Errors
/// The text cannot be written.
pub fn text(now: &Snapshot, recent: Option<&Interval>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("sidelane");
    registry.register_collector(Box::new(Reading {
        now: now.clone(),
        recent: recent.and_then(|interval| interval.metrics().ok()),
    }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Reading {
    now: Snapshot,
    recent: Option<SmtMetrics>,
}

impl Collector for Reading {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.encode_cores(encoder)?;
        self.encode_smt(encoder)?;
        self.encode_cgroups(encoder)?;
        self.encode_notes(encoder)
    }
}

/// One of a cgroup's times, ns.
type Time = fn(&Usage) -> u64;

/// Samples of one metric: labels and value.
type Samples<'a> = Vec<(Vec<(&'a str, String)>, f64)>;

/// A label's value as the format wants it, which the library leaves to us. Names of cgroups may have any
/// character.
fn escaped(value: &str) -> String {
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

fn seconds(ns: u64) -> f64 {
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

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: Samples<'_>,
) -> fmt::Result {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in samples {
        match labels.is_empty() {
            true => metric.encode_gauge(&value)?,
            false => metric.encode_family(&labels)?.encode_gauge(&value)?,
        }
    }
    Ok(())
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
        let groups = named(&self.now.cgroups);
        let times: [(&str, &str, Time); 3] = [
            (
                "cgroup_raw",
                "Time that the cgroup's tasks ran on a lane",
                |usage| usage.raw_ns,
            ),
            (
                "cgroup_mt1",
                "MT1-equivalent time of the cgroup's tasks",
                |usage| usage.mt1_ns,
            ),
            (
                "cgroup_waiting",
                "Time that the cgroup's tasks waited for a lane",
                |usage| usage.waiting_ns,
            ),
        ];
        for (name, help, time) in times {
            let samples = groups
                .iter()
                .map(|(path, usage)| (vec![("cgroup", escaped(path))], seconds(time(usage))));
            counters(encoder, name, help, Some(&Unit::Seconds), samples.collect())?;
        }
        Ok(())
    }

    fn encode_notes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let notes = &self.now.notes;
        let counted = [
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
        ];
        for (name, help, count) in counted {
            counters(encoder, name, help, None, vec![(Vec::new(), count as f64)])?;
        }
        Ok(())
    }
}

/// The cgroups by path, those that ran most; the rest, and those without a path, are one.
fn named(groups: &[CgroupTotals]) -> Vec<(String, Usage)> {
    let mut sorted: Vec<&CgroupTotals> = groups.iter().collect();
    sorted.sort_by_key(|group| (std::cmp::Reverse(group.usage.raw_ns), group.id));
    let (mut named, mut others) = (Vec::new(), Usage::default());
    for group in sorted {
        match &group.path {
            Some(path) if named.len() < CGROUPS_MAX => {
                named.push((path.clone(), group.usage.clone()));
            }
            _ => others.add(&group.usage),
        }
    }
    if !others.is_empty() {
        named.push(("(others)".into(), others));
    }
    named
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::snapshot::{LaneTotals, Rates, delta};

    fn reading(at_s: u64, groups: u64) -> Snapshot {
        let ns = at_s * 1_000_000_000;
        let usage = |share: u64| Usage {
            raw_ns: ns / share,
            mt1_ns: ns / share / 2,
            ..Usage::default()
        };
        let group = |id: u64| CgroupTotals {
            id,
            path: (id != 1).then(|| format!("/\"{id}\"")),
            usage: usage(id),
        };
        Snapshot {
            taken_ns: ns,
            rates: Rates {
                source: RateSource::Given,
                thread_perf: vec![1.0, 0.6],
            },
            cores: vec![CoreTotals {
                core: 3,
                elapsed_ns: ns,
                by_density_ns: vec![ns / 4, ns / 4],
                lanes: vec![LaneTotals {
                    cpu: 6,
                    online: true,
                    busy_ns: ns / 2,
                    instructions: None,
                }],
            }],
            cgroups: (1..=groups).map(group).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_reading_is_valid_text_with_units_and_labels() {
        let (before, now) = (reading(10, 3), reading(20, 3));
        let text = text(&now, Some(&delta(&before, &now).unwrap())).unwrap();
        for line in [
            "sidelane_core_elapsed_seconds_total{core=\"3\"} 20.0",
            "sidelane_core_busy_seconds_total{core=\"3\",lanes=\"2\"} 5.0",
            "sidelane_lane_busy_seconds_total{cpu=\"6\"} 10.0",
            "sidelane_thread_perf{lanes=\"2\",source=\"given\"} 0.6",
            "sidelane_thread_density 1.5",
            "sidelane_capacity_factor 1.1",
            "sidelane_cgroup_raw_seconds_total{cgroup=\"/\\\"2\\\"\"} 10.0",
            "sidelane_cgroup_mt1_seconds_total{cgroup=\"(others)\"} 10.0",
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn without_an_earlier_reading_there_are_no_ratios() {
        let text = text(&reading(10, 0), None).unwrap();
        assert!(!text.contains("thread_density") && text.contains("sidelane_core_busy_seconds"));
    }

    #[test]
    fn the_dashboard_asks_for_what_is_exported() {
        let dashboard = include_str!("../../../../packaging/grafana/sidelane.json");
        let json: serde_json::Value = serde_json::from_str(dashboard).unwrap();
        let (before, now) = (reading(10, 3), reading(20, 3));
        let text = text(&now, Some(&delta(&before, &now).unwrap())).unwrap();
        let mut asked = 0;
        for panel in json["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let query = target["expr"].as_str().unwrap();
                let start = query.find("sidelane_").unwrap();
                let metric = query[start..].split('{').next().unwrap();
                let sample = |line: &str| line.split(['{', ' ']).next() == Some(metric);
                assert!(text.lines().any(sample), "{metric} in\n{text}");
                asked += 1;
            }
        }
        assert!(asked > 9);
    }

    #[test]
    fn no_name_ends_its_label() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }

    #[test]
    fn cgroups_are_bounded() {
        let names = named(&reading(1_000, 500).cgroups);
        assert_eq!(names.len(), CGROUPS_MAX + 1);
        assert_eq!(names.last().unwrap().0, "(others)");
        let sum = |groups: &[Usage]| groups.iter().map(|usage| usage.raw_ns).sum::<u64>();
        let all: Vec<Usage> = reading(1_000, 500)
            .cgroups
            .into_iter()
            .map(|g| g.usage)
            .collect();
        let named: Vec<Usage> = names.into_iter().map(|name| name.1).collect();
        assert_eq!(sum(&all), sum(&named));
    }
}
