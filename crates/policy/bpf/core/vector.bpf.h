/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Vectors: where work waits, and which lane may take it from there.
 *
 * Problem: with a queue for each lane, work waits on one lane while the
 * sibling, which shares its caches, has nothing to do.
 *
 * Rule: each core has one queue a class (the source's "dispatch vector"). Either
 * lane takes from it; that is not a steal. Critical work waits by age (old.bpf.h), normal work
 * by virtual time, so that nice values count, batch first come, first served.
 * A lane serves critical work of all cores, then its core's normal vector, then, on an open core,
 * its batch. With nothing there it steals from the vectors of other cores, nearest
 * first; the further away, the longer the far vector has to be
 * (fixed.steal_min_queued). Of the first few at a distance normal work is taken from the longest.
 *
 * Virtual time is each core's own: that to which the work has come that began to run there. What a core's tasks have
 * does not say anything of another's then, whose tasks may be bound to it. A task that comes from another core is as far ahead
 * of the work here, or behind, as it was there. Sleeping saves up the lag.
 *
 * Severity (fixed.steal_patience_ns; 0: none): the source steals across a distance only if
 * the situation is severe enough, the more so the longer the distance. Read here as: a far core
 * with an idle lane helps itself in a moment, so its vector has to be longer by one; a lane that
 * has been without work for the patience, times the distance, needs one less, and again after
 * as long, but one at least.
 *
 * Slices (fixed.keep_slice): a task that sleeps for less than a slice goes on with what it
 * has left of its slice, if it has used less than half of it. With half of it used or more the
 * slice ends there ("time slice early": what it holds is not torn from it soon after it
 * wakes), and it wakes with a whole one. Else each wake-up brings a whole one.
 *
 * Lanes (fixed.keep_lane): of normal work that waits on its core a lane takes the first that was there last (ran, or was sent there when it woke), if that is ahead of
 * the first of all by the lag at most: a lane has a TLB of its own ("thread affinity").
 *
 * The starvation bound is overdue.bpf.h.
 *
 * Cost: one lock a core and class; a search over the cores that have a waiting
 * vector before a lane goes idle.
 *
 * Source: z/VM SMT-2 performance report: one dispatch vector a core, thread affinity, steal barriers and their
 * severity, time slice early. How severe is severe it does not say. Vertical polarization is
 * polarize.bpf.h.
 */
#ifndef SIDELANE_VECTOR_BPF_H
#define SIDELANE_VECTOR_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"

/* 63..40 zero | 39..32 class + 1 | 31..0 core */
#define VECTOR_ID(core, class) ((((u64)(class) + 1) << 32) | (u32)(core))
_Static_assert(NR_CLASSES < 255, "the class has to fit eight bits of a vector's id");

#define NS_PER_S 1000000000ULL

GLOBAL u64 vtime_stride; /* with weights of cgroups: how far running for the lag brings it */
GLOBAL u32 critical_free; /* critical tasks that wait in a vector and are bound to no lane */
GLOBAL u64 critical_free_since_ns; /* since when there are some */

static __always_inline u32 vector_length(u32 core, u32 class)
{
	s32 n = scx_bpf_dsq_nr_queued(VECTOR_ID(core, class));

	return n > 0 ? n : 0;
}

/*
 * Does a task wait in the vector, or is it on its way there? False is certain; true
 * may be out of date until the hint is refreshed.
 */
static __always_inline bool vector_hinted(u32 core, u32 class)
{
	return core_set_test(CORES_QUEUED + class, core);
}

static __always_inline bool vector_waiting(u32 core, u32 class)
{
	return vector_hinted(core, class) && vector_length(core, class) > 0;
}

/*
 * Is a task in the vector, or on its way there? A task that an operation sends arrives
 * only after the operation has returned, so the length does not tell.
 */
static __always_inline bool vector_expected(const struct core_ctx *core, u32 class)
{
	return *(volatile const u32 *)&core->sent[BOUNDED(class, NR_CLASSES)] > 0;
}

/* Brings the hint up to date. */
VERIFIED_ONCE int vector_refresh(u32 core_id, u32 class)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core || class >= NR_CLASSES)
		return 0;
	if (vector_expected(core, class)) {
		core_set_assign(CORES_QUEUED + class, core_id, true);
		return 0;
	}
	if (!vector_hinted(core_id, class))
		return 0;
	core_set_assign(CORES_QUEUED + class, core_id, false);
	/* a lane that inserted meanwhile counted before it read the hint */
	if (vector_expected(core, class))
		core_set_assign(CORES_QUEUED + class, core_id, true);
	return 0;
}

