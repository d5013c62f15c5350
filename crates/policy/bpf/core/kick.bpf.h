/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lanes that are woken to look for work.
 *
 * Problem: a lane that idles looks at no vector, and what waits may be for it.
 *
 * Rule: what makes room, or sends work that others could take, wakes the idle lanes that may run it; a lane
 * that falls idle looks once more, for work may have come after it looked and before it idled.
 *
 * Cost: one interrupt for each lane that is woken.
 *
 * Source: none.
 */
#ifndef SIDELANE_KICK_BPF_H
#define SIDELANE_KICK_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "vector.bpf.h"

/* May batch run on @lane now? */
static __always_inline bool lane_bears_batch(const struct lane_ctx *lane)
{
	struct core_ctx *core = core_ctx(lane->core);

	return core && lane->index >= first_for_batch(core) &&
	       hook_may_run(lane->core, CLASS_BATCH);
}

/* Does a lane in @state have nothing to do that would keep it from @class? One that is held is idle to critical work. */
static __always_inline bool idles_for(u32 state, u32 class)
{
	return state == LANE_IDLE || (state == LANE_HELD && class == CLASS_CRITICAL);
}

/* Wakes the idle lanes of @core_id that may run @class, but @self, so that they dispatch again. */
VERIFIED_ONCE int core_kick_idle(u32 core_id, u32 class, s32 self)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core || states_busy(core, states_of(core)) == core->nr_lanes)
		return 0;
	bpf_for(i, class == CLASS_BATCH ? first_for_batch(core) : 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && cpu != self && idles_for(lane->state, class))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/* The lanes of @core_id that are held look whether they still are: critical work may have gone for which they were. */
static __always_inline void held_look(u32 core_id)
{
	if (lanes_in_state(core_id, LANE_HELD))
		core_kick_idle(core_id, CLASS_CRITICAL, -1);
}

/*
 * The lane @cpu went from critical work to something else. If that was the last
 * critical work of the core, batch may come back, and lanes that were held beside it look whether they still are.
 */
VERIFIED_ONCE int core_reopen(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core || core_critical(core_id))
		return 0;
	__sync_fetch_and_add(&core->opened, 1);
	count(openings);
	if (lanes_in_state(core_id, LANE_HELD))
		core_kick_idle(core_id, CLASS_CRITICAL, cpu);
	else if (vector_waits(CLASS_BATCH))
		core_kick_idle(core_id, CLASS_BATCH, cpu);
	return 0;
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
		core = core_set_next(set, set, core + 1, ALL_CORES);
		if (core < 0)
			break;
		if (!core_parked(core) && hook_may_run(core, CLASS_BATCH))
			core_kick_idle(core, class, -1);
		else
			core_settle(core);
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
		       (vector_waiting(lane->core, CLASS_BATCH) && lane_bears_batch(lane));
	return vector_waits(CLASS_NORMAL) || (vector_waits(CLASS_BATCH) && lane_bears_batch(lane));
}

/*
 * The lane @cpu fell idle. Another lane may have queued work after it looked and before it was
 * idle; and below the SMT level a sibling may be busy now in its place, with work that
 * only that one may take.
 */
static __always_inline void idle_check(struct lane_ctx *lane, s32 cpu)
{
	struct core_ctx *core;
	u32 class;

	if (lane->rechecked || !waits_for(lane))
		return;
	core = core_ctx(lane->core);
	if (!core)
		return;
	lane->rechecked = 1;
	class = vector_waits(CLASS_CRITICAL) ? CLASS_CRITICAL : CLASS_NORMAL;
	if (idles_for(lane->state, class))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	if (core->nr_lanes > live.smt_level)
		core_kick_idle(lane->core, class, cpu);
}

/*
 * The lane @cpu, whose run queue is @rq, falls idle after a task that could have gone on. One that may not migrate for a moment
 * does not come to enqueue: the kernel has put it into the lane's own queue, once it had decided that nothing runs there.
 */
static __always_inline void stranded_check(const struct rq *rq, s32 cpu)
{
	if (rq && rq->scx.local_dsq.nr)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

#endif /* SIDELANE_KICK_BPF_H */
