/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Vertical polarization: normal and batch work on as few cores as it needs.
 *
 * Problem: spread over all cores (horizontal polarization, the default), a little work keeps
 * each of them from sleeping deeply.
 *
 * Rule: the first live.cores_awake cores, in the order of their indices (fastest first), are
 * awake, the others parked. Normal and batch work goes to cores that are awake, and lanes of parked
 * ones do not steal it. What runs on a core when that is parked leaves at the end of its slice. A
 * task that may use lanes of parked cores only runs there. Critical work goes wherever
 * fast first sends it.
 *
 * How many: at the end of each window the demand is the time that lanes ran normal and batch
 * work, and a window for each task in vectors whose first task has waited for half a window or
 * more: a burst that is over sooner needs no further cores. The room is the time of the awake cores' lanes,
 * of as many as the SMT level allows, without those of a core while it ran critical work.
 *   demand above POLAR_WAKE of the room   so many cores wake that it is POLAR_GOAL, at once;
 *   below POLAR_PARK of what would be left without the last awake core
 *                                         that core is parked, if it has been so for
 *                                         POLAR_PATIENCE windows;
 *   between                               it stays as it is.
 *
 * Cost: work that comes all at once shares the awake cores until the window ends. An atomic
 * addition when a task stops or a lane ticks; a look at all cores each window, until there is no
 * work and one core is awake.
 *
 * Source: z/VM SMT-2 performance report: SMT needs vertical polarization. There entitlements of
 * cores come from the partition's weight; here one follows what was used. Does not: put
 * cores to sleep, which is the idle governor's; choose cores by their caches or packages, beyond
 * the order in which the loader numbered them.
 */
#ifndef SIDELANE_POLARIZE_BPF_H
#define SIDELANE_POLARIZE_BPF_H

#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "../core/kick.bpf.h"
#include "../core/vector.bpf.h"

#define POLAR_WINDOW_NS 20000000ULL
#define POLAR_WAKE 90 /* per cent */
#define POLAR_GOAL 80
#define POLAR_PARK 70
#define POLAR_PATIENCE 5
#define POLAR_WAIT_NS (POLAR_WINDOW_NS / 2)

GLOBAL u32 polar_armed; /* 1: the timer of the windows is set */
GLOBAL u32 polar_low; /* windows in a row after which a core could have been parked */
GLOBAL u64 polar_since_ns; /* when this window began */

/* Work of @class ran on a lane of @core_id for so long. */
static __always_inline void polar_charge(u32 core_id, u32 class, u64 ran_ns)
{
	struct core_ctx *core = live.vertical ? core_ctx(core_id) : NULL;

	if (core && class == CLASS_CRITICAL)
		__sync_fetch_and_add(&core->critical_ns, ran_ns);
	else if (core)
		__sync_fetch_and_add(&core->used_ns, ran_ns);
}

/* Lane time of @core in @span_ns that normal work may use. */
static __always_inline u64 polar_lanes_ns(const struct core_ctx *core, u64 span_ns)
{
	u32 level = live.smt_level, lanes = core->nr_lanes;

	return (level && level < lanes ? level : lanes) * span_ns;
}

/* How many tasks of @class wait on @core_id, and not for a moment only. */
static __always_inline u32 polar_waiting(u32 core_id, u32 class, u64 now_ns)
{
	if (!vector_hinted(core_id, class) ||
	    vector_head_wait_ns(core_id, class, now_ns) < POLAR_WAIT_NS)
		return 0;
	return vector_length(core_id, class);
}

/* What normal and batch work used and wanted in the window that ends; begins the next. */
VERIFIED_ONCE u64 polar_demand_ns(u64 span_ns, u64 now_ns)
{
	u64 demand_ns = 0;
	u32 id;

	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);
		u32 waiting;

		if (!core)
			break;
		waiting = polar_waiting(id, CLASS_NORMAL, now_ns) +
			  polar_waiting(id, CLASS_BATCH, now_ns);
		demand_ns += __sync_lock_test_and_set(&core->used_ns, 0) + waiting * span_ns;
	}
	return demand_ns;
}

