/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What each lane does, and for how long.
 *
 * Problem: every other mechanism asks what the lanes of a core are doing.
 *
 * Rule: each lane has one state (enum lane_state). Its own callbacks write it; another CPU takes
 * a lane over, from idle to LANE_OTHER, for a task that it sends there, or ends its hold. Each change is one
 * atomic exchange, which counts in one word of the core how many lanes are in each
 * state (types.bpf.h). What a core is (idle, lent to batch, with room for batch) is
 * derived from that word, and says the sets in which it has to be. While nothing but normal work comes and goes it may stay
 * in more of them: a search takes it out.
 *
 * Cost: two atomic operations a change; a look at the core's sets where it could lack one.
 *
 * Does not: charge MT1-equivalent time; see pool.bpf.h and metrics.
 */
#ifndef SIDELANE_ACCOUNT_BPF_H
#define SIDELANE_ACCOUNT_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "vector.bpf.h"

/* Does a critical task wait for a lane of @core_id, or is it on its way there? */
static __always_inline bool critical_expected(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);

	return (core && core_claimed(core, now_ns)) || vector_waiting(core_id, CLASS_CRITICAL);
}

/* Does critical work run on @core_id, or is it expected there? */
static __always_inline bool core_critical(u32 core_id, u64 now_ns)
{
	return critical_expected(core_id, now_ns) || lanes_in_state(core_id, LANE_CRITICAL) > 0;
}

/* Of the fastest core. */
static __always_inline u32 fastest_capacity(void)
{
	struct core_ctx *first = core_ctx(0);

	return first ? first->capacity : 0;
}

/*
 * Speed of a lane of @core while @busy lanes of it run, as capacity * SPEED_ONE. Without
 * a known threadPerf sharing counts for nothing.
 */
static __always_inline u64 lane_speed(const struct core_ctx *core, u32 busy)
{
	u32 i = BOUNDED(busy ? busy - 1 : 0, MAX_LANES_PER_CORE);
	u32 speed = live.thread_perf[i];

	return (u64)core->capacity * (speed ? speed : SPEED_ONE);
}

/* Does a lane of @core_id idle that batch may use? */
VERIFIED_ONCE bool idles_for_batch(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core || !STATE_COUNT(states_of(core), LANE_IDLE))
		return false;
	bpf_for(i, first_for_batch(core), core->nr_lanes) {
		struct lane_ctx *lane = lane_ctx(core_lane(core, i));

		if (lane && lane->state == LANE_IDLE)
			return true;
	}
	return false;
}

#define IN_SET(set, member) ((u32)(member) << (set))

/* In which sets of cores a core is that critical work is expected on (@waiting), or where batch has to stay away. */
VERIFIED_ONCE u32 core_kinds(u32 core_id, bool waiting, bool closed)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 critical, batch, idle, kinds = 0;
	u64 states;

	if (!core)
		return 0;
	states = states_of(core);
	critical = STATE_COUNT(states, LANE_CRITICAL);
	batch = STATE_COUNT(states, LANE_BATCH);
	idle = STATE_COUNT(states, LANE_IDLE);
	if (!waiting && batch + idle == core->nr_lanes)
		kinds = batch ? IN_SET(CORES_LENT, 1) : IN_SET(CORES_IDLE, 1);
	kinds |= IN_SET(CORES_OPEN, !waiting && !critical);
	kinds |= IN_SET(CORES_FREE, batch + idle + STATE_COUNT(states, LANE_HELD) > 0);
	if (critical > 1 || (critical && core->capacity < fastest_capacity()))
		kinds |= IN_SET(CORES_SLOWED, 1);
	if (!idle || closed || core_parked(core_id))
		return kinds;
	kinds |= IN_SET(CORES_WITH_ROOM, 1);
	if (!first_for_batch(core) || idles_for_batch(core_id))
		kinds |= IN_SET(CORES_FOR_BATCH, 1);
	return kinds;
}

/* After a search took it out of a set, the sets of a core are exact for so long: who is searched often lags seldom. */
#define EXACT_NS 1000000ULL

