/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Naps: the lane of a batch task that steps aside by itself stays idle.
 *
 * Problem: a batch program that naps on a futex while critical work runs beside it (crates/runtime, nap.rs) sleeps, and
 * its lane is free for others, which run beside the critical work in its place.
 *
 * Rule (fixed.hold_naps): a batch program with a board (jobs.bpf.h) uses the runtime library: where its core closes, it is not
 * evicted, for it sees by the lane signal that critical work begins, and is gone sooner than an interrupt would come. What has
 * not stepped aside at its next tick, while critical work is there or on its way, is evicted; after NAP_TRUST times more than it has
 * napped, at once.
 * When a batch task sleeps that naps, by what the board says, while its core is closed, its lane is held: no normal or batch task is
 * switched in or sent there. The hold ends when the core has no critical work any more, when the task runs again, here or
 * elsewhere, and at the first tick of the critical work after the starvation bound of batch, by which the task is due, too; the lane
 * is held for no other nap then until the core has opened. Critical work takes a held lane like an idle one, and what waits
 * beyond its starvation bound does.
 *
 * Cost: for batch that sleeps, a look at the board; while a lane is held, a look at the core's lanes at each tick of critical work.
 * Where no program has a board, a load for each sleep and tick of batch.
 *
 * Source: Elfen (USENIX ATC 2016): batch watches the sibling lane itself; nanonap: the operating system cannot schedule the
 * hardware context of a thread that naps. There the thread stays on it; here it sleeps on a futex. Not here: naps by umwait and
 * mwaitx, which last on the lane until a tick evicts them.
 */
#ifndef SIDELANE_NAP_BPF_H
#define SIDELANE_NAP_BPF_H

#include "../core/types.bpf.h"
#include "../core/kick.bpf.h"
#include "jobs.bpf.h"

/* So often more than it has napped a program is trusted to do so. */
#define NAP_TRUST 4

/* Is @lane held for a task that naps? Not once its core has been opened since that began. */
static __always_inline bool nap_holds(const struct lane_ctx *lane, u64 now_ns)
{
	const struct core_ctx *core;

	if (!fixed.hold_naps || !lane->nap_pid)
		return false;
	core = core_ctx(lane->core);
	return core && now_ns < lane->nap_until_ns && lane->nap_opened == core->opened &&
	       !hook_may_run(lane->core, CLASS_BATCH);
}

/* Does @p nap, as its program says? */
VERIFIED_ONCE bool naps(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	struct job_slot *slot;

	if (!tctx)
		return false;
	slot = job_slot_find(p) ? job_slot_of(p, tctx) : NULL;
	tctx->job_tid = 0; /* batch has no jobs */
	return slot && *(volatile u32 *)&slot->naps;
}

/* @p sleeps on @lane, which is held for it if it naps. */
static __always_inline void nap_begins(struct task_struct *p, struct task_ctx *tctx,
				       struct lane_ctx *lane, u64 now_ns)
{
	const struct core_ctx *core;

	if (!fixed.hold_naps || tctx->class != CLASS_BATCH || !jobs_marked() ||
	    hook_may_run(lane->core, CLASS_BATCH) || !naps(p))
		return;
	if (tctx->steps_aside < 1 + NAP_TRUST)
		tctx->steps_aside++;
	core = core_ctx(lane->core);
	if (!core)
		return;
	if (!lane->nap_until_ns || lane->nap_opened != core->opened) {
		lane->nap_opened = core->opened;
		lane->nap_until_ns = now_ns + fixed.starvation_bound_ns[CLASS_BATCH];
	}
	tctx->nap_lane = scx_bpf_task_cpu(p) + 1;
	lane->nap_pid = p->pid;
	count(nap_holds);
}

/* Wakes the lanes of @core_id that were held for long enough: they look for work. */
VERIFIED_ONCE int naps_expire(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && lane->state == LANE_HELD && lane->nap_pid && !nap_holds(lane, now_ns))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/*
 * The tick of batch @p on @lane: does it step aside by itself? It has not, if it had to; it loses trust if it could see the critical
 * work.
 */
static __always_inline void nap_trusts(struct task_struct *p, struct task_ctx *tctx,
				       struct lane_ctx *lane)
{
	bool fails = tctx->steps_aside > 1 && core_critical(lane->core) &&
		     !hook_may_run(lane->core, CLASS_BATCH);

	if (!jobs_marked())
		tctx->steps_aside = 0;
	else if (!tctx->steps_aside)
		tctx->steps_aside = job_board_of(p) ? 1 + NAP_TRUST : 0;
	else if (fails && lanes_in_state(lane->core, LANE_CRITICAL))
		tctx->steps_aside--;
	lane->steps_aside = tctx->steps_aside > 1 && !fails;
}

/* The tick of @p, which runs on @lane. */
static __always_inline void nap_check(struct task_struct *p, struct task_ctx *tctx,
				      struct lane_ctx *lane, u64 now_ns)
{
	if (!fixed.hold_naps)
		return;
	if (tctx->class == CLASS_BATCH)
		nap_trusts(p, tctx, lane);
	else if (tctx->class == CLASS_CRITICAL && lanes_in_state(lane->core, LANE_HELD))
		naps_expire(lane->core, now_ns);
}

/* Batch @p is about to run on @lane. If one is held for its nap, that ends. */
static __always_inline void nap_runs(const struct task_struct *p, struct task_ctx *tctx,
				     struct lane_ctx *lane)
{
	struct lane_ctx *held;

	if (!fixed.hold_naps)
		return;
	lane->steps_aside = tctx->steps_aside > 1;
	if (!tctx->nap_lane)
		return;
	held = lane_ctx(tctx->nap_lane - 1);
	if (held && held->nap_pid == (u32)p->pid) {
		held->nap_pid = 0;
		if (held != lane && held->state == LANE_HELD)
			scx_bpf_kick_cpu(tctx->nap_lane - 1, SCX_KICK_IDLE);
	}
	tctx->nap_lane = 0;
}

#endif /* SIDELANE_NAP_BPF_H */
