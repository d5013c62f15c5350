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
 * derived from that word, and says the sets in which it has to be. It may stay in more of them: a search that meets it there
 * takes it out. What is on its way to a core, searches look at, too: no set changes for it.
 *
 * Cost: two atomic operations a change.
 *
 * Does not: charge MT1-equivalent time; see pool.bpf.h and metrics.
 */
#ifndef SIDELANE_ACCOUNT_BPF_H
#define SIDELANE_ACCOUNT_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "vector.bpf.h"

/* Does critical work run on @core_id, or is it expected there? */
static __always_inline bool core_critical(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	return core && (critical_expected(core) || STATE_COUNT(states_of(core), LANE_CRITICAL));
}

/* Of the fastest core. */
static __always_inline u32 fastest_capacity(void)
{
	struct core_ctx *first = core_ctx(0);

	return first ? first->capacity : 0;
}

/* Speed of a lane of @core while @busy lanes of it run, as capacity * SPEED_ONE. */
static __always_inline u64 lane_speed(const struct core_ctx *core, u32 busy)
{
	return (u64)core->capacity * thread_perf(core, busy);
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

/* In which sets of cores @core has to be while its lanes are in @states, but for those of cores with room. */
static __always_inline u32 core_kinds_by_lanes(const struct core_ctx *core, u64 states)
{
	u32 critical = STATE_COUNT(states, LANE_CRITICAL);
	u32 batch = STATE_COUNT(states, LANE_BATCH), idle = STATE_COUNT(states, LANE_IDLE);
	u32 kinds = IN_SET(CORES_FREE, batch + idle + STATE_COUNT(states, LANE_HELD) > 0);

	if (!critical)
		kinds |= IN_SET(CORES_OPEN, 1);
	else if (critical > 1 || core->capacity < fastest_capacity())
		kinds |= IN_SET(CORES_SLOWED, 1);
	if (batch + idle == core->nr_lanes)
		kinds |= batch ? IN_SET(CORES_LENT, 1) : IN_SET(CORES_IDLE, 1);
	return kinds;
}

/* The same with all of them. */
static __always_inline u32 core_kinds(const struct core_ctx *core, u32 core_id, u64 states)
{
	u32 kinds = core_kinds_by_lanes(core, states);

	if (!(states & (STATE_ALL(LANE_IDLE) | STATE_ALL(LANE_HELD))) || core_parked(core_id) ||
	    (STATE_COUNT(states, LANE_CRITICAL) && !hook_bears_batch(core)))
		return kinds;
	kinds |= IN_SET(CORES_WITH_ROOM, 1);
	if (STATE_COUNT(states, LANE_IDLE) && (!first_for_batch(core) || idles_for_batch(core_id)))
		kinds |= IN_SET(CORES_FOR_BATCH, 1);
	return kinds;
}

/* Is @core of the kind that @set has, none of those of cores with room, and not only a member still? */
static __always_inline bool core_is(const struct core_ctx *core, u32 set)
{
	return core_kinds_by_lanes(core, states_of(core)) >> set & 1;
}

/* Of the sets @changes, a bit each, puts @core_id into those that are in @kinds, and takes it out of the others. */
VERIFIED_ONCE int core_change_sets(u32 core_id, u32 kinds, u32 changes)
{
	u32 set, i;

	bpf_for(i, 0, CORES_QUEUED) {
		if (!changes)
			break;
		set = __builtin_ctz(changes);
		changes &= changes - 1;
		core_set_put(set, core_id, kinds >> set & 1);
	}
	return 0;
}

/* Makes @core_id a member of the sets of @kinds, and of no other if @only those. */
static __always_inline void core_join(u32 core_id, u32 kinds, bool only)
{
	struct core_word *word = core_word_of(core_id);
	u32 set, changes = kinds;

	if (!word)
		return;
	UNROLLED
	for (set = 0; set < CORES_QUEUED; set += 1)
		changes ^= IN_SET(set, word->sets[set] >> (core_id & 63) & 1);
	if (!only)
		changes &= kinds;
	if (changes)
		core_change_sets(core_id, kinds, changes);
}

/* What core_update() does beside putting a core into the sets into which its lanes' states put it. */
enum updates {
	UPDATE_JOINS, /* nothing */
	UPDATE_EXACT, /* takes it out of all others */
	UPDATE_SETTLES, /* the same, for a search that found nothing there */
};

/* After a search took it out of a set, the sets of a core are exact for so long: a core that is searched often lags seldom. */
#define EXACT_NS 1000000ULL

/*
 * Brings the sets up to date of which a core is a member. Full barriers: a lane that changes meanwhile sees the new kinds,
 * or its change is seen below; of two that come here, one sees that the other did.
 */
VERIFIED_ONCE int core_update(u32 core_id, u32 how)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 kinds, now;

	if (!core)
		return 0;
	kinds = some_value(core_kinds(core, core_id, states_of(core)));
	if (how == UPDATE_JOINS) {
		kinds |= __sync_fetch_and_or(&core->kinds, kinds);
		core_join(core_id, kinds, false);
		return 0;
	}
	if (how == UPDATE_SETTLES) {
		if (kinds == core->kinds)
			return 0;
		core->settled_ns = scx_bpf_now();
	}
	__sync_lock_test_and_set(&core->kinds, kinds);
	core_join(core_id, kinds, true);
	now = some_value(core_kinds(core, core_id, states_of(core)));
	if (now == kinds && *(volatile u32 *)&core->kinds == kinds)
		return 0;
	now |= __sync_fetch_and_or(&core->kinds, now);
	core_join(core_id, now, false);
	return 0;
}

