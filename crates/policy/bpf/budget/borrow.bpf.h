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
 * the batch vector again.
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

#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "../core/vector.bpf.h"
#include "objective.bpf.h"
#include "../see/trace.bpf.h"

/* May batch run on @core_id now? */
static __always_inline bool borrow_allowed(u32 core_id)
{
	return !core_closed(core_id);
}

/* May batch run on @lane now? */
static __always_inline bool borrow_allows(const struct lane_ctx *lane)
{
	struct core_ctx *core = core_ctx(lane->core);

	return core && lane->index >= first_for_batch(core) && borrow_allowed(lane->core);
}

/* Asks batch to leave the lane @cpu. */
static __always_inline void evict_lane(struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	if (!lane->evict_ns) {
		lane->evict_ns = now_ns;
		count(evictions);
		objective_evicted(lane->core);
		if (live.trace)
			trace_eviction(lane->pid, cpu, lane->core);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/*
 * Closes a core: critical work runs there or is about to. While a budget is left, its
 * timer will.
 */
VERIFIED_ONCE int core_close(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core || !STATE_COUNT(states_of(core), LANE_BATCH) || borrow_allowed(core_id))
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && lane->state == LANE_BATCH && !lane->overdue)
			evict_lane(lane, cpu, now_ns);
	}
	return 0;
}

/* Wakes the idle lanes of @core_id that may run @class, but @self, so that they dispatch again. */
VERIFIED_ONCE int core_kick_idle(u32 core_id, u32 class, s32 self)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core || !STATE_COUNT(states_of(core), LANE_IDLE))
		return 0;
	bpf_for(i, class == CLASS_BATCH ? first_for_batch(core) : 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && cpu != self && lane->state == LANE_IDLE)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/*
 * The lane @cpu went from critical work to something else. If that was the last
 * critical work of the core, batch may come back.
 */
VERIFIED_ONCE int core_reopen(u32 core_id, s32 cpu)
{
	core_refresh(core_id, scx_bpf_now());
	if (!borrow_allowed(core_id))
		return 0;
	count(openings);
	if (vector_waits(CLASS_BATCH))
		core_kick_idle(core_id, CLASS_BATCH, cpu);
	return 0;
}

/* Sees to it that the core closes when its budget is used up. */
static __always_inline void budget_arm(u32 core_id, u64 now_ns)
{
	struct core_timer *timer = bpf_map_lookup_elem(&core_timers, &core_id);
	struct core_ctx *core = core_ctx(core_id);
	u64 after_ns;

	if (!core || !timer)
		return;
	after_ns = budget_remaining_ns(core, now_ns);
	if (after_ns)
		bpf_timer_start(&timer->timer, after_ns, 0);
}

/* The budget of a core may be used up: by now, or else later. */
static int budget_timer(void *map, u32 *key, struct core_timer *timer)
{
	u64 now_ns = scx_bpf_now();
	u32 core_id = *key;
	struct core_ctx *core = core_ctx(core_id);

	if (core_id == nr_cores) {
		if (objective_windows(now_ns))
			window_arm();
		else
			window_armed = 0;
		return 0;
	}
	if (!core || (!core->expected && !core_critical(core_id, now_ns)))
		return 0; /* the next busy period sets it again */
	if (budget_left(core_id, now_ns)) {
		budget_arm(core_id, now_ns);
		return 0;
	}
	core_refresh(core_id, now_ns);
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

/* A critical task is sent to @core_id, which its context names. */
static __always_inline void critical_sent(struct task_ctx *tctx, u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return;
	if (!tctx->expected)
		__sync_fetch_and_add(&core->expected, 1);
	tctx->expected = 1;
	budget_enter(core_id, tctx->budget);
	core->claim_ns = now_ns;
	core_refresh(core_id, now_ns);
}

/* A critical task no longer waits for the core to which it was sent. */
static __always_inline void critical_gone(struct task_ctx *tctx)
{
	struct core_ctx *core = tctx->expected ? core_ctx(tctx->core) : NULL;

	if (!core)
		return;
	tctx->expected = 0;
	if (__sync_fetch_and_sub(&core->expected, 1) != 1)
		return;
	core->claim_ns = 0;
	core->derived = CORE_UNSURE;
}

/*
 * A critical task begins to run on @core_id. If it was sent to another core, a lane of
 * which this is not, that one may open.
 */
static __always_inline void critical_arrived(struct task_ctx *tctx, u32 core_id)
{
	budget_enter(core_id, tctx->budget);
	if (!tctx->expected)
		return;
	critical_gone(tctx);
	if (tctx->core != core_id)
		core_reopen(tctx->core, -1);
}

/* Is the task bound to its CPU for a moment? */
static __always_inline bool is_bound_now(const struct task_struct *p)
{
	s32 disabled = 0;

	if (bpf_core_field_exists(p->migration_disabled))
		disabled = p->migration_disabled;
	/* the program that asks disables migration of the current task */
	if (p == bpf_get_current_task_btf())
		disabled--;
	return disabled > 0;
}

/* Batch that cannot leave now: exiting, or bound to its CPU for a moment. */
static __always_inline bool batch_is_stuck(const struct task_struct *p)
{
	return (p->flags & PF_EXITING) || is_bound_now(p);
}

/* A task begins to run on @cpu: whoever should not run beside it is evicted. */
static __always_inline void borrow_check(struct task_struct *p, struct lane_ctx *lane, s32 cpu,
					 u64 now_ns)
{
	if (lane->state == LANE_CRITICAL)
		core_close(lane->core, now_ns);
	else if (lane->state == LANE_BATCH && !lane->overdue && !borrow_allowed(lane->core) &&
		 !batch_is_stuck(p))
		evict_lane(lane, cpu, now_ns);
}

/* The set of cores that have an idle lane for @class. */
static __always_inline u32 rooms_of(u32 class)
{
	return class == CLASS_BATCH ? CORES_FOR_BATCH : CORES_WITH_ROOM;
}

/* Wakes the idle lanes of all open cores that may run @class. */
VERIFIED_ONCE int rooms_kick_idle(u32 class)
{
	u32 set = rooms_of(class), i;
	s32 core = -1;

	bpf_for(i, 0, nr_cores) {
		core = core_set_next(set, set, core + 1);
		if (core < 0)
			break;
		if (borrow_allowed(core))
			core_kick_idle(core, class, -1);
	}
	return 0;
}

/* Is there work that @lane takes? */
static __always_inline bool waits_for(const struct lane_ctx *lane)
{
	if (!work_hinted())
		return false;
	if (vector_waits(CLASS_CRITICAL))
		return true;
	if (core_parked(lane->core)) /* left from before, or for this core only */
		return vector_waiting(lane->core, CLASS_NORMAL) ||
		       (vector_waiting(lane->core, CLASS_BATCH) && borrow_allows(lane));
	return vector_waits(CLASS_NORMAL) || (vector_waits(CLASS_BATCH) && borrow_allows(lane));
}

/*
 * The lane @cpu fell idle. Somebody may have queued work after it looked and before it was
 * idle; and below the SMT level a sibling may be busy now in its place, with work that
 * only that one may take.
 */
static __always_inline void idle_check(struct lane_ctx *lane, s32 cpu)
{
	struct core_ctx *core;

	if (lane->rechecked || !waits_for(lane))
		return;
	core = core_ctx(lane->core);
	if (!core)
		return;
	lane->rechecked = 1;
	if (lane->state != LANE_HELD)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (core->nr_lanes > live.smt_level)
		core_kick_idle(lane->core, CLASS_NORMAL, cpu);
}

#endif /* SIDELANE_BORROW_BPF_H */
