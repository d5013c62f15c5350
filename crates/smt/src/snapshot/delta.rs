//! Subtracting readings, adding intervals.

use super::{
    CgroupTotals, CoreTotals, DeltaError, Interval, LaneTotals, Notes, Rates, Snapshot, TaskTotals,
    Usage, cgroups,
};
use crate::metrics::{self, RelativeRates, SmtMetrics, SmtTotals};
use std::collections::BTreeMap;

/// What lies between two readings of one run.
///
/// # Errors
/// The readings do not belong together. Totals of tasks and cgroups that went back are left out and
/// counted in [`Notes::inconsistent`].
pub fn delta(before: &Snapshot, after: &Snapshot) -> Result<Interval, DeltaError> {
    if before.begun_ns != after.begun_ns {
        return Err(DeltaError::OtherRun);
    }
    let elapsed_ns = (after.taken_ns.checked_sub(before.taken_ns)).ok_or(DeltaError::Backwards)?;
    let suspended_ns = after.suspended_ns.saturating_sub(before.suspended_ns);
    let passed_ms = (elapsed_ns.saturating_add(suspended_ns) / 1_000_000).cast_signed();
    let mut notes = after.notes.since(&before.notes);
    Ok(Interval {
        from_ns: before.taken_ns,
        to_ns: after.taken_ns,
        wall_ms: after.wall_ms,
        clock_set_ms: (after.wall_ms.saturating_sub(before.wall_ms)).saturating_sub(passed_ms),
        suspended_ns,
        rates: after.rates.clone(),
        cores: cores_between(&before.cores, &after.cores)?,
        tasks: tasks_between(&before.tasks, &after.tasks, &mut notes),
        cgroups: cgroups_between(&before.cgroups, &after.cgroups, &mut notes),
        notes,
        limits: cgroups::between(&before.limits, &after.limits),
    })
}

fn cores_between(
    before: &[CoreTotals],
    after: &[CoreTotals],
) -> Result<Vec<CoreTotals>, DeltaError> {
    if before.len() != after.len() {
        return Err(DeltaError::OtherCores);
    }
    let pairs = before.iter().zip(after);
    pairs
        .map(|(before, after)| core_between(before, after))
        .collect()
}

fn core_between(before: &CoreTotals, after: &CoreTotals) -> Result<CoreTotals, DeltaError> {
    let alike = before.core == after.core
        && before.by_density_ns.len() == after.by_density_ns.len()
        && before.lanes.len() == after.lanes.len();
    if !alike {
        return Err(DeltaError::OtherCores);
    }
    let core = after.core;
    let between = |what: &'static str, before: u64, after: u64| {
        (after.checked_sub(before)).ok_or(DeltaError::CoreBackwards { core, what })
    };
    let times = before.by_density_ns.iter().zip(&after.by_density_ns);
    let times: Result<_, _> = times
        .map(|(b, a)| between("time at a density", *b, *a))
        .collect();
    let lanes = before.lanes.iter().zip(&after.lanes);
    let lanes: Result<_, _> = lanes
        .map(|(before, after)| {
            let counted = before.instructions.zip(after.instructions);
            Ok(LaneTotals {
                busy_ns: between("lanes' busy time", before.busy_ns, after.busy_ns)?,
                // a lane that was offline meanwhile counts anew
                instructions: counted.and_then(|(before, after)| after.checked_sub(before)),
                ..*after
            })
        })
        .collect();
    Ok(CoreTotals {
        core,
        elapsed_ns: between("time", before.elapsed_ns, after.elapsed_ns)?,
        by_density_ns: times?,
        lanes: lanes?,
        forced_idle_ns: match before.forced_idle_ns.zip(after.forced_idle_ns) {
            None => None,
            Some((before, after)) => Some(between("forced-idle time", before, after)?),
        },
    })
}

fn tasks_between(
    before: &[TaskTotals],
    after: &[TaskTotals],
    notes: &mut Notes,
) -> Vec<TaskTotals> {
    let known: BTreeMap<_, _> = before.iter().map(|task| (task.key(), task)).collect();
    let mut changed = Vec::new();
    for task in after {
        let known = known.get(&task.key());
        let usage = match known {
            Some(known) => task.usage.since(&known.usage),
            None => Some(task.usage.clone()),
        };
        let ended_now = task.ended && !known.is_some_and(|known| known.ended);
        match usage {
            None => notes.inconsistent += 1,
            Some(usage) if usage.is_empty() && !ended_now => {}
            Some(usage) => changed.push(TaskTotals {
                usage,
                ..task.clone()
            }),
        }
    }
    changed
}

