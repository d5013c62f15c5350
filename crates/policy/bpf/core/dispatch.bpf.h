/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a lane runs next.
 *
 * Problem: a lane has to choose between what runs on it, what waits on its core and what waits on others.
 *
 * Rule: what is due by the starvation bound (overdue.bpf.h) comes first; then class by class, critical work first: the
 * oldest that waits (old.bpf.h), other work by vectors, that of the lane's core first (vector.bpf.h), then the task that runs. That one stays only
 * if nothing moves it elsewhere. For the SMT level of critical work normal work does not count. A lane that is held takes
 * critical work, and what may share the hold.
 *
 * Cost: a look at the sets of cores with waiting work; where there is none, nothing else.
 *
 * Source: z/VM: dispatch vectors.
 */
#ifndef SIDELANE_DISPATCH_BPF_H
#define SIDELANE_DISPATCH_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "kick.bpf.h"
#include "old.bpf.h"
#include "overdue.bpf.h"
#include "place.bpf.h"
#include "vector.bpf.h"

/* Lets @prev go on if nothing with a better claim waits. */
static __always_inline bool keep_running(struct task_struct *prev, struct task_ctx *tctx,
					 struct lane_ctx *lane, u64 now_ns)
{
	u64 slice_ns = slice_of(tctx);

	if (!hook_may_run(lane->core, task_class(tctx)))
		return false;
	if (tctx->class == CLASS_NORMAL)
		fair_alone(prev, tctx, lane);
	scx_bpf_task_set_slice(prev, slice_ns);
	lane->slice_ends_ns = now_ns + slice_ns;
	return true;
}

/* Class of @prev if it goes on running on @core_id unless something better is found, else NR_CLASSES. */
static __always_inline u32 class_of_prev(struct task_struct *prev, struct task_ctx *tctx,
					 u32 core_id, u64 now_ns)
{
	u32 class;

	if (!prev || !tctx)
		return NR_CLASSES;
	class = task_class(tctx);
	if (tctx->misclassified || parked_leaves(prev, class, core_id) ||
	    !hook_stays(prev, tctx, core_id) || hook_moves(prev, tctx, core_id, now_ns))
		return NR_CLASSES;
	return class;
}

/*
 * May @lane, the CPU @cpu, which may run critical and normal work by the SMT @level, serve @class by itself? Critical work has
 * precedence over normal work, which leaves the core if critical work still runs at the end of its slice.
 */
static __always_inline bool lane_serves(const struct lane_ctx *lane, s32 cpu, u32 class, bool level)
{
	if (class == CLASS_BATCH)
		return lane_bears_batch(lane);
	return level || (class == CLASS_CRITICAL && level_leaves(lane->core, cpu, true));
}

/* Takes what waits too long behind the class that @lane serves next by itself. */
static __always_inline bool take_overdue(const struct lane_ctx *lane, s32 cpu, u32 prev_class,
					 bool level, bool held, u64 now_ns)
{
	u32 class, own = NR_CLASSES;

	if (!overdue_expected(lane, now_ns))
		return false;
	UNROLLED
	for (class = 0; class < NR_CLASSES; class += 1) {
		if (own == NR_CLASSES && (!held || class == CLASS_CRITICAL) &&
		    (class == prev_class || vector_waiting(lane->core, class) ||
		     vector_waits(class)) &&
		    lane_serves(lane, cpu, class, level))
			own = class;
	}
	return overdue_take(cpu, own, now_ns);
}

/* Takes work of @class for the lane @cpu of @core_id, where else a task of that class goes on if it @goes_on. */
VERIFIED_ONCE bool take(u32 core_id, s32 cpu, u32 class, bool goes_on)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	u32 taken = TAKES_ON;

	if (class == CLASS_NORMAL && lane)
		taken = hook_takes(core_id, cpu, goes_on, lane);
	if (taken != TAKES_ON)
		return taken == TAKEN;
	if (class == CLASS_CRITICAL)
		return old_take(core_id, cpu, goes_on);
	if (class == CLASS_NORMAL && fixed.keep_lane && vector_take_own(core_id))
		return true;
	return vector_take(core_id, class) || vector_steal(core_id, class, NR_SIDES);
}

/* Finds something for the lane @cpu to run. False: nothing, and @prev, which could (NULL: none could), does not go on. */
static __always_inline bool find_work(struct lane_ctx *lane, struct core_ctx *core, s32 cpu,
				      struct task_struct *prev, u64 now_ns)
{
	struct task_ctx *tctx = prev ? task_ctx(prev) : NULL;
	bool queued = work_hinted(), level, held;
	u32 prev_class = class_of_prev(prev, tctx, lane->core, now_ns), class;

	/* a task that leaves the core to a running job has the lane take nothing else */
	if (prev_class == NR_CLASSES && (!queued || (tctx && tctx->yields)))
		return false;
	if (prev && tctx) { /* it is compared with what waits */
		account_lane(prev, tctx, lane, now_ns);
		lane->side = tctx->side;
	}
	level = level_allows(core, lane->core, cpu);
	held = hook_lane_is_held(lane, now_ns);
	if (queued && take_overdue(lane, cpu, prev_class, level, held, now_ns))
		return true;
	UNROLLED
	for (class = 0; class < NR_CLASSES; class += 1) {
		if (held && class != CLASS_CRITICAL)
			return level && hook_takes_held(lane->core, cpu);
		if (class != prev_class && !core_set_some(CORES_QUEUED + class))
			continue;
		if (!lane_serves(lane, cpu, class, level))
			continue;
		if (class == CLASS_CRITICAL && prev_class == NR_CLASSES &&
		    promote_takes(core, lane->core, cpu, !prev, now_ns))
			return false;
		if (core_set_some(CORES_QUEUED + class) &&
		    take(lane->core, cpu, class, class == prev_class))
			return true;
		if (class == prev_class && prev && tctx && keep_running(prev, tctx, lane, now_ns)) {
			if (lane->state == LANE_OTHER) { /* it was taken over */
				lane_set_state(lane, core, class, now_ns);
				hook_lane_runs(cpu, class, prev->pid);
			}
			return true;
		}
	}
	return false;
}

#endif /* SIDELANE_DISPATCH_BPF_H */
