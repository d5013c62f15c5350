/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pairing: on each core one lane is for I/O-bound work, the others are for CPU-bound work.
 *
 * Problem: with retention (retain.bpf.h) both lanes of a core may be held at once while work waits,
 * or both compute at half speed; and a task that comes back from a device waits for slices to end.
 *
 * Monitor: each normal task has a retention rate, the share of a period, but for the time that it
 * waited for a lane, that it slept while its lane could have been held for it: each sleep up to
 * fixed.retain_max_ns, whatever the time-out of the core is now. Also of tasks that seldom come back in time: what they wait for may itself
 * wait for slices to end, until both are known as I/O-bound. A moving average; it is brought up to
 * date at the first event of each period.
 *
 * Rule (fixed.pair): the normal tasks of a core are ranked by rate, and the upper half is
 * I/O-bound: by weight, and by how much of the period they ran or wanted to, so that many that hardly
 * run shift nothing. They belong to the core's first lane, the others to its other lanes; with more than
 * two lanes too. A lane takes from the core's vector what belongs there, and goes on with such a
 * task while only others wait. An I/O-bound task that wakes goes to the I/O lane; CPU-bound work
 * that fills it makes room at once. Only if nothing of its side waits, a lane takes what else waits,
 * as without. CPU-bound tasks of the I/O lane, and any on other lanes while CPU-bound work waits,
 * have no lane held for them. The I/O lane is held beyond the slice, but not from other I/O-bound
 * tasks of the core, unless fixed.retain_exclusive: then from these, too, and if one waits already,
 * not beyond the slice.
 *
 * Ranking needs no list: a task adds that to its core's histogram of rates, and at the end of
 * the period a timer splits that where the halves are most alike. A task in the lowest bucket is
 * never I/O-bound, and if all are alike none is: such a core is as without pairing, and
 * adjust.bpf.h mixes it.
 *
 * Only where two lanes or more may be busy (SMT level), and not on cores with critical work. The
 * starvation bound holds for both sides.
 *
 * Cost: a few words when a task wakes, ticks or stops; a search among the first SIDE_LOOKS tasks of
 * the vector; a preemption and a switch each time that room is made. The timer looks at all cores
 * once a period, as long as tasks wake.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.3.1: unbalanced scheduling. There halves are by weight alone,
 * and the rate counts real holds, of all time; here a task that waits, or is never held, is still known for
 * what it is. There a lane is held from other I/O-bound virtual CPUs too, whose switches are dear;
 * here that is a choice. Choosing among CPU-bound tasks (4.3.2) is symbiosis.bpf.h. No
 * compensation for held time: as there, I/O-bound work has its lane for itself.
 */
#ifndef SIDELANE_PAIR_BPF_H
#define SIDELANE_PAIR_BPF_H

#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "symbiosis.bpf.h"
#include "../core/vector.bpf.h"

#define RATE_ALL 1024
#define DEMAND_ALL 64 /* a task that runs or waits all the time; less than one part is none */
#define RATE_WEIGHT 2 /* earlier periods together weigh 1 of 2 */

GLOBAL u32 pair_period; /* number of this period */
GLOBAL u32 pair_seen; /* 1: a task was looked at in it */

static __always_inline u32 pair_bucket(u32 rate)
{
	return BOUNDED(rate * PAIR_BUCKETS / (RATE_ALL + 1), PAIR_BUCKETS);
}

/* Have the lanes of @core sides? */
static __always_inline bool pair_on(const struct core_ctx *core)
{
	return fixed.pair && core->pair.split && core->nr_lanes > 1 && live.smt_level > 1;
}

/* CPU of the I/O lane of @core. */
static __always_inline s32 pair_io_lane(const struct core_ctx *core)
{
	return core_lane(core, 0);
}

/* The side of the lane @cpu of @core. */
static __always_inline u32 pair_lane_side(const struct core_ctx *core, s32 cpu)
{
	return cpu == pair_io_lane(core) ? SIDE_IO : SIDE_CPU;
}

/* A task comes to the vector of @core (+1), or leaves it (-1): what waits there (pair.bpf.h). */
static __always_inline void pair_sides(struct core_ctx *core, const struct task_ctx *tctx,
				       u32 class, s32 more)
{
	if (fixed.pair && class == CLASS_NORMAL)
		__sync_fetch_and_add(&core->pair.waits[BOUNDED(tctx->side, NR_SIDES)], more);
}

/* One comes. */
static __always_inline void pair_enters(struct core_ctx *core, const struct task_ctx *tctx,
					u32 class)
{
	pair_sides(core, tctx, class, 1);
	if (fixed.pair && class == CLASS_NORMAL && tctx->side == SIDE_IO)
		__sync_fetch_and_add(&core->pair.came, 1);
}

/* Among so many tasks of a vector those of a side are looked for. */
#define SIDE_LOOKS 32

