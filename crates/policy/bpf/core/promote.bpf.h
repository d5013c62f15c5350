/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fast old: which job moves when a better core falls free.
 *
 * Problem: a critical job that found no free core shares one, or runs on a slow one, and
 * goes on there though a faster core has fallen free since.
 *
 * Rule: when a core falls idle, or runs only batch, the
 * oldest critical job that would run faster alone there moves: one that shares its core
 * with another critical task, or runs on a slower core. Old means since it woke, or since the
 * mark of its program (jobs.bpf.h), also across preemption: of jobs of unknown length the old one
 * has most left, and least time. Where critical work waits that is younger and may have it, it gets the place that the job leaves,
 * or that which the next one leaves that moves there: the slowest of all. Where nothing waits and the core is as fast as that of the oldest, the one that shares
 * it moves instead: both are alone then, and the oldest keeps its caches.
 * The speed of a lane is its core's capacity, times threadPerf of the lanes that run
 * critical work if that is known: a shared fast lane may be slower than a slow core. Never
 * to a slower or an equal place; one job a freed core, which is reserved until that
 * arrives. A job younger than fixed.promote_after_ns stays: moving costs caches, and
 * most jobs are done soon. The tick of one that has grown older looks for it again.
 * A thread that goes from one marked job to the next does not sleep, and its core does not fall idle. So at the first tick of a
 * marked job (jobs.bpf.h) that runs alone on its core, that core counts as fallen free, if no critical work waits, and barriers let a
 * lane take one that waits alone: where an older job gains there, the young one leaves its lane and waits, as the youngest. Then all
 * goes as above, and it gets the slowest place that is left.
 *
 * How: a running task cannot be taken from its lane by another. So the lane that looks
 * marks the task and kicks it; its own lane then checks that the core is still free and
 * takes a lane of it over, lets the task go, and enqueue sends it there. Meanwhile lanes of the core
 * that have nothing take nothing that waits, for RESERVED_NS at most. What came to a lane there wins: the mark is dropped and the task goes on where it was. A task that sleeps
 * before drops its mark.
 *
 * Cost: when a core falls free, a look at the cores with several critical lanes and at the
 * slow ones with any; a move costs a kick and a migration. The same look once a marked job.
 *
 * Source: Fast Old and First (FOF): fast old. Not here: moving normal work.
 */
#ifndef SIDELANE_PROMOTE_BPF_H
#define SIDELANE_PROMOTE_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "arrive.bpf.h"
#include "find.bpf.h"
#include "kick.bpf.h"
#include "vector.bpf.h"

/* Would the critical task of @lane run faster alone on @target_id? */
static __always_inline bool promotion_gains(const struct lane_ctx *lane, u32 target_id)
{
	struct core_ctx *own = core_ctx(lane->core), *target = core_ctx(target_id);
	u32 beside = lanes_in_state(lane->core, LANE_CRITICAL) - (lane->state == LANE_CRITICAL);

	if (!own || !target || lane->core == target_id)
		return false;
	if (target->capacity == own->capacity)
		return beside > 0;
	return lane_speed(target, 1) > lane_speed(own, beside + 1);
}

/* Has @core_id neither critical nor normal work? The lane @cpu (-1: none) has none, whatever its state says yet. */
VERIFIED_ONCE bool core_is_free(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);
	struct lane_ctx *lane = cpu >= 0 ? lane_ctx(cpu) : NULL;
	u32 free = lanes_in_state(core_id, LANE_IDLE) + lanes_in_state(core_id, LANE_BATCH);

	if (lane && lane->state != LANE_IDLE && lane->state != LANE_BATCH)
		free++;
	return core && free == core->nr_lanes;
}

/* What is asked to move is there by then, unless something keeps it: a higher scheduling class, a host that is busy. */
#define RESERVED_NS (NS_PER_S / 1000)

/* Is @core kept for a job that is to move there? Then its lanes without work take no critical work that waits, for a moment. */
static __always_inline bool core_is_reserved(const struct core_ctx *core, u64 now_ns)
{
	u64 since_ns = *(volatile const u64 *)&core->reserved_ns;

	return since_ns && now_ns < since_ns + RESERVED_NS;
}

