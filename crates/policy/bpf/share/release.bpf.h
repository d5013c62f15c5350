/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a pool's period: its next allowance, and what was held goes on (throttle.bpf.h).
 */
#ifndef SIDELANE_RELEASE_BPF_H
#define SIDELANE_RELEASE_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"
#include "../core/arrive.bpf.h"
#include "../core/kick.bpf.h"
#include "../core/place.bpf.h"
#include "polarize.bpf.h"
#include "pool.bpf.h"
#include "throttle.bpf.h"
#include "../core/vector.bpf.h"

/* Between two looks at the pools, if no period ends before: a limit may be new. */
#define POOL_LOOK_NS 100000000ULL
/* No period is shorter, and no two looks are closer. */
#define POOL_LOOK_MIN_NS 1000000ULL

/* The lane to which @p goes, which was held, as what it is now; -1: it stays. */
VERIFIED_ONCE s32 release_lane(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	bool follows;

	if (!tctx)
		return -1;
	class_assign(p, tctx);
	return choose_lane(p, tctx, scx_bpf_task_cpu(p), -1, &follows);
}

/* Critical work of @budget goes to @core_id. Apart: in its caller's loop verifiers before 7.0 do not come back from timers. */
VERIFIED_ONCE int release_closes(u32 core_id, u32 budget, u64 now_ns)
{
	hook_critical_sent(core_id, budget, true, now_ns);
	return 0;
}

/*
 * A task that was @held is about to go to the vector of @core_id. It may run as soon as it is there,
 * so all that is to be known of it is noted before.
 */
static __always_inline void release_begins(const struct task_struct *p, struct task_ctx *tctx,
					   u32 held, u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 class = task_class(tctx);

	if (core && class == CLASS_CRITICAL && held == HELD_WOKE && none_waits(core, tctx))
		hook_critical_wakes(core, now_ns);
	if (class == CLASS_CRITICAL && !tctx->job_ns) /* it has become that meanwhile */
		tctx->job_ns = now_ns;
	vector_enter(p, tctx, core_id, now_ns);
	core_set_assign(CORES_QUEUED + class, core_id, true);
	if (class == CLASS_CRITICAL) {
		critical_sent(tctx, core_id);
		release_closes(core_id, tctx->budget, now_ns);
	}
}

/* It has left the queue by itself meanwhile. */
static __always_inline void release_fails(struct task_ctx *tctx)
{
	critical_leaves(tctx);
	vector_left(tctx);
}

/*
 * A held task is about to go on: from now on this alone places it (throttle_again()). How it came to its pool's queue; 0: it
 * has been placed since.
 */
static __always_inline u32 release_takes(struct task_ctx *tctx)
{
	u32 held = *(volatile u32 *)&tctx->held;

	return held && __sync_val_compare_and_swap(&tctx->held, held, HELD_GOES) == held ? held : 0;
}

/* It has gone, or is @held as before. What has come back to the queue meanwhile stays there. */
static __always_inline void release_ends(struct task_ctx *tctx, u32 held)
{
	__sync_val_compare_and_swap(&tctx->held, HELD_GOES, held);
}

/* Sends the tasks that @pool held to vectors, as far as they may run. */
static __always_inline bool throttle_release(u32 pool, u64 now_ns)
{
	struct task_struct *p;
	bool any = false;

	bpf_for_each(scx_dsq, p, HELD_ID(pool), 0) {
		struct task_ctx *tctx = task_ctx(p);
		const struct core_ctx *core;
		struct lane_ctx *lane;
		u32 stops, class, held;
		bool moved;
		s32 cpu;

		if (!tctx)
			continue;
		stops = pool_stops(p, tctx);
		if (stops && now_ns >= tctx->held_ns + THROTTLE_MAX_NS)
			tctx->pool_pass = 1;
		else if (stops == pool + 1)
			break; /* those behind it have waited less */
		else if (stops) {
			tctx->held_by = stops - 1;
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER, tctx->held_ns);
			scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p, HELD_ID(stops - 1), 0);
			throttle_begins(stops - 1, now_ns);
			continue;
		}
		held = release_takes(tctx);
		if (!held)
			continue;
		cpu = release_lane(p);
		lane = lane_ctx(cpu);
		if (!lane) {
			release_ends(tctx, held);
			continue;
		}
		class = task_class(tctx);
		release_begins(p, tctx, held, lane->core, now_ns);
		if (class == CLASS_BATCH)
			batch_enters(p, lane->core, cpu);
		scx_bpf_dsq_move_set_slice(BPF_FOR_EACH_ITER, slice_begins(tctx, now_ns));
		core = core_ctx(lane->core);
		if (core) /* what is held does not compete */
			vtime_begins(tctx, core->vtime);
		if (class != CLASS_BATCH) {
			scx_bpf_dsq_move_set_vtime(BPF_FOR_EACH_ITER,
						   class == CLASS_CRITICAL
							   ? old_order_ns(p, tctx, now_ns)
							   : tctx->vtime);
			moved = scx_bpf_dsq_move_vtime(BPF_FOR_EACH_ITER, p,
						       VECTOR_ID(lane->core, class), 0);
		} else {
			moved = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, VECTOR_ID(lane->core, class),
						 0);
		}
		if (!moved) {
			release_fails(tctx);
			release_ends(tctx, held);
			continue;
		}
		release_ends(tctx, 0);
		polar_need();
		kick_for(p, tctx, lane, cpu, false);
		any = true;
	}
	return any;
}

