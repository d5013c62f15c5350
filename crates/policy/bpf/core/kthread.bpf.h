/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Kernel threads of one lane: softirqs, work queues, timers.
 *
 * Problem: others wait for this housekeeping, and no other lane can do it. Mostly it takes
 * microseconds; but under a flood of packets it does not end.
 *
 * Rule: such a thread that wakes runs at once, instead of what runs on its lane, for an overdue slice
 * (overdue.bpf.h); the lane has an account of its own for that, so that it gives them at most
 * 1 / OVERDUE_PARTS of its time so. Where the account does not allow it, or when that slice is used
 * up, the thread waits like any normal task, but is due at once. So nothing that is bound to the lane
 * starves behind several of them.
 * Critical work that made room waits on its lane, and goes on with what was left of its slice: it
 * keeps its caches, and takes no other task's lane for a moment's pause. Not if something is due
 * there, which is next then.
 *
 * Cost: a look at the lane for each wake-up of such a thread.
 *
 * Source: none.
 */
#ifndef SIDELANE_KTHREAD_BPF_H
#define SIDELANE_KTHREAD_BPF_H

#include "types.bpf.h"
#include "arrive.bpf.h"
#include "overdue.bpf.h"

/* Sends @p, a kernel thread of one lane, straight there. False: it has to wait. */
static __always_inline bool kthread_send(struct task_struct *p, struct task_ctx *tctx,
					 u64 enq_flags)
{
	struct lane_ctx *lane = lane_ctx(scx_bpf_task_cpu(p));
	u64 now_ns = scx_bpf_now(), slice_ns = fixed.slice_ns[CLASS_NORMAL];
	const struct core_ctx *core;
	bool idle;

	if (!lane || !(enq_flags & SCX_ENQ_WAKEUP))
		return false;
	idle = lane->state == LANE_IDLE || lane->state == LANE_HELD;
	if (!idle && !overdue_allowed(lane, OVERDUE_KTHREAD, now_ns))
		return false;
	count(wakeups[CLASS_NORMAL]);
	vtime_moves(tctx, lane->core);
	core = core_ctx(lane->core);
	if (core)
		vtime_begins(tctx, vtime_reached(p, core));
	tctx->overdue = idle ? OVERDUE_NOT : OVERDUE_KTHREAD;
	lane->kthread = 1;
	/* an overdue run ends soon by itself */
	enq_flags |= lane->overdue ? SCX_ENQ_HEAD : SCX_ENQ_PREEMPT;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, idle ? slice_ns : fixed.overdue_slice_ns, enq_flags);
	return true;
}

/*
 * Critical @p has just left its lane. If it made room for a kernel thread, it is next there after
 * that. False: it has to be placed.
 */
static __always_inline bool kthread_passes(struct task_struct *p, struct task_ctx *tctx,
					   u64 enq_flags)
{
	u64 now_ns, slice_ns = 1; /* used up: until the next tick */
	struct lane_ctx *lane;
	struct core_ctx *core;
	s32 cpu;

	if (tctx->class != CLASS_CRITICAL || tctx->misclassified || tctx->expected ||
	    (enq_flags & SCX_ENQ_WAKEUP))
		return false;
	cpu = scx_bpf_task_cpu(p);
	lane = lane_ctx(cpu);
	core = lane ? core_ctx(lane->core) : NULL;
	now_ns = scx_bpf_now();
	if (!core || !lane->kthread || lane->pid != (u32)p->pid ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || overdue_next(cpu, CLASS_CRITICAL, now_ns))
		return false;
	vtime_moves(tctx, lane->core);
	tctx->queued_ns = now_ns;
	critical_sent(tctx, lane->core);
	if (lane->slice_ends_ns > now_ns)
		slice_ns = lane->slice_ends_ns - now_ns;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_ns, enq_flags);
	return true;
}

#endif /* SIDELANE_KTHREAD_BPF_H */