/* Keeps @core_id for a job that is to move there: it expects that. False: it is kept for another. */
static __always_inline bool core_reserve(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core || __sync_val_compare_and_swap(&core->reserved_ns, 0, scx_bpf_now()))
		return false;
	__sync_fetch_and_add(&core->expected, 1);
	return true;
}

/* @core_id is kept no longer: its idle lanes but @cpu may take what waits. */
static __always_inline void reserved_ends(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return;
	__sync_lock_test_and_set(&core->reserved_ns, 0);
	if (work_hinted())
		core_kick_idle(core_id, CLASS_NORMAL, cpu);
}

/* The job does not come: what waits may have its place. */
static __always_inline void core_release(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 now_ns = scx_bpf_now();

	if (!core)
		return;
	core->deserted_ns = now_ns;
	__sync_fetch_and_sub(&core->expected, 1);
	critical_stays_away(core_id, now_ns);
	reserved_ends(core_id, -1);
}

/* The mark on @p is taken off: its core is released. */
VERIFIED_ONCE int promote_end(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	u32 core, cpu;

	if (!tctx)
		return 0;
	core = __sync_lock_test_and_set(&tctx->promote_to, 0);
	if (!core)
		return 0;
	count(promotions_dropped);
	hook_promotes(p, tctx, PROMOTION_DROPPED, core - 1);
	cpu = tctx->promote_lane;
	tctx->promote_lane = 0;
	core_release(core - 1);
	if (cpu) /* it was taken over: it has to look what it is now */
		scx_bpf_kick_cpu(cpu - 1, SCX_KICK_PREEMPT);
	return 0;
}

/* @p stays where it is. */
static __always_inline void promote_drop(struct task_struct *p, const struct task_ctx *tctx)
{
	if (tctx->promote_to)
		promote_end(p);
}

/* @p runs: it may be promoted. */
static __always_inline void promote_runs(struct task_struct *p, struct task_ctx *tctx)
{
	promote_drop(p, tctx); /* it came back before it left */
	tctx->yields = 0;
	if (tctx->class == CLASS_CRITICAL)
		tctx->promotable = 1;
}

/* It does not run any more. A full barrier: a lane that marks it sees that, or is seen by one that looks for a mark from here on. */
static __always_inline void promote_stops(struct task_ctx *tctx)
{
	if (tctx->promotable)
		__sync_lock_test_and_set(&tctx->promotable, 0);
}

/* May the task that runs on @cpu use @core_id, which is free, and is it not on the way to one? */
VERIFIED_ONCE bool promote_fits(s32 cpu, u32 core_id)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_struct *p;
	struct task_ctx *tctx;
	bool fits;

	p = lane && lane->pid ? bpf_task_from_pid(lane->pid) : NULL;
	if (!p)
		return false;
	tctx = task_ctx(p);
	fits = tctx && !tctx->promote_to && !tctx->misclassified &&
	       pick_lane(p, core_id, ANY_STATE, -1) >= 0;
	bpf_task_release(p);
	return fits;
}

/* When the job began that runs on @cpu. */
VERIFIED_ONCE u64 lane_job_ns(s32 cpu)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_struct *p;
	u64 job_ns;

	if (!lane)
		return ~0ULL;
	p = lane->marks ? bpf_task_from_pid(lane->pid) : NULL;
	if (!p)
		return lane->job_ns;
	job_ns = hook_job_began_ns(p);
	bpf_task_release(p);
	return job_ns;
}

/* The lane of @core_id with the oldest job that began before @before_ns and gains on @target; -1. */
VERIFIED_ONCE s32 promote_oldest_of(u32 core_id, u32 target, u64 before_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	s32 oldest = some_value(-1);
	u32 i;

	if (!core)
		return -1;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);
		u64 job_ns;

		if (!lane || lane->state != LANE_CRITICAL)
			continue;
		job_ns = lane_job_ns(cpu);
		if (job_ns >= before_ns || !promotion_gains(lane, target) ||
		    !promote_fits(cpu, target))
			continue;
		oldest = cpu;
		before_ns = job_ns;
	}
	return oldest;
}

