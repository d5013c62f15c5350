/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Adoption: batch tasks become tasks of the scheduler's, and get back what they had.
 *
 * Problem: where the scheduler has batch alone, the kernel gives it what has policy SCHED_EXT. What is batch is said by
 * rules, and changes while tasks live.
 *
 * Rule: here it is seen that a task is not what the rules want it to be; the loader acts (crates/sched/src/adopt), since only user
 * space may set policies. It is told by task number and asks for the rest when it gets to that task. What has an event is told
 * at once: a fork, exec, a new name, another cgroup. The rest (a new user or nice value, rules that mean something
 * else now) is found by a look at all tasks, once a second or so.
 *
 * Until a task is given back, rules look at the policy and nice value that it had, not at those that it was given. What is
 * born as one of the scheduler's inherits from its parent what that had.
 *
 * A task that others' work keeps from all its lanes waits too long: it is told as well, and lent to the kernel's scheduler.
 *
 * Bound: a task of a batch cgroup may run for some milliseconds before it is adopted.
 *
 * Cost: an event, the rules for one task; a look, for each. Loaded only where the scheduler has batch alone.
 */
#ifndef SIDELANE_ADOPT_BPF_H
#define SIDELANE_ADOPT_BPF_H

#include "types.bpf.h"
#include "classify.bpf.h"

/* After so long a task waits too long, whatever has its lanes: half of what the kernel's watchdog allows. */
#define WAITS_LONG_NS 15000000000ULL

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} adopt_events SEC(".maps");

/*
 * The class that rules give @p, a task that is no thread of the kernel. For those of the kernel's scheduler it counts from now on; not
 * yet for one that is on its way there, and counts where it waited.
 */
static __always_inline u32 adopt_class(struct task_struct *p, struct task_ctx *tctx)
{
	u32 kind = class_by_rules(p);

	if (tctx && p->policy != SCHED_EXT && !tctx->in_vector) {
		tctx->class = KIND_CLASS(kind);
		tctx->budget = KIND_BUDGET(kind);
	}
	return KIND_CLASS(kind);
}

/* May the scheduler take over a task of this policy? */
static __always_inline bool adopt_may(u32 policy)
{
	return policy == SCHED_NORMAL || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

/* Is @p, of @class, not what it should be? */
static __always_inline bool adopt_differs(const struct task_struct *p, struct task_ctx *tctx,
					  u32 class)
{
	bool ext = p->policy == SCHED_EXT, batch = class == CLASS_BATCH;

	switch (tctx ? tctx->adoption : ADOPTED_NOT) {
	case ADOPTED_NOT:
		return ext || (batch && adopt_may(p->policy));
	case ADOPTED:
		return !ext || !batch;
	case ADOPTED_LENT:
		return p->policy != SCHED_IDLE || !batch;
	case ADOPTED_LEFT:
		if (!ext && !batch) /* what it chose is over */
			tctx->adoption = ADOPTED_NOT;
		return false;
	default: /* born, and not told yet */
		return true;
	}
}

static __always_inline void adopt_tell(const struct task_struct *p, bool all_threads)
{
	struct adopt_event event = {.pid = p->pid, .all_threads = all_threads};

	bpf_ringbuf_output(&adopt_events, &event, sizeof(event), 0);
}

/* Is @p batch as its parent is? The next look sees to it: there may be many that do not live for so long. */
static __always_inline bool adopt_inherits(const struct task_struct *p, const struct task_ctx *tctx,
					   u32 class)
{
	if (!tctx || class != CLASS_BATCH)
		return false;
	return (tctx->adoption == ADOPTED_BORN && p->policy == SCHED_EXT) ||
	       (tctx->adoption == ADOPTED_LENT_BORN && p->policy == SCHED_IDLE);
}

/* Something that rules look at has changed of @p. */
static __always_inline void adopt_check(struct task_struct *p)
{
	struct task_ctx *tctx;
	u32 class;

	if (p->flags & PF_KTHREAD)
		return;
	tctx = task_ctx(p);
	class = adopt_class(p, tctx);
	if (adopt_differs(p, tctx, class) && !adopt_inherits(p, tctx, class))
		adopt_tell(p, false);
}

/* @child was made by @parent as a task of the scheduler's, or as one that is lent. */
static __always_inline void adopt_born(struct task_struct *parent, const struct task_struct *child,
				       struct task_ctx *tctx)
{
	struct task_ctx *from = task_ctx(parent);

	if (!from || !from->had)
		return;
	if (child->policy == SCHED_EXT)
		tctx->adoption = ADOPTED_BORN;
	else if (child->policy == SCHED_IDLE &&
		 (from->adoption == ADOPTED_LENT || from->adoption == ADOPTED_LENT_BORN))
		tctx->adoption = ADOPTED_LENT_BORN;
	else
		return;
	tctx->had = from->had;
}

/* Does a lane that @p may use run batch, or nothing? */
static __always_inline bool adopt_has_lane(const struct task_struct *p)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_lanes) {
		const struct lane_ctx *lane = lane_ctx(cpu);

		if (!lane || !lane->online || !bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
			continue;
		if (lane->state == LANE_BATCH || lane->state == LANE_IDLE)
			return true;
	}
	return false;
}

/* Does @p run? */
static __always_inline bool adopt_runs(const struct task_struct *p)
{
	const struct lane_ctx *lane = lane_ctx(scx_bpf_task_cpu(p));

	return lane && lane->state == LANE_BATCH && lane->pid == (u32)p->pid;
}

/* Do others keep @p from its lanes for too long? */
static __always_inline bool adopt_waits(const struct task_struct *p, const struct task_ctx *tctx)
{
	u64 since_ns, now_ns;

	if (!tctx || tctx->adoption != ADOPTED || p->policy != SCHED_EXT ||
	    !(p->scx.flags & SCX_TASK_QUEUED) || adopt_runs(p))
		return false;
	since_ns = tctx->queued_ns > tctx->running_ns ? tctx->queued_ns : tctx->running_ns;
	now_ns = scx_bpf_now();
	if (!since_ns || now_ns < since_ns + fixed.starvation_bound_ns[CLASS_BATCH])
		return false;
	return now_ns > since_ns + WAITS_LONG_NS || !adopt_has_lane(p);
}

/* What the look at all tasks says of @p; false: nothing. */
static __always_inline bool adopt_look(struct task_struct *p, struct adopt_event *found)
{
	struct task_ctx *tctx;

	if (p->flags & PF_KTHREAD)
		return false;
	tctx = task_ctx(p);
	found->pid = p->pid;
	found->waits = adopt_waits(p, tctx);
	return adopt_differs(p, tctx, adopt_class(p, tctx)) || found->waits;
}

/* The loader asks what is with a task, or says what it does with it. */
static __always_inline int adopt_answer(struct task_struct *p, struct adopt_call *call)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx || p->flags & PF_KTHREAD)
		return 0;
	if (call->set && call->start_ns == p->start_boottime) {
		tctx->adoption = call->adoption;
		tctx->had = call->had;
	}
	call->start_ns = p->start_boottime;
	call->adoption = tctx->adoption;
	call->had = tctx->had;
	call->policy = p->policy;
	call->batch = adopt_class(p, tctx) == CLASS_BATCH;
	call->found = 1;
	return 0;
}

#endif /* SIDELANE_ADOPT_BPF_H */