/* A period of @pool ends: what it has now. */
static __always_inline void pool_refill(const struct pool_limit *limit, struct pool *pool,
					u64 now_ns)
{
	s64 left_ns = pool->left_ns;

	pool->periods++;
	if (pool->held_since_ns) {
		pool->throttled++;
		/* @now_ns is of before the pools that came first were released */
		if (now_ns > pool->held_since_ns)
			pool->throttled_ns += now_ns - pool->held_since_ns;
		pool->held_since_ns = 0;
	}
	if (left_ns < 0 && (u64)-left_ns > pool->overdrawn_ns)
		pool->overdrawn_ns = -left_ns;
	/* lanes charge it meanwhile */
	__sync_fetch_and_add(&pool->left_ns,
			     left_ns > 0 ? limit->allowance_ns - left_ns : limit->allowance_ns);
}

/* A period of @id has ended, or its first one begins: it has its allowance, and so have its tasks. */
VERIFIED_ONCE int pool_period(u32 id, u64 now_ns)
{
	struct pool_limit *limit = pool_limit(id);
	struct pool *pool = pool_of(id);
	u64 period_ns;

	if (!limit || !pool)
		return 0;
	period_ns = limit->period_ns > POOL_LOOK_MIN_NS ? limit->period_ns : POOL_LOOK_MIN_NS;
	if (pool->ends_ns)
		pool_refill(limit, pool, now_ns);
	else
		pool->left_ns = limit->allowance_ns;
	pool->ends_ns = pool->ends_ns && pool->ends_ns + period_ns > now_ns
				? pool->ends_ns + period_ns
				: now_ns + period_ns;
	if (throttle_release(id, now_ns))
		rooms_kick_idle(CLASS_NORMAL); /* some may have been sent to the same core */
	if (scx_bpf_dsq_nr_queued(HELD_ID(id)) > 0)
		throttle_begins(id, now_ns);
	return 0;
}

/* Ends the periods whose time it is. When the next one ends, of those with a limit. */
static __always_inline u64 pool_periods(u64 now_ns)
{
	u64 next_ns = now_ns + POOL_LOOK_NS;
	u32 id;

	bpf_for(id, 0, fixed.nr_pools) {
		struct pool_limit *limit = pool_limit(id);
		struct pool *pool = pool_of(id);

		if (!limit || !pool)
			break;
		if (!limit->allowance_ns && !scx_bpf_dsq_nr_queued(HELD_ID(id)))
			continue;
		if (pool->ends_ns <= now_ns)
			pool_period(id, now_ns);
		if (pool->ends_ns < next_ns)
			next_ns = pool->ends_ns;
	}
	return next_ns;
}

/* Some period ends. */
static int pool_timer(void *map, u32 *key, struct core_timer *timer)
{
	u64 now_ns = scx_bpf_now(), next_ns = pool_periods(now_ns);

	bpf_timer_start(&timer->timer,
			next_ns > now_ns + POOL_LOOK_MIN_NS ? next_ns - now_ns : POOL_LOOK_MIN_NS,
			0);
	return 0;
}

/* Makes the queues of the pools, and gives them what they may use until their first periods begin. */
static __always_inline s32 pools_init(void)
{
	s32 err = 0;
	u32 id;

	bpf_for(id, 0, fixed.nr_pools) {
		struct pool_limit *limit = pool_limit(id);
		struct pool *pool = pool_of(id);

		if (limit && pool)
			pool->left_ns = limit->allowance_ns;
		err = scx_bpf_create_dsq(HELD_ID(id), -1);
		if (err)
			break;
	}
	return err;
}

GLOBAL u32 pools_begun; /* 1: their timer is set */

/*
 * Makes their timer, once; their first periods begin when it rings. Not from an operation that may
 * sleep: some kernels take the timer's function for one that may, too, which may not look at tasks.
 * The function is set without pools, too: until 7.0 the verifier counts the calls of one whose
 * setting it did not come past among the frames of this operation, which are 8 at most.
 */
static __always_inline s32 pools_begin(void)
{
	struct core_timer *timer = timer_of(TIMER_POOLS, 0);
	s32 err;

	if (pools_begun || __sync_val_compare_and_swap(&pools_begun, 0, 1))
		return 0;
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &core_timers, CLOCK_MONOTONIC);
	err = err ?: bpf_timer_set_callback(&timer->timer, pool_timer);
	if (err || !fixed.nr_pools)
		return err;
	return bpf_timer_start(&timer->timer, POOL_LOOK_MIN_NS, 0);
}

#endif /* SIDELANE_RELEASE_BPF_H */
