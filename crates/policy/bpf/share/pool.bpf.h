/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pools: a group of tasks may use so much of the cores, and no more.
 *
 * Problem: an operator sells, or grants, a share of the machine. On a shared core an hour on a lane
 * is worth less than an hour on a core: counted in lane time, the same entitlement buys less work
 * with SMT than without it, and the less, the busier the siblings are.
 *
 * Rule: a pool is a cgroup with all below it. While its tasks run it is charged, by its choice,
 *   mt1    MT1-equivalent time: time on the lane x threadPerf[lanes of the core that are busy], as
 *          that changes; where the core has one lane, time on it;
 *   raw    time on the lane.
 * Each core has an MT1 clock, which goes at the speed of a lane at the present density; a task is
 * charged what the clock went on while it ran. A pool has an allowance for each period. Once that is
 * used up its tasks are held until the period ends (throttle.bpf.h), critical ones too, as with
 * the kernel's cpu.max. What it did not use is lost; what it used beyond is taken off the next
 * period's, so that on average it never gets more.
 *
 * Bound: a period is overdrawn by at most a tick of each lane that runs its tasks, since they are
 * charged and stopped at ticks; besides, each of its tasks that waits in a vector is sent away
 * when its turn comes.
 *
 * Pools within pools: a task is charged to the innermost pool that it is in and to all around that,
 * and runs while none of these is used up.
 *
 * Cost: with pools, a look at the lanes of a core at each change of one, and an atomic addition a
 * level when a task stops or ticks; nothing without.
 *
 * Source: z/VM SMT-2 performance report: CPU pools limited by capacity and by share, MT1-equivalent
 * time. There pools are charged for thread time, which is what Table 7 warns of.
 * Does not: charge kernel threads, which belong to no pool, nor interrupts.
 */
#ifndef SIDELANE_POOL_BPF_H
#define SIDELANE_POOL_BPF_H

#include "../core/types.bpf.h"

static __always_inline struct pool_limit *pool_limit(u32 pool)
{
	return bpf_map_lookup_elem(&sidelane_limits, &pool);
}

static __always_inline struct pool *pool_of(u32 pool)
{
	return bpf_map_lookup_elem(&sidelane_pools, &pool);
}

/* Brings the MT1 clock of @core up to @now_ns, from when on @busy of its lanes are busy. */
static __always_inline void clock_advance(struct core_ctx *core, u32 busy, u64 now_ns)
{
	u64 from_ns = core->clock_ns, before = core->mt1_speed;

	core->mt1_speed = thread_perf(core, busy);
	if (now_ns <= from_ns)
		return;
	/* two lanes at the same moment: one of them adds what has passed */
	if (__sync_val_compare_and_swap(&core->clock_ns, from_ns, now_ns) == from_ns)
		__sync_fetch_and_add(&core->mt1, (now_ns - from_ns) * before);
}

/* The MT1 clock of @core_id at @now_ns. */
VERIFIED_ONCE u64 clock_read(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return 0;
	clock_advance(core, lanes_busy(core_id), now_ns);
	return core->mt1;
}

/* Charges @pool, + 1, and the pools around it. */
VERIFIED_ONCE int pool_charge(u32 pool, u64 raw_ns, u64 mt1_ns)
{
	u32 depth;

	bpf_for(depth, 0, POOL_DEPTH_MAX) {
		struct pool_limit *limit = pool_limit(pool - 1);
		struct pool *used = pool_of(pool - 1);

		if (!limit || !used)
			break;
		__sync_fetch_and_add(&used->raw_ns, raw_ns);
		__sync_fetch_and_add(&used->mt1_ns, mt1_ns);
		if (limit->allowance_ns)
			__sync_fetch_and_sub(&used->left_ns,
					     limit->charge == POOL_CHARGE_RAW ? raw_ns : mt1_ns);
		pool = limit->parent;
	}
	return 0;
}

/* Of @pool, + 1, and those around it: the first that is used up, + 1; 0: none. */
VERIFIED_ONCE u32 pool_used_up(u32 pool)
{
	u32 depth;

	bpf_for(depth, 0, POOL_DEPTH_MAX) {
		struct pool_limit *limit = pool_limit(pool - 1);
		struct pool *used = pool_of(pool - 1);

		if (!limit || !used)
			break;
		if (limit->allowance_ns && (s64)used->left_ns <= 0)
			return pool;
		pool = limit->parent;
	}
	return 0;
}

/* A task begins to run, on the core that its context names. */
static __always_inline void pool_begins(struct task_ctx *tctx, u64 now_ns)
{
	if (fixed.nr_pools)
		tctx->mt1 = clock_read(tctx->core, now_ns);
}

/* A task ran for @ran_ns since it was charged last. */
static __always_inline void pool_account(struct task_ctx *tctx, u64 ran_ns, u64 now_ns)
{
	u64 from, mt1;

	if (!fixed.nr_pools)
		return;
	from = tctx->mt1;
	mt1 = clock_read(tctx->core, now_ns);
	tctx->mt1 = mt1;
	if (tctx->pool)
		pool_charge(tctx->pool, ran_ns,
			    time_before(from, mt1) ? (mt1 - from) / SPEED_ONE : 0);
}

/* The pool that keeps @p from running, + 1; 0: none. No task is kept from exiting. */
static __always_inline u32 pool_stops(const struct task_struct *p, const struct task_ctx *tctx)
{
	if (!fixed.nr_pools || !tctx->pool || tctx->pool_pass || (p->flags & PF_EXITING))
		return 0;
	return pool_used_up(tctx->pool);
}

#endif /* SIDELANE_POOL_BPF_H */
