/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Throttling: where tasks wait whose pool is used up.
 *
 * Problem: pool.bpf.h says which task may not run now. Such a task must not stand in a vector, where
 * lanes would take it over and over, and must not be forgotten either.
 *
 * Rule: each pool has a queue of its own. A task that wakes, or leaves its lane, while its pool is
 * used up waits there, ordered by since when it could not run. One that is in a vector already is
 * sent there when its turn comes. When the period ends, a timer gives the pool its next allowance
 * and, unless all of that is owed, sends those that wait to vectors as if they woke (release.bpf.h).
 *
 * Starvation: a task that could not run for THROTTLE_MAX_NS runs until the next tick,
 * whatever its pool has left: the kernel's watchdog would eject the scheduler otherwise.
 *
 * Cost: a timer; for each task that waits then a choice of lane, and a switch for
 * each that is sent back because the others used the allowance up.
 *
 * Source: as pool.bpf.h. The kernel throttles cpu.max in the same way.
 * Does not: know whether a task holds a lock of the kernel that others wait for.
 */
#ifndef SIDELANE_THROTTLE_BPF_H
#define SIDELANE_THROTTLE_BPF_H

#include "../core/types.bpf.h"
#include "pool.bpf.h"
#include "../core/vector.bpf.h"

/* Beside the vectors' ids, as if it were one class more. */
#define HELD_ID(pool) VECTOR_ID(pool, NR_CLASSES)
/* task_ctx.held: it is held, and before that it woke, or left a lane; it is about to go on. */
#define HELD_WOKE 1
#define HELD_LEFT 2
#define HELD_GOES 3
#define THROTTLE_MAX_NS (10 * NS_PER_S)

/* A task is held by @pool: its throttled time begins. */
static __always_inline void throttle_begins(u32 pool, u64 now_ns)
{
	struct pool *used = pool_of(pool);

	if (used && !used->held_since_ns)
		used->held_since_ns = now_ns;
}

/* Lets @p wait until @pool has an allowance again. The queue's order is not the vector's. */
static __always_inline void throttle_hold(struct task_struct *p, struct task_ctx *tctx, u32 pool,
					  bool woke, u64 enq_flags)
{
	u64 now_ns = scx_bpf_now();

	if (!tctx->held_ns)
		tctx->held_ns = now_ns;
	tctx->due_ns = 0; /* it does not wait for a lane */
	tctx->held = woke ? HELD_WOKE : HELD_LEFT;
	tctx->held_by = pool;
	throttle_begins(pool, now_ns);
	scx_bpf_dsq_insert_vtime(p, HELD_ID(pool), slice_of(tctx), tctx->held_ns, enq_flags);
}

/*
 * @p, which was held, is to be placed, for its affinity or the like has changed. True: it is held again, since release.bpf.h is
 * about to send it on, and notes that in its context.
 */
VERIFIED_ONCE bool throttle_again(struct task_struct *p __arg_trusted, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx || __sync_lock_test_and_set(&tctx->held, 0) != HELD_GOES)
		return false;
	throttle_hold(p, tctx, tctx->held_by, false, enq_flags);
	return true;
}

/* @p, which begins to run: sends it away if its pool is used up. */
static __always_inline void throttle_check(struct task_struct *p, struct task_ctx *tctx, s32 cpu)
{
	if (!fixed.nr_pools)
		return;
	if (pool_stops(p, tctx)) {
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return;
	}
	tctx->held_ns = 0;
	tctx->pool_pass = 0;
}

#endif /* SIDELANE_THROTTLE_BPF_H */
