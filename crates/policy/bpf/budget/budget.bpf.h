/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Budgets: how long batch may run beside critical work.
 *
 * Problem: a critical job that is far from its objective can bear a sibling for a
 * while, and the lanes it leaves idle then are lost for nothing.
 *
 * Rule: a core's busy period lasts from its first critical task to the change of its lanes after which it
 * has none and none is expected. In each, batch may run beside critical work until the
 * budget is used up; then the core is closed until the period ends, or nothing waits any more. What uses it up:
 *   fixed    time since both ran at once first in this period, whether they still do;
 *   refresh  the same, but the clock starts anew when a critical task wakes for the
 *            core, none waits anywhere, and the budget is not used up: the job before it
 *            is served, and this one has all its time before it;
 *   dynamic  as refresh, but only time in which both run counts, by what critical work
 *            loses then: 1 - IPC beside batch / IPC alone where counters have shown
 *            both (counter.bpf.h), else 1 - threadPerf[lanes that run] / threadPerf[1].
 * With fixed, refresh and dynamic the time for which critical work has waited anywhere, without a break, counts as used up as well: what a
 * job loses beside batch those lose that wait, whose cores cannot know. And while some waits no clock starts anew.
 *
 * With an objective the budget follows the tail of the critical jobs (objective.bpf.h), and
 * is used up as with refresh. Without a budget (borrow-idle) a core with critical work is
 * closed at once; without a limit (off) it never is.
 *
 * When it is used up, the core's timer closes the core. Wake-ups set it. Where none could,
 * as for a task with one lane only or one that waited when the scheduler was attached, the
 * tick of a lane that runs batch or critical work notices instead.
 *
 * Which budget: a rule may have one for the tasks that match it; others go by that of the
 * settings. The strictest of the critical tasks that come to a core in a busy period
 * counts until its end: borrow-idle first, then the least budget, off last.
 *
 * Cost: a comparison of clocks where batch or critical work begins to run; a timer a
 * busy period.
 *
 * Source: Elfen (USENIX ATC 2016): fixed, refresh and dynamic budget. There a batch thread
 * decides at each of its checks, and the core's one request lane has a queue.
 */
#ifndef SIDELANE_BUDGET_BPF_H
#define SIDELANE_BUDGET_BPF_H

#include "../core/types.bpf.h"
#include "../core/classify.bpf.h"
#include "counter.bpf.h"

#define BUDGET_UNLIMITED_NS (~0ULL)

/* Budget @index: 0 of the settings, else of rule @index - 1; those of labels stand behind the rules. */
static __always_inline const struct budget *budget_of(u32 index)
{
	u32 key = index - 1;
	struct rule *r = index ? bpf_map_lookup_elem(&rules, &key) : NULL;

	return r ? &r->budget : &live.budget;
}

/* Does budget @index close a core at once? The usual case, told without a look-up. */
static __always_inline bool budget_is_none(u32 index)
{
	return !index && live.budget.policy == BUDGET_NONE;
}

/* The controller of budget @index, or NULL. */
static __always_inline struct objective *objective_of(u32 index)
{
	return bpf_map_lookup_elem(&sidelane_slo, &index);
}

/* The policy of budget @index: enum budget_policy. */
VERIFIED_ONCE u32 budget_policy(u32 index)
{
	return budget_of(index)->policy;
}

/* How long batch may run beside critical work by budget @index: 0 to BUDGET_UNLIMITED_NS. */
VERIFIED_ONCE u64 budget_ns(u32 index)
{
	const struct budget *budget = budget_of(index);
	struct objective *objective;

	switch (budget->policy) {
	case BUDGET_FIXED:
	case BUDGET_REFRESH:
	case BUDGET_DYNAMIC:
		return budget->budget_ns;
	case BUDGET_OFF:
		return BUDGET_UNLIMITED_NS;
	case BUDGET_OBJECTIVE:
		objective = objective_of(index);
		if (!objective)
			return 0;
		/* what was learnt may be of a longer objective */
		return objective->budget_ns < budget->objective_ns ? objective->budget_ns
								   : budget->objective_ns;
	}
	return 0;
}

/* The latency that few jobs should exceed; 0: none is set. */
VERIFIED_ONCE u64 budget_objective_ns(u32 index)
{
	const struct budget *budget = budget_of(index);

	return budget->policy == BUDGET_OBJECTIVE ? budget->objective_ns : 0;
}

/* Of 1000 jobs, how many may. */
VERIFIED_ONCE u32 budget_beyond(u32 index)
{
	return budget_of(index)->beyond;
}

/* Can a budget run out later? */
static __always_inline bool budget_limited(u64 limit_ns)
{
	return limit_ns && limit_ns != BUDGET_UNLIMITED_NS;
}

/* A critical task with budget @index, which is not none, comes to @core_id. */
VERIFIED_ONCE int budget_compare(u32 core_id, u32 index)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core || (core->period && budget_ns(core->strictest) <= budget_ns(index)))
		return 0;
	core->strictest = index;
	if (!core->period)
		core->probe = probe_due(core, index);
	core->period = 1;
	return 0;
}

/* A critical task with budget @index comes to @core, @core_id: the strictest one counts. */
static __always_inline void budget_enter(struct core_ctx *core, u32 core_id, u32 index)
{
	if (core->period && core->strictest == index)
		return;
	if (!budget_is_none(index)) {
		budget_compare(core_id, index);
		return;
	}
	core->strictest = index;
	core->period = 1;
}

/*
 * What critical work with budget @index loses beside batch, of SPEED_ONE, while @busy lanes of
 * its core run.
 */
