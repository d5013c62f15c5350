/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The starvation bound: what waits too long behind work of a higher class.
 *
 * Problem: critical work may keep lanes busy for as long as it likes, and closes cores to batch.
 * What may use no other lane would wait without end.
 *
 * Rule: a normal or batch task is due when it has waited for its class's starvation_bound_ns; a
 * kernel thread of one lane at once (kthread.bpf.h). A lane takes what is due before all else, of
 * all tasks of its core's vectors that may use it the one that was due first, whatever its class;
 * on a closed core, too. It runs for fixed.overdue_slice_ns (until the tick after that), and no
 * work that wakes ends that earlier. What was due and did not run for so long at a stretch stays due.
 *
 * Share: each overdue run takes its time, times OVERDUE_PARTS, from the lane's account. While that
 * is ahead of the time by more than a slice's worth, nothing is taken. So overdue work has at most
 * 1 / OVERDUE_PARTS of a lane, and short runs go one after the other.
 *
 * Bound: with @n tasks due before it that may use its lane, which run for w in all (each for
 * overdue_slice_ns and a tick at most), a task waits for at most
 *
 *     bound + OVERDUE_PARTS * (w + overdue_slice_ns + tick) + (n + 3) * tick
 *
 * The second slice is one that was being served. A tick each: until it is seen that the account
 * allows the next run.
 *
 * Its own class: where a lane serves a class by itself, nothing of that class is passed over, and its
 * order holds: virtual time, pairing, symbiosis. Only what is due by far (OVERDUE_URGENT_NS), such as work of
 * little weight beside much of great weight, is taken all the same, for the watchdog would bite.
 *
 * Elsewhere: what waits on a core none of whose lanes runs our work is taken by any lane when it is due. Real-time tasks
 * may have all of them, or they leave the machine: the kernel lets a CPU take nothing from others a grace period of RCU before it
 * tells us, and that may not end as long as its thread waits there. Ticks look at a few such cores, in turn.
 *
 * Cost: a look through the vectors of the core when something may be due, a quarter of the bound
 * apart while nothing is. What is due then, and was not due at the look because it kept an earlier
 * time on another lane, is seen a quarter of the bound late. A tick, a look at what the lanes of a few other cores do where work
 * waits.
 *
 * Source: none; the kernel's deadline servers bound the wait behind real-time work alike.
 */
#ifndef SIDELANE_OVERDUE_BPF_H
#define SIDELANE_OVERDUE_BPF_H

#include "types.bpf.h"
#include "vector.bpf.h"

#define OVERDUE_URGENT_NS (10 * NS_PER_S) /* the watchdog bites at 30 s */
#define OVERDUE_CORES 4 /* at which a tick looks */

/* Does the account of @lane allow a run of this @kind, enum overdue? */
static __always_inline bool overdue_allowed(const struct lane_ctx *lane, u32 kind, u64 now_ns)
{
	return now_ns + (OVERDUE_PARTS - 1) * fixed.overdue_slice_ns >=
	       lane->overdue_paid_ns[BOUNDED(kind, NR_OVERDUE)];
}

/* A task begins to run on @lane: by the bound, if that took it. */
static __always_inline void overdue_begins(struct task_struct *p, struct task_ctx *tctx,
					   struct lane_ctx *lane)
{
	lane->overdue = tctx->overdue;
	tctx->overdue = OVERDUE_NOT;
	if (lane->overdue)
		scx_bpf_task_set_slice(p, fixed.overdue_slice_ns);
}

/* What runs on @lane stops, or goes on like any other: the lane's account pays. */
static __always_inline void overdue_ends(struct lane_ctx *lane, u64 now_ns)
{
	u32 kind = BOUNDED(lane->overdue, NR_OVERDUE);
	u64 from_ns = lane->overdue_paid_ns[kind];

	if (kind == OVERDUE_NOT)
		return;
	lane->overdue = OVERDUE_NOT;
	if (now_ns <= lane->since_ns)
		return;
	if (from_ns < lane->since_ns)
		from_ns = lane->since_ns;
	lane->overdue_paid_ns[kind] = from_ns + OVERDUE_PARTS * (now_ns - lane->since_ns);
}

