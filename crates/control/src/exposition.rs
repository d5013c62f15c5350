//! Decisions as metrics: a file in the plain text format of Prometheus (0.0.4), the only one that the textfile
//! collector of its node exporter reads.

use crate::{Error, Result, files};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry};
use sidelane_export::plain;
use sidelane_model::Decision;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;

type Number = Gauge<f64, AtomicU64>;
type ByLevel = Family<Vec<(&'static str, String)>, Number>;

/// The metrics' file.
#[derive(Debug)]
pub struct Exposition {
    path: PathBuf,
    registry: Registry,
    level: Gauge,
    utilization: Number,
    peak: Number,
    response: ByLevel,
    changes: Counter,
}

impl Exposition {
    /// Written to `path` with each decision.
    pub fn new(path: &Path) -> Exposition {
        let mut registry = Registry::with_prefix("sidelane_control");
        Exposition {
            path: path.to_owned(),
            level: add(
                &mut registry,
                "smt_level",
                "Lanes of each core that may run",
            ),
            utilization: add(
                &mut registry,
                "normalized_utilization_ratio",
                "Load of the last interval; 1 saturates one lane of each core",
            ),
            peak: add(
                &mut registry,
                "peak_utilization_ratio",
                "Highest load of the window, the model's input",
            ),
            response: add(
                &mut registry,
                "expected_response_ratio",
                "Mean response that the model expects at a level, in service times alone on a core",
            ),
            changes: add(&mut registry, "level_changes", "Changes of the level"),
            registry,
        }
    }

    /// A decision was made.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, decision: &Decision) -> Result<()> {
        self.level
            .set(i64::try_from(decision.level).unwrap_or(i64::MAX));
        self.utilization.set(decision.utilization);
        self.peak.set(decision.peak);
        for level in &decision.expected.levels {
            let labels = vec![("level", level.level.to_string())];
            self.response.get_or_create(&labels).set(level.response);
        }
        if decision.changed() {
            self.changes.inc();
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)
            .map_err(|e| Error::io("write", &self.path, std::io::Error::other(e)))?;
        files::replace(&self.path, plain(&text).as_bytes())
    }
}

/// A metric that the registry has, too.
fn add<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

#[cfg(test)]
mod tests {
    use super::*;
    use sidelane_model::{Governor, GovernorConfig, Machine, ThreadPerf, Utilization};

    #[test]
    fn a_decision_as_text() {
        let machine = Machine::new(4, ThreadPerf::new(vec![1.0, 0.6]).unwrap()).unwrap();
        let mut governor = Governor::new(machine, GovernorConfig::published(), 2).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control.prom");
        let exposition = Exposition::new(&path);
        let decision = governor.decide(Utilization::new(0.3).unwrap());
        exposition.write(&decision).unwrap();
        let decision = governor.decide(Utilization::new(1.1).unwrap());
        exposition.write(&decision).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        for line in [
            "sidelane_control_smt_level 2",
            "sidelane_control_normalized_utilization_ratio 1.1",
            "sidelane_control_expected_response_ratio{level=\"1\"} inf",
            "# TYPE sidelane_control_level_changes_total counter",
            "sidelane_control_level_changes_total 2",
        ] {
            assert!(
                text.lines().any(|l| l.eq_ignore_ascii_case(line)),
                "{line}:\n{text}"
            );
        }
        assert!(!text.contains("# EOF"), "{text}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
