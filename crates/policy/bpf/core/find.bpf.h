/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which core or lane would do.
 *
 * Problem: placing, promoting and spreading a task look for the same things: a lane of a core in a certain
 * state, a core of a certain kind, the idle lane that is fastest.
 *
 * Rule: the fastest core first, then the nearest; of a core's lanes the idlest, then the one of before; of
 * idle lanes beside others the one with the highest capacity * threadPerf. A core that expects critical work
 * is passed over, and as an idle one also one to whose vector normal work was sent.
 *
 * Cost: a look at each member of a set that the task may use, until none can be better: at the near ones first. Members
 * that fit no more are taken out (core_settle()). Shared lanes: over the cores. A new task, or affinity, that leaves lanes
 * out: over the lanes.
 *
 * Does not: decide in which order these are tried (place.bpf.h, promote.bpf.h, spread.bpf.h); take anything.
 */
#ifndef SIDELANE_FIND_BPF_H
#define SIDELANE_FIND_BPF_H

#include "types.bpf.h"
#include "account.bpf.h"
#include "vector.bpf.h"

#define STATE(s) (1U << (s))
#define ANY_STATE (STATE(NR_LANE_STATES) - 1)
#define FREE_STATES (STATE(LANE_IDLE) | STATE(LANE_BATCH))
#define FOR_BATCH STATE(NR_LANE_STATES) /* only lanes that batch may use */
#define OVER_BATCH STATE(NR_LANE_STATES + 1) /* see pick_lane() */
#define OF_SET(set) ((set) << (NR_LANE_STATES + 2)) /* see core_worth() */
#define SET_OF(states) ((states) >> (NR_LANE_STATES + 2))
#define IDLE_STATES(critical) (STATE(LANE_IDLE) | ((critical) ? STATE(LANE_HELD) : 0))
#define HELD_STATES (FREE_STATES | STATE(LANE_HELD)) /* free for critical work */
#define BELOW_CRITICAL (HELD_STATES | STATE(LANE_NORMAL)) /* critical work takes these lanes */

/* Do as many lanes of @core_id run as batch may use of it (fixed.batch_lanes), of fewer than all? */
static __always_inline bool core_is_full(const struct core_ctx *core, u32 core_id)
{
	u32 spare = first_meant_for_batch(core);

	return spare && lanes_busy(core_id) >= core->nr_lanes - spare;
}

/* By state, eight bits each: which lane is the better one to have. */
#define RANK(state, rank) ((u64)(rank) << 8 * (state))
#define RANKS(batch)                                                               \
	(RANK(LANE_CRITICAL, 1) | RANK(LANE_NORMAL, 2) | RANK(LANE_BATCH, batch) | \
	 RANK(LANE_HELD, 4) | RANK(LANE_IDLE, 5) | RANK(LANE_OTHER, 7))

/* Eight bits set for each bit of the first eight. */
static __always_inline u64 bytes_of_bits(u32 bits)
{
	u64 some = (bits & 0xff) * 0x0101010101010101ULL & 0x8040201008040201ULL;
	u64 low = 0x7f7f7f7f7f7f7f7fULL;

	return ((((some + low) | some) & ~low) >> 7) * 0xff;
}

/* 1 if @a is @b, else 0; the verifier has not to look at both. */
static __always_inline u32 is_same(u32 a, u32 b)
{
	return ((u64)(a ^ b) - 1) >> 63;
}

/*
 * A lane of @core_id that @p may use, in one of @states: idle before held before batch
 * before normal before critical, then @prev; last those that run something because it is due. With OVER_BATCH batch comes
 * before an idle lane of a core that is full (core_is_full()).
 */
