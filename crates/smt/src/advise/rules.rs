//! The rules, each for one finding.

use super::{Advice, BusyThread, Confidence, Finding, Measured};
use crate::snapshot::{Charge, Class, Interval, RateSource, TaskTotals, Usage};

/// Below this share of core time nothing is worth an advice.
pub(super) const IDLE_BELOW: f64 = 0.02;

/// A thread that runs for at least this share of the time keeps others waiting: the source's clients
/// were at 70 % without SMT and could have done with more than 100 % with it.
const BUSY_SHARE: f64 = 0.9;

/// With less of the lanes' time idle than this, it is the lanes that everything waits for. Lanes, not
/// cores: the three clients of the source's Table 4 kept three cores busy for 95.5 % of the time, at a
/// density of 1.28, and what helped was more of them.
const ROOM_SHARE: f64 = 0.15;

/// With more busy threads than this share of the cores, they may be the work, not a stage of it.
const STAGE_SHARE: f64 = 0.5;

/// What is not batch and runs beside a stage takes at least this share of the time that all of it takes:
/// the source's servers took 20 to 26 %.
const OTHERS_SHARE: f64 = 0.1;

/// A gain or loss below this is within the error of a calibration.
const WORTH: f64 = 0.02;

/// Where nothing tells for how long a cgroup was held back: one that uses this share of its limit is.
const LIMITED_SHARE: f64 = 0.9;

