/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fairness of normal work: the task that has come less far in virtual time runs.
 *
 * Problem: with turns each task of a lane has as much of it, whatever its nice value; what sleeps often waits for a slice of what
 * never does, each time. Each core has a vector of its own, and a lane steals only when that is empty: a core on which ten tasks
 * woke keeps them while others share theirs by three.
 *
 * Rule: what has run for its slice goes on while all normal work on its core has come further: so a task gets the more slices,
 * the more weight it has; but only until that has brought as much as a turn of the next one (turn_is_over()), and what it had while
 * nothing waited does not count. What wakes takes the lane for which it waits from normal work that has come further by the lag (how far
 * tasks get apart: fixed.lag_ns) / PREEMPT_PARTS (not with dispatching = "slices", nor what is SCHED_BATCH), if it is next: else
 * many that send each other messages find fewer each time they run.
 * Between cores: a lane takes a normal task from another core's vector if that is behind what waits on its own core, and behind
 * the task that runs on it, by more than the lag. It looks at FAIR_LOOKS vectors each time, in turns. Each core has a virtual
 * time of its own (vector.bpf.h); they compare once what was not held against tasks that ran alone is added. What is taken
 * so stays behind, by the lag at most. Where it comes from, no task is further behind either from then on: else one
 * core whose tasks could not leave it for long would later send them all.
 *
 * Cost: a compare for each wake-up that waits, and a look at the first task of its vector where that is behind; a look at the first
 * task of the own vector, and of as many others, each time that
 * a lane looks for normal work while some waits, or would go on with its own. Nothing otherwise.
 *
 * Source: our own; z/VM's steal barriers know the length of a vector only. A clock for each run queue, and tasks that take along how
 * far they are ahead: CFS and EEVDF. Does not: hold exactly, as a lane looks at a few others and at their first tasks only; look
 * past one that may not run here; keep the lanes of a core apart for tasks that may use one of several cores each: where others are
 * bound to the lane that is behind, these go first.
 */
#ifndef SIDELANE_FAIR_BPF_H
#define SIDELANE_FAIR_BPF_H

#include "types.bpf.h"
#include "vector.bpf.h"

/* What runs is ahead of what wakes by the lag / PREEMPT_PARTS: then it makes room. */
#define PREEMPT_PARTS 2

/* How far the normal task that runs on @lane has come by now; with weights of cgroups, at its last tick. */
static __always_inline u64 fair_running(const struct lane_ctx *lane)
{
	u64 now_ns = scx_bpf_now(), since_ns = lane->vtime_ns;

	if (fixed.cgroup_weights || now_ns < since_ns)
		return lane->vtime;
	return lane->vtime + (now_ns - since_ns) * lane->vtime_pace / VTIME_PACE_NS;
}

/* Is normal @p, which waits, so far behind what runs on @lane that it takes that over, if it is next there? */
static __always_inline bool fair_is_behind(const struct task_struct *p, const struct task_ctx *tctx,
					   const struct lane_ctx *lane)
{
	return fixed.wakes_preempt && tctx->class == CLASS_NORMAL && p->policy != SCHED_BATCH &&
	       lane->state == LANE_NORMAL && !lane->overdue &&
	       time_before(tctx->vtime + fair_lag() / PREEMPT_PARTS, fair_running(lane));
}

/* How far the first normal task that waits on @core_id has come, if it may run on the lane @cpu; else @nothing. */
VERIFIED_ONCE u64 fair_first(u32 core_id, s32 cpu, u64 nothing)
{
	struct task_struct *head;
	u64 come = nothing;

	if (!vector_hinted(core_id, CLASS_NORMAL))
		return nothing;
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(core_id, CLASS_NORMAL));
	if (head && bpf_cpumask_test_cpu(cpu, head->cpus_ptr))
		come = head->scx.dsq_vtime;
	bpf_rcu_read_unlock();
	return come;
}

/* Does normal @p, which is in the vector, take over what runs on @lane, the CPU @cpu? Only if it is next there. */
static __always_inline bool fair_preempts(const struct task_struct *p, const struct task_ctx *tctx,
					  const struct lane_ctx *lane, s32 cpu)
{
	return fair_is_behind(p, tctx, lane) &&
	       !time_before(fair_first(lane->core, cpu, tctx->vtime), tctx->vtime);
}

/* How many other vectors a lane looks at. */
#define FAIR_LOOKS 4

/* fair_first() for the lane of this CPU, with what was not held against tasks that ran alone: so cores compare. */
static __always_inline u64 fair_head(u32 core_id, u64 nothing)
{
	const struct core_ctx *core = core_ctx(core_id);
	u64 alone = core ? core->alone : 0;

	return fair_first(core_id, bpf_get_smp_processor_id(), nothing - alone) + alone;
}