/* Moves the first normal task of @side (pair.bpf.h) to this lane. False: none may run here. */
VERIFIED_ONCE bool pair_take_side(u32 core_id, u32 side)
{
	struct core_ctx *core = core_ctx(core_id);
	s32 cpu = bpf_get_smp_processor_id();
	struct task_struct *p;
	bool taken = false;
	u32 looks = 0;

	if (!core || !core->pair.waits[BOUNDED(side, NR_SIDES)])
		return false;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_NORMAL), 0) {
		struct task_ctx *tctx = task_ctx(p);

		if (looks++ >= SIDE_LOOKS)
			break;
		if (!tctx || tctx->side != side || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (taken)
			break;
	}
	return taken;
}

/* @tctx woke: its lane could have been held for it for some of its sleep. */
static __always_inline void pair_woke(struct task_ctx *tctx, u64 now_ns)
{
	u64 slept_ns;

	if (!fixed.pair || !tctx->slept_ns || now_ns <= tctx->slept_ns)
		return;
	slept_ns = now_ns - tctx->slept_ns;
	if (slept_ns < fixed.retain_max_ns)
		tctx->rate_held_ns += slept_ns;
	else
		tctx->rate_held_ns += fixed.retain_max_ns;
	tctx->holds++;
}

/* A period has passed for @p: what its rate is now, which its core is told. */
VERIFIED_ONCE int pair_rate(struct task_struct *p __arg_trusted, u64 now_ns)
{
	struct task_ctx *tctx = task_ctx(p);
	struct core_ctx *core = tctx ? core_ctx(tctx->core) : NULL;
	u64 passed_ns, wanted_ns, demand, rate;

	if (!tctx || now_ns <= tctx->rate_since_ns)
		return 0;
	passed_ns = now_ns - tctx->rate_since_ns;
	wanted_ns = tctx->rate_ran_ns + tctx->rate_waited_ns;
	demand = wanted_ns < passed_ns ? wanted_ns * DEMAND_ALL / passed_ns : DEMAND_ALL;
	/* a task that has to wait long is still what it was */
	if (passed_ns > tctx->rate_waited_ns)
		passed_ns -= tctx->rate_waited_ns;
	rate = tctx->rate_held_ns * RATE_ALL / passed_ns;
	if (rate > RATE_ALL)
		rate = RATE_ALL;
	tctx->rate = tctx->rated ? (tctx->rate * (RATE_WEIGHT - 1) + rate) / RATE_WEIGHT : rate;
	tctx->rated = 1;
	tctx->holds_per_s = tctx->holds * NS_PER_S / passed_ns;
	if (!core || !demand)
		return 0;
	__sync_fetch_and_add(&core->pair.told, 1);
	__sync_fetch_and_add(&core->pair.sum, tctx->rate);
	__sync_fetch_and_add(&core->pair.squares, (u64)tctx->rate * tctx->rate);
	__sync_fetch_and_add(&core->pair.weights[pair_bucket(tctx->rate)], p->scx.weight * demand);
	return 0;
}

/* May @p use a lane of @core on which computation runs? */
static __always_inline bool pair_may_compute(const struct task_struct *p,
					     const struct core_ctx *core)
{
	u32 i;

	if (p->nr_cpus_allowed >= (s32)nr_lanes)
		return true;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);

		if (cpu != pair_io_lane(core) && cpu >= 0 && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return true;
	}
	return false;
}

/* To which side of @core does @p belong? One that may use lanes of one side only, to that. */
static __always_inline u32 pair_side(struct task_struct *p, const struct task_ctx *tctx,
				     const struct core_ctx *core)
{
	if (!pair_on(core) || tctx->class != CLASS_NORMAL ||
	    !bpf_cpumask_test_cpu(pair_io_lane(core), p->cpus_ptr))
		return SIDE_CPU;
	if (!pair_may_compute(p, core))
		return SIDE_IO;
	return tctx->rated && pair_bucket(tctx->rate) >= core->pair.split ? SIDE_IO : SIDE_CPU;
}

/* Looks which side @p, which waits in no vector, belongs to; once a period, what its rate is. */
static __always_inline void pair_look(struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	struct core_ctx *core;

	if (!fixed.pair || tctx->class != CLASS_NORMAL)
		return;
	if (!tctx->rate_since_ns || tctx->rate_period != pair_period) {
		pair_seen = 1;
		if (tctx->rate_since_ns)
			pair_rate(p, now_ns);
		tctx->rate_period = pair_period;
		tctx->rate_since_ns = now_ns;
		tctx->rate_held_ns = 0;
		tctx->rate_waited_ns = 0;
		tctx->rate_ran_ns = 0;
		tctx->holds = 0;
	}
	core = core_ctx(tctx->core);
	tctx->side = core ? pair_side(p, tctx, core) : SIDE_CPU;
}