/* Puts a core into the sets that its lanes' states put it into, and takes it out of the others. */
VERIFIED_ONCE int core_refresh(u32 core_id, u64 now_ns)
{
	struct core_word *word = core_word_of(core_id);
	struct core_ctx *core = core_ctx(core_id);
	bool waiting, open, lags;
	u32 kinds, set;
	u64 states;

	if (!core || !word)
		return 0;
	states = states_of(core);
	waiting = core_claimed(core, now_ns) || vector_waiting(core_id, CLASS_CRITICAL);
	open = !waiting && !STATE_COUNT(states, LANE_CRITICAL);
	lags = open && !core->unfit && now_ns >= core->settled_ns + EXACT_NS;
	core->derived = states | (lags ? 0 : CORE_UNSURE);
	hook_core_changes(core, core_id, states, waiting, now_ns);
	core->closed = !open && !hook_bears_batch(core_id, now_ns);
	kinds = core_kinds(core_id, waiting, core->closed);
	UNROLLED
	for (set = 0; set < CORES_QUEUED; set += 1)
		core_word_assign(word, set, core_id, kinds >> set & 1);
	return 0;
}

/* Lanes in these states, or what is not sure, make a core more than quiet: its sets are exact then. */
#define MORE_THAN_QUIET \
	(CORE_UNSURE | STATE_ALL(LANE_CRITICAL) | STATE_ALL(LANE_BATCH) | STATE_ALL(LANE_HELD))

/*
 * Is @core, which is in @states, in all sets in which it has to be? A quiet core, on which nothing but normal work comes
 * and goes, stays a member for as long as no more of it idles than when it was put there: most changes change no set.
 */
static __always_inline bool core_sets_hold(const struct core_ctx *core, u64 states)
{
	u64 derived = *(volatile const u64 *)&core->derived;

	if (states == derived)
		return true;
	return !hook_follows_all() && !((states | derived) & MORE_THAN_QUIET) &&
	       STATE_COUNT(states, LANE_IDLE) <= STATE_COUNT(derived, LANE_IDLE) &&
	       !first_meant_for_batch(core);
}

/* Brings the sets of a core up to date if they may lack it. */
static __always_inline void core_follow(const struct core_ctx *core, u32 core_id, u64 now_ns)
{
	if (!core_sets_hold(core, states_of(core)) || core->claim_ns ||
	    vector_hinted(core_id, CLASS_CRITICAL))
		core_refresh(core_id, now_ns);
}

/* Puts a quiet core into the sets that it changes between: all of it idles (@idles), a lane does (@room). */
static __always_inline void core_quiet_sets(const struct core_word *word, u32 core_id, bool idles,
					    bool room)
{
	core_word_assign(word, CORES_IDLE, core_id, idles);
	core_word_assign(word, CORES_FREE, core_id, room);
	room = room && !core_parked(core_id);
	core_word_assign(word, CORES_WITH_ROOM, core_id, room);
	core_word_assign(word, CORES_FOR_BATCH, core_id, room);
}

/* A search found nothing on @core_id: if that is quiet, takes it out of the sets into which it does not fit any more. */
VERIFIED_ONCE int core_settle(u32 core_id)
{
	struct core_word *word = core_word_of(core_id);
	struct core_ctx *core = core_ctx(core_id);
	u64 states;

	if (!core || !word)
		return 0;
	states = states_of(core);
	if (states == core->derived || ((states | core->derived) & MORE_THAN_QUIET))
		return 0;
	/* full barriers: a lane that falls idle meanwhile sees this, or its change is seen below */
	core->settled_ns = scx_bpf_now();
	__sync_lock_test_and_set(&core->derived, states | CORE_UNSURE);
	core_quiet_sets(word, core_id, STATE_COUNT(states, LANE_IDLE) == core->nr_lanes,
			STATE_COUNT(states, LANE_IDLE) > 0);
	if (states_of(core) != states)
		core_quiet_sets(word, core_id, true, true);
	return 0;
}