#define NICE_VALUES 40
#define WEIGHT_USUAL 1024 /* of nice 0 */

/* By nice value, from -20 on: what it weighs (sched_prio_to_weight, kernel/sched/core.c). The kernel hands it on as a part of 100. */
static const u32 nice_weights[NICE_VALUES] = {
	88761, 71755, 56483, 46273, 36291, /* -20 */
	29154, 23254, 18705, 14949, 11916, /* -15 */
	9548,  7620,  6100,  4904,  3906, /* -10 */
	3121,  2501,  1991,  1586,  1277, /* -5 */
	1024,  820,   655,   526,   423, /* 0 */
	335,   272,   215,   172,   137, /* 5 */
	110,   87,    70,    56,    45, /* 10 */
	36,    29,    23,    18,    15, /* 15 */
};

/* Virtual time of @p for @ran_ns on a lane, by its nice value. */
static __always_inline u64 nice_vtime(const struct task_struct *p, u64 ran_ns)
{
	u32 nice = NICE_OF_STATIC_PRIO(p->static_prio);

	return !nice ? ran_ns
		     : ran_ns * WEIGHT_USUAL /
			       nice_weights[BOUNDED(nice + NICE_VALUES / 2, NICE_VALUES)];
}

/* A lane knows how much virtual time its task has in so long. */
#define VTIME_PACE_NS (1ULL << 16)

/* How far @tctx has come by the virtual time of @to: as far ahead of the work there, or behind, as on @from, its core. */
static __always_inline u64 vtime_on(const struct task_ctx *tctx, const struct core_ctx *from,
				    const struct core_ctx *to)
{
	return tctx->vtime + to->vtime - from->vtime;
}

/*
 * @tctx is on @core_id from now on. Virtual time is each core's own: it is as far ahead of normal work there, or behind, as
 * it was where it comes from.
 */
static __always_inline void vtime_moves(struct task_ctx *tctx, u32 core_id)
{
	const struct core_ctx *from, *to;

	if (tctx->core == core_id)
		return;
	from = core_ctx(tctx->core);
	to = core_ctx(core_id);
	if (from && to)
		tctx->vtime = vtime_on(tctx, from, to);
	tctx->core = core_id;
}

/* How far ahead of other normal work a task gets, or behind, in virtual time; so much sleeping saves up. */
static __always_inline u64 fair_lag(void)
{
	return vtime_stride > fixed.lag_ns ? vtime_stride : fixed.lag_ns;
}

/* @tctx begins to wait where normal work has come to @reached: it is behind by what sleeping saves up, and no more. */
static __always_inline void vtime_begins(struct task_ctx *tctx, u64 reached)
{
	u64 earliest = reached - fair_lag();

	if (time_before(tctx->vtime, earliest))
		tctx->vtime = earliest;
}

/* The same where it is. */
VERIFIED_ONCE int vtime_begins_anew(struct task_ctx *tctx __arg_nonnull)
{
	const struct core_ctx *core = core_ctx(tctx->core);

	if (core)
		vtime_begins(tctx, core->vtime);
	return 0;
}

/* To where normal work has come on @lane, of @core: what runs there; what is about to begin is where the core is. */
static __always_inline u64 lane_reached(const struct lane_ctx *lane, const struct core_ctx *core)
{
	return lane->state == LANE_NORMAL ? lane->reached : core->vtime;
}

