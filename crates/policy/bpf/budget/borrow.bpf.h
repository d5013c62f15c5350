/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Closed cores: batch borrows lanes and gives them back.
 *
 * Problem: batch on a sibling lane slows a critical task by a third to a half,
 * however little it does; idle lanes on the other hand are capacity thrown away.
 *
 * Rule (borrow-idle): batch runs on a core only while no critical task runs on
 * any of its lanes and none waits in its vector. When a critical task is placed
 * on a core, the core closes: every lane that runs batch is kicked at once, from
 * the waker, before the critical task itself runs, and stays idle. To the batch
 * task that is a nap in the core's batch vector, from which an open core may
 * steal it. When the last critical task leaves, idle lanes are kicked to look at
 * the batch vector again. Batch that steps aside by itself is given until its next tick (nap.bpf.h).
 *
 * Between "this lane begins batch" and "that lane begins critical work" there is
 * no lock: each side writes its state with a full barrier, then looks at the
 * other, so that at least one of them sees the conflict and evicts.
 *
 * Cost: a kick (one interrupt) for each lane that runs batch when a core closes,
 * and one for each idle lane when it opens.
 *
 * With a budget (budget.bpf.h) a core with critical work stays open until that is used up.
 *
 * Source: Elfen (USENIX ATC 2016): borrow-idle. The source's batch threads watch the
 * sibling lane themselves and nap; here the scheduler does it for any program.
 * Not here: the lane signal.
 */
#ifndef SIDELANE_BORROW_BPF_H
#define SIDELANE_BORROW_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "../core/kick.bpf.h"
#include "../core/vector.bpf.h"
#include "objective.bpf.h"
#include "budget.bpf.h"

/* Must batch stay away from @core_id? */
VERIFIED_ONCE bool core_closed(u32 core_id)
{
	u64 now_ns = scx_bpf_now();

	return core_critical(core_id) && !budget_left(core_id, now_ns);
}

/* Asks batch to leave the lane @cpu. */
static __always_inline void evict_lane(struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	if (!lane->evict_ns) {
		lane->evict_ns = now_ns;
		count(evictions);
		objective_evicted(lane->core);
		hook_evicted(lane, cpu);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Asks batch to leave @core_id, if it has to. */
VERIFIED_ONCE int core_evict(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core || !core_closed(core_id))
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && lane->state == LANE_BATCH && !lane->overdue && !lane->steps_aside)
			evict_lane(lane, cpu, now_ns);
	}
	return 0;
}

/*
 * Closes a core: critical work runs there or is about to. While a budget is left, its
 * timer will.
 */
static __always_inline void core_close(u32 core_id, u64 now_ns)
{
	if (lanes_in_state(core_id, LANE_BATCH))
		core_evict(core_id, now_ns);
}

/* What ran on @lane leaves it: if it was asked to, how long that took. */
static __always_inline void borrow_ends(struct lane_ctx *lane, u64 now_ns)
{
	if (!lane->evict_ns)
		return;
	count_add(evict_wait_ns, now_ns > lane->evict_ns ? now_ns - lane->evict_ns : 0);
	lane->evict_ns = 0;
}

/* Sees to it that the core closes when its budget is used up, after @least_ns at the earliest. */
VERIFIED_ONCE int budget_arm(u32 core_id, u64 now_ns, u64 least_ns)
{
	struct core_timer *timer = bpf_map_lookup_elem(&core_timers, &core_id);
	struct core_ctx *core = core_ctx(core_id);
	u64 after_ns;

	if (!core || !timer || core->nr_lanes == 1) /* nothing can run beside */
		return 0;
	after_ns = budget_remaining_ns(core, now_ns);
	if (after_ns)
		bpf_timer_start(&timer->timer, after_ns > least_ns ? after_ns : least_ns, 0);
	return 0;
}

/* The budget of a core may be used up: by now, or else later. */
static int budget_timer(void *map, u32 *key, struct core_timer *timer)
{
	u64 now_ns = scx_bpf_now();
	u32 core_id = *key;
	struct core_ctx *core = core_ctx(core_id);
	bool left;

	if (core_id == nr_cores) {
		if (objective_windows(now_ns))
			window_arm();
		else
			window_armed = 0;
		return 0;
	}
	if (!core || !core_critical(core_id))
		return 0; /* the next busy period sets it again */
	left = budget_left(core_id, now_ns);
	/* where what waits closes the core, its own clock goes on */
	budget_arm(core_id, now_ns, left ? 0 : BUDGET_WAITS_NS);
	if (left)
		return 0;
	core->closed = lanes_in_state(core_id, LANE_CRITICAL) > 0;
	core_close(core_id, now_ns);
	return 0;
}

/* Makes the core's timer, or that of the windows. */
static __always_inline s32 budget_init(u32 core_id)
{
	struct core_timer *timer = bpf_map_lookup_elem(&core_timers, &core_id);
	s32 err;

	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &core_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&timer->timer, budget_timer);
}

/* A task begins to run on @cpu: what should not run beside it is evicted. */
static __always_inline void borrow_check(struct task_struct *p, struct lane_ctx *lane, s32 cpu,
					 u64 now_ns)
{
	if (lane->state == LANE_CRITICAL)
		core_close(lane->core, now_ns);
	else if (lane->state == LANE_BATCH && !lane->overdue && !lane->steps_aside &&
		 core_closed(lane->core) && !is_bound_now(p))
		evict_lane(lane, cpu, now_ns);
}

#endif /* SIDELANE_BORROW_BPF_H */