VERIFIED_ONCE s32 pick_lane(struct task_struct *p __arg_trusted, u32 core_id, u32 states, s32 prev)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 ranks = RANKS(3), best = 0; /* rank, then the lane */
	u32 i;

	if (!core || !(states_present(states_of(core)) & states))
		return -1;
	if ((states & OVER_BATCH) && core_is_full(core, core_id))
		ranks = RANKS(6);
	ranks &= bytes_of_bits(states);
	bpf_for(i, states & FOR_BATCH ? first_meant_for_batch(core) : 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = cpu < 0 ? NULL : lane_ctx(cpu);
		u32 rank = lane ? STATE_COUNT(ranks, lane->state & 7) : 0;

		if (!rank)
			continue;
		if (lane->overdue) /* it is not disturbed */
			rank = 1;
		rank = 2 * rank + is_same((u32)cpu, (u32)prev);
		if (rank > best >> 32 && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			best = (u64)rank << 32 | (u32)cpu;
	}
	return best ? (s32)best : -1;
}

/* Does the affinity of @p leave lanes out? */
static __always_inline bool is_restricted(const struct task_struct *p)
{
	return p->nr_cpus_allowed < (s32)nr_lanes;
}

/* The cores of which @p may use a lane, as in struct task_ctx. */
VERIFIED_ONCE u64 allowed_cores_by_lane(struct task_struct *p __arg_trusted)
{
	u64 allowed = 0;
	u32 cpu;

	if (!is_restricted(p))
		return ALL_CORES;
	bpf_for(cpu, 0, nr_lanes) {
		struct lane_ctx *lane;

		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		lane = lane_ctx(cpu);
		if (lane)
			allowed |= 1ULL << (lane->core & 63);
	}
	return allowed;
}

/* The cores that a search for @p looks at; the look-up is spared where it may use all. */
static __always_inline u64 allowed_cores(struct task_struct *p)
{
	struct task_ctx *tctx = is_restricted(p) ? task_ctx(p) : NULL;

	return tctx ? tctx->allowed_cores : ALL_CORES;
}

/* May a task with these @allowed cores use @core_id? It may not for sure, else perhaps: see struct task_ctx. */
static __always_inline bool core_is_allowed(u64 allowed, u32 core_id)
{
	return allowed >> (core_id & 63) & 1;
}

/* The more, the faster a core is, then the nearer. */
#define WORTH(capacity, distance) ((capacity) * NR_DISTANCES + NR_DISTANCES - 1 - (distance))

/*
 * Does core @id fit into @set still: its lanes by their states, no critical work on its way there, nor, if all of it idles,
 * normal work? Apart, for what searches keep on the stack.
 */
VERIFIED_ONCE bool core_fits(u32 id, u32 set)
{
	struct core_ctx *core = core_ctx(id);

	return core && core_is(core, set) && !critical_expected(core) &&
	       !(set == CORES_IDLE && vector_expected(core, CLASS_NORMAL));
}

/*
 * What core @id is worth to @p, which comes from @home: the more, the higher its capacity, then the nearer. 0: not more
 * than @least, or it has no lane in one of @states, or does not fit into the set that these name (OF_SET) any more.
 */
VERIFIED_ONCE u32 core_worth(struct task_struct *p __arg_trusted, u32 id, u32 states, u32 home,
			     u32 least)
{
	struct core_ctx *own = core_ctx(home), *core = core_ctx(id);
	u32 worth;

	if (!own || !core || !core_fits(id, SET_OF(states)))
		return 0;
	worth = WORTH(core->capacity, core_distance(own, core));
	return worth > least && pick_lane(p, id, states, -1) >= 0 ? worth : 0;
}

static __always_inline u32 capacity_of(s32 core_id)
{
	struct core_ctx *core = core_id >= 0 ? core_ctx(core_id) : NULL;

	return core ? core->capacity : 0;
}

/*
 * The best core of @set, of the first @end, for @p with a lane in one of @states: highest
 * capacity, then nearest to @home. -1: none. Cores that expect critical work are passed over, and
 * as idle ones those to whose vector normal work was sent. The search begins at the cores that are near, and ends where
 * none can be better.
 */
