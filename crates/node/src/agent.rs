//! The agent: what the API server says is kept, compared with what is found, and what differs is mended. A comparison is always a whole
//! one: what an event was missed for, or somebody else changed, the next mends.

use crate::api::{Machine, NodeObject, PodObject};
use crate::told;
use anyhow::Context;
use futures_util::StreamExt;
use kube::api::{Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::Value;
use sidelane_label::node::NodeState;
use sidelane_node::batch_cpu::{self, BatchCpu, LanesPerCore, Reading};
use sidelane_node::class::Rules;
use sidelane_node::scheduler::{Attached, Scheduler, attached, lanes_per_core};
use sidelane_node::{Action, Comparison, Mode, Names, Pod, Row, cgroups};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep_until, timeout};

/// What came together is compared together.
const SETTLE: Duration = Duration::from_millis(20);
/// Between looks for a cgroup that is not there yet, at first; each time twice as long.
const FIRST_LOOK: Duration = Duration::from_millis(250);
/// After its start or end the scheduler is given so long before it is asked how it is.
const ATTACHING: Duration = Duration::from_secs(2);
/// An API server that takes longer for a patch is asked again later.
const PATCHING: Duration = Duration::from_secs(5);
/// The API server closes a watch after so long. One that is silent for longer is taken for dead.
const WATCHING_S: u32 = 60;
/// Between tries to reach the API server: at least, at most. With chance, so that not all nodes come at once.
const TRIES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// What the agent was told to do.
pub struct Settings {
    pub node: String,
    pub cgroup_root: PathBuf,
    pub rules: Rules,
    /// That of a core whose lanes all run; none: not known.
    pub thread_perf: Option<f64>,
    pub sidelane: OsString,
    pub config: PathBuf,
    pub state: PathBuf,
    pub every: Duration,
    /// None: batch is offered nothing.
    pub batch_cpu: Option<batch_cpu::Settings>,
}

/// Selects the pods of a node.
pub fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

/// What is wrong is said once, until it is something else.
#[derive(Default)]
struct Said(Option<String>);

impl Said {
    fn say(&mut self, fault: Option<String>) {
        if let Some(text) = fault.as_ref().filter(|_| self.0 != fault) {
            say!("sidelane: {text}");
        }
        self.0 = fault;
    }
}

/// One of the two watches.
struct Watch {
    what: &'static str,
    /// Whether it was said that it fails.
    fails: bool,
}

impl Watch {
    fn failed(&mut self, error: &watcher::Error) {
        if !self.fails {
            let error = told(error);
            say!(
                "sidelane: {}: {error}; what holds is kept, the API server is asked again",
                self.what
            );
        }
        self.fails = true;
    }

    fn works(&mut self) {
        if self.fails {
            say!("sidelane: {}: the API server answers again", self.what);
        }
        self.fails = false;
    }
}

pub struct Agent {
    settings: Settings,
    client: Client,
    scheduler: Scheduler,
    /// None until the node, or what was kept of it, has said it.
    mode: Option<Mode>,
    /// The last that was heard of the node.
    node: Option<NodeObject>,
    /// By UID.
    pods: BTreeMap<String, Pod>,
    /// Whether all of them have been heard of.
    pods_known: bool,
    /// Those of a list that is not complete yet.
    listed: BTreeMap<String, Pod>,
    /// Names of pods, for the file.
    names: Names,
    /// What the file says.
    state: Option<NodeState>,
    /// The last that `sidelane status` said.
    attached: Option<Attached>,
    lanes_per_core: LanesPerCore,
    batch_cpu: Option<BatchCpu>,
    compare_at: Instant,
    look_again: Duration,
    tell_at: Instant,
    bad_mode: Said,
    bad_state: Said,
    bad_topology: Said,
    bad_batch_cpu: Said,
    bad_write: Said,
    bad_patch: Said,
}

impl Agent {
    pub fn new(settings: Settings, client: Client) -> Agent {
        let now = Instant::now();
        let kept = NodeState::read(&settings.state).ok();
        let mode = kept
            .as_ref()
            .and_then(|kept| kept.mode.as_ref()?.parse().ok());
        // an agent before this one: its scheduler may have been killed with it, also in another mode
        let before = settings.state.exists();
        let (program, config) = (settings.sidelane.clone(), settings.config.clone());
        Agent {
            client,
            scheduler: Scheduler::new(program, config, before),
            mode,
            node: None,
            pods: BTreeMap::new(),
            pods_known: false,
            listed: BTreeMap::new(),
            names: Names::kept(kept.map_or(Vec::new(), |kept| kept.pods)),
            state: None,
            attached: None,
            lanes_per_core: LanesPerCore::default(),
            batch_cpu: settings.batch_cpu.map(BatchCpu::new),
            compare_at: now,
            look_again: FIRST_LOOK,
            tell_at: now,
            bad_mode: Said::default(),
            bad_state: Said::default(),
            bad_topology: Said::default(),
            bad_batch_cpu: Said::default(),
            bad_write: Said::default(),
            bad_patch: Said::default(),
            settings,
        }
    }

