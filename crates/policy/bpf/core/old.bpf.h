/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Old first: which critical job runs next.
 *
 * Problem: each core has a vector of its own. A job in a long one is passed over by younger jobs that wait elsewhere; such jobs are few,
 * and make the tail.
 *
 * Rule: critical work waits in the order of age, which counts from where its job began: when it woke, or by the mark of its program
 * (jobs.bpf.h). A lane takes the oldest job that waits on any core and may use the lane; from beyond its last-level cache only
 * what is older by a part of a slice (OLD_MOVE_PARTS) than all that waits nearer, for a move there costs caches; and as far as the
 * steal barriers (vector.bpf.h) allow. What runs goes on after its slice while none of these is older.
 * A marked job may have a deadline, by which it may be ordered instead; beyond it, it is the youngest (jobs.bpf.h).
 * What runs for less than BRIEF_NS each time delays others by a moment, and would itself wait for a job: it counts as older by OLD_BRIEF_NS,
 * and what runs makes room for it at a tick.
 * No task goes on so for ever: what has not slept for OLD_SLICES of its own, or whose marked job is older than the starvation bound,
 * takes turns: its place is by the end of its last slice. For a thread that takes its next job without sleeping, and does not mark
 * it, looks like an old one.
 * What may use one lane only, and is all that waits, has that at the end of the slice, whatever its age (lane_next()).
 *
 * Cost: where critical work waits, a look at the first job of each core that has any (of OLD_LOOKS), when a lane looks for work. Nothing otherwise.
 *
 * Source: Fast Old and First (FOF): old first, as jobs of unknown length that are old have least time left.
 */
#ifndef SIDELANE_OLD_BPF_H
#define SIDELANE_OLD_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "vector.bpf.h"

#define OLD_NOTHING (~0ULL)

/* The place of the critical task that runs on the lane @cpu and could go on, among what waits. */
VERIFIED_ONCE u64 old_running_ns(s32 cpu, u64 now_ns)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_struct *p = lane ? bpf_task_from_pid(lane->pid) : NULL;
	struct task_ctx *tctx;
	u64 order_ns = now_ns;

	if (!p)
		return now_ns;
	tctx = task_ctx(p);
	if (tctx)
		order_ns = old_order_ns(p, tctx, now_ns);
	bpf_task_release(p);
	return order_ns;
}

/*
 * When the first critical job that waits on @core_id and may use the lane of this CPU counts to have begun; OLD_NOTHING: there
 * is none.
 */
VERIFIED_ONCE u64 old_head_ns(u32 core_id)
{
	s32 cpu = bpf_get_smp_processor_id();
	u64 began_ns = OLD_NOTHING;
	struct task_struct *p;
	bool waits;

	bpf_rcu_read_lock();
	p = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core_id, CLASS_CRITICAL));
	waits = p;
	if (p && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		began_ns = p->scx.dsq_vtime;
	bpf_rcu_read_unlock();
	if (!waits || began_ns != OLD_NOTHING)
		return began_ns;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_CRITICAL), 0) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		began_ns = p->scx.dsq_vtime;
		break;
	}
	return began_ns;
}

/* The core from whose vector a lane of @home takes: that of the oldest job that began before @before_ns. nr_cores: none. */
VERIFIED_ONCE u32 old_core(u32 home, u64 before_ns)
{
	const struct core_ctx *own = core_ctx(home);
	u32 set = CORES_QUEUED + CLASS_CRITICAL, best = nr_cores, i;
	s32 id = -1;

	bpf_for(i, 0, OLD_LOOKS) {
		const struct core_ctx *core;
		u32 distance;
		u64 began_ns;

		id = core_set_around(set, set, home, id, ALL_CORES);
		core = id >= 0 ? core_ctx(id) : NULL;
		if (!own || !core)
			break;
		began_ns = old_head_ns(id);
		if (began_ns == OLD_NOTHING)
			continue;
		distance = core_distance(own, core);
		if (distance > DISTANCE_CACHE)
			began_ns += (distance - DISTANCE_CACHE) * fixed.slice_ns[CLASS_CRITICAL] /
				    OLD_MOVE_PARTS;
		if (began_ns >= before_ns ||
		    (distance && !steal_allowed(home, id, CLASS_CRITICAL, distance)))
			continue;
		best = id;
		before_ns = began_ns;
	}
	return best;
}

/* The place of the first critical task that waits on @core_id, if it is brief and may use the lane @cpu; else OLD_NOTHING. */
VERIFIED_ONCE u64 old_brief_ns(u32 core_id, s32 cpu)
{
	u64 place_ns = OLD_NOTHING;
	struct task_struct *p;
	struct task_ctx *tctx;

	bpf_rcu_read_lock();
	p = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core_id, CLASS_CRITICAL));
	tctx = p ? task_ctx(p) : NULL;
	if (tctx && is_brief(tctx) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		place_ns = p->scx.dsq_vtime;
	bpf_rcu_read_unlock();
	return place_ns;
}

/* The tick of critical work on @lane: if it has run for longer than that, brief work on its core that counts as older comes first. */
static __always_inline void old_yields(struct task_struct *p, const struct task_ctx *tctx,
				       const struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	if (tctx->burst_ns >= BRIEF_NS && vector_waiting(lane->core, CLASS_CRITICAL) &&
	    old_brief_ns(lane->core, cpu) < old_running_ns(cpu, now_ns))
		scx_bpf_task_set_slice(p, 0);
}

/* Of lanes that look at the same time one takes the oldest job. The others look again, so often. */
#define OLD_TRIES 4

/* Takes the oldest critical job there is to the lane @cpu of @home, if it is older than the one that else goes on there, if one does. */
VERIFIED_ONCE bool old_take(u32 home, s32 cpu, bool goes_on)
{
	struct core_ctx *own = core_ctx(home), *core;
	u64 before_ns = OLD_NOTHING;
	u32 id, i;

	if (!own)
		return false;
	if (goes_on)
		before_ns = old_running_ns(cpu, scx_bpf_now());
	bpf_for(i, 0, OLD_TRIES) {
		if (!goes_on && !core_set_any(CORES_QUEUED + CLASS_CRITICAL, home))
			break;
		id = old_core(home, before_ns);
		core = core_ctx(id);
		if (id >= nr_cores || !core)
			return false;
		if (!vector_take(id, CLASS_CRITICAL))
			continue;
		if (id != home)
			count(steals[BOUNDED(core_distance(own, core), NR_DISTANCES)]);
		return true;
	}
	return !goes_on && vector_take(home, CLASS_CRITICAL);
}

#endif /* SIDELANE_OLD_BPF_H */
