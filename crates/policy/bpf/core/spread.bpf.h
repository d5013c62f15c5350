/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Spreading: normal work that shares a core moves to one that idles. Gathering: threads of a program share cores.
 *
 * Problem: a task that never sleeps stays where it began. What shared a core then shares it for ever,
 * also when other cores have fallen idle since.
 *
 * Rule: when its slice is over, a normal task that ran all of it beside critical or normal work
 * leaves its lane if a whole idle core is there that it may use and where it is faster
 * (find_roomier()), as when it wakes (place.bpf.h). Of several that would leave at once each
 * takes a core of its own: one of which a lane was taken over does not idle any more.
 *
 * With vertical polarization only to cores that are awake.
 *
 * Cost: at the end of a slice of normal work a look at the bitmap of idle cores.
 *
 * Source: none of the five: the kernel's default scheduler balances load, and so must one in its place.
 *
 * Gathering (fixed.gather): the threads of a program, in the order in which they came, are sets of as many as a core has lanes, GATHER_SETS
 * at most; one that wakes goes to an idle lane of the core where one of its set began to run last, also beside others, if there is such a lane. That
 * pulls together what sleeps; what never does is spread. Cost: a look at the program's first thread at each wake-up and switch of normal work.
 *
 * Source: z/VM SMT-2 performance report: "because of features of the reshuffle algorithm, there is a tendency to place guest virtual CPUs together
 * in the same DV". How, it does not say.
 */
#ifndef SIDELANE_SPREAD_BPF_H
#define SIDELANE_SPREAD_BPF_H

#include "types.bpf.h"
#include "account.bpf.h"
#include "kick.bpf.h"
#include "place.bpf.h"

/* A lane of an idle core on which @p, normal and at the end of its slice on @core_id, is better off; -1. */
VERIFIED_ONCE s32 spread_lane(struct task_struct *p __arg_trusted, u32 core_id)
{
	u64 states = core_states(core_id);
	u32 shared;
	s32 id;

	shared = STATE_COUNT(states, LANE_CRITICAL) + STATE_COUNT(states, LANE_NORMAL);
	id = find_roomier(p, core_id, shared, cores_for(p, CLASS_NORMAL));
	return id >= 0 ? pick_lane(p, id, STATE(LANE_IDLE), -1) : -1;
}

/* @p does not go where it was to: that lane finds out that it is still idle. */
static __always_inline void spread_drop(struct task_ctx *tctx)
{
	if (!tctx->spread_lane)
		return;
	scx_bpf_kick_cpu(tctx->spread_lane - 1, SCX_KICK_IDLE);
	tctx->spread_lane = 0;
}

/* Takes such a lane over for @p, which leaves @core_id then. False: it stays. */
static __always_inline bool spread_moves(struct task_struct *p, struct task_ctx *tctx, u32 core_id)
{
	struct lane_ctx *lane;
	struct core_ctx *core;
	s32 cpu;

	if (tctx->class != CLASS_NORMAL || tctx->burst_ns < fixed.slice_ns[CLASS_NORMAL] ||
	    !core_set_any(CORES_IDLE, core_id) || is_bound_now(p))
		return false;
	spread_drop(tctx); /* some kernels ask again before @p leaves */
	cpu = spread_lane(p, core_id);
	lane = lane_ctx(cpu);
	core = lane ? core_ctx(lane->core) : NULL;
	if (!core || lane_state_take(lane, core, LANE_IDLE, LANE_OTHER) != LANE_IDLE)
		return false;
	tctx->spread_lane = cpu + 1;
	return true;
}

/* Sends @p, which has left its lane, to the one that was taken over for it; false: it has none. */
static __always_inline bool spread_send(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	s32 cpu = tctx->spread_lane - 1;
	struct lane_ctx *lane = tctx->spread_lane ? lane_ctx(cpu) : NULL;

	if (!lane || (enq_flags & SCX_ENQ_WAKEUP) || tctx->class != CLASS_NORMAL ||
	    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || is_bound_now(p)) {
		spread_drop(tctx);
		return false;
	}
	tctx->spread_lane = 0;
	vector_left(tctx);
	vtime_moves(tctx, lane->core);
	tctx->queued_ns = scx_bpf_now();
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, fixed.slice_ns[CLASS_NORMAL], enq_flags);
	return true;
}

/* The place of @p's set among those of its program, whose first thread has @first. */
static __always_inline u32 *mates_of(const struct task_ctx *tctx, struct task_ctx *first)
{
	const struct core_ctx *core = core_ctx(tctx->core);
	u32 lanes = core && core->nr_lanes ? core->nr_lanes : 1;

	return &first->mates[BOUNDED(tctx->number / lanes % GATHER_SETS, GATHER_SETS)];
}

/* @p is one more thread of its program. */
VERIFIED_ONCE int gather_counts(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p), *first;

	bpf_rcu_read_lock();
	first = p->group_leader ? task_ctx(p->group_leader) : NULL;
	if (tctx && first)
		tctx->number = __sync_fetch_and_add(&first->threads, 1);
	bpf_rcu_read_unlock();
	return 0;
}

/* @p, normal, begins to run on its core: its set is there. */
VERIFIED_ONCE int gather_notes(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p), *first;
	u32 *mates;

	bpf_rcu_read_lock();
	first = p->group_leader ? task_ctx(p->group_leader) : NULL;
	if (tctx && first) {
		mates = mates_of(tctx, first);
		if (*mates != tctx->core + 1)
			*mates = tctx->core + 1;
	}
	bpf_rcu_read_unlock();
	return 0;
}

/* An idle lane of the core where the set of @p, which is normal and wakes, was last; -1: there is none. */
VERIFIED_ONCE s32 gather_lane(struct task_struct *p __arg_trusted, s32 prev)
{
	struct task_ctx *tctx = task_ctx(p), *first;
	u32 id = nr_cores;
	struct core_ctx *core;
	s32 cpu;

	bpf_rcu_read_lock();
	first = p->group_leader ? task_ctx(p->group_leader) : NULL;
	if (tctx && first && first->threads > 1)
		id = *mates_of(tctx, first) - 1;
	bpf_rcu_read_unlock();
	core = core_ctx(id);
	if (!core || id >= cores_for(p, CLASS_NORMAL) || core_critical(id))
		return -1;
	cpu = pick_lane(p, id, STATE(LANE_IDLE), prev);
	return cpu >= 0 && level_allows(core, id, cpu) ? cpu : -1;
}

#endif /* SIDELANE_SPREAD_BPF_H */