    /// Runs until it is asked to stop.
    pub async fn run(mut self) -> anyhow::Result<()> {
        let mut stop = signal(SignalKind::terminate()).context("signals")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("signals")?;
        let mut child = signal(SignalKind::child()).context("signals")?;
        let watched = |fields: &str| {
            watcher::Config::default()
                .timeout(WATCHING_S)
                .page_size(100)
                .fields(fields)
        };
        let own = watched(&format!("metadata.name={}", self.settings.node));
        let own = watcher(Api::<NodeObject>::all(self.client.clone()), own);
        let pods = watched(&of_node(&self.settings.node));
        let pods = watcher(Api::<PodObject>::all(self.client.clone()), pods);
        let (mut own, mut pods) = (pin!(own.backoff(tries())), pin!(pods.backoff(tries())));
        let mut watches = ["the node", "pods"].map(|what| Watch { what, fails: false });
        loop {
            let wake = self.compare_at.min(self.tell_at);
            select! {
                event = own.next() => self.heard(&mut watches[0], event, Agent::of_node),
                event = pods.next() => self.heard(&mut watches[1], event, Agent::of_pod),
                _ = child.recv() => self.compare_within(Duration::ZERO),
                _ = stop.recv() => break,
                _ = interrupt.recv() => break,
                () = sleep_until(wake.into()) => {}
            }
            let now = Instant::now();
            if now >= self.compare_at {
                self.compare(now);
            }
            if now >= self.tell_at {
                self.tell().await;
            }
        }
        self.end().await;
        Ok(())
    }

    /// An event of a watch; what cannot be heard is heard again.
    fn heard<K>(
        &mut self,
        watch: &mut Watch,
        event: Option<watcher::Result<Event<K>>>,
        hear: fn(&mut Agent, Event<K>),
    ) {
        match event {
            Some(Ok(event)) => {
                // it is the beginning of a try, and no answer
                if !matches!(event, Event::Init) {
                    watch.works();
                }
                hear(self, event);
            }
            Some(Err(error)) => watch.failed(&error),
            None => {}
        }
    }