/*
 * To where normal work has come that @p, which wakes, meets on @core: with one lane for it, of what runs there. What is bound to the
 * other lanes may be far ahead.
 */
static __always_inline u64 vtime_reached(const struct task_struct *p, const struct core_ctx *core)
{
	const struct lane_ctx *lane = is_bound(p) ? lane_ctx(scx_bpf_task_cpu(p)) : NULL;

	return lane && core == core_ctx(lane->core) ? lane_reached(lane, core) : core->vtime;
}

/*
 * Normal work that is served next on @lane, of @core, has come to @vtime: so far has all that waits. What wakes may begin the lag
 * behind; what wakes after it is no further behind for that.
 */
static __always_inline void vtime_comes(struct core_ctx *core, struct lane_ctx *lane, u64 vtime)
{
	if (time_before(lane->reached, vtime))
		lane->reached = vtime;
	if (time_before(core->vtime, vtime))
		core->vtime = vtime;
}

/*
 * @tctx was taken by @to since it was behind: it stays so by as much as sleeping saves up, and where it comes from, the others
 * are not behind by more either.
 */
static __always_inline void vtime_carries(struct task_ctx *tctx, u32 to_id,
					  const struct core_ctx *to)
{
	struct core_ctx *from = core_ctx(tctx->core);
	s64 behind, most = fair_lag();
	u64 alone;

	if (!from || from == to)
		return;
	alone = from->alone;
	behind = (to->vtime + to->alone) - (from->vtime + alone);
	if (behind > most) {
		/* of two that were taken at a time, once */
		__sync_val_compare_and_swap(&from->alone, alone, alone + behind - most);
		behind = most;
	}
	if (behind > 0)
		tctx->vtime -= behind;
	vtime_moves(tctx, to_id);
	vtime_begins(tctx, to->vtime);
}

/* A whole slice of @tctx. Batch of a pool takes turns within its periods, as normal work does. */
static __always_inline u64 slice_of(const struct task_ctx *tctx)
{
	u32 class = task_class(tctx);

	return fixed.slice_ns[class == CLASS_BATCH && tctx->pool ? CLASS_NORMAL : class];
}

/* @p sleeps: notes what is left of its slice, if it is to go on with that. */
static __always_inline void slice_ends(const struct task_struct *p, struct task_ctx *tctx,
				       u64 now_ns)
{
	u64 left_ns = p->scx.slice, slice_ns;

	tctx->slept_ns = now_ns;
	if (!fixed.keep_slice)
		return;
	slice_ns = slice_of(tctx);
	tctx->slice_left_ns = left_ns * 2 > slice_ns && left_ns < slice_ns ? left_ns : 0;
}

/* The slice with which a task begins to wait, whether it has woken or not. */
static __always_inline u64 slice_begins(struct task_ctx *tctx, u64 now_ns)
{
	u64 left_ns = tctx->slice_left_ns, slice_ns = slice_of(tctx);

	tctx->slice_left_ns = 0;
	return left_ns && left_ns < slice_ns && now_ns < tctx->slept_ns + slice_ns ? left_ns
										   : slice_ns;
}

/* @p, critical, is about to wait in a vector. What is bound to a lane waits for that alone, and does not count. */
static __always_inline void critical_waits(const struct task_struct *p, struct task_ctx *tctx,
					   u64 now_ns)
{
	if (is_bound(p))
		return;
	tctx->in_vector = IN_VECTOR_FREE;
	if (!__sync_fetch_and_add(&critical_free, 1))
		critical_free_since_ns = now_ns;
}

/* Does critical work that is bound to no lane wait in any vector? */
static __always_inline bool critical_waits_free(void)
{
	return *(volatile u32 *)&critical_free;
}

/* For how long some has, without a break; 0: none does. */
static __always_inline u64 critical_waits_ns(u64 now_ns)
{
	u64 since_ns = critical_free_since_ns;

	return critical_waits_free() && now_ns > since_ns ? now_ns - since_ns : 0;
}

