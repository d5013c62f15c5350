/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Work that waits while a lane idles.
 *
 * Problem: a wake-up and a lane that falls idle can miss each other, and a lane may be freed by a
 * change of which nothing is told: a sibling that is below the SMT level now, a budget, an affinity.
 *
 * Rule: the tick of a busy lane looks at the tasks that wait in the vector of its own core and in a few others, in
 * turn. If one of them may use an idle lane, all lanes with room have to look. A task that is bound has its lane woken
 * and no other. A task may wait for the lane of a waker that does not sleep: its tick makes it leave. What a real-time task, or
 * another of a higher class, has taken the lane from waits in the lane's own queue, where no other lane finds it: the tick of that
 * task has it placed anew. Most of them run for a moment, which takes no task from its caches. Before Linux 6.19 that cannot be
 * asked for in a tick, and what may use other lanes is placed anew at once.
 *
 * Cost: a tick, a look at the sets; where a lane idles as well, a search for each task looked at that may use other lanes than the first. What can use no
 * idle lane, such as several tasks that are bound to a busy one, wakes none.
 *
 * Source: none.
 */
#ifndef SIDELANE_MISSED_BPF_H
#define SIDELANE_MISSED_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "find.bpf.h"
#include "kick.bpf.h"
#include "place.bpf.h"
#include "vector.bpf.h"

/* How many vectors of other cores a tick looks at. */
#define MISSED_VECTORS 4
/*
 * It looks at so many tasks of each, and searches for so many: what may use the same lanes as the first one does as that. One
 * beyond is taken to fit, unless all were like the first.
 */
#define MISSED_LOOKS 256
#define MISSED_SEARCHES 32

/* An idle lane of @core_id, if @p, of @class, may use one there now; -1: none. */
VERIFIED_ONCE s32 missed_lane(struct task_struct *p __arg_trusted, u32 core_id, u32 class)
{
	struct core_ctx *core = core_ctx(core_id);
	bool batch = class == CLASS_BATCH;
	s32 cpu;

	if (!core || !hook_may_run(core_id, class))
		return -1;
	cpu = pick_lane(p, core_id, IDLE_STATES(class == CLASS_CRITICAL) | (batch ? FOR_BATCH : 0),
			-1);
	if (cpu < 0 || batch || level_allows(core, core_id, cpu))
		return cpu;
	return class == CLASS_CRITICAL && level_leaves(core_id, cpu, true) ? cpu : -1;
}

/* Has a core with room an idle lane that @p, of @class, may use? */
VERIFIED_ONCE bool missed_room(struct task_struct *p __arg_trusted, u32 class)
{
	u32 set = rooms_of(class), i;
	u64 allowed = allowed_cores(p);
	s32 id = -1;

	bpf_for(i, 0, nr_cores) {
		id = core_set_next(set, set, id + 1, allowed);
		if (id < 0)
			break;
		if (!core_parked(id) && hook_may_run(id, CLASS_BATCH) &&
		    missed_lane(p, id, class) >= 0)
			return true;
		core_settle(id);
	}
	return false;
}

/*
 * May @p, which waits on @core_id as @class, use an idle lane of that, of @here, or of a core with room? The lane to
 * which it is bound is woken at once.
 */
static __always_inline bool missed_fits(struct task_struct *p, u32 core_id, u32 class, u32 here)
{
	s32 cpu = missed_lane(p, core_id, class);

	if (!is_bound(p))
		return cpu >= 0 || missed_lane(p, here, class) >= 0 || missed_room(p, class);
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return false;
}

/* May @p use the same lanes as the first task that waits on @core_id as @class, which is another one? */
VERIFIED_ONCE bool missed_alike(struct task_struct *p __arg_trusted, u32 core_id, u32 class)
{
	struct task_struct *head;
	bool alike;

	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core_id, class));
	alike = head && head->pid != p->pid && bpf_cpumask_equal(head->cpus_ptr, p->cpus_ptr);
	bpf_rcu_read_unlock();
	return alike;
}