    fn of_pod(&mut self, event: Event<PodObject>) {
        match event {
            Event::Init => {
                self.listed.clear();
                return;
            }
            Event::InitApply(pod) => {
                if let Some((uid, pod)) = self.known(&pod) {
                    self.listed.insert(uid, pod);
                }
                return;
            }
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.listed);
                self.pods_known = true;
            }
            Event::Apply(pod) => {
                if let Some((uid, pod)) = self.known(&pod) {
                    self.pods.insert(uid, pod);
                }
            }
            // its attribute goes with its cgroup
            Event::Delete(pod) => {
                pod.uid().map(|uid| self.pods.remove(uid));
            }
        }
        self.look_again = FIRST_LOOK;
        self.compare_within(SETTLE);
    }

    /// What is kept of a pod; what is wrong with it is said when it is new.
    fn known(&self, pod: &PodObject) -> Option<(String, Pod)> {
        let (uid, pod) = (pod.uid()?.clone(), pod.pod(&self.settings.rules));
        let before = self
            .pods
            .get(&uid)
            .and_then(|pod| pod.verdict.fault.as_ref());
        if let Some(fault) = &pod.verdict.fault
            && before != Some(fault)
        {
            say!("sidelane: {}: {fault}", pod.name);
        }
        Some((uid, pod))
    }

    fn of_node(&mut self, event: Event<NodeObject>) {
        let (Event::Apply(node) | Event::InitApply(node)) = event else {
            // a node that is deleted while its agent runs comes back, or the machine goes
            return;
        };
        let (mode, fault) = match node.mode() {
            Ok(mode) => (mode, None),
            Err(fault) => (Mode::Observe, Some(fault)),
        };
        self.bad_mode.say(fault);
        if self.mode != Some(mode) {
            say!("sidelane: mode {mode}");
            self.mode = Some(mode);
            self.keep_state();
            self.compare_within(Duration::ZERO);
        }
        let differs = |attached: &Attached| node.with_condition(attached).is_some();
        if self.attached.as_ref().is_none_or(differs)
            || node.relabelled(&self.machine()).is_some()
            || node.with_batch_cpu(self.offered()).is_some()
        {
            self.tell_within(Duration::ZERO);
        }
        self.node = Some(node);
    }

    /// What batch is offered.
    fn offered(&self) -> Option<u64> {
        self.batch_cpu.as_ref().and_then(BatchCpu::told)
    }

    /// Writes the file if it says something else.
    fn keep_state(&mut self) {
        let pods = self.names.all();
        let mode = self.mode.map(|mode| mode.to_string());
        let state = NodeState::new(mode, self.offered(), pods);
        if self.state.as_ref() == Some(&state) {
            return;
        }
        let file = &self.settings.state;
        let fault = |error| format!("warning: {} is not kept: {error}", file.display());
        let fault = state.write(file).err().map(fault);
        self.state = fault.is_none().then_some(state);
        self.bad_state.say(fault);
    }

    fn compare_within(&mut self, time: Duration) {
        self.compare_at = self.compare_at.min(Instant::now() + time);
    }

    fn tell_within(&mut self, time: Duration) {
        self.tell_at = self.tell_at.min(Instant::now() + time);
    }

    /// Compares all, and mends what differs.
    fn compare(&mut self, now: Instant) {
        self.compare_at = now + self.settings.every;
        // before the first whole list none of those that an agent before kept has ended, for all that is known
        if self.pods_known {
            let pods = self.pods.iter().map(|(uid, pod)| pod.named(uid));
            self.names.update(pods, now);
        }
        self.keep_state();
        let Some(mode) = self.mode else { return };
        let found = cgroups::of_pods(&self.settings.cgroup_root);
        let comparison = Comparison::new(&self.settings.node, mode, &self.pods, &found);
        let faults: Vec<String> = comparison
            .pods
            .iter()
            .filter_map(|row| self.apply(row))
            .collect();
        let more = match faults.len() {
            0 | 1 => String::new(),
            all => format!("; {} more", all - 1),
        };
        self.bad_write
            .say(faults.first().map(|fault| format!("{fault}{more}")));
        if comparison.waits() {
            self.compare_at = self.compare_at.min(now + self.look_again);
            self.look_again = (self.look_again * 2).min(self.settings.every);
        }
        let ran = self.scheduler.runs();
        let news = self.scheduler.keep(mode == Mode::Enforce, now);
        for line in &news {
            say!("sidelane: {line}");
        }
        if ran != self.scheduler.runs() || !news.is_empty() {
            self.tell_within(ATTACHING);
        }
        if let Some(due) = self.scheduler.due() {
            self.compare_at = self.compare_at.min(due);
        }
    }

    /// Mends a pod's cgroup; what keeps it from that.
    fn apply(&self, row: &Row) -> Option<String> {
        let (Action::Write | Action::Remove, Some(path)) = (row.action, &row.cgroup) else {
            return None;
        };
        let pod = row.pod.as_deref().unwrap_or("a pod that is gone");
        match (row.apply(&self.settings.cgroup_root), row.wanted) {
            (Err(error), _) => return Some(format!("{pod}: {path} cannot be labelled: {error}")),
            (Ok(()), Some(class)) => say!("sidelane: {pod}: {class}: {}", row.why),
            (Ok(()), None) => say!("sidelane: {pod}: no class any more"),
        }
        None
    }

    /// Tells the node what is known of it, where it says something else.
    async fn tell(&mut self) {
        self.tell_at = Instant::now() + self.settings.every;
        let mode = self.mode.unwrap_or_default();
        let attached = attached(&self.settings.sidelane, mode);
        if self.scheduler.runs() && attached.status != "True" {
            self.tell_within(ATTACHING);
        }
        self.look_at_lanes();
        self.measure(&attached);
        self.keep_state();
        self.patch(&attached, PATCHING).await;
        self.attached = Some(attached);
    }

    /// Looks whether a core has other lanes now.
    fn look_at_lanes(&mut self) {
        let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let ask = || lanes_per_core(&self.settings.sidelane);
        let pause = self.shortest();
        let looked = (self.lanes_per_core).look(online, Instant::now(), pause, ask);
        if let Some(asked) = looked {
            self.bad_topology.say(asked.err());
        }
    }

    /// What is known of the machine.
    fn machine(&self) -> Machine {
        Machine {
            lanes_per_core: self.lanes_per_core.known(),
            thread_perf: self.settings.thread_perf,
        }
    }

    /// Between two measurements: what is told because of news comes between.
    fn shortest(&self) -> Duration {
        self.settings.every * 3 / 4
    }

    /// Measures what is there for batch, once in each comparison's time.
    fn measure(&mut self, attached: &Attached) {
        let (machine, shortest) = (self.machine(), self.shortest());
        let Some(batch_cpu) = &mut self.batch_cpu else {
            return;
        };
        if self.mode != Some(Mode::Enforce) || attached.status != "True" {
            batch_cpu.withdraw();
            return;
        }
        if (batch_cpu.last_at()).is_some_and(|last| last.elapsed() < shortest) {
            return;
        }
        let Machine {
            lanes_per_core,
            thread_perf,
        } = machine;
        let machine = lanes_per_core.and_then(|lanes| batch_cpu::Machine::new(lanes, thread_perf));
        let machine =
            machine.ok_or("how fast lanes are is not known; give --calibration".to_owned());
        let read =
            machine.and_then(|machine| Ok((machine, Reading::take(&self.settings.sidelane)?)));
        match read {
            Ok((machine, reading)) => batch_cpu.count(machine, reading),
            Err(_) => batch_cpu.withdraw(),
        }
        let fault = read.err();
        let fault = fault.map(|fault| format!("batch is offered nothing: {fault}"));
        self.bad_batch_cpu.say(fault);
    }

    async fn patch(&mut self, attached: &Attached, patience: Duration) {
        let Some(node) = &self.node else { return };
        let labels = node.relabelled(&self.machine());
        let statuses = [
            node.with_condition(attached),
            node.with_batch_cpu(self.offered()),
        ];
        let nodes = Api::<NodeObject>::all(self.client.clone());
        let (name, none) = (&self.settings.node, PatchParams::default());
        let patches = async {
            if let Some(labels) = labels {
                nodes.patch(name, &none, &Patch::Merge(labels)).await?;
            }
            for status in statuses.into_iter().flatten() {
                let patch: Patch<Value> = Patch::Strategic(status);
                nodes.patch_status(name, &none, &patch).await?;
            }
            Ok::<(), kube::Error>(())
        };
        let fault = match timeout(patience, patches).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(format!("the node is not told: {}", told(&error))),
            Err(_) => Some("the node is not told: no answer in time".to_owned()),
        };
        self.bad_patch.say(fault);
    }

    /// Gives the machine back. Attributes stay: without the scheduler they say nothing, and the next agent keeps them.
    async fn end(&mut self) {
        for line in self.scheduler.keep(false, Instant::now()) {
            say!("sidelane: {line}");
        }
        let stopped = Attached {
            status: "False",
            reason: "AgentStopped",
            message: "'sidelane node' was stopped".to_owned(),
        };
        if let Some(batch_cpu) = &mut self.batch_cpu {
            batch_cpu.withdraw();
        }
        self.keep_state();
        self.patch(&stopped, PATCHING / 2).await;
        for line in self.scheduler.finish() {
            say!("sidelane: {line}");
        }
    }
}