VERIFIED_ONCE s32 find_core(struct task_struct *p __arg_trusted, u32 set, u32 states, u32 home,
			    u32 end)
{
	bool free = !(states & ~(HELD_STATES | FOR_BATCH | OVER_BATCH));
	u32 also = free ? CORES_FREE : set, i, worth, enough, most = 0;
	struct core_ctx *own = core_ctx(home);
	s32 best = -1, id = -1;
	u64 allowed;

	if (!own || !core_set_some(set) || !core_set_some(also))
		return -1;
	allowed = allowed_cores(p);
	enough = WORTH(capacity_of(0), DISTANCE_CACHE);
	states |= OF_SET(set);
	if (home < end && core_set_test(set, home)) {
		most = core_worth(p, home, states, home, 0);
		best = most ? (s32)home : -1;
	}
	bpf_for(i, 0, nr_cores) {
		if (most >= enough)
			break;
		id = core_set_around(set, also, own->near, id, allowed);
		if (id < 0)
			break;
		worth = id < (s32)end ? core_worth(p, id, states, home, most) : 0;
		if (!worth) {
			core_settle(id);
			continue;
		}
		best = id;
		most = worth;
	}
	return best;
}

/*
 * Of the idle and the lent cores among the first @end the best; equal capacity: idle. Without
 * either, an open core that has a lane in one of @states. -1: none.
 */
VERIFIED_ONCE s32 find_open_core(struct task_struct *p __arg_trusted, u32 states, u32 home, u32 end)
{
	struct core_ctx *own = core_ctx(home);
	s32 idle, lent;

	if (own && core_idles(own) && own->capacity >= capacity_of(0) && !critical_expected(own) &&
	    !vector_expected(own, CLASS_NORMAL) && pick_lane(p, home, FREE_STATES, -1) >= 0)
		return home;
	idle = find_core(p, CORES_IDLE, FREE_STATES, home, end);
	lent = find_core(p, CORES_LENT, FREE_STATES, home, end);
	if (capacity_of(lent) > capacity_of(idle))
		return lent;
	return idle >= 0 ? idle : find_core(p, CORES_OPEN, states, home, end);
}

/*
 * Is a task faster on the idle core @id than on a lane of @core of which @busy run (capacity *
 * threadPerf)? Where threadPerf is not known: is that core not slower?
 */
static __always_inline bool roomier_pays(const struct core_ctx *core, u32 busy, s32 id)
{
	struct core_ctx *other = core_ctx(id);

	if (!other)
		return false;
	if (!live.thread_perf[1])
		return other->capacity >= core->capacity;
	return lane_speed(other, 1) > lane_speed(core, busy);
}

/*
 * Of the idle cores among the first @end the best, if normal work is better off there than as one of
 * @busy lanes of @home that run critical or normal work; -1: none.
 */
VERIFIED_ONCE s32 find_roomier(struct task_struct *p __arg_trusted, u32 home, u32 busy, u32 end)
{
	struct core_ctx *core = core_ctx(home);
	s32 id;

	if (!core || busy < 2 || !core_set_any(CORES_IDLE, home))
		return -1;
	id = find_core(p, CORES_IDLE, STATE(LANE_IDLE), home, end);
	return id >= 0 && roomier_pays(core, busy, id) ? id : -1;
}

#define FOR_NORMAL -1
#define FOR_CRITICAL -2

/*
 * The fastest idle lane with what its core runs (lane_speed()), of the first @end cores, own core
 * first: for batch of the cores in @set; FOR_NORMAL, FOR_CRITICAL: for such work, of any.
 */
