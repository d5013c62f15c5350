/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Objectives: the budget follows the tail of the critical jobs.
 *
 * Problem: an operator knows "p99 < 20 ms", and not how much co-running that allows; it
 * changes with the load.
 *
 * Rule: a job lasts from a critical task's wake-up until it sleeps, or as its program marks it
 * (jobs.bpf.h). Its latency is counted in
 * a histogram over latency / objective. A window lasts a second, and on until it has enough
 * jobs for the quantile, but not for longer than WINDOW_MAX_NS. At its end the budget changes
 * by where the tail is:
 *   beyond the objective   it shrinks in proportion, to the half at least: at once, when so
 *                          many jobs are late that no further ones can mend the window;
 *   close to it            it shrinks a little;
 *   in the hold band       it stays;
 *   below                  it grows by half of the slack, but by a quarter of itself at most,
 *                          and only if batch had to leave or wait, which shows that it was
 *                          the budget that kept the tail.
 * It begins with none and never exceeds the objective. The rest is as `refresh` has it
 * (budget.bpf.h).
 *
 * Cost: an atomic addition a job, a pass over the histograms a second.
 *
 * Source: Elfen (USENIX ATC 2016): budget = objective - tail alone, measured beforehand.
 * Here the tail is measured as it is, so that the load may change.
 * Does not: see requests that are not marked. A server thread that takes the next one without sleeping
 * counts as one job, and a job that waits for a device as two. A rule on the worker threads helps.
 */
#ifndef SIDELANE_OBJECTIVE_BPF_H
#define SIDELANE_OBJECTIVE_BPF_H

#include "../core/types.bpf.h"
#include "budget.bpf.h"
#include "../core/vector.bpf.h"

#define WINDOW_NS NS_PER_S
#define WINDOW_MAX_NS (10 * NS_PER_S)
/* Enough: so many jobs are expected beyond the quantile. */
#define TAIL_JOBS 10
/* With fewer jobs in the longest window nothing is said. */
#define JOBS_MIN 50

/*
 * Where the tail should be, in buckets: 0.73 to 0.86 of the objective. The 99th percentile of a
 * window with TAIL_JOBS beyond it is uncertain by 1 / sqrt(10) / ln(100) = 7 % with exponential
 * service: the band ends two of those below the objective, and is two wide.
 */
#define HOLD_MIN 47
#define HOLD_MAX 55

GLOBAL u32 window_armed; /* 1: the timer of the windows is set */

#define ALLOWED_WEIGHT 16 /* earlier jobs together weigh 15 of 16 */

/* A marked job of budget @index has @allowed_ns until its deadline. */
static __always_inline void objective_allows(u32 index, u64 allowed_ns)
{
	struct objective *objective = objective_of(index);
	u64 usual_ns;

	if (!objective)
		return;
	usual_ns = objective->allowed_ns ?: allowed_ns;
	objective->allowed_ns = (usual_ns * (ALLOWED_WEIGHT - 1) + allowed_ns) / ALLOWED_WEIGHT;
}

/* So much such jobs usually have; 0: not known. */
static __always_inline u64 objective_allowed(u32 index)
{
	const struct objective *objective = objective_of(index);

	return objective ? objective->allowed_ns : 0;
}

/* Counts a job by budget @index, which is not none. */
VERIFIED_ONCE int objective_count(u32 index, u64 latency_ns)
{
	u64 objective_ns = budget_objective_ns(index), bucket;
	struct objective *objective = objective_of(index);

	if (!objective || !objective_ns)
		return 0;
	bucket = latency_ns * OBJECTIVE_BUCKETS / objective_ns;
	if (bucket >= LATENCY_BUCKETS)
		bucket = LATENCY_BUCKETS - 1;
	__sync_fetch_and_add(&objective->jobs[BOUNDED(bucket, LATENCY_BUCKETS)], 1);
	return 0;
}

/* A critical job of a task with budget @index took so long. */
static __always_inline void objective_job(u32 index, u64 latency_ns)
{
	if (!budget_is_none(index))
		objective_count(index, latency_ns);
}

/* Batch had to leave @core_id. */
static __always_inline void objective_evicted(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	struct objective *objective = core ? objective_of(core->strictest) : NULL;

	if (objective)
		__sync_fetch_and_add(&objective->evictions, 1);
}

/* How many jobs of the window took at least @first buckets. */
VERIFIED_ONCE u64 objective_jobs(u32 index, u32 first)
{
	struct objective *objective = objective_of(index);
	u64 jobs = 0;
	u32 i;

	if (!objective)
		return 0;
	bpf_for(i, first, LATENCY_BUCKETS)
		jobs += objective->jobs[BOUNDED(i, LATENCY_BUCKETS)];
	return jobs;
}