/// What cgroups used between two readings, one directly after the other. Totals that went back are left out
/// and counted in `notes`.
pub fn cgroups_between(
    before: &[CgroupTotals],
    after: &[CgroupTotals],
    notes: &mut Notes,
) -> Vec<CgroupTotals> {
    let known: BTreeMap<_, _> = before.iter().map(|group| (group.id, group)).collect();
    let mut changed = Vec::new();
    for group in after {
        let usage = match known.get(&group.id) {
            Some(known) => group.usage.since(&known.usage),
            None => Some(group.usage.clone()),
        };
        match usage {
            None => notes.inconsistent += 1,
            Some(usage) if usage.is_empty() => {}
            Some(usage) => changed.push(CgroupTotals {
                usage,
                ..group.clone()
            }),
        }
    }
    changed
}

impl Notes {
    /// What was added after `before`.
    fn since(&self, before: &Notes) -> Notes {
        let new = |message: &&String| !before.messages.contains(message);
        Notes {
            hotplug: self.hotplug.saturating_sub(before.hotplug),
            unknown_lanes: self.unknown_lanes.saturating_sub(before.unknown_lanes),
            lost: self.lost.saturating_sub(before.lost),
            inconsistent: self.inconsistent.saturating_sub(before.inconsistent),
            unlisted_tasks: self.unlisted_tasks.saturating_sub(before.unlisted_tasks),
            unlisted_cgroups: (self.unlisted_cgroups).saturating_sub(before.unlisted_cgroups),
            messages: self.messages.iter().filter(new).cloned().collect(),
        }
    }

    fn add(&mut self, other: &Notes) {
        self.hotplug += other.hotplug;
        self.unknown_lanes += other.unknown_lanes;
        self.lost += other.lost;
        self.inconsistent += other.inconsistent;
        self.unlisted_tasks += other.unlisted_tasks;
        self.unlisted_cgroups += other.unlisted_cgroups;
        for message in &other.messages {
            if !self.messages.contains(message) {
                self.messages.push(message.clone());
            }
        }
    }

    /// The notes in words, worst first; nothing if all was counted.
    pub fn sentences(&self) -> Vec<String> {
        let counted = [
            (self.lost, "changes were lost; times of tasks are too low"),
            (
                self.inconsistent,
                "totals of tasks were read while they changed; they count an interval later",
            ),
            (
                self.unknown_lanes,
                "switches on lanes that came online later; only their raw times count",
            ),
            (self.hotplug, "changes of the lanes that are online"),
            (
                self.unlisted_tasks,
                "tasks that ended are counted only in their cgroups",
            ),
            (
                self.unlisted_cgroups,
                "switches are counted in no cgroup; there are too many",
            ),
        ];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let counted = counted.map(|(count, what)| format!("{count} {what}"));
        counted.chain(self.messages.iter().cloned()).collect()
    }
}

impl CoreTotals {
    /// Its lanes that are online.
    pub fn online_lanes(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.online).count()
    }

    /// Its sums. Lanes that were offline and did not run are no capacity.
    ///
    /// # Errors
    /// Rates that are none, or times beyond the interval.
    pub fn smt(&self, rates: &Rates) -> Result<SmtTotals, metrics::Error> {
        let used = self.by_density_ns.iter().rposition(|ns| *ns > 0);
        let lanes = self.online_lanes().max(used.map_or(0, |index| index + 1));
        let rates = RelativeRates::from_thread_perf(&rates.thread_perf)?.of_lanes(lanes);
        let mut totals = SmtTotals::default();
        if lanes > 0 {
            totals.add_core(self.elapsed_ns, &self.by_density_ns, &rates)?;
        }
        Ok(totals)
    }

    fn add(&mut self, other: &CoreTotals) {
        self.elapsed_ns += other.elapsed_ns;
        let forced_idle_ns = self.forced_idle_ns.zip(other.forced_idle_ns);
        self.forced_idle_ns = forced_idle_ns.map(|(a, b)| a + b);
        for (ns, other) in self.by_density_ns.iter_mut().zip(&other.by_density_ns) {
            *ns += other;
        }
        for (lane, other) in self.lanes.iter_mut().zip(&other.lanes) {
            lane.online = other.online;
            lane.busy_ns += other.busy_ns;
            let counted = lane.instructions.zip(other.instructions);
            lane.instructions = counted.map(|(a, b)| a + b);
        }
    }
}