/// All of them.
pub(super) const ALL: [fn(&Measured<'_>) -> Vec<Advice>; 4] =
    [serial, smt_worth, headroom, entitlement];

/// Shares of the time of lanes, and of cores, in which they did nothing.
fn idle(interval: &Interval) -> Option<[f64; 2]> {
    let metrics = interval.metrics().ok()?;
    Some([
        1.0 - metrics.lane_utilization?,
        1.0 - metrics.core_utilization?,
    ])
}

/// The same where lanes have room.
fn room(interval: &Interval) -> Option<[f64; 2]> {
    idle(interval).filter(|[lanes, _]| *lanes >= ROOM_SHARE)
}

fn lane_share(task: &TaskTotals, interval: &Interval) -> f64 {
    task.usage.raw_ns as f64 / interval.elapsed_ns().max(1) as f64
}

/// Share of the parts in which all of `threads` run nearly all the time while lanes have room.
fn steadiness(measured: &Measured<'_>, threads: &[&TaskTotals]) -> f64 {
    let holds = |part: &&Interval| {
        let busy = |thread: &&TaskTotals| {
            let found = part
                .tasks
                .binary_search_by_key(&thread.key(), TaskTotals::key);
            found.is_ok_and(|at| lane_share(&part.tasks[at], part) >= BUSY_SHARE)
        };
        threads.iter().all(busy) && room(part).is_some()
    };
    let parts = measured.parts;
    parts.iter().filter(holds).count() as f64 / parts.len().max(1) as f64
}

/// A thread, or a few, near 100 % of a lane while other lanes have room.
fn serial(measured: &Measured<'_>) -> Vec<Advice> {
    let Some([idle_lanes, idle_cores]) = room(measured.whole) else {
        return Vec::new();
    };
    let busy = |task: &&TaskTotals| {
        lane_share(task, measured.whole) >= BUSY_SHARE && task.class != Some(Class::Batch)
    };
    let found: Vec<&TaskTotals> = measured.whole.tasks.iter().filter(busy).collect();
    let threads: Vec<BusyThread> = found.iter().map(|task| thread(task, measured)).collect();
    let finding = match &threads[..] {
        [] => return Vec::new(),
        [thread] => Finding::MasterThread {
            thread: thread.clone(),
            idle_lanes,
            idle_cores,
        },
        _ => Finding::SerialStage {
            threads: threads.clone(),
            idle_lanes,
            idle_cores,
        },
    };
    let steady = steadiness(measured, &found);
    let unsteady = (steady < 0.8).then(|| {
        let why = format!("so only in {:.0} % of the intervals", steady * 100.0);
        (Confidence::Low, why)
    });
    let unknown = (found.iter().any(|task| task.class.is_none())).then(|| {
        let why = "classes are not known: batch runs all the time by design";
        (Confidence::Medium, why.to_owned())
    });
    vec![measured.advice(finding, vec![unsteady, many(measured, &found), unknown])]
}

/// Many busy threads are hardly a stage; the less so, the less runs beside them.
fn many(measured: &Measured<'_>, found: &[&TaskTotals]) -> Option<(Confidence, String)> {
    let most = (measured.whole.cores.len() as f64 * STAGE_SHARE).max(1.0);
    if found.len() as f64 <= most {
        return None;
    }
    let raw_ns = |task: &TaskTotals| task.usage.raw_ns as f64;
    let waited_for = |task: &&TaskTotals| task.class != Some(Class::Batch);
    let all = measured.whole.tasks.iter().filter(waited_for);
    let all_ns: f64 = all.map(raw_ns).sum();
    let found_ns: f64 = found.iter().map(|task| raw_ns(task)).sum();
    Some(match all_ns - found_ns >= OTHERS_SHARE * all_ns {
        true => (
            Confidence::Medium,
            "so many threads may be work of their own rather than a stage".to_owned(),
        ),
        false => (
            Confidence::Low,
            "so many threads, with hardly anything beside them, may be the work itself rather than a \
             stage of it"
                .to_owned(),
        ),
    })
}

fn thread(task: &TaskTotals, measured: &Measured<'_>) -> BusyThread {
    let lone = measured
        .whole
        .rates
        .thread_perf
        .first()
        .copied()
        .unwrap_or(1.0);
    BusyThread {
        pid: task.pid,
        tgid: task.tgid,
        comm: task.comm.clone(),
        lane_share: lane_share(task, measured.whole),
        speed: (task.usage.mt1_ns as f64 / task.usage.raw_ns.max(1) as f64 / lone).min(1.0),
        class: task.class,
    }
}

/// Do all lanes together do more than one of each core? Speeds that are assumed are no answer.
fn smt_worth(measured: &Measured<'_>) -> Vec<Advice> {
    let measured_speeds = measured.whole.rates.source != RateSource::Assumed && has_smt(measured);
    let most = measured.metrics.max_capacity_factor;
    let Some(most) = most.filter(|_| measured_speeds) else {
        return Vec::new();
    };
    let gain = most - 1.0;
    let finding = match gain {
        gain if gain > WORTH => Finding::SmtUseful { gain },
        gain if gain < -WORTH => Finding::SmtHarmful { loss: -gain },
        _ => Finding::SmtUseless { within: WORTH },
    };
    vec![measured.advice(finding, vec![measured.by_rates()])]
}

/// Has some core more than one lane?
fn has_smt(measured: &Measured<'_>) -> bool {
    let mut cores = measured.whole.cores.iter();
    cores.any(|core| core.online_lanes() > 1)
}

/// What could run besides, where lanes are shared already or cores idle.
fn headroom(measured: &Measured<'_>) -> Vec<Advice> {
    let metrics = &measured.metrics;
    let (Some(used), Some(thread_density)) = (metrics.mt_utilization, metrics.thread_density)
    else {
        return Vec::new();
    };
    let share = 1.0 - used;
    if share < 0.1 {
        return Vec::new();
    }
    let finding = Finding::Headroom {
        share,
        thread_density,
        smt: has_smt(measured),
    };
    vec![measured.advice(finding, vec![measured.by_rates()])]
}

/// Cgroups that are held back by a limit in raw time, of which siblings take a part. Those that are
/// charged MT1-equivalent time lose nothing: what siblings take is not charged.
fn entitlement(measured: &Measured<'_>) -> Vec<Advice> {
    let elapsed_ns = measured.whole.elapsed_ns().max(1) as f64;
    let mut all = Vec::new();
    let limits = measured.whole.limits.iter();
    for limit in limits.filter(|limit| limit.charge == Charge::Raw) {
        let usage = usage_below(measured.whole, &limit.cgroup);
        let raw_ns = usage.raw_ns as f64;
        let used_lanes = raw_ns / elapsed_ns;
        // 0 where nothing ran
        let lost = (raw_ns - usage.mt1_ns as f64) / raw_ns.max(1.0);
        let throttled = limit.throttled_ns.map(|ns| ns as f64 / elapsed_ns);
        let held_back = match throttled {
            Some(share) => share > WORTH,
            None => used_lanes >= LIMITED_SHARE * limit.capacity,
        };
        if !held_back || lost <= WORTH {
            continue;
        }
        let finding = Finding::LostEntitlement {
            cgroup: limit.cgroup.clone(),
            limit_lanes: limit.capacity,
            used_lanes,
            lost,
            throttled,
        };
        all.push(measured.advice(finding, vec![measured.by_rates()]));
    }
    all
}

/// Of the cgroup at `path` and all below it: a limit holds for them together.
fn usage_below(interval: &Interval, path: &str) -> Usage {
    let mut sum = Usage::default();
    for group in &interval.cgroups {
        let rest = group.path.as_deref().and_then(|p| p.strip_prefix(path));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
            sum.add(&group.usage);
        }
    }
    sum
}
