//! Scenarios without a file: from a few numbers, or from a recording of a machine.
//!
//! Both make the text of a scenario, so that it can be shown, kept and changed. What nobody measured stands
//! among its assumptions.

use crate::machine::{cores_text, groups};
use crate::{Mistake, Scenario};
use sidelane_smt::snapshot::{Class, DeltaError, Interval, RateSource, TaskTotals};
use sidelane_smt::thread_perf;
use std::fmt::Write;

/// A machine and a load in a few numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct WhatIf {
    /// Lanes of each core.
    pub lanes: Vec<usize>,
    /// Share of the cores' capacity that requests of a service need.
    pub load: f64,
    /// How long such a request takes alone on a core with SMT off, ms.
    pub mean_ms: f64,
    /// Tasks of batch, which always have work; may be 0.
    pub batch: usize,
    /// Speed of a lane when 1, 2, ... lanes of its core run; none: typical ones.
    pub thread_perf: Option<Vec<f64>>,
    /// Where the numbers are from, and what of them is assumed; each a sentence without its stop.
    pub assumptions: Vec<String>,
}

/// Why a recording tells no scenario.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Nothing in it waits to be served.
    #[error(
        "no task of the recording slept and woke again: it tells no requests; record the machine while it does its usual work"
    )]
    NoRequests,
    /// Its intervals do not belong together.
    #[error("the intervals do not belong together: {0}")]
    Intervals(#[from] DeltaError),
}

/// Published values, of so many lanes.
fn typical(lanes: usize) -> Vec<f64> {
    let mut speeds = thread_perf::extended(thread_perf::typical(lanes), lanes);
    speeds.truncate(lanes);
    speeds
}

/// A task that runs for this share of the time or more is batch where nobody knows classes.
const ALWAYS: f64 = 0.9;
/// Seconds that are simulated.
const SECONDS: u32 = 20;
const REPLICATIONS: u32 = 5;
/// Requests of a replication at most: of a large machine less time is simulated.
const REQUESTS_MOST: f64 = 100_000.0;

impl WhatIf {
    /// What a recorded machine is like, and what it did.
    ///
    /// # Errors
    /// It tells no requests.
    pub fn from_recording(intervals: &[Interval]) -> Result<WhatIf, Error> {
        let (first, others) = intervals.split_first().ok_or(Error::NoRequests)?;
        let mut whole = first.clone();
        for interval in others {
            whole.add(interval)?;
        }
        let elapsed_ns = whole.elapsed_ns().max(1) as f64;
        let is_batch = |task: &&TaskTotals| match task.class {
            Some(class) => class == Class::Batch,
            None => task.usage.raw_ns as f64 >= ALWAYS * elapsed_ns,
        };
        let (batch, served): (Vec<&TaskTotals>, Vec<&TaskTotals>) =
            whole.tasks.iter().partition(is_batch);
        let mt1_ns: u64 = served.iter().map(|task| task.usage.mt1_ns).sum();
        let jobs: u64 = served.iter().map(|task| task.usage.jobs.count()).sum();
        if jobs == 0 || mt1_ns == 0 {
            return Err(Error::NoRequests);
        }
        // as many as would always have had work
        let wanted = |task: &&TaskTotals| (task.usage.raw_ns + task.usage.waiting_ns) as f64;
        let batch_tasks = batch.iter().map(wanted).sum::<f64>() / elapsed_ns;
        let lanes = whole.cores.iter().map(|core| core.online_lanes());
        let mut lanes: Vec<usize> = lanes.filter(|&lanes| lanes > 0).collect();
        if lanes.is_empty() {
            lanes.push(1);
        }
        let load = mt1_ns as f64 / elapsed_ns / lanes.len() as f64;
        let mean_ms = mt1_ns as f64 / jobs as f64 / 1e6;
        let known = whole.rates.source != RateSource::Assumed;
        let classes = match served.iter().chain(&batch).any(|task| task.class.is_some()) {
            true => "classes are those of the recording; critical and normal work is one service",
            false => "what ran for 90 % of the time or more is batch, all else one service",
        };
        let recorded = format!(
            "machine, load and the mean request are of the recording ({:.0} s): {}, load {load:.3}, {mean_ms:.3} ms; {jobs} times a task woke, ran and slept",
            elapsed_ns / 1e9,
            cores_text(&lanes)
        );
        let alike = "cores are equally fast, with one cache: the recording does not tell";
        Ok(WhatIf {
            lanes,
            load,
            mean_ms,
            batch: batch_tasks.round() as usize,
            thread_perf: known.then(|| whole.rates.thread_perf.clone()),
            assumptions: vec![recorded, alike.to_owned(), classes.to_owned()],
        })
    }

