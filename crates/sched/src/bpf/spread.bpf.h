/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spreading: normal work that shares a core moves to one that idles.
 *
 * Problem: a task that never sleeps stays where it began. What shared a core then shares it for ever,
 * also when other cores have fallen idle since.
 *
 * Rule: when its slice is over, a normal task that ran all of it beside critical or normal work
 * leaves its lane if a whole idle core is there that it may use, and that is faster than its lane
 * beside the others (capacity * threadPerf; where threadPerf is not known: that is not slower).
 * place.bpf.h then sends it there. Of several that would leave at once each takes a core of its own:
 * one that normal work was sent to counts as idle no longer.
 *
 * With vertical polarization only to cores that are awake.
 *
 * Cost: at the end of a slice of normal work a look at the bitmap of idle cores.
 *
 * Source: none of the five: the kernel's default scheduler balances load, and so must one in its place.
 */
#ifndef SIDELANE_SPREAD_BPF_H
#define SIDELANE_SPREAD_BPF_H

#include "types.bpf.h"
#include "account.bpf.h"
#include "place.bpf.h"

/* Is the idle core @id better for normal work than a lane of @core, of which @busy run? */
static __always_inline bool spread_pays(const struct core_ctx *core, u32 busy, s32 id)
{
	struct core_ctx *other = core_ctx(id);

	if (!other)
		return false;
	if (!settings.thread_perf[1])
		return other->capacity >= core->capacity;
	return lane_speed(other, 1) > lane_speed(core, busy);
}

/* A lane of an idle core on which @p, normal and at the end of its slice on @core_id, is better off; -1. */
VERIFIED_ONCE s32 spread_lane(struct task_struct *p __arg_trusted, u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	struct task_ctx *tctx = task_ctx(p);
	u64 states;
	u32 shared;
	s32 id;

	if (!core || !tctx || tctx->burst_ns < settings.slice_ns[CLASS_NORMAL] ||
	    !core_set_any(CORES_IDLE, core_id))
		return -1;
	states = core_states(core_id);
	shared = STATE_COUNT(states, LANE_CRITICAL) + STATE_COUNT(states, LANE_NORMAL);
	if (shared < 2)
		return -1;
	id = find_core(p, CORES_IDLE, STATE(LANE_IDLE), core_id, cores_for(p, CLASS_NORMAL));
	if (id < 0 || !spread_pays(core, shared, id))
		return -1;
	return pick_lane(p, id, STATE(LANE_IDLE), -1);
}

/* Does @p leave @core_id for such a lane? It is taken over for it then. */
static __always_inline bool spread_leaves(struct task_struct *p, struct task_ctx *tctx, u32 core_id)
{
	struct lane_ctx *lane;
	struct core_ctx *core;
	s32 cpu;

	if (tctx->class != CLASS_NORMAL || is_bound_now(p))
		return false;
	cpu = spread_lane(p, core_id);
	lane = lane_ctx(cpu);
	core = lane ? core_ctx(lane->core) : NULL;
	if (!core || lane_state_take(lane, core, LANE_IDLE, LANE_OTHER) != LANE_IDLE)
		return false;
	core->normal_ns = scx_bpf_now();
	tctx->spread_lane = cpu + 1;
	return true;
}

/* @p does not go where it was to: that lane finds out that it is still idle. */
static __always_inline void spread_drop(struct task_ctx *tctx)
{
	if (!tctx->spread_lane)
		return;
	scx_bpf_kick_cpu(tctx->spread_lane - 1, SCX_KICK_IDLE);
	tctx->spread_lane = 0;
}

/* Sends @p, which has left its lane, to the one that was taken over for it; false: it has none. */
static __always_inline bool spread_send(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	s32 cpu = tctx->spread_lane - 1;
	struct lane_ctx *lane = lane_ctx(cpu);

	if (!lane || (enq_flags & SCX_ENQ_WAKEUP) || tctx->class != CLASS_NORMAL ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || is_bound_now(p)) {
		spread_drop(tctx);
		return false;
	}
	tctx->spread_lane = 0;
	vector_left(tctx);
	tctx->core = lane->core;
	tctx->queued_ns = scx_bpf_now();
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, settings.slice_ns[CLASS_NORMAL], enq_flags);
	return true;
}

#endif /* SIDELANE_SPREAD_BPF_H */
