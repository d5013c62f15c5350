//! Critical work on the first lane of each core, batch on the others, with the kernel's own scheduler:
//! the arrangement of Elfen. Batch programs that look at the lane signal (`sidelane-runtime`) then step
//! aside while critical work runs beside them.
//!
//! Source: Elfen (USENIX ATC 2016).

use crate::actuator::{Found, cores_without};
use crate::cpusets::FoundCpusets;
use crate::state::{RestoredAtEnd, StateFile};
use crate::{Error, Result};
use sidelane_sched::signal::lanes::{self as tracer, Groups};
use sidelane_topology::reserved::Reserved;
use sidelane_topology::{CpuList, Topology};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Where what was found is kept unless it is said otherwise.
pub const DEFAULT_STATE_PATH: &str = "/run/sidelane/lanes.json";

/// What to bind.
#[derive(Clone, Debug)]
pub struct LanesSettings {
    /// Critical and batch cgroups: paths from the cgroup root.
    pub groups: Groups,
    /// The state file.
    pub state: PathBuf,
}

/// What happens, for whoever tells the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LanesEvent {
    /// What an earlier process had found was restored.
    Restored,
    /// Both cgroups are bound, and the signal is served.
    Serving {
        /// Lanes of critical work.
        critical: CpuList,
        /// Lanes of batch.
        batch: CpuList,
    },
}

/// Binds, keeps the signal and serves it until `stop` is set; then what was found is restored.
///
/// # Errors
/// What prevented it; what was found is restored then, too.
pub fn run(
    settings: &LanesSettings,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(LanesEvent),
) -> Result<()> {
    let root = Path::new("/");
    let state = StateFile::hold(root, &settings.state)?;
    if state.restore()? {
        on_event(LanesEvent::Restored);
    }
    let Groups { critical, batch } = &settings.groups;
    check_apart(critical, batch)?;
    let lanes = split(&Topology::read(root)?, &Reserved::read(root))?;
    let found = FoundCpusets::read(&tracer::mount_point(root)?, &[critical, batch])?;
    state.save(&Found::Cpusets(found.clone()))?;
    let bound = RestoredAtEnd(&state);
    let served = found.bind(&lanes).and_then(|()| {
        let [critical, batch] = lanes;
        let mut serving = || {
            on_event(LanesEvent::Serving {
                critical: critical.clone(),
                batch: batch.clone(),
            });
        };
        Ok(tracer::run(&settings.groups, stop, &mut serving)?)
    });
    let restored = bound.end();
    served.and(restored)
}

/// The first lane of each core, and the others, without those that are reserved for other work.
fn split(topology: &Topology, reserved: &Reserved) -> Result<[CpuList; 2]> {
    let cores = cores_without(topology, &reserved.cpus());
    let first = cores.iter().filter_map(|core| core.first().copied());
    let others = cores.iter().flat_map(|core| core.iter().skip(1).copied());
    let lanes: [CpuList; 2] = [first.collect(), others.collect()];
    if lanes[1].is_empty() {
        return Err(Error::NoSecondLane);
    }
    Ok(lanes)
}

/// Neither cgroup may hold the other.
fn check_apart(critical: &str, batch: &str) -> Result<()> {
    let parts = |path: &str| PathBuf::from(path.trim_matches('/'));
    let (one, other) = (parts(critical), parts(batch));
    if one.starts_with(&other) || other.starts_with(&one) {
        return Err(Error::Overlap {
            critical: critical.to_owned(),
            batch: batch.to_owned(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tree;
    use sidelane_topology::{Builder, CoreSpec};

    #[test]
    fn critical_work_has_the_first_lane_of_each_core() {
        let topology = Builder::new()
            .core(CoreSpec::new([0, 4, 8]).offline([0]))
            .core(CoreSpec::new([1, 5]))
            .core(CoreSpec::new([2]))
            .build()
            .unwrap();
        let [critical, batch] = split(&topology, &Reserved::default()).unwrap();
        assert_eq!(
            (critical.to_string(), batch.to_string()),
            ("1-2,4".into(), "5,8".into())
        );
        let single = Builder::new().core(CoreSpec::new([0])).build().unwrap();
        let split = split(&single, &Reserved::default());
        assert!(matches!(split, Err(Error::NoSecondLane)));
    }

    #[test]
    fn reserved_lanes_are_given_to_neither() {
        let tree = Tree::new(3, 2);
        let split = || {
            let topology = Topology::read(tree.root()).unwrap();
            split(&topology, &Reserved::read(tree.root()))
        };
        tree.write("isolated", "2,5\n");
        let lanes = split().unwrap().map(|cpus| cpus.to_string());
        assert_eq!(lanes, ["0,3-4", "1"]);
        tree.write("nohz_full", "1\n");
        assert!(matches!(split(), Err(Error::NoSecondLane)));
    }

    #[test]
    fn a_cgroup_inside_the_other_is_refused() {
        for (critical, batch) in [("/a", "/a/"), ("/a/b", "/a"), ("/a", "/a/b/c")] {
            assert!(check_apart(critical, batch).is_err(), "{critical} {batch}");
        }
        assert!(check_apart("/a", "/ab").is_ok());
    }
}
