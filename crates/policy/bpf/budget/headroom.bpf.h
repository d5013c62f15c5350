/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Headroom: cores that batch leaves free, for the kernel's own scheduler to find.
 *
 * Problem: where batch is scheduled alone, the kernel's scheduler places all other tasks. It looks for an idle core, then for
 * an idle lane. A lane that runs batch is as good as idle, but not to it: what wakes goes to the idle lane beside another task, while
 * elsewhere a core runs batch only.
 *
 * Rule: each core is taken by others, free, or lent to batch (enum room). When others take one and fewer are free than are
 * wanted, batch leaves a core that it has for itself. When others leave theirs, it is free if too few are, else lent. Batch uses no lane
 * of a free core; on a machine with one core or two, which are too few to leave a whole one, all but the first.
 * Wanted are so many that, of the arrivals of the last second, fixed.headroom of 1000 found one: arrivals are counted by
 * windows of HEADROOM_WINDOW_NS, within which batch leaves a core, and each is one of as many as came in its window.
 *
 * Cost: an arrival on a core without others, a few atomic operations, and a search for a core if one is to be left.
 *
 * Source: none.
 */
#ifndef SIDELANE_HEADROOM_BPF_H
#define SIDELANE_HEADROOM_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "borrow.bpf.h"

#define HEADROOM_WINDOW_NS 500000ULL
/* Arrivals of one window beyond that are not told apart. */
#define HEADROOM_MOST 64

struct headroom {
	u64 window; /* number of the window that is counted */
	u32 arrived; /* in it */
	u32 all; /* arrivals since learnt_ns */
	u64 learnt_ns; /* when the number wanted was found last */
	u32 counts[HEADROOM_MOST]; /* of all: arrivals that were the n-th of their window */
};

GLOBAL struct headroom headroom;
GLOBAL u32 cores_free;
GLOBAL u32 cores_wanted;

/* Puts @core into room @to, if it is in @from still. */
static __always_inline bool room_put(struct core_ctx *core, u32 from, u32 to)
{
	if (__sync_val_compare_and_swap(&core->room, from, to) != from)
		return false;
	if (to == ROOM_FREE)
		__sync_fetch_and_add(&cores_free, 1);
	else if (from == ROOM_FREE)
		__sync_fetch_and_sub(&cores_free, 1);
	return true;
}

/* How many arrivals came within a window, but for those beyond fixed.headroom of 1000; lanes may count at the same time. */
VERIFIED_ONCE u32 headroom_learn(u32 all)
{
	u32 left = all - (u64)all * fixed.headroom / 1000, n = HEADROOM_MOST - 1, beyond = 0, i;

	bpf_for(i, 0, HEADROOM_MOST) {
		n = BOUNDED(HEADROOM_MOST - 1 - i, HEADROOM_MOST);
		beyond += headroom.counts[n];
		if (beyond > left)
			break;
	}
	bpf_for(i, 0, HEADROOM_MOST)
		headroom.counts[BOUNDED(i, HEADROOM_MOST)] = 0;
	return n + 1;
}

/* Others came to a core: how many of those have to be free follows. */
static __always_inline void headroom_counts(u64 now_ns)
{
	u64 window = now_ns / HEADROOM_WINDOW_NS;
	u32 nth, wanted;

	if (headroom.window != window) {
		headroom.window = window;
		headroom.arrived = 0;
	}
	nth = __sync_fetch_and_add(&headroom.arrived, 1);
	if (nth >= HEADROOM_MOST)
		nth = HEADROOM_MOST - 1;
	headroom.counts[BOUNDED(nth, HEADROOM_MOST)] += 1;
	headroom.all += 1;
	if (now_ns < headroom.learnt_ns + NS_PER_S)
		return;
	headroom.learnt_ns = now_ns;
	wanted = headroom_learn(headroom.all);
	headroom.all = 0;
	cores_wanted = wanted < nr_cores ? wanted : nr_cores - 1;
}

/* Batch leaves the lanes of @core_id that it may not use any more. */
static __always_inline int headroom_evict(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core)
		return 0;
	core_update(core_id, UPDATE_EXACT);
	bpf_for(i, 0, first_for_batch(core)) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && lane->state == LANE_BATCH && !lane->overdue)
			evict_lane(lane, cpu, now_ns);
	}
	return 0;
}

/* Frees a core of @set, the nearest to @from that batch may use. */
VERIFIED_ONCE bool headroom_frees(u32 set, u32 from, u64 now_ns)
{
	struct core_ctx *own = core_ctx(from);
	s32 id = -1;
	u32 i;

	if (!own)
		return false;
	bpf_for(i, 0, nr_cores) {
		struct core_ctx *core;

		id = core_set_around(set, set, own->near, id);
		if (id < 0)
			break;
		core = core_ctx(id);
		if (!core || core->room != ROOM_LENT || !room_put(core, ROOM_LENT, ROOM_FREE))
			continue;
		headroom_evict(id, now_ns);
		return true;
	}
	return false;
}

/* Others come to @core_id. */
static __always_inline int headroom_arrives(u32 core_id, u64 now_ns)
{
	headroom_counts(now_ns);
	if (*(volatile u32 *)&cores_free < cores_wanted && !headroom_frees(CORES_IDLE, core_id, now_ns) &&
	    headroom_frees(CORES_LENT, core_id, now_ns))
		count(cores_vacated);
	return 0;
}

/* The lanes of @core are in @states now: do others have it? */
static __always_inline void headroom_changes(struct core_ctx *core, u32 core_id, u64 states,
					     u64 now_ns)
{
	bool taken = STATE_COUNT(states, LANE_CRITICAL) > 0;
	u32 room = *(volatile u32 *)&core->room;

	if (!fixed.headroom || taken == (room == ROOM_TAKEN))
		return;
	if (!taken)
		room_put(core, ROOM_TAKEN,
			 *(volatile u32 *)&cores_free < cores_wanted ? ROOM_FREE : ROOM_LENT);
	else if (room_put(core, room, ROOM_TAKEN))
		headroom_arrives(core_id, now_ns);
}

/* Before anything runs. */
static __always_inline void headroom_begins(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!fixed.headroom || core_id || !core || nr_cores < 2)
		return;
	cores_wanted = 1;
	room_put(core, ROOM_LENT, ROOM_FREE);
}

#endif /* SIDELANE_HEADROOM_BPF_H */