/* The lane with the oldest job of all that gains on @target and began before @before_ns; -1: none. */
VERIFIED_ONCE s32 promote_oldest(u32 target, u64 before_ns)
{
	s32 oldest = some_value(-1), id = some_value(-1);
	u32 i;

	bpf_for(i, 0, nr_cores) {
		s32 cpu;

		id = core_set_next(CORES_SLOWED, CORES_SLOWED, id + 1, ALL_CORES);
		if (id < 0)
			break;
		cpu = promote_oldest_of(id, target, before_ns);
		if (cpu < 0)
			continue;
		oldest = cpu;
		before_ns = lane_job_ns(cpu);
	}
	return oldest;
}

/* Reserves @core_id for the task that runs on @cpu, and asks it to leave. */
VERIFIED_ONCE int promote_mark(s32 cpu, u32 core_id)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_struct *p;
	struct task_ctx *tctx;

	p = lane && lane->pid ? bpf_task_from_pid(lane->pid) : NULL;
	if (!p)
		return 0;
	tctx = task_ctx(p);
	if (tctx && !tctx->promote_to && core_reserve(core_id)) {
		hook_promotes(p, tctx, PROMOTION_BEGUN, core_id);
		if (__sync_val_compare_and_swap(&tctx->promote_to, 0, core_id + 1))
			core_release(core_id);
		else if (!*(volatile u32 *)&tctx->promotable)
			promote_end(p); /* it has left its lane meanwhile */
		else /* it may have gone to another lane */
			scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_PREEMPT);
	}
	bpf_task_release(p);
	return 0;
}

/*
 * The job on the lane @oldest shares its core, and @target is as fast: the youngest beside it that began before @before_ns goes
 * there, for then both are alone, and the oldest need not move. The lane of the job that moves.
 */
VERIFIED_ONCE s32 promote_beside(s32 oldest, u32 target, u64 before_ns)
{
	struct lane_ctx *lane = lane_ctx(oldest);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL, *to = core_ctx(target);
	s32 best = some_value(oldest);
	u64 youngest_ns = 0;
	u32 i;

	if (!core || !to || core->capacity != to->capacity)
		return oldest;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		u64 job_ns;

		lane = lane_ctx(cpu);
		if (!lane || cpu == oldest || lane->state != LANE_CRITICAL)
			continue;
		job_ns = lane_job_ns(cpu);
		if (job_ns < youngest_ns || job_ns >= before_ns || !promote_fits(cpu, target))
			continue;
		best = cpu;
		youngest_ns = job_ns;
	}
	return best;
}

/* Before when a job has to have begun that moves now. */
static __always_inline u64 promote_before_ns(void)
{
	u64 now_ns = scx_bpf_now(), after_ns = fixed.promote_after_ns;

	return now_ns > after_ns ? now_ns - after_ns : 0;
}

/* May the first critical job that waits on @core_id have the place on @cpu that falls free, by affinity and by the steal barriers? */
VERIFIED_ONCE bool promote_leaves(u32 core_id, s32 cpu)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	const struct core_ctx *from = core_ctx(core_id), *to = lane ? core_ctx(lane->core) : NULL;
	struct task_struct *head;
	u32 distance;
	bool fits;

	if (!from || !to)
		return false;
	distance = core_distance(from, to);
	if (distance && !steal_allowed(lane->core, core_id, CLASS_CRITICAL, distance))
		return false;
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core_id, CLASS_CRITICAL));
	fits = head && bpf_cpumask_test_cpu(cpu, head->cpus_ptr);
	bpf_rcu_read_unlock();
	return fits;
}

/* The lane of the oldest job that gains on @target and is older than what counts since @than_ns, also as one that takes turns (old.bpf.h); -1. */
static __always_inline s32 promote_older(u32 target, u64 than_ns)
{
	u64 before_ns = promote_before_ns();
	s32 cpu = promote_oldest(target, than_ns < before_ns ? than_ns : before_ns);

	return cpu >= 0 && old_running_ns(cpu, scx_bpf_now()) < than_ns ? cpu : -1;
}

