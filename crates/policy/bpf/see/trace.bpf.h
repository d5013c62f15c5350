/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The trace: a line for each promotion and each eviction.
 *
 * Problem: counters tell how many there were, and not which job moved from where to where, and when.
 *
 * Rule: with fixed.trace each writes a line into the kernel's trace buffer: the event bpf_trace:bpf_trace_printk, which
 * perf, trace-cmd and bpftrace can record beside sched_switch. A core is named by the CPU number of its first lane.
 *
 * Cost: on, a line of text under a lock of the kernel's. Besides, the kernel then notes the name of each task that wakes
 * or is switched to (the loader's printed.rs).
 *
 * Does not: tell of wake-ups, steals and slices: the kernel's sched events do.
 */
#ifndef SIDELANE_TRACE_BPF_H
#define SIDELANE_TRACE_BPF_H

#include "../core/types.bpf.h"

/* CPU number of the core's first lane, or -1. */
static __always_inline s32 core_name(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	return core ? core_lane(core, 0) : -1;
}

#define PROMOTION_LINE(step) \
	"sidelane_promotion_" step ": pid=%u from_core=%d to_core=%d job_age_us=%llu"

VERIFIED_ONCE int trace_promotion(u32 step, u32 pid, u32 from, u32 to, u64 age_ns)
{
	s32 from_name = core_name(from), to_name = core_name(to);
	u64 age_us = age_ns / 1000;

	if (step == PROMOTION_BEGUN)
		bpf_printk(PROMOTION_LINE("begun"), pid, from_name, to_name, age_us);
	else if (step == PROMOTION_DONE)
		bpf_printk(PROMOTION_LINE("done"), pid, from_name, to_name, age_us);
	else
		bpf_printk(PROMOTION_LINE("dropped"), pid, from_name, to_name, age_us);
	return 0;
}

/* Batch is asked to leave the lane @cpu. */
VERIFIED_ONCE int trace_eviction(u32 pid, s32 cpu, u32 core)
{
	bpf_printk("sidelane_eviction: pid=%u cpu=%d core=%d", pid, cpu, core_name(core));
	return 0;
}

/* A step of the promotion of @p, whose job began at @began_ns, from where it is to core @to. */
static __always_inline void trace_step(const struct task_struct *p, const struct task_ctx *tctx,
				       u32 step, u32 to, u64 began_ns)
{
	u64 now_ns = scx_bpf_now();

	trace_promotion(step, p->pid, tctx->core, to, now_ns > began_ns ? now_ns - began_ns : 0);
}

#endif /* SIDELANE_TRACE_BPF_H */