VERIFIED_ONCE s32 find_idle_lane(struct task_struct *p __arg_trusted, s32 set, u32 home, s32 prev,
				 u32 end)
{
	struct core_ctx *fastest = core_ctx(0);
	u64 most = fastest ? lane_speed(fastest, 2) : 0, best_speed = some_value(0);
	u32 from = set >= 0 ? set : CORES_FREE, i;
	/* one round is like any other to the verifier */
	s32 best = some_value(-1), id = some_value(-1);
	u64 allowed;

	if (!core_set_some(from))
		return -1;
	allowed = allowed_cores(p);
	bpf_for(i, 0, nr_cores) {
		struct core_ctx *core;
		u64 speed;
		s32 cpu;

		id = core_set_around(from, from, home, id, allowed);
		if (id < 0)
			break;
		core = id < (s32)end ? core_ctx(id) : NULL;
		if (!core)
			continue;
		cpu = set < 0 || hook_may_run(id, CLASS_BATCH)
			      ? pick_lane(p, id,
					  IDLE_STATES(set == FOR_CRITICAL) |
						  (set >= 0 ? FOR_BATCH : 0),
					  prev)
			      : -1;
		if (cpu < 0)
			core_settle(id);
		if (cpu < 0 || (set < 0 && !level_allows(core, id, cpu)))
			continue;
		speed = lane_speed(core, core->nr_lanes - lanes_in_state(id, LANE_IDLE) + 1);
		if (speed <= best_speed)
			continue;
		best = cpu;
		best_speed = speed;
		if (speed >= most) /* whole idle cores were looked for before */
			break;
	}
	return best;
}

/*
 * Where @p waits if nothing better is found: its own core, else an allowed one; where some are
 * parked, one of the first @end.
 */
VERIFIED_ONCE s32 fallback_lane(struct task_struct *p __arg_trusted, u32 home, s32 prev, u32 end)
{
	s32 cpu = pick_lane(p, home, ANY_STATE, prev);
	u32 id, i, first;
	u64 allowed;

	if (cpu >= 0)
		return cpu;
	if (end < nr_cores) {
		allowed = allowed_cores(p);
		bpf_for(id, 0, end) {
			if (!core_is_allowed(allowed, id))
				continue;
			cpu = pick_lane(p, id, ANY_STATE, -1);
			if (cpu >= 0)
				return cpu;
		}
	}
	first = bpf_cpumask_any_distribute(p->cpus_ptr);
	/* an affinity may name lanes that are offline, and these have no core */
	bpf_for(i, 0, nr_lanes) {
		const struct lane_ctx *lane;

		cpu = first + i < nr_lanes ? first + i : first + i - nr_lanes;
		lane = lane_ctx(cpu);
		if (lane && lane->online && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return cpu;
	}
	return prev;
}

/*
 * On cores of several speeds: the fastest idle lane beside critical work that is faster
 * than @least (lane_speed()); -1: none, or it is not known how fast shared lanes are.
 */
VERIFIED_ONCE s32 find_shared_lane(struct task_struct *p __arg_trusted, u64 least, s32 prev)
{
	s32 best = -1;
	u64 allowed;
	u32 id;

	if (!live.thread_perf[1])
		return -1;
	allowed = allowed_cores(p);
	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);
		u32 critical;
		u64 speed;
		s32 cpu;

		/* those that follow are not faster */
		if (!core || lane_speed(core, 2) <= least)
			break;
		if (!core_is_allowed(allowed, id))
			continue;
		critical = lanes_in_state(id, LANE_CRITICAL) + critical_expected(core);
		speed = lane_speed(core, critical + 1);
		/* one that is on its way has a lane that idles still */
		if (!critical || critical >= core->nr_lanes || speed <= least)
			continue;
		cpu = pick_lane(p, id, IDLE_STATES(true), prev);
		if (cpu < 0 || !level_allows(core, id, cpu))
			continue;
		best = cpu;
		least = speed;
	}
	return best;
}

/* The same, if it is better than @id, the best core without critical work (-1: there is none). */
static __always_inline s32 shared_lane_beyond(struct task_struct *p, s32 id, s32 prev)
{
	u32 slowest = capacity_of(nr_cores - 1), fastest = capacity_of(0);
	struct core_ctx *core = id >= 0 ? core_ctx(id) : NULL;

	if (slowest == fastest || (id >= 0 && capacity_of(id) == fastest))
		return -1;
	return find_shared_lane(p, core ? lane_speed(core, 1) : 0, prev);
}

#endif /* SIDELANE_FIND_BPF_H */
