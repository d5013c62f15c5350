//! The sched_ext scheduler and its loader.

mod bpf;