impl Interval {
    /// Its length.
    pub fn elapsed_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// The metrics of all cores together.
    ///
    /// # Errors
    /// As [`CoreTotals::smt`].
    pub fn metrics(&self) -> Result<SmtMetrics, metrics::Error> {
        let mut sums = SmtTotals::default();
        for core in &self.cores {
            sums.add(&core.smt(&self.rates)?)?;
        }
        Ok(sums.metrics())
    }

    /// Adds the interval that follows. What is read of a task or cgroup is as it was last.
    ///
    /// # Errors
    /// Other cores than here. Nothing is added then.
    pub fn add(&mut self, next: &Interval) -> Result<(), DeltaError> {
        let alike = |(a, b): (&CoreTotals, &CoreTotals)| {
            a.core == b.core && a.by_density_ns.len() == b.by_density_ns.len()
        };
        let pairs = self.cores.iter().zip(&next.cores);
        if self.cores.len() != next.cores.len() || !pairs.into_iter().all(alike) {
            return Err(DeltaError::OtherCores);
        }
        for (core, next) in self.cores.iter_mut().zip(&next.cores) {
            core.add(next);
        }
        let mut tasks: BTreeMap<_, _> = (self.tasks.drain(..)).map(|t| (t.key(), t)).collect();
        for next in &next.tasks {
            let mut sum = next.clone();
            if let Some(task) = tasks.get(&next.key()) {
                sum.usage.add(&task.usage);
            }
            tasks.insert(next.key(), sum);
        }
        self.tasks = tasks.into_values().collect();
        let mut groups: BTreeMap<_, _> = (self.cgroups.drain(..)).map(|g| (g.id, g)).collect();
        for next in &next.cgroups {
            let mut sum = next.clone();
            if let Some(group) = groups.remove(&next.id) {
                sum.path = sum.path.or(group.path);
                sum.usage.add(&group.usage);
            }
            groups.insert(next.id, sum);
        }
        self.cgroups = groups.into_values().collect();
        self.limits = cgroups::added(&self.limits, &next.limits);
        self.notes.add(&next.notes);
        self.rates = next.rates.clone();
        self.suspended_ns += next.suspended_ns;
        self.clock_set_ms += next.clock_set_ms;
        (self.to_ns, self.wall_ms) = (next.to_ns, next.wall_ms);
        Ok(())
    }
}

impl TaskTotals {
    /// What tells it from all others.
    pub fn key(&self) -> (u32, u64) {
        (self.pid, self.start_ns)
    }
}

impl Usage {
    /// Adds another's. What is unknown of one is unknown of both.
    pub fn add(&mut self, other: &Usage) {
        self.raw_ns = self.raw_ns.saturating_add(other.raw_ns);
        self.mt1_ns = self.mt1_ns.saturating_add(other.mt1_ns);
        self.waiting_ns = self.waiting_ns.saturating_add(other.waiting_ns);
        self.runs = self.runs.saturating_add(other.runs);
        self.jobs.merge(&other.jobs);
        let sum = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a.saturating_add(b));
        self.prorated_ns = sum(self.prorated_ns, other.prorated_ns);
        self.borrowed_ns = sum(self.borrowed_ns, other.borrowed_ns);
        self.forced_idle_ns = sum(self.forced_idle_ns, other.forced_idle_ns);
    }

    /// Whether all that is known is zero.
    pub fn is_empty(&self) -> bool {
        let times = [self.raw_ns, self.mt1_ns, self.waiting_ns, self.runs];
        let optional = [self.prorated_ns, self.borrowed_ns, self.forced_idle_ns];
        times.iter().all(|time| *time == 0)
            && optional.iter().flatten().all(|time| *time == 0)
            && self.jobs.count() == 0
    }

    /// What came after `before`; none if a total became less.
    fn since(&self, before: &Usage) -> Option<Usage> {
        let known = |now: Option<u64>, before: Option<u64>| match now.zip(before) {
            None => Some(None),
            Some((now, before)) => now.checked_sub(before).map(Some),
        };
        Some(Usage {
            raw_ns: self.raw_ns.checked_sub(before.raw_ns)?,
            mt1_ns: self.mt1_ns.checked_sub(before.mt1_ns)?,
            prorated_ns: known(self.prorated_ns, before.prorated_ns)?,
            waiting_ns: self.waiting_ns.checked_sub(before.waiting_ns)?,
            runs: self.runs.checked_sub(before.runs)?,
            jobs: self.jobs.since(&before.jobs)?,
            borrowed_ns: known(self.borrowed_ns, before.borrowed_ns)?,
            forced_idle_ns: known(self.forced_idle_ns, before.forced_idle_ns)?,
        })
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
