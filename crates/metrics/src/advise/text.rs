//! Advice in words.

use super::{Advice, BusyThread, Confidence, Finding};
use crate::report::wrapped;

/// For people: each finding with its evidence, what to do, and how sure it is.
pub fn text(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return "Nothing stands out.\n".into();
    }
    let paragraphs = advice.iter().map(|advice| {
        let [finding, remedy] = advice.finding.sentences();
        let confidence = match advice.confidence {
            Confidence::Low => "low",
            Confidence::Medium => "medium",
            Confidence::High => "high",
        };
        let doubts: String = advice.doubts.iter().map(|d| format!("; {d}")).collect();
        let lines = [
            finding,
            remedy,
            format!("Confidence: {confidence}{doubts}."),
        ];
        lines.map(|line| wrapped(&line)).concat()
    });
    paragraphs.collect::<Vec<_>>().join("\n")
}

impl Finding {
    /// What was found, with its evidence, and what to do: two sentences or three.
    pub fn sentences(&self) -> [String; 2] {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let threads = |threads: &[BusyThread]| {
            let words = threads.iter().map(|thread| {
                let BusyThread { comm, pid, .. } = thread;
                format!("{comm} ({pid}) {}", percent(thread.lane_share))
            });
            words.collect::<Vec<_>>().join(", ")
        };
        match self {
            Finding::SerialStage {
                threads: busy,
                idle_cores,
            } => [
                format!(
                    "Serial stage: {} of their lane, while cores are idle {} of the time.",
                    threads(busy),
                    percent(*idle_cores)
                ),
                "Give this stage more workers; until then mark it critical, so that it shares no core.".into(),
            ],
            Finding::MasterThread { thread, idle_cores } => [
                format!(
                    "Master thread: {} of its lane at {} of a whole core's speed, while cores are idle {} of the time.",
                    threads(std::slice::from_ref(thread)),
                    percent(thread.speed),
                    percent(*idle_cores)
                ),
                "Everything waits for this thread: spread its work, or mark it critical, so that it has a core to itself.".into(),
            ],
            Finding::SmtUseful { gain } => [
                format!("SMT is worth having: all lanes do {} more than one of each core.", percent(*gain)),
                "Leave it on; keep what answers people unshared.".into(),
            ],
            Finding::SmtHarmful { loss } => [
                format!("SMT is not worth having: all lanes do {} less than one of each core.", percent(*loss)),
                "Switch to SMT level 1 ('sidelane control' does it by load).".into(),
            ],
            Finding::Headroom {
                share,
                thread_density,
            } => [
                format!(
                    "Room: {} of what all lanes could do is unused; thread density is {thread_density:.2}.",
                    percent(*share)
                ),
                "Batch can have it ('sidelane run' lends idle lanes).".into(),
            ],
            Finding::LostEntitlement {
                cgroup,
                limit_lanes,
                used_lanes,
                lost,
            } => [
                format!(
                    "Lost entitlement: {cgroup} uses {used_lanes:.2} of the {limit_lanes:.2} lanes it may, and {} of that time is lost to siblings.",
                    percent(*lost)
                ),
                "A limit in raw time buys less work with SMT on: raise it, or charge MT1-equivalent time.".into(),
            ],
        }
    }
}