/* The latency, in buckets, beyond which at most @beyond jobs of the window are. */
VERIFIED_ONCE u32 objective_tail(u32 index, u64 beyond)
{
	struct objective *objective = objective_of(index);
	u64 slower = 0;
	u32 i;

	if (!objective)
		return 0;
	bpf_for(i, 0, LATENCY_BUCKETS) {
		u32 bucket = BOUNDED(LATENCY_BUCKETS - 1 - i, LATENCY_BUCKETS);

		slower += objective->jobs[bucket];
		if (slower > beyond)
			return bucket + 1;
	}
	return 0;
}

/* A window begins. */
VERIFIED_ONCE int objective_begin(u32 index, u64 now_ns)
{
	struct objective *objective = objective_of(index);
	u32 i;

	if (!objective)
		return 0;
	bpf_for(i, 0, LATENCY_BUCKETS)
		objective->jobs[BOUNDED(i, LATENCY_BUCKETS)] = 0;
	objective->evictions = 0;
	objective->since_ns = now_ns;
	return 0;
}

/* The next budget after a window whose tail took @tail buckets. */
static __always_inline u64 objective_next_ns(u64 budget_ns, u64 objective_ns, u32 tail, bool wanted)
{
	u64 step_ns, most_ns;

	if (tail > OBJECTIVE_BUCKETS) {
		budget_ns = tail >= OBJECTIVE_BUCKETS * 7 / 4
				    ? budget_ns / 2
				    : budget_ns * OBJECTIVE_BUCKETS / tail * 7 / 8;
		return budget_ns > objective_ns / 1024 ? budget_ns : 0;
	}
	if (tail > HOLD_MAX)
		return budget_ns - budget_ns / 16;
	if (tail >= HOLD_MIN || !wanted)
		return budget_ns;
	step_ns = objective_ns * (HOLD_MIN + 2 - tail) / OBJECTIVE_BUCKETS / 2;
	most_ns = budget_ns / 4 > objective_ns / 32 ? budget_ns / 4 : objective_ns / 32;
	budget_ns += step_ns < most_ns ? step_ns : most_ns;
	return budget_ns < objective_ns ? budget_ns : objective_ns;
}

/* Ends the window of budget @index if it is time. False: it has no objective. */
VERIFIED_ONCE bool objective_window(u32 index, u64 now_ns)
{
	u64 objective_ns = budget_objective_ns(index), jobs, late, beyond;
	struct objective *objective = objective_of(index);
	bool missed;
	u32 tail;

	if (!objective || !objective_ns)
		return false;
	jobs = objective_jobs(index, 0);
	late = objective_jobs(index, OBJECTIVE_BUCKETS);
	beyond = jobs * budget_beyond(index); /* of 1000 */
	missed = late > TAIL_JOBS && late * 1000 > beyond;
	if (objective->since_ns && !missed && beyond < TAIL_JOBS * 1000 &&
	    now_ns < objective->since_ns + WINDOW_MAX_NS)
		return true;
	if (objective->since_ns && (missed || jobs >= JOBS_MIN)) {
		tail = objective_tail(index, beyond / 1000);
		objective->tail_ns = objective_ns * tail / OBJECTIVE_BUCKETS;
		objective->windows++;
		objective->missed += tail > OBJECTIVE_BUCKETS;
		objective->budget_ns = objective_next_ns(objective->budget_ns, objective_ns, tail,
							 objective->evictions ||
								 vector_waits(CLASS_BATCH));
	}
	objective_begin(index, now_ns);
	return true;
}

/* Ends the windows whose time it is. False: there is no objective. */
VERIFIED_ONCE bool objective_windows(u64 now_ns)
{
	bool any = false;
	u32 i;

	bpf_for(i, 0, fixed.nr_budgets)
		any |= objective_window(i, now_ns);
	return any;
}

/* Sets the timer of the windows; its callback is with the others' (borrow.bpf.h). */
static __always_inline void window_arm(void)
{
	struct core_timer *timer = timer_of(TIMER_WINDOW, 0);

	if (timer)
		bpf_timer_start(&timer->timer, WINDOW_NS, 0);
}

/* A task with budget @index wakes: has it an objective, windows are needed. */
static __always_inline void window_need(u32 index)
{
	if (!window_armed && budget_objective_ns(index) &&
	    !__sync_val_compare_and_swap(&window_armed, 0, 1))
		window_arm();
}

/*
 * From the tick of the lane @cpu, whatever runs there. Critical work that may use one lane only wakes where timers cannot be set, so that
 * nothing else would begin its windows.
 */
static __always_inline void window_tick(s32 cpu)
{
	const struct lane_ctx *lane = lane_ctx(cpu);
	const struct core_ctx *core;

	if (window_armed || !lane || lane->state != LANE_CRITICAL)
		return;
	core = core_ctx(lane->core);
	if (core)
		window_need(core->strictest);
}

#endif /* SIDELANE_OBJECTIVE_BPF_H */