/* A task stops that began to run when @lane changed last: is it still due, if it was? */
static __always_inline void due_ends(struct task_ctx *tctx, const struct lane_ctx *lane,
				     bool sleeps, u64 now_ns)
{
	if (sleeps || now_ns >= lane->since_ns + fixed.overdue_slice_ns)
		tctx->due_ns = 0;
}

/*
 * Of the tasks of @class that wait on @core_id and may use the lane @cpu: when the first was
 * due, or will be. 0: there is none.
 */
VERIFIED_ONCE u64 due_first(u32 core_id, s32 cpu, u32 class)
{
	struct task_struct *p;
	u64 first_ns = 0;

	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, class), 0) {
		struct task_ctx *tctx = task_ctx(p);

		if (!tctx || !tctx->due_ns || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (!first_ns || tctx->due_ns < first_ns)
			first_ns = tctx->due_ns;
	}
	return first_ns;
}

/*
 * Since when work of @class is due that waits for the lane @cpu, which serves class @own by itself;
 * 0: none is.
 */
VERIFIED_ONCE u64 overdue_since(s32 cpu, u32 class, u32 own, u64 now_ns)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	u32 i = BOUNDED(class, NR_CLASSES);
	u64 due_ns, look_ns;

	if (!lane || !vector_hinted(lane->core, i) ||
	    now_ns < (class == own ? lane->forgotten_ns : lane->timely_ns[i]))
		return 0;
	due_ns = due_first(lane->core, cpu, i);
	if (due_ns && now_ns >= due_ns + (class == own ? OVERDUE_URGENT_NS : 0))
		return due_ns;
	if (class == own) {
		lane->forgotten_ns = now_ns + NS_PER_S;
		return 0;
	}
	look_ns = now_ns + fixed.starvation_bound_ns[i] / 4;
	lane->timely_ns[i] = due_ns && due_ns < look_ns ? due_ns : look_ns;
	return 0;
}

/*
 * When that was due which the lane @cpu, which serves class @own by itself, takes by the bound now; 0:
 * it takes nothing.
 */
VERIFIED_ONCE u64 overdue_next(s32 cpu, u32 own, u64 now_ns)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	u64 normal_ns, batch_ns;

	if (!lane || !overdue_allowed(lane, OVERDUE_BOUND, now_ns))
		return 0;
	normal_ns = overdue_since(cpu, CLASS_NORMAL, own, now_ns);
	batch_ns = overdue_since(cpu, CLASS_BATCH, own, now_ns);
	return normal_ns && (!batch_ns || normal_ns <= batch_ns) ? normal_ns : batch_ns;
}

/* Moves the first task of @class that waits on @core_id and is due since @due_ns to this lane, the CPU @cpu. */
VERIFIED_ONCE bool overdue_move(u32 core_id, s32 cpu, u32 class, u64 due_ns)
{
	struct task_struct *p;
	bool taken = false;

	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, class), 0) {
		struct task_ctx *tctx = task_ctx(p);

		if (!tctx || tctx->due_ns != due_ns || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		tctx->overdue = OVERDUE_BOUND;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		if (taken)
			break;
		tctx->overdue = OVERDUE_NOT; /* another lane was faster */
	}
	if (taken)
		count(overdue[BOUNDED(class, NR_CLASSES)]);
	return taken;
}

/* Takes due work of @class from @core_id to the lane @cpu, this one. */
VERIFIED_ONCE bool overdue_rescue(u32 core_id, s32 cpu, u32 class, u64 now_ns)
{
	u64 due_ns = due_first(core_id, cpu, class);

	return due_ns && due_ns <= now_ns && overdue_move(core_id, cpu, class, due_ns);
}

