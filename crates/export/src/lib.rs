//! What Prometheus is told: SMT metrics and the scheduler's state as OpenMetrics, and an HTTP server that hands them out.
//!
//! Cardinality is bounded: cores and lanes are as many as the machine has, cgroups at most
//! [`SERIES_MAX`] (those that ran most of late; the others are summed), pools and namespaces as many, pods [`PODS_MAX`], and
//! tasks are not exported.

mod encode;
mod families;
mod scheduler;
mod series;
mod serve;

pub use encode::plain;
pub use series::SERIES_MAX;
pub use serve::{ServeError, Server, address};

use encode::{Exported, Family, text};
use scheduler::{Kernel, Scheduler};
use series::{Jobs, Series};
use sidelane_collect::Error;
use sidelane_collect::collector::{Collector, Place, Settings};
use sidelane_kernel::TaskStorage;
use sidelane_label::node::{NodeState, PodName, pod_of};
use sidelane_smt::snapshot::{
    CgroupTotals, Interval, Notes, Snapshot, Usage, by_path, cgroups_between, delta,
};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often it is looked whether the end has come, and whether another scheduler is attached.
const POLL: Duration = Duration::from_millis(50);

/// Ratios are over at least so long: two scrapers at the same time do not make them jump.
const RATIOS_MIN_NS: u64 = 1_000_000_000;

/// Pods that have series of their own. The kubelet lets 110 run unless it is told otherwise.
pub const PODS_MAX: usize = 256;

/// Answers requests for metrics until `stop`. A collector that no longer sees the whole machine is
/// replaced, `tell` hears why, and totals of cores and lanes begin at 0, as after a restart of this program. `node_state` is the file
/// that the agent of a Kubernetes node keeps, if there is one.
///
/// # Errors
/// The collector cannot be started, or no requests can be received.
pub fn export(
    settings: &Settings,
    node_state: Option<PathBuf>,
    server: &Server,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(&str),
) -> Result<(), Error> {
    let mut storage = TaskStorage::default();
    let mut lasting = Lasting {
        series: Series::new(SERIES_MAX),
        bill: Bill::new(node_state),
        jobs: Jobs::default(),
        scheduler: Scheduler::new(Kernel),
        told: BTreeSet::new(),
        starts: 0,
    };
    while !stop.load(Ordering::Relaxed) {
        lasting.scheduler.watch(tell);
        let mut place = Place::default();
        let collector = Collector::start(settings, &mut place)?;
        let mut readings = Readings::start(collector, &mut lasting)?;
        while !stop.load(Ordering::Relaxed) {
            let answered = server.answer(POLL, || readings.text(tell));
            answered.map_err(|e| Error::Metrics(e.to_string()))?;
            storage.let_go();
            readings.lasting.scheduler.watch(tell);
            if readings.collector.crowded() {
                let _ = readings.take(); // the next scrape says why, or succeeds
            }
            if let Some(reason) = readings.collector.outdated() {
                tell(&format!("the collector is started anew: {reason}"));
                break;
            }
        }
        storage.retire(readings.collector.into_storage());
    }
    Ok(())
}

/// What outlives a collector.
struct Lasting {
    series: Series<String>,
    bill: Bill,
    jobs: Jobs,
    scheduler: Scheduler<Kernel>,
    /// Messages of collectors: each is told once.
    told: BTreeSet<String>,
    /// Collectors that were started.
    starts: u64,
}

impl Lasting {
    fn count(&mut self, used: Used) {
        self.bill.count(&used);
        self.series.count(used.passed_ns, used.by_path());
    }
}

/// What cgroups used in a time; one entry a path.
struct Used {
    passed_ns: u64,
    groups: Vec<CgroupTotals>,
}

impl Used {
    /// By path, where it is known.
    fn by_path(self) -> Vec<(Option<String>, Usage)> {
        let groups = self.groups.into_iter();
        groups.map(|group| (group.path, group.usage)).collect()
    }
}

/// From `before`, the reading that came directly before `now`, if there was one.
fn used_between(before: Option<&Snapshot>, now: &Snapshot) -> Used {
    let (known, from_ns) = match before {
        Some(before) => (before.cgroups.as_slice(), before.taken_ns),
        None => (Default::default(), now.begun_ns),
    };
    let used = cgroups_between(known, &now.cgroups, &mut Notes::default());
    Used {
        passed_ns: now.taken_ns.saturating_sub(from_ns),
        groups: by_path(used),
    }
}

/// Namespace, name and class of a pod.
type Pod = (String, String, String);

