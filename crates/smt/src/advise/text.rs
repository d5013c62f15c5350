//! Advice in words.

use super::{Advice, BusyThread, Confidence, Finding};
use crate::report::wrapped;
use crate::snapshot::Class;
use sidelane_topology::printable;

/// From this speed on, relative to running alone, a thread shares its core so seldom that nothing is to
/// be had from parting them.
const UNSHARED_SPEED: f64 = 0.98;

/// For people: each finding with its evidence, what to do, and how sure it is.
pub fn text(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return "Nothing stands out.\n".into();
    }
    let paragraphs = advice.iter().map(|advice| {
        let [finding, remedy] = advice.finding.sentences();
        let confidence = advice.confidence.line(&advice.doubts);
        [wrapped(&finding), wrapped(&remedy), confidence].concat()
    });
    paragraphs.collect::<Vec<_>>().join("\n")
}

impl Confidence {
    /// A line that says it, and why it is not surer.
    pub fn line(self, doubts: &[String]) -> String {
        let confidence = match self {
            Confidence::None => "none",
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        };
        let doubts: String = doubts.iter().map(|d| format!("; {d}")).collect();
        wrapped(&format!("Confidence: {confidence}{doubts}."))
    }
}

/// What helps until there are more workers. Simulated, marking the serial stage of the source's Table 4
/// critical made up for what SMT had cost; only batch leaves the core of the master thread of Table 5.
fn until_then(threads: &[BusyThread]) -> &'static str {
    let critical = |thread: &BusyThread| thread.class == Some(Class::Critical);
    let shares_none = |thread: &BusyThread| thread.speed >= UNSHARED_SPEED;
    match (threads.iter().all(critical), threads) {
        _ if threads.iter().all(shares_none) => ": it shares no core as it is.",
        (true, [_]) => "; until then make what else runs batch, so that it has a core to itself.",
        (true, _) => "; until then make what can wait batch, so that it shares cores less.",
        (false, [_]) => {
            "; until then mark it critical and what else runs batch, so that it has a core to itself."
        }
        (false, _) => {
            "; until then mark it critical, so that it comes first and shares cores less."
        }
    }
}

impl Finding {
    /// What was found, with its evidence, and what to do: two sentences or three.
    pub fn sentences(&self) -> [String; 2] {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let threads = |threads: &[BusyThread]| {
            let words = threads.iter().map(|thread| {
                let (comm, pid) = (printable(thread.comm.as_bytes()), thread.pid);
                format!("{comm} ({pid}) {}", percent(thread.lane_share))
            });
            words.collect::<Vec<_>>().join(", ")
        };
        match self {
            Finding::SerialStage {
                threads: busy,
                idle_lanes,
                idle_cores,
            } => [
                format!(
                    "Serial stage: {} of their lane, while lanes are idle {} of the time (whole cores {}).",
                    threads(busy),
                    percent(*idle_lanes),
                    percent(*idle_cores)
                ),
                format!("Give this stage more workers{}", until_then(busy)),
            ],
            Finding::MasterThread {
                thread,
                idle_lanes,
                idle_cores,
            } => [
                format!(
                    "Master thread: {} of its lane at {} of a whole core's speed, while lanes are idle {} of the time (whole cores {}).",
                    threads(std::slice::from_ref(thread)),
                    percent(thread.speed),
                    percent(*idle_lanes),
                    percent(*idle_cores)
                ),
                format!(
                    "Everything waits for this thread: spread its work{}",
                    until_then(std::slice::from_ref(thread))
                ),
            ],
            Finding::SmtUseful { gain } => [
                format!("SMT is worth having: all lanes do {} more than one of each core.", percent(*gain)),
                "Leave it on; keep what answers people unshared.".into(),
            ],
            Finding::SmtHarmful { loss } => [
                format!("SMT is not worth having: all lanes do {} less than one of each core.", percent(*loss)),
                "Switch to SMT level 1 ('sidelane control' does it by load).".into(),
            ],
            Finding::SmtUseless { within } => [
                format!(
                    "SMT gains nothing: all lanes do what one of each core does, within {}.",
                    percent(*within)
                ),
                "Switch to SMT level 1 ('sidelane control' does it by load): each thread then has a whole core's speed."
                    .into(),
            ],
            Finding::Headroom {
                share,
                thread_density,
                smt,
            } => [
                format!(
                    "Room: {} of what all lanes could do is unused; thread density is {thread_density:.2}.",
                    percent(*share)
                ),
                match smt {
                    true => "Batch can have it ('sidelane run' lends idle lanes).",
                    false => "Other work fits; without SMT there are no lanes of busy cores to lend.",
                }
                .into(),
            ],
            Finding::LostEntitlement {
                cgroup,
                limit_lanes,
                used_lanes,
                lost,
                throttled,
            } => [
                format!(
                    "Lost entitlement: {} uses {used_lanes:.2} of the {limit_lanes:.2} lanes it may, and {} of that time is lost to siblings{}.",
                    printable(cgroup.as_bytes()),
                    percent(*lost),
                    throttled.map_or(String::new(), |share| {
                        format!("; it is held back {} of the time", percent(share))
                    })
                ),
                "A limit in raw time buys less work with SMT on: raise it, or charge MT1-equivalent time.".into(),
            ],
        }
    }
}