/* Takes what was due first to the lane @cpu, this one, which serves class @own by itself. */
VERIFIED_ONCE bool overdue_take(s32 cpu, u32 own, u64 now_ns)
{
	u64 normal_ns = overdue_since(cpu, CLASS_NORMAL, own, now_ns);
	u64 batch_ns = overdue_since(cpu, CLASS_BATCH, own, now_ns);
	struct lane_ctx *lane = lane_ctx(cpu);
	u32 rescues;

	if (!lane)
		return false;
	rescues = lane->rescues;
	lane->rescues = 0;
	if (normal_ns && (!batch_ns || normal_ns <= batch_ns))
		return overdue_move(lane->core, cpu, CLASS_NORMAL, normal_ns);
	if (batch_ns)
		return overdue_move(lane->core, cpu, CLASS_BATCH, batch_ns);
	if (!rescues)
		return false;
	return (own != CLASS_NORMAL && overdue_rescue(rescues - 1, cpu, CLASS_NORMAL, now_ns)) ||
	       (own != CLASS_BATCH && overdue_rescue(rescues - 1, cpu, CLASS_BATCH, now_ns));
}

/* Does no lane of @core_id run our work? */
static __always_inline bool core_out_of_reach(u32 core_id)
{
	return !(states_present(core_states(core_id)) &
		 (STATE(LANE_CRITICAL) | STATE(LANE_NORMAL) | STATE(LANE_BATCH)));
}

/*
 * From a tick of the lane @cpu, which serves class @own by itself: does due work of @class wait for it of which no lane takes
 * care? Notes where.
 */
VERIFIED_ONCE bool overdue_look(s32 cpu, u32 class, u32 own, u64 now_ns)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	u64 due_ns;
	u32 i;

	if (!lane || class >= NR_CLASSES || class == own)
		return false;
	bpf_for(i, 0, OVERDUE_CORES) {
		s32 id = core_set_around(CORES_QUEUED + class, CORES_QUEUED + class, lane->stuck,
					 -1, ALL_CORES);

		if (id < 0)
			break;
		lane->stuck = id + 1;
		if (!core_out_of_reach(id))
			continue;
		due_ns = due_first(id, cpu, class);
		if (due_ns && due_ns <= now_ns) {
			lane->rescues = id + 1;
			return true;
		}
	}
	return false;
}

/* May work wait on @core_id that can be due? False is certain. */
static __always_inline bool overdue_hinted(u32 core_id)
{
	return vector_hinted(core_id, CLASS_NORMAL) || vector_hinted(core_id, CLASS_BATCH);
}

/* May something be due that waits for @lane, and is it allowed to take it? False is certain. */
static __always_inline bool overdue_expected(const struct lane_ctx *lane, u64 now_ns)
{
	return overdue_allowed(lane, OVERDUE_BOUND, now_ns) &&
	       (lane->rescues || overdue_hinted(lane->core));
}

/*
 * Wakes the idle lanes of @core_id for which something is due. Does one of them take what was due at
 * @due_ns?
 */
VERIFIED_ONCE bool overdue_kick_idle(u32 core_id, u64 due_ns, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	bool taken = false;
	u32 i;

	if (!core || states_busy(core, states_of(core)) == core->nr_lanes)
		return false;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);
		u64 next_ns;

		if (!lane || (lane->state != LANE_IDLE && lane->state != LANE_HELD))
			continue;
		next_ns = overdue_next(cpu, NR_CLASSES, now_ns);
		if (!next_ns)
			continue;
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		taken |= next_ns == due_ns;
	}
	return taken;
}

/*
 * From the tick of @p, which runs on the lane @cpu and does not pause: what is due gets an idle lane
 * of this core that it may use, or else this one.
 */
static __always_inline void overdue_check(struct task_struct *p, const struct task_ctx *tctx,
					  struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	u32 own = task_class(tctx);
	u64 due_ns = 0;

	if (overdue_hinted(lane->core)) {
		if (!lane->overdue)
			due_ns = overdue_next(cpu, own, now_ns);
		if (overdue_kick_idle(lane->core, due_ns, now_ns))
			due_ns = 0;
	}
	if (!due_ns && !lane->overdue && work_hinted() &&
	    overdue_allowed(lane, OVERDUE_BOUND, now_ns) &&
	    (overdue_look(cpu, CLASS_NORMAL, own, now_ns) ||
	     overdue_look(cpu, CLASS_BATCH, own, now_ns)))
		due_ns = now_ns;
	if (due_ns)
		scx_bpf_task_set_slice(p, 0);
}

#endif /* SIDELANE_OVERDUE_BPF_H */