/// What the pods of a Kubernetes node used, and their namespaces: by the names that its agent keeps in a file.
///
/// Namespaces have sums of their own: of a pod that lives between two scrapes there is one sample, from which nothing can
/// be told to grow.
struct Bill {
    file: Option<PathBuf>,
    state: Option<NodeState>,
    /// Why the file cannot be read, and whether that was told.
    fault: Option<(String, bool)>,
    pods: Series<Pod>,
    namespaces: Series<String>,
}

impl Bill {
    fn new(file: Option<PathBuf>) -> Bill {
        Bill {
            file,
            state: None,
            fault: None,
            pods: Series::new(PODS_MAX),
            namespaces: Series::new(SERIES_MAX),
        }
    }

    /// Counts what pods used. Names are read after that: those of all pods that ran should be there.
    fn count(&mut self, used: &Used) {
        let Some(file) = &self.file else { return };
        match NodeState::read(file) {
            Ok(state) => (self.state, self.fault) = (Some(state), None),
            // the agent has not begun; without one nothing is offered, and names stay as they were
            Err(error) => {
                if let Some(state) = &mut self.state {
                    state.batch_cpu = None;
                }
                let text = format!("pods have no names: {}: {error}", file.display());
                let told = self
                    .fault
                    .take()
                    .is_some_and(|(before, told)| told && before == text);
                let waits = error.kind() == io::ErrorKind::NotFound;
                self.fault = (!waits).then_some((text, told));
            }
        }
        self.add(used);
    }

    fn add(&mut self, used: &Used) {
        let names = self.state.iter().flat_map(|state| &state.pods);
        let names: BTreeMap<&str, &PodName> = names.map(|pod| (pod.uid.as_str(), pod)).collect();
        let of_pods = used.groups.iter().filter_map(|group| {
            let uid = pod_of(group.path.as_deref()?)?;
            Some((names.get(uid.as_str()).copied(), &group.usage))
        });
        let (mut pods, mut namespaces) = (Vec::new(), Vec::new());
        for (pod, usage) in of_pods {
            let class = |pod: &PodName| pod.class.clone().unwrap_or_else(|| "none".to_owned());
            let key = pod.map(|pod| (pod.namespace.clone(), pod.name.clone(), class(pod)));
            pods.push((key, usage.clone()));
            namespaces.push((pod.map(|pod| pod.namespace.clone()), usage.clone()));
        }
        self.pods.count(used.passed_ns, pods);
        self.namespaces.count(used.passed_ns, namespaces);
    }

    fn tell_fault(&mut self, tell: &mut dyn FnMut(&str)) {
        if let Some((text, told @ false)) = &mut self.fault {
            tell(text);
            *told = true;
        }
    }

    fn families(&self) -> Vec<Family> {
        let offered = self.state.as_ref().and_then(|state| state.batch_cpu);
        families::bill(offered, &self.pods, &self.namespaces)
    }
}

struct Readings<'a, 'l> {
    collector: Collector<'a>,
    last: Snapshot,
    lasting: &'l mut Lasting,
    /// Where the next ratios begin.
    ratios_from: Snapshot,
    recent: Option<Interval>,
}

impl<'a, 'l> Readings<'a, 'l> {
    fn start(
        mut collector: Collector<'a>,
        lasting: &'l mut Lasting,
    ) -> Result<Readings<'a, 'l>, Error> {
        let first = collector.read()?;
        lasting.count(used_between(None, &first));
        lasting.starts += 1;
        Ok(Readings {
            collector,
            last: first.clone(),
            lasting,
            ratios_from: first,
            recent: None,
        })
    }

    fn take(&mut self) -> Result<(), Error> {
        let now = self.collector.read()?;
        self.lasting.count(used_between(Some(&self.last), &now));
        if let Ok(interval) = delta(&self.last, &now) {
            self.lasting.jobs.count(&interval.tasks);
        }
        self.last = now;
        Ok(())
    }

    fn text(&mut self, tell: &mut dyn FnMut(&str)) -> Result<String, Error> {
        self.take()?;
        let now = &self.last;
        if now.taken_ns.saturating_sub(self.ratios_from.taken_ns) >= RATIOS_MIN_NS {
            self.recent = delta(&self.ratios_from, now).ok();
            self.ratios_from = now.clone();
        }
        let lasting = &mut *self.lasting;
        for message in &now.notes.messages {
            if lasting.told.insert(message.clone()) {
                tell(message);
            }
        }
        lasting.bill.tell_fault(tell);
        lasting.scheduler.look(tell);
        let mut families = lasting.scheduler.families();
        families.extend(lasting.bill.families());
        let exported = Exported {
            now,
            recent: self.recent.as_ref(),
            series: &lasting.series,
            jobs: lasting.scheduler.jobs(&lasting.jobs),
            families,
            starts: lasting.starts,
        };
        text(exported).map_err(|e| Error::Metrics(e.to_string()))
    }
}
