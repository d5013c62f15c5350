/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adjuster: tasks of cores that are too much alike change places.
 *
 * Problem: pairing (pair.bpf.h) gains only where a core has I/O-bound and CPU-bound tasks.
 *
 * Rule: at the end of each period, of the cores whose rates deviate by less than
 * fixed.pair_uniform the one with the least deviation gets a partner: a core whose mean rate is
 * apart by ADJUST_APART times that at least, of those on the nearest distance (cache, then node,
 * then further) the one that is apart most. At most ADJUST_SWAPS such pairs a period, and a core is
 * in one of them at most, and in none the period after. Then
 *   of the core with the higher mean, the next task that wakes and whose rate is not below that
 *   mean goes to the I/O lane of the other, which makes room; then of that core the next task that
 *   is put into a vector or ends its slice, and whose rate is not above its mean, goes to the
 *   first.
 * Each is one ticket, which one task takes. Tickets that no task took end with the period.
 *
 * Cost: at the end of a period ADJUST_SWAPS looks at all cores at most.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.4: workload adjuster. There the tasks in the middle of both
 * rankings are swapped by name, and the partner is the one apart most, wherever it is (a nearer one
 * first is its future work, section 8). The source says no threshold, and no period.
 */
#ifndef SIDELANE_ADJUST_BPF_H
#define SIDELANE_ADJUST_BPF_H

#include "../core/types.bpf.h"
#include "../core/find.bpf.h"
#include "pair.bpf.h"
#include "retain.bpf.h"

#define ADJUST_SWAPS 8
#define ADJUST_APART 2
/*
 * A core is in no second swap before so many periods: what it is shows in the period after the
 * swap's.
 */
#define ADJUST_PERIODS 2

GLOBAL u32 pair_armed; /* 1: the timer of the periods is set */

/* Does @core take part in a swap, or cannot? */
static __always_inline bool adjust_busy(u32 id, const struct core_ctx *core)
{
	return core->pair.swapping || !core->pair.tasks || core->nr_lanes < 2 || core_parked(id);
}

/* The core whose tasks are most alike, of those where they are too much; -1: none. */
VERIFIED_ONCE s32 adjust_most_alike(void)
{
	u32 least = fixed.pair_uniform * fixed.pair_uniform, id;
	s32 best = -1;

	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);

		if (!core)
			break;
		if (adjust_busy(id, core) || core->pair.tasks < 2 || core->pair.variance >= least)
			continue;
		least = core->pair.variance;
		best = id;
	}
	return best;
}

/* With which core it swaps; -1: none. */
VERIFIED_ONCE s32 adjust_partner(u32 core_id)
{
	u32 id, nearest = NR_DISTANCES, most = ADJUST_APART * fixed.pair_uniform;
	struct core_ctx *own = core_ctx(core_id);
	s32 best = -1;

	if (!own)
		return -1;
	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);
		u32 distance, apart;

		if (!core)
			break;
		if (id == core_id || adjust_busy(id, core))
			continue;
		apart = core->pair.mean > own->pair.mean ? core->pair.mean - own->pair.mean
							 : own->pair.mean - core->pair.mean;
		distance = core_distance(own, core);
		if (distance > nearest || apart < ADJUST_APART * fixed.pair_uniform ||
		    (distance == nearest && apart <= most))
			continue;
		best = id;
		nearest = distance;
		most = apart;
	}
	return best;
}

/* Of @first, whose tasks have the higher rates, one is to go to @second, and one back. */
static __always_inline void adjust_open(struct core_ctx *first, struct core_ctx *second,
					u32 second_id)
{
	second->pair.swapping = ADJUST_PERIODS;
	second->pair.swap_least = 0;
	second->pair.swap_most = second->pair.mean;
	second->pair.swap_back = 0;
	first->pair.swapping = ADJUST_PERIODS;
	first->pair.swap_least = first->pair.mean;
	first->pair.swap_most = RATE_ALL;
	first->pair.swap_back = 1;
	first->pair.swap_to = second_id + 1;
}

/* One swap. False: there is none. */
static __always_inline bool adjust_one(void)
{
	s32 id = adjust_most_alike(), other_id;
	struct core_ctx *core, *other;

	if (id < 0)
		return false;
	other_id = adjust_partner(id);
	core = core_ctx(id);
	if (core)
		core->pair.swapping = 1; /* not again */
	if (!core || other_id < 0)
		return true;
	other = core_ctx(other_id);
	if (!other)
		return true;
	if (core->pair.mean > other->pair.mean)
		adjust_open(core, other, other_id);
	else
		adjust_open(other, core, id);
	return true;
}

/* Is there a ticket of @core for a task with this context? */
static __always_inline bool adjust_asks(const struct core_ctx *core, const struct task_ctx *tctx)
{
	return fixed.pair && core->pair.swap_to && tctx->class == CLASS_NORMAL && tctx->rated &&
	       tctx->rate >= core->pair.swap_least && tctx->rate <= core->pair.swap_most;
}