/* A task ran for @ran_ns. */
static __always_inline void pair_ran(struct task_ctx *tctx, u64 ran_ns)
{
	if (fixed.pair)
		tctx->rate_ran_ns += ran_ns;
}

/* @tctx begins to run: it waited until now. */
static __always_inline void pair_waited(struct task_ctx *tctx, u64 now_ns)
{
	if (fixed.pair && tctx->queued_ns && now_ns > tctx->queued_ns)
		tctx->rate_waited_ns += now_ns - tctx->queued_ns;
}

/* @p runs on the lane @cpu: does it make room when I/O-bound work comes? */
static __always_inline void pair_runs(const struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu)
{
	struct core_ctx *core = fixed.pair ? core_ctx(lane->core) : NULL;

	if (core)
		lane->fills = tctx->class == CLASS_NORMAL && tctx->side == SIDE_CPU &&
			      pair_on(core) && pair_lane_side(core, cpu) == SIDE_IO;
}

/* Does what runs on @lane make room for @tctx at once? */
static __always_inline bool pair_makes_room(const struct task_ctx *tctx,
					    const struct lane_ctx *lane)
{
	return fixed.pair && lane->fills && lane->state == LANE_NORMAL &&
	       tctx->class == CLASS_NORMAL && tctx->side == SIDE_IO;
}

/*
 * What fills the lane @cpu begins to run: I/O-bound work that came while the lane was about to
 * choose saw nothing that would make room. The lane looks again, once for each that came.
 */
static __always_inline void pair_recheck(struct lane_ctx *lane, s32 cpu)
{
	struct core_ctx *core = fixed.pair && lane->fills ? core_ctx(lane->core) : NULL;
	u32 came;

	if (!core || !core->pair.waits[SIDE_IO])
		return;
	came = core->pair.came;
	if (came == lane->came)
		return;
	lane->came = came;
	count(hand_backs);
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* May the lane @cpu of @core be held for @tctx? */
static __always_inline bool pair_may_hold(const struct core_ctx *core, const struct task_ctx *tctx,
					  s32 cpu)
{
	if (!pair_on(core))
		return true;
	if (pair_lane_side(core, cpu) == SIDE_IO)
		return tctx->side == SIDE_IO &&
		       (fixed.retain_exclusive || !core->pair.waits[SIDE_IO]);
	return !core->pair.waits[SIDE_CPU];
}

/* Is the lane @cpu for I/O-bound tasks of @core? Others have no claim to it, and make room at once. */
static __always_inline bool pair_owns(const struct core_ctx *core, s32 cpu)
{
	return pair_on(core) && pair_lane_side(core, cpu) == SIDE_IO;
}

/* Is it no matter for a hold of the lane @cpu that the slice ends? */
static __always_inline bool pair_may_extend(const struct core_ctx *core, s32 cpu)
{
	return pair_owns(core, cpu) && (!fixed.retain_exclusive || !core->pair.waits[SIDE_IO]);
}

/* May @tctx take @lane, which is held for another, but not from it? If both are I/O-bound. */
static __always_inline bool pair_uses_held(const struct task_ctx *tctx, const struct lane_ctx *lane,
					   s32 cpu)
{
	bool shared = fixed.pair && !fixed.retain_exclusive && lane->held_pid;
	struct core_ctx *core = shared ? core_ctx(lane->core) : NULL;

	return core && pair_owns(core, cpu) && tctx->class == CLASS_NORMAL && tctx->side == SIDE_IO;
}

/*
 * The side of which the lane @cpu of @core_id, which looks for normal work, takes first; NR_SIDES:
 * any.
 */
static __always_inline u32 pair_first(u32 core_id, s32 cpu)
{
	struct core_ctx *core = fixed.pair ? core_ctx(core_id) : NULL;

	return core && pair_on(core) ? pair_lane_side(core, cpu) : NR_SIDES;
}

/* The lane @cpu of @core_id, which is held, takes a normal task that may have it. */
static __always_inline bool pair_take_held(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);

	return core && !fixed.retain_exclusive && pair_lane_side(core, cpu) == SIDE_IO &&
	       pair_take_side(core_id, SIDE_IO);
}

/*
 * Does a normal task of @prev_side go on on its lane of @core_id, which is of @side, while only tasks of the other side
 * wait?
 */
static __always_inline bool pair_keeps(u32 core_id, u32 prev_side, u32 side)
{
	return prev_side == side && !lanes_in_state(core_id, LANE_CRITICAL);
}

/*
 * The same lane, of @side, takes a normal task, at best one of that. False: there is none, or
 * @keeps.
 */