/*
 * From which vector a lane of the core @home takes normal work, to be fair: that of @home or of another core. @goes_on: else
 * it goes on with normal work that has come to @vtime_of_prev.
 */
VERIFIED_ONCE u32 fairest_core(u32 home, bool goes_on, u64 vtime_of_prev)
{
	struct lane_ctx *lane = lane_ctx(bpf_get_smp_processor_id());
	const struct core_ctx *own = core_ctx(home);
	u64 slack = fair_lag(), least, come;
	u32 best = home, first, i;

	if (!own || !lane || core_parked(home) || !(goes_on || vector_hinted(home, CLASS_NORMAL)))
		return home;
	first = home + lane->looked;
	lane->looked += FAIR_LOOKS;
	come = (goes_on ? vtime_of_prev : own->vtime) + own->alone;
	least = fair_head(home, come);
	if (goes_on && time_before(come, least))
		least = come;
	bpf_for(i, 0, FAIR_LOOKS) {
		u32 id = (first + i) % nr_cores;

		if (id == home)
			continue;
		come = fair_head(id, least) + slack;
		if (!time_before(come, least))
			continue;
		best = id;
		least = come;
	}
	return best;
}

/*
 * A turn ends when it has brought as much virtual time as so many lags of the next task, and no less than that one's turn, which a tick
 * ends, may bring: no wait grows with how far they are apart, and the one ahead gets no further ahead.
 */
#define TURN_LAGS 2
#define TURN_TICKS 2

/* Is a turn over that has brought @brought, while @head waits first? With weights of cgroups a turn may bring anything. */
static __always_inline bool turn_is_over(const struct task_struct *head, u64 brought)
{
	u64 lag = fixed.lag_ns, ticks = TURN_TICKS * tick_ns;

	return !fixed.cgroup_weights &&
	       brought >= nice_vtime(head, lag < ticks ? lag + ticks : TURN_LAGS * lag);
}

/*
 * Does what runs on @prev, and has come to prev->vtime, make room for normal work that waits on @home: has the first of it come no
 * further, is the turn over, or may it not run on the lane of this CPU?
 */
static __always_inline bool fair_yields(u32 home, const struct lane_ctx *prev)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct task_struct *head;
	bool yields = false;

	if (!vector_hinted(home, CLASS_NORMAL))
		return false;
	bpf_rcu_read_lock();
	head = __COMPAT_scx_bpf_dsq_peek(VECTOR_ID(home, CLASS_NORMAL));
	if (head)
		yields = !time_before(prev->vtime, head->scx.dsq_vtime) ||
			 turn_is_over(head, prev->vtime - prev->vtime_began) ||
			 !bpf_cpumask_test_cpu(cpu, head->cpus_ptr);
	bpf_rcu_read_unlock();
	return yields;
}

/*
 * Normal @p goes on on @lane. While nothing waits on its core, what it has is not held against it, beyond the lag. It
 * counts for the core: a core on which @p alone is served comes further than one on which many are.
 */
static __always_inline void fair_alone(const struct task_struct *p, struct task_ctx *tctx,
				       struct lane_ctx *lane)
{
	struct core_ctx *core = core_ctx(lane->core);
	u64 most;
	u32 served;

	if (!core)
		return;
	/* a task that the lane may not run does not compete for it */
	if (vector_hinted(lane->core, CLASS_NORMAL) && vector_head_fits(lane->core, CLASS_NORMAL)) {
		vtime_comes(core, lane, tctx->vtime);
		return;
	}
	most = core->vtime + (fixed.cgroup_weights ? fair_lag() : nice_vtime(p, fixed.lag_ns));
	if (!time_before(most, tctx->vtime))
		return;
	served = STATE_COUNT(states_of(core), LANE_NORMAL);
	__sync_fetch_and_add(&core->alone, (tctx->vtime - most) / (served ? served : 1));
	tctx->vtime = most;
	lane->vtime = most;
	lane->vtime_began = most;
}

/* Takes normal work that is behind all there is on @home. False: there is none. @vtime: see fairest_core(). */
static __always_inline bool fair_take(u32 home, s32 cpu, bool goes_on, u64 vtime)
{
	bool others = core_set_any(CORES_QUEUED + CLASS_NORMAL, home);
	u32 core = others ? fairest_core(home, goes_on, vtime) : home;
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *own, *other;

	if (!lane)
		return false;
	lane->fair = 0; /* of what was taken and did not run */
	if (core == home)
		return false;
	own = core_ctx(home);
	other = core_ctx(core);
	if (!own || !other || !vector_take(core, CLASS_NORMAL))
		return false;
	lane->fair = 1;
	count(steals[BOUNDED(core_distance(own, other), NR_DISTANCES)]);
	return true;
}

#endif /* SIDELANE_FAIR_BPF_H */