/*
 * The lane of the job that moves to @target: the oldest one that gains there. Where critical work waits, only if the job is older,
 * and what waits may have the job's place. -1: none.
 */
VERIFIED_ONCE s32 promote_choose(u32 target)
{
	u32 waits = old_core(target, OLD_NOTHING);
	s32 cpu;

	if (waits >= nr_cores)
		return promote_oldest(target, promote_before_ns());
	cpu = promote_older(target, old_head_ns(waits));
	return cpu >= 0 && promote_leaves(waits, cpu) ? cpu : -1;
}

/* Gives @core_id, which may be free, to the oldest job that gains there. */
VERIFIED_ONCE int promote_to(u32 core_id)
{
	const struct core_ctx *core = core_ctx(core_id);
	s32 cpu;

	if (!core || critical_expected(core) || !core_is_free(core_id, -1))
		return 0;
	cpu = promote_choose(core_id);
	if (cpu >= 0 && !core_set_some(CORES_QUEUED + CLASS_CRITICAL))
		cpu = promote_beside(cpu, core_id, promote_before_ns());
	if (cpu >= 0)
		promote_mark(cpu, core_id);
	return 0;
}

/* After a job that did not come a core serves what waits for so long. */
#define DESERTED_NS (NS_PER_S / 1000)

/*
 * The lane @cpu of @core_id, on which nothing is to go on, looks for critical work, and some waits: does a running job that is
 * older move there first? If its last task has left it (@empty) that is set off. Then what waits gets the place that falls free
 * in the end, the slowest one.
 */
VERIFIED_ONCE bool promote_first(u32 core_id, s32 cpu, bool empty)
{
	const struct core_ctx *core = core_ctx(core_id);
	u64 now_ns = scx_bpf_now();

	if (!core || now_ns < core->deserted_ns + DESERTED_NS || !core_is_free(core_id, cpu))
		return false;
	cpu = promote_choose(core_id);
	if (cpu < 0)
		return false;
	if (empty)
		promote_mark(cpu, core_id);
	return !empty || core_is_reserved(core, now_ns);
}

/* Does critical work that waits leave @core, @core_id, to a running job? See promote_first(). */
static __always_inline bool promote_takes(const struct core_ctx *core, u32 core_id, s32 cpu,
					  bool empty, u64 now_ns)
{
	return fixed.promote &&
	       (core_is_reserved(core, now_ns) ||
		(core_set_any(CORES_SLOWED, core_id) && promote_first(core_id, cpu, empty)));
}

/* @core_id may be free: a job that would gain there gets it. */
static __always_inline void promote_offer(u32 core_id)
{
	if (fixed.promote && core_set_any(CORES_SLOWED, core_id))
		promote_to(core_id);
}

/* From the tick of @p: is there a free core for a job like this one, now that it is older? */
static __always_inline void promote_check(struct task_struct *p, struct lane_ctx *lane)
{
	u32 home = lane->core;
	s32 id;

	if (!fixed.promote || lane->state != LANE_CRITICAL || !core_set_test(CORES_SLOWED, home))
		return;
	id = find_core(p, CORES_IDLE, FREE_STATES, home, nr_cores);
	if (id < 0 || !promotion_gains(lane, id))
		id = find_core(p, CORES_LENT, FREE_STATES, home, nr_cores);
	if (id >= 0 && promotion_gains(lane, id))
		promote_offer(id);
}

/* Is @p, alone on its core with a job that has just begun, to have the place of an older job, which gains there? */
VERIFIED_ONCE bool promote_exchanges(struct task_struct *p __arg_trusted)
{
	const struct lane_ctx *own = lane_ctx(scx_bpf_task_cpu(p)), *lane;
	const struct core_ctx *core, *from;
	struct task_ctx *tctx = task_ctx(p);
	s32 cpu;

	core = own ? core_ctx(own->core) : NULL;
	if (!core || !tctx || critical_expected(core) || is_bound_now(p) ||
	    !core_is_free(own->core, scx_bpf_task_cpu(p)))
		return false;
	cpu = promote_older(own->core, old_order_ns(p, tctx, scx_bpf_now()));
	lane = lane_ctx(cpu);
	from = cpu >= 0 && lane ? core_ctx(lane->core) : NULL;
	/* that lane takes it, though nothing waits beside it, and its own lane idles then (steal_allowed()) */
	return from && bpf_cpumask_test_cpu(cpu, p->cpus_ptr) && !fixed.steal_patience_ns &&
	       fixed.steal_min_queued[BOUNDED(core_distance(from, core), NR_DISTANCES)] <= 1;
}