/* May one of the first tasks that wait on @core_id as @class, and are bound to no lane? */
VERIFIED_ONCE bool missed_any(u32 core_id, u32 class, u32 here)
{
	struct task_struct *p;
	bool fits = false;
	u32 looks = some_value(0),
	    searches = some_value(0); /* one round is like any other to the verifier */

	if (class >= NR_CLASSES)
		return false;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, class), 0) {
		bool beyond = looks++ >= MISSED_LOOKS;

		if (!beyond && missed_alike(p, core_id, class))
			continue;
		fits = beyond ? searches > 1 /* else all were like the first */
			      : searches++ >= MISSED_SEARCHES ||
					missed_fits(p, core_id, class, here);
		if (beyond || fits)
			break;
	}
	if (fits)
		core_kick_idle(core_id, class, -1);
	return fits;
}

/* May one of the first critical tasks that wait on @core_id use the lane @cpu, on which lower work runs? */
VERIFIED_ONCE bool missed_here(u32 core_id, s32 cpu)
{
	struct task_struct *p;
	bool fits = false;
	u32 looks = some_value(0);

	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_CRITICAL), 0) {
		fits = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
		if (fits || looks++ >= MISSED_SEARCHES)
			break;
	}
	return fits;
}

/* Looks at what waits as @class, from a tick of the lane @cpu. */
VERIFIED_ONCE int missed_look(s32 cpu, u32 class)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	bool fits;
	u32 i;

	if (!lane || class >= NR_CLASSES || !core_set_some(CORES_QUEUED + class))
		return 0;
	fits = vector_hinted(lane->core, class) && missed_any(lane->core, class, lane->core);
	bpf_for(i, 0, MISSED_VECTORS) {
		s32 id = fits ? -1
			      : core_set_around(CORES_QUEUED + class, CORES_QUEUED + class,
						lane->missed, -1, ALL_CORES);

		if (id < 0)
			break;
		lane->missed = id + 1;
		fits = missed_any(id, class, lane->core);
	}
	if (!fits)
		return 0;
	if (class != CLASS_BATCH)
		core_kick_idle(lane->core, class, -1);
	rooms_kick_idle(class);
	return 0;
}

/* The same for batch alone, from the tick of any task on the lane @cpu. */
static __always_inline void missed_batch(s32 cpu)
{
	if (core_set_some(CORES_FOR_BATCH))
		missed_look(cpu, CLASS_BATCH);
}

/* From the tick of @p, which runs on @lane. */
static __always_inline void missed_check(struct task_struct *p, struct task_ctx *tctx,
					 struct lane_ctx *lane, s32 cpu)
{
	next_waited(p, tctx, lane);
	if (!work_hinted())
		return;
	if (tctx->class != CLASS_CRITICAL && !lane->overdue &&
	    vector_waiting(lane->core, CLASS_CRITICAL) && missed_here(lane->core, cpu))
		scx_bpf_task_set_slice(p, 0);
	if (core_set_some(CORES_WITH_ROOM) || lanes_in_state(lane->core, LANE_IDLE) ||
	    lanes_in_state(lane->core, LANE_HELD)) {
		missed_look(cpu, CLASS_CRITICAL);
		missed_look(cpu, CLASS_NORMAL);
	}
	missed_batch(cpu);
}

/* Do ticks see to it? */
static __always_inline bool missed_sees_taken(void)
{
	if (__COMPAT_has_generic_reenq())
		return true;
	return __COMPAT_scx_bpf_reenqueue_local_from_anywhere();
}

/* From the tick of whatever runs on the lane @cpu. */
static __always_inline void missed_taken(s32 cpu)
{
	const struct rq *rq = rq_of(cpu);

	if (rq && rq->scx.local_dsq.nr && bpf_get_current_task_btf()->prio < MAX_RT_PRIO)
		scx_bpf_reenqueue_local_from_anywhere();
}

#endif /* SIDELANE_MISSED_BPF_H */
