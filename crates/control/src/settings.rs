//! What the operator chooses.

use crate::{ActuatorKind, Error, Result};
use sidelane_model::{GovernorConfig, LaneOrder, Normalization, ThreadPerf};
use std::path::PathBuf;
use std::time::Duration;

/// As the source: POWER's scheduler prefers lower lanes.
const LANE_ORDER: LaneOrder = match cfg!(target_arch = "powerpc64") {
    true => LaneOrder::LowerFirst,
    false => LaneOrder::Independent,
};

/// How the source has load follow from how busy lanes are.
pub const PUBLISHED_NORMALIZATION: Normalization = Normalization::Averaged(LANE_ORDER);

/// How the daemon works.
#[derive(Debug, Clone)]
pub struct Settings {
    /// `/` but in tests: where `proc` and `sys` are.
    pub root: PathBuf,
    /// What sets the level.
    pub actuator: ActuatorKind,
    /// Time from one decision to the next.
    pub interval: Duration,
    /// How to decide.
    pub governor: GovernorConfig,
    /// Speeds of lanes that share a core, for at least as many as the cores have; none: what the
    /// source gives as typical.
    pub thread_perf: Option<ThreadPerf>,
    /// Learn threadPerf from counted instructions, where the machine counts them.
    pub learn: bool,
    /// How load follows from how busy lanes are; none: as the source with its model, else as the
    /// model expects.
    pub normalization: Option<Normalization>,
    /// Tasks of a nice value above 0 are no load.
    pub ignore_nice: bool,
    /// The state file.
    pub state: PathBuf,
    /// Where to write metrics.
    pub metrics: Option<PathBuf>,
}

impl Settings {
    /// How load follows from how busy lanes are.
    pub(crate) fn normalization(&self) -> Normalization {
        let own = Normalization::of(self.governor.options.model(), LANE_ORDER);
        self.normalization.unwrap_or(own)
    }

    /// How lanes of a core are busy together, where it has to be assumed.
    pub(crate) fn lane_order(&self) -> LaneOrder {
        match self.normalization {
            Some(Normalization::Lanes(order) | Normalization::Averaged(order)) => order,
            _ => LANE_ORDER,
        }
    }

    /// threadPerf of as many lanes as the cores have, and whether it is assumed.
    pub(crate) fn thread_perf(&self, lanes: usize) -> Result<(ThreadPerf, bool)> {
        match &self.thread_perf {
            Some(given) => {
                let speeds = given.speeds().get(..lanes);
                let speeds = speeds.ok_or(sidelane_model::Error::LaneCount {
                    given: lanes,
                    lanes: given.lanes(),
                })?;
                Ok((ThreadPerf::new(speeds.to_vec())?, false))
            }
            None => Ok((
                typical(lanes).ok_or(Error::ThreadPerfUnknown(lanes))??,
                true,
            )),
        }
    }
}

/// The source's values for web applications: of a Xeon and of POWER7 (section III-C).
fn typical(lanes: usize) -> Option<sidelane_model::Result<ThreadPerf>> {
    const TWO: [f64; 2] = [1.0, 0.6];
    const FOUR: [f64; 4] = [1.0, 0.75, 0.57, 0.45];
    match lanes {
        1 | 2 => TWO.get(..lanes),
        3 | 4 => FOUR.get(..lanes),
        _ => None,
    }
    .map(|speeds| ThreadPerf::new(speeds.to_vec()))
}