/* @p is about to be put into the vector of @core. */
static __always_inline void vector_enter(const struct task_struct *p, struct task_ctx *tctx,
					 u32 core, u64 now_ns)
{
	struct core_ctx *target = core_ctx(core);
	u32 class = task_class(tctx), before;

	vtime_moves(tctx, core);
	tctx->queued_ns = now_ns;
	tctx->in_vector = IN_VECTOR;
	if (class == CLASS_CRITICAL)
		critical_waits(p, tctx, now_ns);
	tctx->overdue = OVERDUE_NOT;
	if (!tctx->due_ns && class != CLASS_CRITICAL)
		tctx->due_ns = now_ns + fixed.starvation_bound_ns[class];
	if (!target)
		return;
	hook_enters_vector(target, tctx, class);
	/* what is fetched makes it a full barrier: see vector_refresh() */
	before = __sync_fetch_and_add(&target->sent[class], 1);
	barrier_var(before);
}

/*
 * A task begins to wait that is to run earlier than the bound of its class says: a kernel thread of
 * one lane at once; one that was due before, and has not run for long since, when it was due. The lane
 * that it left looks for it (overdue.bpf.h).
 */
static __always_inline void due_soon(const struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	struct lane_ctx *lane;

	if (!tctx->due_ns && is_pinned_kthread(p))
		tctx->due_ns = now_ns;
	lane = tctx->due_ns ? lane_ctx(scx_bpf_task_cpu(p)) : NULL;
	if (lane)
		lane->timely_ns[task_class(tctx)] = 0;
}

/* Does @tctx run only for a moment each time, and so far in this one? What never slept is not known to. */
static __always_inline bool is_brief(const struct task_ctx *tctx)
{
	return tctx->slept_ns && tctx->burst_mean_ns < BRIEF_NS && tctx->burst_ns < BRIEF_NS;
}

/* The place of @tctx, critical, among what waits in a vector (old.bpf.h): since when its job counts to have begun. */
static __always_inline u64 old_order_ns(struct task_struct *p, const struct task_ctx *tctx,
					u64 now_ns)
{
	u64 began_ns;

	if (!tctx->job_tid) {
		if (tctx->burst_ns >= OLD_SLICES * fixed.slice_ns[CLASS_CRITICAL])
			return now_ns;
		if (!is_brief(tctx))
			return tctx->job_ns;
		return tctx->job_ns > OLD_BRIEF_NS ? tctx->job_ns - OLD_BRIEF_NS : 1;
	}
	began_ns = hook_job_began_ns(p);
	if (began_ns + fixed.starvation_bound_ns[CLASS_CRITICAL] < now_ns)
		return now_ns;
	return hook_job_place_ns(tctx, began_ns, now_ns);
}

/* Puts @p into the vector of @core. The caller kicks the lanes that should look. */
static __always_inline void vector_insert(struct task_struct *p, struct task_ctx *tctx, u32 core,
					  bool woke, u64 enq_flags, u64 now_ns)
{
	u32 class = task_class(tctx);
	u64 slice_ns = slice_begins(tctx, now_ns);
	const struct core_ctx *target = core_ctx(core);

	due_soon(p, tctx, now_ns);
	vector_enter(p, tctx, core, now_ns);
	if (class == CLASS_NORMAL) {
		if (woke && target)
			vtime_begins(tctx, vtime_reached(p, target));
		scx_bpf_dsq_insert_vtime(p, VECTOR_ID(core, class), slice_ns, tctx->vtime,
					 enq_flags);
	} else if (class == CLASS_CRITICAL) {
		scx_bpf_dsq_insert_vtime(p, VECTOR_ID(core, class), slice_ns,
					 old_order_ns(p, tctx, now_ns), enq_flags);
	} else {
		scx_bpf_dsq_insert(p, VECTOR_ID(core, class), slice_ns, enq_flags);
	}
	core_set_assign(CORES_QUEUED + class, core, true);
}