/* A search found nothing on @core_id: takes it out of the sets into which it does not fit any more. */
static __always_inline void core_settle(u32 core_id)
{
	core_update(core_id, UPDATE_SETTLES);
}

/* Normal work only makes a core a member of these; lanes in the others of states, of more. */
#define QUIET_KINDS                                                              \
	(IN_SET(CORES_IDLE, 1) | IN_SET(CORES_OPEN, 1) | IN_SET(CORES_FREE, 1) | \
	 IN_SET(CORES_WITH_ROOM, 1) | IN_SET(CORES_FOR_BATCH, 1))
#define MORE_THAN_QUIET (STATE_ALL(LANE_CRITICAL) | STATE_ALL(LANE_BATCH) | STATE_ALL(LANE_HELD))

/*
 * The lanes of @core_id have changed, or what decides besides in which sets it is. It has to be in all that are for it; that
 * it stays in others is found out by searches.
 */
VERIFIED_ONCE int core_changed(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 kinds, known, left;
	u64 states;
	bool exact;

	if (!core)
		return 0;
	states = states_of(core);
	if (hook_follows(core, states))
		hook_core_changes(core, core_id, states, now_ns);
	kinds = some_value(core_kinds(core, core_id, states));
	known = *(volatile u32 *)&core->kinds;
	left = known & ~kinds;
	exact = left && (left & IN_SET(CORES_SLOWED, 1) || now_ns < core->settled_ns + EXACT_NS);
	if (exact || (kinds & ~known))
		core_update(core_id, exact ? UPDATE_EXACT : UPDATE_JOINS);
	return 0;
}

/* The same; the usual case, in which nothing has to change, is told in short. */
static __always_inline void core_follow(const struct core_ctx *core, u32 core_id, u64 now_ns)
{
	u32 known = *(volatile const u32 *)&core->kinds;
	u64 states = states_of(core);

	if ((states & MORE_THAN_QUIET) || hook_follows(core, states) ||
	    (known & ~IN_SET(CORES_LENT, 1)) != QUIET_KINDS || now_ns < core->settled_ns + EXACT_NS)
		core_changed(core_id, now_ns);
}

/* Do fewer lanes of @core_id than the SMT level run critical or normal work, or critical work @alone, but for the lane @cpu? */
VERIFIED_ONCE bool level_leaves(u32 core_id, s32 cpu, bool alone)
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
	busy = STATE_COUNT(states, LANE_CRITICAL) + STATE_COUNT(states, LANE_OTHER);
	if (!alone)
		busy += STATE_COUNT(states, LANE_NORMAL);
	return busy < live.smt_level;
}

/*
 * May the lane @cpu run critical or normal work, beside the lanes of @core that already
 * do? The SMT level caps them; batch goes by its own rule (borrow.bpf.h).
 */
static __always_inline bool level_allows(const struct core_ctx *core, u32 core_id, s32 cpu)
{
	return core->nr_lanes <= live.smt_level || level_leaves(core_id, cpu, false);
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
	core_update(core_id, UPDATE_EXACT);
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

/* The same of what runs on @lane: how far it has come. */
static __always_inline void account_lane(struct task_struct *p, struct task_ctx *tctx,
					 struct lane_ctx *lane, u64 now_ns)
{
	account_run(p, tctx, now_ns);
	lane->vtime = tctx->vtime;
	lane->vtime_ns = now_ns;
}

/* @p begins to run on @lane. */
static __always_inline void account_begins(struct task_struct *p, struct task_ctx *tctx,
					   struct lane_ctx *lane, struct core_ctx *core, u64 now_ns)
{
	u32 class = task_class(tctx);

	if (lane->fair) { /* from another core: here normal work has not come so far */
		lane->fair = 0;
		vtime_carries(tctx, lane->core, core);
		if (time_before(lane->reached, core->vtime))
			lane->reached = core->vtime;
	} else {
		vtime_moves(tctx, lane->core);
		/* out of turn it has not the virtual time that normal work has reached */
		if (class == CLASS_NORMAL && !lane->overdue)
			vtime_comes(core, lane, tctx->vtime);
	}
	tctx->running_ns = now_ns;
	tctx->queued_ns = 0;
	count(switches[class]);
	lane->kthread = 0;
	lane->leaves_soon = tctx->leaves_soon;
	lane->vtime = tctx->vtime;
	lane->vtime_ns = now_ns;
	lane->vtime_pace = nice_vtime(p, VTIME_PACE_NS);
	lane->vtime_began = tctx->vtime;
	lane->pid = p->pid;
	if (class == CLASS_CRITICAL) {
		if (!tctx->job_ns) /* it was not placed */
			tctx->job_ns = now_ns;
		lane->slice_ends_ns = now_ns + p->scx.slice;
		lane->job_ns = tctx->job_ns;
		lane->marks = tctx->job_tid > 0;
	}
	lane->rechecked = 0;
	lane->evict_ns = 0;
}

/* The task sleeps: its burst is over. */
static __always_inline void account_burst(struct task_ctx *tctx)
{
	u64 before_ns = tctx->burst_mean_ns ?: tctx->burst_ns;

	tctx->burst_mean_ns = (before_ns * (BURST_WEIGHT - 1) + tctx->burst_ns) / BURST_WEIGHT;
	tctx->leaves_soon = tctx->burst_mean_ns < fixed.follow_waker_ns;
	tctx->burst_ns = 0;
}

#endif /* SIDELANE_ACCOUNT_BPF_H */
