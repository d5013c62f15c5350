/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budgets: how long batch may run beside critical work.
 *
 * Problem: a critical job that is far from its objective can bear a sibling for a
 * while, and the lanes it leaves idle then are lost for nothing.
 *
 * Rule: a core's busy period lasts from its first critical task to the moment when it
 * has none and none is expected. In each, batch may run beside critical work until the
 * budget is used up; then the core is closed until the period ends. What uses it up:
 *   fixed    time since both ran at once first in this period, whether they still do;
 *   refresh  the same, but the clock starts anew when a critical task wakes for the
 *            core, none waits there, and the budget is not used up: the job before it
 *            is served, and this one has all its time before it;
 *   dynamic  as refresh, but only time in which both run counts, by what critical work
 *            loses then: 1 - threadPerf[lanes that run].
 * Without a budget (borrow-idle) a core with critical work is closed at once; without
 * a limit (off) it never is.
 *
 * When it is used up, the core's timer closes the core. Wake-ups set it. Where none could,
 * as for a task with one lane only or one that waited when the scheduler was attached, the
 * tick of a lane that runs batch or critical work notices instead.
 *
 * Cost: a comparison of clocks where batch or critical work begins to run; a timer a
 * busy period.
 *
 * Source: Elfen (USENIX ATC 2016): fixed, refresh and dynamic budget. There a batch thread
 * decides at each of its checks, the core's one request lane has a queue, and the loss
 * is measured as IPC.
 */
#ifndef SIDELANE_BUDGET_BPF_H
#define SIDELANE_BUDGET_BPF_H

#include "types.bpf.h"

/* 1 in fixed point, as threadPerf is given. */
#define SPEED_ONE 1024

/* Can the budget run out? */
static __always_inline bool budget_limited(void)
{
	return settings.budget_policy != BUDGET_NONE && settings.budget_policy != BUDGET_OFF;
}

/* What critical work loses, of SPEED_ONE, while @busy lanes of its core run. */
static __always_inline u64 budget_loss(u32 busy)
{
	u32 i = BOUNDED(busy ? busy - 1 : 0, MAX_LANES_PER_CORE);
	u32 speed = settings.thread_perf[i];

	return speed < SPEED_ONE ? SPEED_ONE - speed : 0;
}

/* How much of the budget this busy period has used up. */
static __always_inline u64 budget_used_ns(const struct core_ctx *core, u64 now_ns)
{
	u64 since_ns = core->overlap_ns;

	if (settings.budget_policy != BUDGET_DYNAMIC)
		return since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
	since_ns = core->charge_ns;
	if (!since_ns || now_ns <= since_ns)
		return core->charged_ns;
	return core->charged_ns + (now_ns - since_ns) * core->charge_rate / SPEED_ONE;
}

/* May batch run beside the critical work of @core_id now? */
static __always_inline bool budget_left(u32 core_id, u64 now_ns)
{
	struct core_ctx *core;

	if (settings.budget_policy == BUDGET_NONE)
		return false;
	if (settings.budget_policy == BUDGET_OFF)
		return true;
	core = core_ctx(core_id);
	return core && budget_used_ns(core, now_ns) < settings.budget_ns;
}

/* A timer is not set for less: so late a core may close that was charged slowly at first. */
#define BUDGET_GRAIN_NS 20000ULL

/* The earliest moment, from now, at which the budget of @core can be used up; 0: it is. */
static __always_inline u64 budget_remaining_ns(const struct core_ctx *core, u64 now_ns)
{
	u64 used_ns = budget_used_ns(core, now_ns), left_ns, loss;

	if (used_ns >= settings.budget_ns)
		return 0;
	left_ns = settings.budget_ns - used_ns;
	if (settings.budget_policy != BUDGET_DYNAMIC)
		return left_ns;
	/* more lanes may run before it rings */
	loss = budget_loss(core->nr_lanes);
	if (loss)
		left_ns = left_ns * SPEED_ONE / loss;
	return left_ns > BUDGET_GRAIN_NS ? left_ns : BUDGET_GRAIN_NS;
}

/*
 * The lanes of a core have changed: @overlap, whether batch runs beside critical work now,
 * and how many lanes run. Lanes may come here at the same time: who takes the old moment
 * charges for the time since.
 */
static __always_inline void budget_charge(struct core_ctx *core, bool overlap, u32 busy, u64 now_ns)
{
	u64 since_ns = core->charge_ns, rate = core->charge_rate;

	if (!budget_limited())
		return;
	if (overlap && !core->overlap_ns)
		core->overlap_ns = now_ns;
	if (settings.budget_policy != BUDGET_DYNAMIC || (!since_ns && !overlap))
		return;
	if (__sync_val_compare_and_swap(&core->charge_ns, since_ns, overlap ? now_ns : 0) !=
	    since_ns)
		return;
	core->charge_rate = budget_loss(busy);
	if (since_ns && now_ns > since_ns)
		__sync_fetch_and_add(&core->charged_ns, (now_ns - since_ns) * rate / SPEED_ONE);
}

/* The busy period is over: the next one has all of its budget. */
static __always_inline void budget_reset(struct core_ctx *core)
{
	if (!core->overlap_ns)
		return;
	core->overlap_ns = 0;
	core->charge_ns = 0;
	core->charged_ns = 0;
}

/* A critical task wakes for the core, in whose critical vector nobody waits. */
static __always_inline void budget_refresh(struct core_ctx *core, u64 now_ns)
{
	if (settings.budget_policy != BUDGET_REFRESH && settings.budget_policy != BUDGET_DYNAMIC)
		return;
	if (!core->overlap_ns || budget_used_ns(core, now_ns) >= settings.budget_ns)
		return;
	core->overlap_ns = now_ns;
	core->charged_ns = 0;
	if (core->charge_ns)
		core->charge_ns = now_ns;
}

#endif /* SIDELANE_BUDGET_BPF_H */