/* The same, of @core_id. */
static __always_inline bool adjust_asks_of(u32 core_id, const struct task_ctx *tctx)
{
	struct core_ctx *core = fixed.pair ? core_ctx(core_id) : NULL;

	return core && adjust_asks(core, tctx);
}

/* The same, of the core of the lane @cpu. */
static __always_inline bool adjust_asks_on(s32 cpu, const struct task_ctx *tctx)
{
	struct lane_ctx *lane = fixed.pair ? lane_ctx(cpu) : NULL;
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;

	return core && adjust_asks(core, tctx);
}

/* A period ends. */
static int pair_timer(void *map, u32 *key, struct core_timer *timer)
{
	u32 id;

	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);

		if (!core)
			break;
		core->pair.swap_to = 0;
		if (core->pair.swapping)
			core->pair.swapping--;
		pair_rank(id);
	}
	bpf_for(id, 0, ADJUST_SWAPS) {
		if (!adjust_one())
			break;
	}
	pair_period++;
	if (!pair_seen) {
		pair_armed = 0; /* until a task wakes */
		return 0;
	}
	pair_seen = 0;
	bpf_timer_start(&timer->timer, fixed.pair_period_ns, 0);
	return 0;
}

/* The timer of the periods. */
static __always_inline struct core_timer *pair_timer_element(void)
{
	return timer_of(TIMER_PAIR, 0);
}

/* A normal task wakes: periods are needed. */
static __always_inline void pair_need(void)
{
	struct core_timer *timer;

	if (!fixed.pair || pair_armed || __sync_val_compare_and_swap(&pair_armed, 0, 1))
		return;
	timer = pair_timer_element();
	if (timer)
		bpf_timer_start(&timer->timer, fixed.pair_period_ns, 0);
}

/* Makes the timer. */
static __always_inline s32 pair_init(void)
{
	struct core_timer *timer;
	s32 err;

	if (!fixed.pair)
		return 0;
	timer = pair_timer_element();
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &core_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&timer->timer, pair_timer);
}

/* Of @core, to which @p goes by the adjuster: an idle lane, else the I/O lane, which makes room. */
static __always_inline s32 adjust_lane(struct task_struct *p, struct core_ctx *core, u32 id,
				       struct task_ctx *tctx)
{
	s32 cpu = pick_lane(p, id, STATE(LANE_IDLE), pair_io_lane(core));
	struct lane_ctx *lane;

	if (!core->pair.split)
		core->pair.split = pair_bucket(tctx->rate);
	tctx->side = SIDE_IO;
	if (cpu >= 0)
		return cpu;
	cpu = pick_lane(p, id, STATE(LANE_NORMAL), pair_io_lane(core));
	lane = lane_ctx(cpu);
	if (cpu < 0 || !lane)
		return pick_lane(p, id, ANY_STATE, -1);
	lane->fills = 1;
	return cpu;
}

/* Takes the ticket of @own for @p: the lane of the other core to which it goes; -1: none. */
static __always_inline s32 adjust_take(struct task_struct *p, struct task_ctx *tctx,
				       struct core_ctx *own, u32 home)
{
	u32 to = own->pair.swap_to, back = own->pair.swap_back;
	struct core_ctx *other;
	s32 cpu;

	if (!to || core_critical(to - 1) || pick_lane(p, to - 1, ANY_STATE, -1) < 0)
		return -1;
	other = core_ctx(to - 1);
	if (!other || __sync_val_compare_and_swap(&own->pair.swap_to, to, 0) != to)
		return -1;
	count(swaps);
	if (back) {
		cpu = adjust_lane(p, other, to - 1, tctx);
		other->pair.swap_to = home + 1;
		return cpu;
	}
	cpu = pick_lane(p, to - 1, FREE_STATES, -1);
	return cpu >= 0 ? cpu : pick_lane(p, to - 1, ANY_STATE, -1);
}

/* The lane to which @p, which is normal, goes by the adjuster or as one of its side; -1: none. */
VERIFIED_ONCE s32 place_paired(struct task_struct *p __arg_trusted, u32 home, s32 prev)
{
	struct core_ctx *core = core_ctx(home);
	struct task_ctx *tctx = task_ctx(p);
	s32 cpu = -1;

	if (!core || !tctx)
		return -1;
	if (adjust_asks(core, tctx))
		cpu = adjust_take(p, tctx, core, home);
	return cpu >= 0 ? cpu : pair_lane(p, home, prev);
}

/* The lane @prev if it is held for @p, which wakes, and may run if its pool does not stop it; -1: none. */
static __always_inline s32 adjust_lane_held(struct task_struct *p, struct task_ctx *tctx, s32 prev,
					    bool may, u64 now_ns)
{
	may = may && !adjust_asks_on(prev, tctx) && !pair_moves(p, tctx, prev);
	return retain_lane(p, tctx, prev, may, now_ns);
}

#endif /* SIDELANE_ADJUST_BPF_H */