/* What there was for it on the awake cores in the window that ends; begins the next. */
VERIFIED_ONCE u64 polar_room_ns(u64 span_ns)
{
	u64 room_ns = 0;
	u32 id;

	bpf_for(id, 0, nr_cores) {
		struct core_ctx *core = core_ctx(id);
		u64 lanes_ns, lost_ns;

		if (!core)
			break;
		lost_ns = __sync_lock_test_and_set(&core->critical_ns, 0) * core->nr_lanes;
		lanes_ns = polar_lanes_ns(core, span_ns);
		if (id < live.cores_awake && lanes_ns > lost_ns)
			room_ns += lanes_ns - lost_ns;
	}
	return room_ns;
}

/* How many cores are to be awake after a window with this demand and room. */
VERIFIED_ONCE u32 polar_wanted(u64 demand_ns, u64 room_ns, u64 span_ns)
{
	u32 awake = live.cores_awake, id;
	struct core_ctx *core;

	if (demand_ns * 100 > room_ns * POLAR_WAKE) {
		polar_low = 0;
		bpf_for(id, awake, nr_cores) {
			core = core_ctx(id);
			if (!core || demand_ns * 100 <= room_ns * POLAR_GOAL)
				break;
			room_ns += polar_lanes_ns(core, span_ns);
			awake++;
		}
		return awake;
	}
	core = core_ctx(awake - 1);
	if (awake < 2 || !core || polar_lanes_ns(core, span_ns) >= room_ns ||
	    demand_ns * 100 >= (room_ns - polar_lanes_ns(core, span_ns)) * POLAR_PARK) {
		polar_low = 0;
		return awake;
	}
	if (++polar_low < POLAR_PATIENCE)
		return awake;
	polar_low = 0;
	return awake - 1;
}

/* Wakes and parks cores. Those that wake look for work. */
VERIFIED_ONCE int polar_apply(u32 awake)
{
	u32 before = live.cores_awake, id;

	if (awake == before)
		return 0;
	live.cores_awake = awake;
	if (awake > before)
		count_add(cores_woken, awake - before);
	else
		count_add(cores_parked, before - awake);
	bpf_for(id, awake < before ? awake : before, awake < before ? before : awake) {
		core_update(id, UPDATE_EXACT);
		if (awake > before)
			core_kick_idle(id, CLASS_NORMAL, -1);
	}
	return 0;
}

/* Sets the timer of the windows. */
static __always_inline void polar_arm(u64 now_ns)
{
	struct core_timer *timer = timer_of(TIMER_POLARIZE, 0);

	polar_since_ns = now_ns;
	if (timer)
		bpf_timer_start(&timer->timer, POLAR_WINDOW_NS, 0);
}

/* A task wakes: windows are needed, a last one too after a change to horizontal polarization. */
static __always_inline void polar_need(void)
{
	if ((live.vertical || live.cores_awake < nr_cores) && !polar_armed &&
	    !__sync_val_compare_and_swap(&polar_armed, 0, 1))
		polar_arm(scx_bpf_now());
}

/* A window ends. */
static int polar_timer(void *map, u32 *key, struct core_timer *timer)
{
	u64 now_ns = scx_bpf_now(), span_ns, demand_ns, room_ns;

	span_ns = now_ns > polar_since_ns ? now_ns - polar_since_ns : 1;
	demand_ns = polar_demand_ns(span_ns, now_ns);
	room_ns = polar_room_ns(span_ns);
	if (!live.vertical) {
		polar_apply(nr_cores);
		polar_armed = 0;
		return 0;
	}
	polar_apply(polar_wanted(demand_ns, room_ns, span_ns));
	if (demand_ns || live.cores_awake > 1)
		polar_arm(now_ns);
	else
		polar_armed = 0;
	return 0;
}

/* Makes the timer of the windows. */
static __always_inline s32 polar_init(void)
{
	struct core_timer *timer = timer_of(TIMER_POLARIZE, 0);
	s32 err;

	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &core_timers, CLOCK_MONOTONIC);
	return err ?: bpf_timer_set_callback(&timer->timer, polar_timer);
}

#endif /* SIDELANE_POLARIZE_BPF_H */