    /// The scenario as a file has it.
    pub fn text(&self) -> String {
        let widest = self.lanes.iter().copied().max().unwrap_or(1);
        let thread_perf = match &self.thread_perf {
            Some(known) => known.iter().take(widest).copied().collect(),
            None => typical(widest),
        };
        let mut assumptions = self.assumptions.clone();
        if self.thread_perf.is_none() && widest > 1 {
            assumptions.push(format!(
                "thread_perf {thread_perf:?}: published values of other machines; 'sidelane calibrate' measures yours"
            ));
        }
        assumptions.push(
            "requests come at exponential gaps, and their demands are exponential".to_owned(),
        );
        if self.batch > 0 {
            let batch =
                "batch is SCHED_IDLE to the kernel's scheduler ('policy' in --show-scenario)";
            assumptions.push(batch.to_owned());
        }
        assumptions
            .push("the costs of switches, kicks and migrations: defaults, assumed".to_owned());
        // without a number: --set changes those that follow
        let mut text = match self.batch {
            0 => "about = \"A service whose requests come at random\"\n".to_owned(),
            _ => "about = \"A service whose requests come at random, and batch beside it\"\n"
                .to_owned(),
        };
        text += "assumptions = [\n";
        for assumption in assumptions {
            // a string takes whatever is written to it
            let _ = writeln!(text, "    {},", toml::Value::String(assumption));
        }
        text += "]\n\n";
        text += &self.machine(&thread_perf);
        let per_s = self.load * self.lanes.len() as f64 / (self.mean_ms / 1e3);
        let seconds = (REQUESTS_MOST / per_s).min(f64::from(SECONDS));
        let _ = write!(
            text,
            "[run]\nseed = 1\nreplications = {REPLICATIONS}\nseconds = {seconds:.3}\nwarmup_seconds = {:.3}\n\n",
            seconds / 10.0
        );
        let _ = write!(
            text,
            "[[workload]]\nname = \"service\"\nclass = \"critical\"\nopen = {{ load = {:.6} }}\ndemand_ms = {{ \
             exponential = {:.6} }}\n",
            self.load, self.mean_ms
        );
        if self.batch > 0 {
            let _ = write!(
                text,
                "\n[[workload]]\nname = \"batch\"\nclass = \"batch\"\npolicy = \"idle\"\nbatch = {{ tasks = {} }}\n",
                self.batch
            );
            text += "\n[[configuration]]\nname = \"alone\"\nscheduler = \"default\"\nwithout = [\"batch\"]\n";
        }
        text += "\n[[configuration]]\nname = \"default\"\nscheduler = \"default\"\n";
        if widest > 1 {
            text +=
                "\n[[configuration]]\nname = \"smt off\"\nscheduler = \"default\"\nsmt = \"off\"\n";
        }
        text + "\n[[configuration]]\nname = \"sidelane\"\nscheduler = \"sidelane\"\n"
    }

    /// The table `[machine]`: in groups where cores differ in lanes.
    fn machine(&self, thread_perf: &[f64]) -> String {
        let groups = groups(self.lanes.iter().copied());
        if let [(lanes, cores)] = groups[..] {
            return format!(
                "[machine]\ncores = {cores}\nlanes = {lanes}\nthread_perf = {thread_perf:?}\n\n"
            );
        }
        let mut text = format!("[machine]\nthread_perf = {thread_perf:?}\n");
        for (lanes, cores) in groups {
            let _ = write!(
                text,
                "[[machine.group]]\ncores = {cores}\nlanes = {lanes}\n"
            );
        }
        text + "\n"
    }