static __always_inline bool pair_find(u32 core_id, u32 side, bool keeps)
{
	if (fixed.symbiotic && side == SIDE_CPU && symbiosis_take(core_id, side))
		return true;
	if (pair_take_side(core_id, side))
		return true;
	if (fixed.symbiotic && side == SIDE_IO && !keeps && symbiosis_take(core_id, SIDE_CPU))
		return true;
	if (!keeps && vector_take(core_id, CLASS_NORMAL))
		return true;
	return vector_steal(core_id, CLASS_NORMAL, side) ||
	       (!keeps && vector_steal(core_id, CLASS_NORMAL, NR_SIDES));
}

/*
 * The lane of its side on @home that is free for @p, or makes room; -1: none. @prev: its last lane.
 */
VERIFIED_ONCE s32 pair_lane(struct task_struct *p __arg_trusted, u32 home, s32 prev)
{
	struct task_ctx *tctx = task_ctx(p);
	struct core_ctx *core = core_ctx(home);
	struct lane_ctx *lane;
	s32 cpu, best = -1;
	u32 i;

	if (!tctx || !core || !pair_on(core) || core_critical(home))
		return -1;
	if (tctx->side == SIDE_IO) {
		cpu = pair_io_lane(core);
		lane = lane_ctx(cpu);
		if (!lane || cpu < 0 || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			return -1;
		return lane->state == LANE_IDLE ||
				       (lane->state == LANE_HELD && lane->held_pid &&
					!fixed.retain_exclusive) ||
				       lane->state == LANE_BATCH || pair_makes_room(tctx, lane)
			       ? cpu
			       : -1;
	}
	bpf_for(i, 1, core->nr_lanes) {
		cpu = core_lane(core, i);
		lane = lane_ctx(cpu);
		if (!lane || cpu < 0 || lane->state != LANE_IDLE ||
		    !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (best < 0 || cpu == prev)
			best = cpu;
	}
	return best;
}

/* @p wakes, and the lane @prev is held for it: does it go to the I/O lane rather than there? */
static __always_inline bool pair_moves(struct task_struct *p, const struct task_ctx *tctx, s32 prev)
{
	struct lane_ctx *lane = fixed.pair ? lane_ctx(prev) : NULL;
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;

	return core && prev >= 0 && tctx->side == SIDE_IO && pair_on(core) &&
	       pair_lane_side(core, prev) == SIDE_CPU && pair_lane(p, lane->core, prev) >= 0;
}

/* What @weight in @bucket, the next lower one, means for the halves. */
static __always_inline void pair_halve(struct pair_halves *halves, u32 bucket, u32 weight)
{
	u64 twice = 2 * halves->above;
	u64 apart = twice > halves->all ? twice - halves->all : halves->all - twice;

	if (apart < halves->apart) {
		halves->apart = apart;
		halves->upper = bucket;
		halves->lower = 0;
	} else if (weight && !halves->lower) {
		halves->lower = bucket;
	}
}

/*
 * Splits the tasks of a core where the halves by weight are most alike: the first bucket of the
 * upper one, in the middle between the two, so that a task that hardly changes stays. 0: there is no upper
 * one.
 */
static __always_inline u32 pair_split(struct pair *pair)
{
	struct pair_halves *halves = &pair->halves;
	u32 i;

	/* sums in the core's context: in registers the verifier would follow them, loop after loop */
	halves->all = 0;
	bpf_for(i, 0, PAIR_BUCKETS) {
		halves->all += pair->weights[BOUNDED(i, PAIR_BUCKETS)];
	}
	halves->above = 0;
	halves->apart = halves->all;
	halves->upper = 0;
	halves->lower = 0;
	bpf_for(i, 1, PAIR_BUCKETS) {
		u32 bucket = BOUNDED(PAIR_BUCKETS - i, PAIR_BUCKETS);

		halves->above += pair->weights[bucket];
		pair_halve(halves, bucket, pair->weights[bucket]);
	}
	return halves->upper ? (halves->upper + halves->lower + 1) / 2 : 0;
}

/* A period of @core_id ends: what its tasks are. How many there were. */
VERIFIED_ONCE u32 pair_rank(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	struct pair *pair;
	u64 sum, squares;
	u32 i, told;

	if (!core)
		return 0;
	pair = &core->pair;
	pair->split = pair_split(pair);
	bpf_for(i, 0, PAIR_BUCKETS) {
		pair->weights[BOUNDED(i, PAIR_BUCKETS)] = 0;
	}
	told = __sync_lock_test_and_set(&pair->told, 0);
	sum = __sync_lock_test_and_set(&pair->sum, 0);
	squares = __sync_lock_test_and_set(&pair->squares, 0);
	pair->tasks = told;
	pair->mean = told ? sum / told : 0;
	squares = told ? squares / told : 0;
	sum = (u64)pair->mean * pair->mean;
	pair->variance = squares > sum ? squares - sum : 0;
	return told;
}

#endif /* SIDELANE_PAIR_BPF_H */