static __always_inline u64 budget_loss(u32 index, u32 busy)
{
	u32 i = BOUNDED(busy ? busy - 1 : 0, MAX_LANES_PER_CORE);
	u64 alone = live.thread_perf[0] ?: SPEED_ONE, speed = live.thread_perf[i];
	u64 loss;

	if (counted_loss(index, &loss))
		return loss;
	/* what SMT costs beside idle lanes is lost without batch, too */
	return speed < alone ? (alone - speed) * SPEED_ONE / alone : 0;
}

/* How much of the budget this busy period has used up. */
static __always_inline u64 budget_used_ns(const struct core_ctx *core, u32 policy, u64 now_ns)
{
	u64 since_ns = core->overlap_ns;

	if (policy != BUDGET_DYNAMIC)
		return since_ns && now_ns > since_ns ? now_ns - since_ns : 0;
	since_ns = core->charge_ns;
	if (!since_ns || now_ns <= since_ns)
		return core->charged_ns;
	return core->charged_ns + (now_ns - since_ns) * core->charge_rate / SPEED_ONE;
}

/* May batch run beside the critical work of @core_id now, whose budget is not none? */
VERIFIED_ONCE bool budget_is_left(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 limit_ns = core ? budget_ns(core->strictest) : 0, used_ns;
	u32 policy;

	if (!core || !budget_limited(limit_ns))
		return limit_ns;
	policy = budget_policy(core->strictest);
	if (policy == BUDGET_DYNAMIC && core->probe)
		return false;
	used_ns = budget_used_ns(core, policy, now_ns);
	if (policy != BUDGET_OBJECTIVE) /* which follows what jobs lose that wait */
		used_ns += critical_waits_ns(now_ns);
	return used_ns < limit_ns;
}

/* May batch run beside the critical work of @core_id now? */
static __always_inline bool budget_left(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);

	return core && !budget_is_none(core->strictest) && budget_is_left(core_id, now_ns);
}

/* The least time after which the budget of @core can be used up by its own clock; 0: it is, or never. */
static __always_inline u64 budget_remaining_ns(const struct core_ctx *core, u64 now_ns)
{
	u64 limit_ns = budget_ns(core->strictest), used_ns, left_ns, loss;
	u32 policy = budget_policy(core->strictest);

	used_ns = budget_used_ns(core, policy, now_ns);
	if (!budget_limited(limit_ns) || used_ns >= limit_ns)
		return 0;
	left_ns = limit_ns - used_ns;
	if (policy != BUDGET_DYNAMIC)
		return left_ns;
	/* more lanes may run before it rings */
	loss = budget_loss(core->strictest, core->nr_lanes);
	if (loss)
		left_ns = left_ns * SPEED_ONE / loss;
	return left_ns > BUDGET_GRAIN_NS ? left_ns : BUDGET_GRAIN_NS;
}

/*
 * The lanes of a core have changed: @overlap, whether batch runs beside critical work now,
 * and how many lanes run. Lanes may come here at the same time: the one that takes the old moment
 * charges for the time since.
 */
static __always_inline void budget_charge(struct core_ctx *core, bool overlap, u32 busy, u64 now_ns)
{
	u64 since_ns = core->charge_ns, rate = core->charge_rate;
	u32 policy;

	if (budget_is_none(core->strictest))
		return;
	policy = budget_policy(core->strictest);
	if (policy == BUDGET_NONE || policy == BUDGET_OFF)
		return;
	if (overlap && !core->overlap_ns)
		core->overlap_ns = now_ns;
	if (policy != BUDGET_DYNAMIC || (!since_ns && !overlap))
		return;
	if (__sync_val_compare_and_swap(&core->charge_ns, since_ns, overlap ? now_ns : 0) !=
	    since_ns)
		return;
	core->charge_rate = budget_loss(core->strictest, busy);
	if (since_ns && now_ns > since_ns)
		__sync_fetch_and_add(&core->charged_ns, (now_ns - since_ns) * rate / SPEED_ONE);
}

/* The busy period is over: the next one has all of its budget. */
static __always_inline void budget_reset(struct core_ctx *core)
{
	if (core->period)
		core->period = 0;
	if (!core->overlap_ns)
		return;
	core->overlap_ns = 0;
	core->charge_ns = 0;
	core->charged_ns = 0;
}

/* A critical task wakes for the core, and none waits for that, or anywhere. */
static __always_inline void budget_refresh(struct core_ctx *core, u64 now_ns)
{
	u32 policy;

	if (budget_is_none(core->strictest))
		return;
	policy = budget_policy(core->strictest);
	if (policy == BUDGET_FIXED)
		return;
	if (core->probe)
		core->probe = 0;
	if (!core->overlap_ns || budget_used_ns(core, policy, now_ns) >= budget_ns(core->strictest))
		return;
	core->overlap_ns = now_ns;
	core->charged_ns = 0;
	if (core->charge_ns)
		core->charge_ns = now_ns;
}

/* Does it matter for budgets that the lanes of @core are in @states now? */
static __always_inline bool budget_follows(const struct core_ctx *core, u64 states)
{
	return core->period || core->closed || STATE_COUNT(states, LANE_CRITICAL);
}

/* The lanes of @core are in @states now. */
static __always_inline void budget_changes(struct core_ctx *core, u32 core_id, u64 states, u32 busy,
					   u64 now_ns)
{
	u32 critical = STATE_COUNT(states, LANE_CRITICAL);

	/* one on its way from the vector to a lane is still in this period */
	if (!critical && !critical_expected(core)) {
		budget_reset(core);
	} else {
		/* a sibling may have ended it between that one's arrival and this */
		core->period = 1;
		budget_charge(core, critical && STATE_COUNT(states, LANE_BATCH), busy, now_ns);
	}
	core->closed = critical && !budget_left(core_id, now_ns);
}

#endif /* SIDELANE_BUDGET_BPF_H */