/* The tick of critical @p, whose marks were just looked at: once a job, it is looked whether its core counts as fallen free. */
static __always_inline void promote_yields(struct task_struct *p, struct task_ctx *tctx,
					   const struct lane_ctx *lane)
{
	if (!fixed.promote || !tctx->job_new)
		return;
	tctx->job_new = 0;
	if (lane->state != LANE_CRITICAL || core_set_some(CORES_QUEUED + CLASS_CRITICAL) ||
	    !core_set_any(CORES_SLOWED, lane->core) || !promote_exchanges(p))
		return;
	tctx->yields = 1;
	scx_bpf_task_set_slice(p, 0);
}

/* Takes over a lane of the core that is reserved for @p, if all is as it was. */
static __always_inline bool promote_seize(struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	struct lane_ctx *own = lane_ctx(scx_bpf_task_cpu(p)), *lane;
	u32 core_id = tctx->promote_to - 1, state;
	s32 cpu;

	if (!own || tctx->class != CLASS_CRITICAL || tctx->misclassified || is_bound_now(p) ||
	    !promotion_gains(own, core_id) || !core_is_free(core_id, -1))
		return false;
	cpu = pick_lane(p, core_id, FREE_STATES, -1);
	lane = lane_ctx(cpu);
	if (cpu < 0 || !lane)
		return false;
	hook_critical_sent(core_id, tctx->budget, false, now_ns);
	state = lane_state_take(lane, core_ctx(core_id), LANE_IDLE, LANE_OTHER);
	if (state != LANE_IDLE && state != LANE_BATCH) /* batch has been asked to leave */
		return false;
	tctx->promote_lane = cpu + 1;
	return true;
}

/* @p was to leave its lane for a better one: does it? If it cannot, it goes on where it is. */
VERIFIED_ONCE bool promote_goes(struct task_struct *p __arg_trusted, u64 now_ns)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return false;
	if (tctx->promote_lane || promote_seize(p, tctx, now_ns))
		return true;
	promote_end(p);
	return false;
}

/* Moves @p, if it is to leave its lane for a better one and can. */
static __always_inline bool promote_moves(struct task_struct *p, const struct task_ctx *tctx,
					  u64 now_ns)
{
	return tctx->promote_to && promote_goes(p, now_ns);
}

/* Sends @p, which has left its lane, to the one that was taken over for it; false: it has none. */
static __always_inline bool promote_send(struct task_struct *p, struct task_ctx *tctx,
					 u64 enq_flags)
{
	u64 now_ns = scx_bpf_now();
	u32 core_id;
	s32 cpu;

	if (!promote_moves(p, tctx, now_ns))
		return false;
	cpu = tctx->promote_lane - 1;
	if (!bpf_cpumask_test_cpu(cpu, p->cpus_ptr) || is_bound_now(p)) {
		promote_end(p);
		return false;
	}
	core_id = __sync_lock_test_and_set(&tctx->promote_to, 0) - 1;
	tctx->promote_lane = 0;
	if (core_id >= nr_cores) { /* the mark was taken off meanwhile */
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
		return false;
	}
	hook_promotes(p, tctx, PROMOTION_DONE, core_id);
	vector_left(tctx);
	critical_leaves(tctx);
	critical_moves(tctx, core_id + 1); /* which counts it since it was reserved */
	vtime_moves(tctx, core_id);
	tctx->queued_ns = now_ns;
	count(promotions);
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL_ON | cpu, fixed.slice_ns[CLASS_CRITICAL],
			   enq_flags | SCX_ENQ_PREEMPT);
	critical_sent(tctx, core_id);
	reserved_ends(core_id, cpu);
	return true;
}

#endif /* SIDELANE_PROMOTE_BPF_H */
