//! The rules, each for one finding.

use super::{Advice, BusyThread, Confidence, Finding, Measured};
use crate::snapshot::{Class, Interval, TaskTotals, Usage};

/// Below this share of core time nothing is worth an advice.
pub(super) const IDLE_BELOW: f64 = 0.02;

/// A thread that runs for at least this share of the time keeps others waiting: the source's clients
/// were at 70 % without SMT and could have done with more than 100 % with it.
const BUSY_SHARE: f64 = 0.9;

/// With less of the core time idle than this, it is the cores that everything waits for.
const ROOM_SHARE: f64 = 0.15;

/// With more busy threads than this share of the cores, they are the work, not a stage of it.
const STAGE_SHARE: f64 = 0.5;

/// A gain or loss below this is within the error of a calibration.
const WORTH: f64 = 0.02;

/// A cgroup that uses this share of its limit is held back by it.
const LIMITED_SHARE: f64 = 0.9;

/// All of them.
pub(super) const ALL: [fn(&Measured<'_>) -> Vec<Advice>; 4] =
    [serial, smt_worth, headroom, entitlement];

fn idle_cores(interval: &Interval) -> Option<f64> {
    let busy = interval.metrics().ok()?.core_utilization?;
    Some(1.0 - busy)
}

fn lane_share(task: &TaskTotals, interval: &Interval) -> f64 {
    task.usage.raw_ns as f64 / interval.elapsed_ns().max(1) as f64
}

/// Share of the parts in which all of `threads` run nearly all the time while cores have room.
fn steadiness(measured: &Measured<'_>, threads: &[&TaskTotals]) -> f64 {
    let holds = |part: &&Interval| {
        let busy = |thread: &&TaskTotals| {
            let found = part
                .tasks
                .binary_search_by_key(&thread.key(), TaskTotals::key);
            found.is_ok_and(|at| lane_share(&part.tasks[at], part) >= BUSY_SHARE)
        };
        threads.iter().all(busy) && idle_cores(part).is_some_and(|idle| idle >= ROOM_SHARE)
    };
    let parts = measured.parts;
    parts.iter().filter(holds).count() as f64 / parts.len().max(1) as f64
}

/// A thread, or a few, near 100 % of a lane while cores have room.
fn serial(measured: &Measured<'_>) -> Vec<Advice> {
    let Some(idle_cores) = idle_cores(measured.whole).filter(|idle| *idle >= ROOM_SHARE) else {
        return Vec::new();
    };
    let busy = |task: &&TaskTotals| {
        lane_share(task, measured.whole) >= BUSY_SHARE && task.class != Some(Class::Batch)
    };
    let found: Vec<&TaskTotals> = measured.whole.tasks.iter().filter(busy).collect();
    let most = (measured.whole.cores.len() as f64 * STAGE_SHARE).max(1.0);
    let threads: Vec<BusyThread> = found.iter().map(|task| thread(task, measured)).collect();
    let finding = match &threads[..] {
        [] => return Vec::new(),
        [thread] => Finding::MasterThread {
            thread: thread.clone(),
            idle_cores,
        },
        _ => Finding::SerialStage {
            threads: threads.clone(),
            idle_cores,
        },
    };
    let steady = steadiness(measured, &found);
    let unsteady = (steady < 0.8).then(|| {
        let why = format!("so only in {:.0} % of the intervals", steady * 100.0);
        (Confidence::Low, why)
    });
    let many = (threads.len() as f64 > most).then(|| {
        let why = "so many threads may be the work itself rather than a stage of it";
        (Confidence::Low, why.to_owned())
    });
    let unknown = (found.iter().any(|task| task.class.is_none())).then(|| {
        let why = "classes are not known: batch runs all the time by design";
        (Confidence::Medium, why.to_owned())
    });
    vec![measured.advice(finding, vec![unsteady, many, unknown])]
}

fn thread(task: &TaskTotals, measured: &Measured<'_>) -> BusyThread {
    BusyThread {
        pid: task.pid,
        tgid: task.tgid,
        comm: task.comm.clone(),
        lane_share: lane_share(task, measured.whole),
        speed: task.usage.mt1_ns as f64 / task.usage.raw_ns.max(1) as f64,
    }
}

/// Do all lanes together do more than one of each core?
fn smt_worth(measured: &Measured<'_>) -> Vec<Advice> {
    let Some(most) = measured.metrics.max_capacity_factor else {
        return Vec::new();
    };
    if measured
        .whole
        .cores
        .iter()
        .all(|core| core.online_lanes() <= 1)
    {
        return Vec::new(); // there is no SMT to judge
    }
    let gain = most - 1.0;
    let finding = match gain {
        gain if gain > WORTH => Finding::SmtUseful { gain },
        gain => Finding::SmtHarmful {
            loss: (-gain).max(0.0),
        },
    };
    vec![measured.advice(finding, vec![measured.by_rates()])]
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
    };
    vec![measured.advice(finding, vec![measured.by_rates()])]
}

/// Cgroups that are held back by a limit in raw time, of which siblings take a part.
fn entitlement(measured: &Measured<'_>) -> Vec<Advice> {
    let elapsed_ns = measured.whole.elapsed_ns().max(1) as f64;
    let mut all = Vec::new();
    for (cgroup, &limit_lanes) in measured.limits {
        let usage = usage_below(measured.whole, cgroup);
        let raw_ns = usage.raw_ns as f64;
        let used_lanes = raw_ns / elapsed_ns;
        let lost = 1.0 - usage.mt1_ns as f64 / raw_ns.max(1.0);
        if used_lanes < LIMITED_SHARE * limit_lanes || lost <= WORTH {
            continue;
        }
        let finding = Finding::LostEntitlement {
            cgroup: cgroup.clone(),
            limit_lanes,
            used_lanes,
            lost,
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