/* Do fewer lanes of @core_id than the SMT level run critical or normal work, but for the lane @cpu? */
VERIFIED_ONCE bool level_leaves(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);
	struct lane_ctx *lane = lane_ctx(cpu);
	u64 states;
	u32 busy;

	if (!core)
		return false;
	states = states_of(core);
	if (lane && lane->core == core_id)
		states -= STATE_ONE(lane->state);
	/* also those that are about to run something */
	busy = STATE_COUNT(states, LANE_CRITICAL) + STATE_COUNT(states, LANE_NORMAL) +
	       STATE_COUNT(states, LANE_OTHER);
	return busy < live.smt_level;
}

/*
 * May the lane @cpu run critical or normal work, beside the lanes of @core that already
 * do? The SMT level caps them; batch goes by its own rule (borrow.bpf.h).
 */
static __always_inline bool level_allows(const struct core_ctx *core, u32 core_id, s32 cpu)
{
	return core->nr_lanes <= live.smt_level || level_leaves(core_id, cpu);
}

/* Puts the lane of this CPU, of @core, into @state; the core's sets follow later. */
static __always_inline void lane_state_write(struct lane_ctx *lane, struct core_ctx *core,
					     u32 state, u64 now_ns)
{
	lane->since_ns = now_ns;
	lane_state_put(lane, core, state);
}

/* Before anything runs: counts the lanes of @core_id by the states that the loader gave them, and looks which cores are near. */
VERIFIED_ONCE int core_begin(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 states = 0;
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		struct lane_ctx *lane = lane_ctx(core_lane(core, i));

		if (lane)
			states += STATE_ONE(lane->state);
	}
	core->states = states;
	core->near = core_id;
	bpf_for(i, 0, core_id) {
		struct core_ctx *other = core_ctx(i);

		if (!other || other->cache != core->cache)
			continue;
		core->near = i;
		break;
	}
	core_refresh(core_id, scx_bpf_now());
	return 0;
}

/* Puts the lane of this CPU, of @core, into @state. */
static __always_inline void lane_set_state(struct lane_ctx *lane, struct core_ctx *core, u32 state,
					   u64 now_ns)
{
	lane_state_write(lane, core, state, now_ns);
	core_follow(core, lane->core, now_ns);
}

/* Charges @p for the time since it began to run, or was charged last. */
static __always_inline void account_run(struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	u32 class = task_class(tctx);
	u64 ran_ns = 0;

	if (now_ns > tctx->running_ns)
		ran_ns = now_ns - tctx->running_ns;
	tctx->running_ns = now_ns;
	tctx->burst_ns += ran_ns;
	count_add(run_ns[class], ran_ns);
	if (class == CLASS_NORMAL)
		tctx->vtime += hook_vtime(p, tctx, ran_ns);
	hook_ran(tctx, class, ran_ns, now_ns);
}

/* @p begins to run on @lane. */
static __always_inline void account_begins(struct task_struct *p, struct task_ctx *tctx,
					   struct lane_ctx *lane, u64 now_ns)
{
	u32 class = task_class(tctx);

	tctx->core = lane->core;
	tctx->running_ns = now_ns;
	tctx->queued_ns = 0;
	/* out of turn it has not the virtual time that normal work has reached */
	if (class == CLASS_NORMAL && !lane->overdue && time_before(vtime_now, tctx->vtime))
		vtime_now = tctx->vtime;
	count(switches[class]);
	lane->kthread = 0;
	lane->slice_ends_ns = now_ns + p->scx.slice;
	lane->job_ns = tctx->job_ns;
	lane->pid = p->pid;
	lane->marks = tctx->job_tid > 0;
	lane->rechecked = 0;
	lane->evict_ns = 0;
}

#define BURST_WEIGHT 8 /* earlier bursts together weigh 7 of 8 */

/* The task sleeps: its burst is over. */
static __always_inline void account_burst(struct task_ctx *tctx)
{
	tctx->burst_mean_ns = (tctx->burst_mean_ns * (BURST_WEIGHT - 1) + tctx->burst_ns) /
			      BURST_WEIGHT;
	tctx->burst_ns = 0;
}

#endif /* SIDELANE_ACCOUNT_BPF_H */