/* The task runs, or goes elsewhere: it no longer counts in the vector it was sent to. */
static __always_inline void vector_left(struct task_ctx *tctx)
{
	struct core_ctx *core = tctx->in_vector ? core_ctx(tctx->core) : NULL;
	u32 class = task_class(tctx);

	if (!core)
		return;
	if (tctx->in_vector == IN_VECTOR_UNFIT)
		__sync_fetch_and_sub(&core->unfit, 1);
	if (tctx->in_vector == IN_VECTOR_FREE)
		__sync_fetch_and_sub(&critical_free, 1);
	tctx->in_vector = IN_NO_VECTOR;
	hook_leaves_vector(core, tctx, class);
	if (__sync_fetch_and_sub(&core->sent[class], 1) == 1)
		vector_refresh(tctx->core, class);
}

/* Does a task wait in any vector, or is one on its way there? */
static __always_inline bool work_hinted(void)
{
	u64 words = 0;
	u32 class;

	UNROLLED
	for (class = 0; class < NR_CLASSES; class += 1)
		words |= core_set_words(CORES_QUEUED + class);
	return words;
}

/* Moves the first task of the vector that may run here to this lane. */
static __always_inline bool vector_take(u32 core, u32 class)
{
	return vector_hinted(core, class) && scx_bpf_dsq_move_to_local(VECTOR_ID(core, class), 0);
}

/* Among so many tasks of a vector one that ran on the lane is looked for. */
#define KEEP_LOOKS 8

/* Moves the first normal task that ran on this lane last here, unless it is ahead of the first of all by more than the lag. */
VERIFIED_ONCE bool vector_take_own(u32 core)
{
	s32 cpu = bpf_get_smp_processor_id();
	u64 latest = 0, looks = 0;
	struct task_struct *p;
	bool taken = false;

	if (!vector_hinted(core, CLASS_NORMAL))
		return false;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core, CLASS_NORMAL), 0) {
		if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (!looks++)
			latest = p->scx.dsq_vtime + fair_lag();
		if (looks > KEEP_LOOKS || time_before(latest, p->scx.dsq_vtime))
			break;
		if (scx_bpf_task_cpu(p) != cpu)
			continue;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	return taken;
}

/* How far apart two cores are: enum distance. */
static __always_inline u32 core_distance(const struct core_ctx *a, const struct core_ctx *b)
{
	if (a == b)
		return DISTANCE_CORE;
	if (a->cache == b->cache)
		return DISTANCE_CACHE;
	if (a->node == b->node)
		return DISTANCE_NODE;
	return DISTANCE_REMOTE;
}

/* By how much less a barrier is for the lane of this CPU, which looks for work. */
static __always_inline u32 steal_severity(u32 distance)
{
	struct lane_ctx *lane = lane_ctx(bpf_get_smp_processor_id());
	u64 now_ns = scx_bpf_now(), patience_ns = fixed.steal_patience_ns * distance;

	if (!patience_ns || !lane || lane->state != LANE_IDLE || now_ns <= lane->since_ns)
		return 0;
	return (now_ns - lane->since_ns) / patience_ns;
}

/* Is the vector of @victim long enough for a lane of @thief to steal from? */
static __always_inline bool steal_allowed(u32 thief, u32 victim, u32 class, u32 distance)
{
	struct core_ctx *own = core_ctx(thief), *other = core_ctx(victim);
	u32 barrier = fixed.steal_min_queued[BOUNDED(distance, NR_DISTANCES)], severity;

	if (!own || !other || core_distance(own, other) != distance)
		return false;
	/* higher classes have all its lanes, and may keep them */
	if (barrier > 1 && lanes_in_state(victim, LANE_OTHER) == other->nr_lanes)
		barrier = 1;
	if (fixed.steal_patience_ns) {
		severity = steal_severity(distance);
		barrier += lanes_in_state(victim, LANE_IDLE) > 0;
		barrier = barrier > severity ? barrier - severity : 1;
	}
	return vector_length(victim, class) >= barrier;
}

/* Of so many vectors that a thief may take from, the longest. */
#define STEAL_LOOKS 4

