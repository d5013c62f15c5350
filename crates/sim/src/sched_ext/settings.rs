//! The scheduler's settings, as its loader would set them.

use super::native;

const MS: u64 = 1_000_000;
const NR_CLASSES: usize = native::task_class_NR_CLASSES as usize;

/// Settings of the scheduler; the defaults are those of `sidelane run`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Slice of critical and normal work, ns.
    pub slice_ns: u64,
    /// Slice of batch work, ns.
    pub batch_slice_ns: u64,
    /// Normal work waits at most about this long behind critical work, ns.
    pub normal_bound_ns: u64,
    /// Batch work waits at most about this long, ns.
    pub starvation_bound_ns: u64,
    /// What a task gets when a bound is used, ns.
    pub overdue_slice_ns: u64,
    /// Busy lanes a core may have; none: all.
    pub smt_level: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            slice_ns: 10 * MS,
            batch_slice_ns: 10 * MS,
            normal_bound_ns: 20 * MS,
            starvation_bound_ns: 1000 * MS,
            overdue_slice_ns: MS,
            smt_level: None,
        }
    }
}

impl Settings {
    /// As the scheduler reads them, for a machine with so many lanes a core at most.
    pub(super) fn native(&self, widest: u32) -> native::settings {
        native::settings {
            slice_ns: [self.slice_ns, self.slice_ns, self.batch_slice_ns],
            starvation_bound_ns: [0, self.normal_bound_ns, self.starvation_bound_ns],
            overdue_slice_ns: self.overdue_slice_ns,
            steal_min_queued: [1, 1, 1, 2],
            smt_level: self.smt_level.unwrap_or(widest),
            nr_rules: NR_CLASSES as u32,
            has_cgroup_rules: 0,
        }
    }
}

/// Rules by which user n + 1 stands for class n: a task of the simulation says its class so.
pub(super) fn rules() -> Vec<native::rule> {
    let rule = |class: u32| native::rule {
        kind: native::rule_kind_RULE_USER,
        class,
        uid: class + 1,
        ..native::rule::default()
    };
    (0..NR_CLASSES as u32).map(rule).collect()
}