    /// The scenario.
    ///
    /// # Errors
    /// A number is out of its range.
    pub fn scenario(&self) -> Result<Scenario, Mistake> {
        let mut scenario = Scenario::parse(&self.text(), "(made of the options)")?;
        scenario.name = "what if".to_owned();
        Ok(scenario)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_smt::histogram::LogHistogram;
    use sidelane_smt::snapshot::{CoreTotals, LaneTotals, Usage};

    fn what_if(cores: usize, lanes: usize, batch: usize) -> WhatIf {
        WhatIf {
            lanes: vec![lanes; cores],
            load: 0.3,
            mean_ms: 4.0,
            batch,
            thread_perf: None,
            assumptions: Vec::new(),
        }
    }

    #[test]
    fn a_few_numbers_make_a_scenario() {
        let scenario = what_if(64, 2, 128).scenario().unwrap();
        assert_eq!(scenario.machine.cores.len(), 64);
        let names: Vec<&str> = (scenario.configurations.iter().map(|c| c.name.as_str())).collect();
        assert_eq!(names, ["alone", "default", "smt off", "sidelane"]);
        assert!(
            scenario
                .assumptions
                .iter()
                .any(|a| a.contains("[1.0, 0.6]"))
        );
        let single = what_if(4, 1, 0).scenario().unwrap();
        let names: Vec<&str> = (single.configurations.iter().map(|c| c.name.as_str())).collect();
        assert_eq!(names, ["default", "sidelane"]);
        assert!(what_if(4, 8, 1).scenario().is_ok());
        assert!(what_if(0, 2, 1).scenario().is_err());
    }

    fn task(pid: u32, raw_ns: u64, mt1_ns: u64, jobs: u64) -> TaskTotals {
        let mut histogram = LogHistogram::default();
        histogram.record_many(1000, jobs);
        TaskTotals {
            pid,
            usage: Usage {
                raw_ns,
                mt1_ns,
                jobs: histogram,
                ..Usage::default()
            },
            ..TaskTotals::default()
        }
    }

    fn recorded(tasks: Vec<TaskTotals>) -> Interval {
        let lane = |cpu| LaneTotals {
            cpu,
            online: true,
            ..LaneTotals::default()
        };
        let core = |core: u32| CoreTotals {
            core,
            elapsed_ns: 1_000_000_000,
            by_density_ns: vec![0, 0],
            lanes: vec![lane(2 * core), lane(2 * core + 1)],
            ..CoreTotals::default()
        };
        Interval {
            to_ns: 1_000_000_000,
            cores: vec![core(0), core(1)],
            tasks,
            ..Interval::default()
        }
    }

    #[test]
    fn a_recording_tells_machine_load_and_requests() {
        let tasks = vec![
            task(1, 400_000_000, 300_000_000, 100),
            task(2, 150_000_000, 100_000_000, 100),
            task(3, 1_000_000_000, 600_000_000, 0),
        ];
        let what_if = WhatIf::from_recording(&[recorded(tasks)]).unwrap();
        assert_eq!((&what_if.lanes[..], what_if.batch), (&[2, 2][..], 1));
        assert!((what_if.load - 0.2).abs() < 1e-9 && (what_if.mean_ms - 2.0).abs() < 1e-9);
        assert_eq!(what_if.thread_perf, None);
        assert!(what_if.scenario().unwrap().assumptions[0].contains("200 times"));
        let idle = recorded(vec![task(3, 1_000_000_000, 600_000_000, 0)]);
        assert_eq!(WhatIf::from_recording(&[idle]), Err(Error::NoRequests));
    }

    #[test]
    fn cores_that_differ_in_lanes_stay_so() {
        let mut interval = recorded(vec![task(1, 400_000_000, 300_000_000, 100)]);
        interval.cores[1].lanes[0].online = false;
        let what_if = WhatIf::from_recording(&[interval]).unwrap();
        assert_eq!(what_if.lanes, [2, 1]);
        let scenario = what_if.scenario().unwrap();
        let lanes = scenario.machine.cores.iter().map(|core| core.lanes.len());
        assert_eq!(lanes.collect::<Vec<_>>(), [2, 1]);
        let said = &scenario.assumptions[0];
        assert!(
            said.contains("1 core with 2 lanes, 1 core with 1 lane"),
            "{said}"
        );
    }
}