/// Pauses between tries, each twice as long.
struct Tries(Duration);

impl Iterator for Tries {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = self.0;
        self.0 = (pause * 2).min(TRIES.1);
        let chance = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.subsec_nanos() % 1000);
        Some(pause / 2 + pause * chance / 2000)
    }
}

impl Backoff for Tries {
    fn reset(&mut self) {
        self.0 = TRIES.0;
    }
}

/// A watch begins each try with a word of success: only after a while without failure it counts as one.
fn tries() -> ResetTimerBackoff<Tries> {
    ResetTimerBackoff::new(Tries(TRIES.0), TRIES.1 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_label::node::PodName;
    use std::path::Path;

    /// An agent that starts after one that knew a pod, with an API server that does not answer.
    fn agent(folder: &Path) -> Agent {
        let pod = PodName {
            uid: "1".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            class: None,
        };
        let state = folder.join("node.json");
        NodeState::new(None, None, vec![pod]).write(&state).unwrap();
        let settings = Settings {
            node: "n".to_owned(),
            cgroup_root: folder.to_owned(),
            rules: Rules::default(),
            thread_perf: None,
            sidelane: "/nowhere/sidelane".into(),
            config: folder.join("sidelane.toml"),
            state,
            every: Duration::from_secs(30),
            batch_cpu: None,
        };
        let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        Agent::new(settings, Client::try_from(nowhere).unwrap())
    }

    /// Names that the file has after comparisons for a quarter of an hour.
    fn names(agent: &mut Agent, now: &mut Instant) -> usize {
        for _ in 0..30 {
            *now += agent.settings.every;
            agent.compare(*now);
        }
        let state = NodeState::read(&agent.settings.state);
        state.unwrap().pods.len()
    }

    #[tokio::test]
    async fn no_pod_counts_as_ended_before_all_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let (mut agent, mut now) = (agent(folder.path()), Instant::now());
        assert_eq!(names(&mut agent, &mut now), 1);
        agent.of_pod(Event::Init);
        assert_eq!(names(&mut agent, &mut now), 1);
        agent.of_pod(Event::InitDone);
        assert_eq!(names(&mut agent, &mut now), 0);
    }
}
