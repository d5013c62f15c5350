/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Weights of cgroups: cpu.weight among normal work.
 *
 * Problem: with virtual times a task alone counts, so that a cgroup gets the more, the more tasks
 * it has, and its cpu.weight says nothing.
 *
 * Rule (fixed.cgroup_weights): a cgroup has its weight, a task in it that of its nice value. What
 * wants to run in a cgroup, tasks and cgroups within it that have any, shares what the cgroup gets by
 * weight. So the virtual time of a normal task goes the slower, the higher its flat weight is:
 *   weight of the task x weight of its cgroup / weight of all that wants to run in that x the same
 *   for the cgroup around it, and so on up to the root, as it is at the moment.
 * Between cores fair.bpf.h sees to it. Tasks that sleep do not count. A cgroup without the cpu controller
 * is part of the one around it.
 *
 * Cost: two operations more for each wake-up and sleep; a look at each cgroup around a task when it
 * stops or ticks. Without, a division each time that a task is charged whose nice value is not 0.
 *
 * Source: the kernel's cpu.weight (fair group scheduling), flattened as scx_flatcg does. Does not:
 * weigh critical and batch work, which waits in order of arrival; hold exactly over a machine, since
 * each core's vector is in order by itself and a lane looks at a few others only.
 */
#ifndef SIDELANE_WEIGHT_BPF_H
#define SIDELANE_WEIGHT_BPF_H

#include "../core/types.bpf.h"
#include "../core/classify.bpf.h"
#include "../core/vector.bpf.h"

/* Flat weights are in fixed point. */
#define FLAT_SHIFT 20

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct cgroup_demand);
} cgroup_demands SEC(".maps");

/* So much more (or less) of the weight wants to run in cgroup @id. */
VERIFIED_ONCE int demand_change(u64 id, s64 weight)
{
	u32 depth;

	bpf_for(depth, 0, CGROUP_DEPTH_MAX) {
		struct cgroup_known *known = bpf_map_lookup_elem(&cgroups_known, &id);
		struct cgroup_demand *demand = bpf_map_lookup_elem(&cgroup_demands, &id);
		s64 before;

		if (!known || !demand || !weight)
			break;
		before = __sync_fetch_and_add(&demand->weight, weight);
		if (weight > 0) {
			if (before)
				break;
			demand->counted = known->weight;
			demand->parent = known->parent;
			weight = known->weight;
		} else {
			if (before + weight)
				break;
			weight = -(s64)demand->counted;
		}
		id = demand->parent; /* the loader may know of another by now */
	}
	return 0;
}

/* The flat weight of a task with @weight in cgroup @id, times 2^FLAT_SHIFT; 1 at least. */
VERIFIED_ONCE u64 weight_flat(u64 id, u64 weight)
{
	u64 flat = weight << FLAT_SHIFT;
	u32 depth;

	bpf_for(depth, 0, CGROUP_DEPTH_MAX) {
		struct cgroup_known *known = bpf_map_lookup_elem(&cgroups_known, &id);
		struct cgroup_demand *demand = bpf_map_lookup_elem(&cgroup_demands, &id);
		s64 all;

		if (!known || !demand)
			break;
		all = demand->weight;
		/* an entry that is replaced meanwhile may say anything for a moment */
		if (all > 0 && known->weight)
			flat = flat * known->weight / (u64)all;
		id = known->parent;
	}
	return flat ? flat : 1;
}

/* @p wants to run from now on. */
static __always_inline void weight_begins(struct task_struct *p, struct task_ctx *tctx)
{
	tctx->weight_group = cgroup_group(p);
	tctx->weight = tctx->weight_group ? p->scx.weight : 0;
	if (tctx->weight)
		demand_change(tctx->weight_group, tctx->weight);
}

/* It does no longer. */
static __always_inline void weight_ends(struct task_ctx *tctx)
{
	if (tctx->weight)
		demand_change(tctx->weight_group, -(s64)tctx->weight);
	tctx->weight = 0;
}

/* From the tick of @p, whose class was just looked up: it may be in another cgroup. */
static __always_inline void weight_check(struct task_struct *p, struct task_ctx *tctx)
{
	if (!fixed.cgroup_weights || cgroup_group(p) == tctx->weight_group)
		return;
	weight_ends(tctx);
	weight_begins(p, tctx);
}

/* Virtual time of @p for @ran_ns on a lane. */
static __always_inline u64 weight_vtime(const struct task_struct *p, const struct task_ctx *tctx,
					u64 ran_ns)
{
	u64 weight = p->scx.weight ? p->scx.weight : 1, flat, stride;

	if (!fixed.cgroup_weights)
		return nice_vtime(p, ran_ns);
	flat = tctx->weight_group ? weight_flat(tctx->weight_group, weight) : weight << FLAT_SHIFT;
	stride = (fixed.lag_ns * 100 << FLAT_SHIFT) / flat;
	vtime_stride = stride > vtime_stride ? stride : vtime_stride - vtime_stride / 64;
	return (ran_ns * 100 << FLAT_SHIFT) / flat;
}

#endif /* SIDELANE_WEIGHT_BPF_H */