/* The core at @distance from whose vector @thief should take a task of @class: the longest of the first few; -1: none. */
VERIFIED_ONCE s32 steal_longest(u32 thief, u32 class, u32 distance)
{
	u32 set = CORES_QUEUED + class, looks = 0, longest = 0, length, i;
	s32 victim = -1, best = -1;

	if (class >= NR_CLASSES)
		return -1;
	bpf_for(i, 0, nr_cores) {
		victim = core_set_around(set, set, thief, victim, ALL_CORES);
		/* with one at hand it does not look for long */
		if (victim < 0 || (best >= 0 && ++looks >= STEAL_LOOKS))
			break;
		if (victim == (s32)thief || !steal_allowed(thief, victim, class, distance))
			continue;
		length = vector_length(victim, class);
		if (length <= longest)
			continue;
		longest = length;
		best = victim;
	}
	return best;
}

/* Takes a task of @class from a core at @distance; @side: see vector_steal(). */
VERIFIED_ONCE bool steal_at(u32 thief, u32 class, u32 side, u32 distance)
{
	u32 set = CORES_QUEUED + class, i;
	s32 victim = -1;

	if (class >= NR_CLASSES)
		return false;
	if (class == CLASS_NORMAL && side >= NR_SIDES) {
		victim = steal_longest(thief, class, distance);
		if (victim < 0)
			return false;
		if (vector_take(victim, class))
			return true;
		victim = -1;
	}
	bpf_for(i, 0, nr_cores) {
		/* from the thief on, so that thieves spread */
		victim = core_set_around(set, set, thief, victim, ALL_CORES);
		if (victim < 0)
			break;
		if (victim != (s32)thief && steal_allowed(thief, victim, class, distance) &&
		    (side < NR_SIDES ? hook_takes_side(victim, side) : vector_take(victim, class)))
			return true;
	}
	return false;
}

/*
 * Takes a task of @class, normal or batch, from another core's vector, nearest first; @side: only a normal one of
 * that, or NR_SIDES.
 */
VERIFIED_ONCE bool vector_steal(u32 thief, u32 class, u32 side)
{
	u32 distance;

	if (core_parked(thief) || !core_set_any(CORES_QUEUED + class, thief))
		return false;
	bpf_for(distance, DISTANCE_CACHE, NR_DISTANCES) {
		if (!steal_at(thief, class, side, distance))
			continue;
		count(steals[BOUNDED(distance, NR_DISTANCES)]);
		return true;
	}
	return false;
}

/* Does a task of @class wait in any vector? */
VERIFIED_ONCE bool vector_waits(u32 class)
{
	u32 set = CORES_QUEUED + class, i;
	s32 core = -1;

	if (class >= NR_CLASSES || !core_set_some(set))
		return false;
	bpf_for(i, 0, nr_cores) {
		core = core_set_next(set, set, core + 1, ALL_CORES);
		if (core < 0)
			break;
		if (vector_length(core, class) > 0)
			return true;
	}
	return false;
}

/* How long the first task of the vector has waited; 0 if there is none. */
VERIFIED_ONCE u64 vector_head_wait_ns(u32 core, u32 class, u64 now_ns)
{
	struct task_struct *head;
	struct task_ctx *tctx;
	u64 wait_ns = 0;

	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core, class));
	tctx = head ? task_ctx(head) : NULL;
	if (tctx && now_ns > tctx->queued_ns)
		wait_ns = now_ns - tctx->queued_ns;
	bpf_rcu_read_unlock();
	return wait_ns;
}

/* May the first task of the vector use the lane of this CPU? */
VERIFIED_ONCE bool vector_head_fits(u32 core, u32 class)
{
	struct task_struct *head;
	bool fits;

	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core, class));
	fits = head && bpf_cpumask_test_cpu(bpf_get_smp_processor_id(), head->cpus_ptr);
	bpf_rcu_read_unlock();
	return fits;
}

#endif /* SIDELANE_VECTOR_BPF_H */
