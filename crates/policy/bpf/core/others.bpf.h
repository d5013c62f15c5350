/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Batch only: the kernel's own scheduler keeps all tasks but batch.
 *
 * Problem: an operator may want the idle lanes of a machine used, and not hand over the tasks that matter there.
 *
 * Rule: with fixed.only_batch sched_ext has the tasks of policy SCHED_EXT alone, and those are batch. Every other task
 * takes its lane from them by itself, since its class of the kernel ranks higher. What is left to see to is the core: each
 * switch of a lane to one of the others is followed, and the lane is then one with critical work if that closes
 * cores, with normal work if it does not, or idle. All else goes by these states as for tasks of the scheduler's own.
 * Which of the others close cores: those that rules call critical; where no rule does, all that no rule calls
 * otherwise but kernel threads and SCHED_IDLE.
 *
 * While no batch wants to run, nothing follows, and states are what they were. The first batch that wants has every lane
 * looked at; what switches there meanwhile is seen by the lane itself.
 *
 * A batch task whose lane others take does not wait for that: it ends its slice, and is placed anew.
 *
 * Bound: a lane of the others is seen when it switches, not when something wakes for it.
 *
 * Cost: a switch of others, one word while no batch wants to run; else a look at the lane, and at the task's class if rules name
 * any of the others.
 *
 * Source: none. Elfen's batch threads share a core with whatever the kernel runs there, too.
 */
#ifndef SIDELANE_OTHERS_BPF_H
#define SIDELANE_OTHERS_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "classify.bpf.h"
#include "kick.bpf.h"

/* Batch that does not want to run for so long is not waited for any more. */
#define OTHERS_LEFT_NS 100000000ULL

GLOBAL u32 batch_wanting; /* tasks that run or could */
GLOBAL u64 batch_left_ns; /* when the last of them slept */
GLOBAL u32 others_followed; /* 1: lanes' states are kept */

/* The state of a lane that runs a task of the kernel's scheduler with these. */
static __always_inline u32 others_state(u32 pid, u32 flags, u32 policy)
{
	if (!pid)
		return LANE_IDLE;
	return (flags & PF_KTHREAD) || policy == SCHED_IDLE ? LANE_NORMAL : fixed.others;
}

/* The lane @cpu, of @core, is in another @state than it was: as running and dispatch do for tasks of the scheduler's own. */
VERIFIED_ONCE int others_change(s32 cpu, u32 state, u32 budget)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	const struct rq *rq = rq_of(cpu);
	u64 now_ns = rq_clock(rq);
	bool was_critical;

	if (!core || state >= NR_LANE_STATES)
		return 0;
	if (state != LANE_IDLE) {
		lane->rechecked = 0;
		/* taken for this lane in the same moment */
		if (rq && rq->scx.local_dsq.nr)
			scx_bpf_reenqueue_local_from_anywhere();
	}
	if (state == LANE_CRITICAL)
		hook_critical_comes(core, lane->core, budget);
	was_critical = lane->was_critical;
	lane->was_critical = state == LANE_CRITICAL;
	lane->pid = 0;
	lane_set_state(lane, core, state, now_ns);
	hook_lane_runs(cpu, state, 0);
	if (state == LANE_CRITICAL)
		hook_critical_sent(lane->core, budget, false, now_ns);
	else if (was_critical)
		core_reopen(lane->core, state == LANE_IDLE ? -1 : cpu);
	return 0;
}

/* Looks what the lane @cpu runs, from another. What that does meanwhile it says itself. */
static __always_inline void others_look(s32 cpu)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	const struct rq *rq = rq_of(cpu);
	u32 before, state;

	if (!core || !lane->online || !rq)
		return;
	before = *(volatile u32 *)&lane->state;
	if (rq->curr->policy == SCHED_EXT)
		return;
	state = others_state(rq->curr->pid, rq->curr->flags, rq->curr->policy);
	if (state == before)
		return;
	lane->was_critical = state == LANE_CRITICAL;
	if (lane_state_take(lane, core, before, state) != before)
		return;
	if (state == LANE_CRITICAL)
		hook_critical_comes(core, lane->core, 0);
	core_changed(lane->core, scx_bpf_now());
	hook_lane_runs(cpu, state, 0);
	if (others_state(rq->curr->pid, rq->curr->flags, rq->curr->policy) != state)
		scx_bpf_kick_cpu(cpu, 0); /* it has gone on meanwhile, and says so */
}

VERIFIED_ONCE int others_follow(void)
{
	u32 cpu;

	if (__sync_lock_test_and_set(&others_followed, 1))
		return 0;
	bpf_for(cpu, 0, nr_lanes)
		others_look(cpu);
	return 0;
}

/* A task is about to want to run; one does. */
static __always_inline void batch_comes(void)
{
	if (!*(volatile u32 *)&others_followed)
		others_follow();
}

static __always_inline void batch_wants(void)
{
	u32 before = __sync_fetch_and_add(&batch_wanting, 1);

	/* what is fetched makes it a full barrier: others_leave() sees this, or this sees that */
	barrier_var(before);
	batch_comes();
}

static __always_inline void batch_wants_no_more(void)
{
	if (__sync_fetch_and_sub(&batch_wanting, 1) == 1)
		batch_left_ns = scx_bpf_now();
}

/* Nothing follows any more if batch has been away for long enough. */
VERIFIED_ONCE int others_leave(void)
{
	if (scx_bpf_now() < batch_left_ns + OTHERS_LEFT_NS)
		return 0;
	__sync_lock_test_and_set(&others_followed, 0);
	if (*(volatile u32 *)&batch_wanting)
		others_follow();
	return 0;
}

/*
 * Is the lane of @rq none of ours to see to? Some kernels ask for batch before they ask the class that comes next, or while a
 * task of that runs, for what their server of sched_ext gives it.
 */
static __always_inline bool others_have(const struct rq *rq)
{
	return !*(volatile u32 *)&others_followed || outranked(rq);
}

/* This lane, @cpu, goes on with @next. */
static __always_inline void others_switch(s32 cpu, struct task_struct *next)
{
	struct task_ctx *tctx = NULL;
	struct lane_ctx *lane;
	u32 state;

	if (!*(volatile u32 *)&others_followed || next->policy == SCHED_EXT)
		return;
	lane = lane_ctx(cpu);
	if (!lane)
		return;
	state = others_state(next->pid, next->flags, next->policy);
	if (fixed.others_ruled && state < LANE_IDLE && !(next->flags & PF_KTHREAD)) {
		tctx = task_ctx(next);
		if (tctx)
			state = tctx->class == CLASS_CRITICAL ? LANE_CRITICAL : LANE_NORMAL;
	}
	if (lane->state != state)
		others_change(cpu, state, tctx ? tctx->budget : 0);
	if (state != LANE_IDLE)
		return;
	if (!*(volatile u32 *)&batch_wanting) {
		others_leave();
	} else {
		stranded_check(rq_of(cpu), cpu);
		idle_check(lane, cpu);
	}
}

/* A tick of the lane @cpu: what a tick of the scheduler's own tasks does for batch. */
static __always_inline void others_tick(s32 cpu)
{
	struct lane_ctx *lane;

	if (!*(volatile u32 *)&others_followed)
		return;
	/* for a switch in the moment in which following began, and a task that rules call something else now */
	others_switch(cpu, bpf_get_current_task_btf());
	lane = lane_ctx(cpu);
	if (lane && (lane->state == LANE_CRITICAL || lane->state == LANE_NORMAL))
		hook_others_tick(lane, cpu, clock_of(cpu));
}

#endif /* SIDELANE_OTHERS_BPF_H */
