/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The contract between the core and the mechanisms.
 *
 * Problem: at each event several mechanisms have a say, and which one comes first has to be seen in one place.
 *
 * Rule: the core (core/, main.bpf.c) asks here; below stands what is asked, in order, and that order is the precedence.
 * The core names no mechanism of another folder, a mechanism none of another folder than its own: what it needs of
 * others it asks here, too. A hook that asks changes nothing, one that acts says what it did. A mechanism that is off
 * answers by a setting that the verifier knows, so that nothing is left of the call.
 *
 * To add a mechanism: its header, and a line here in each hook that concerns it.
 */
#ifndef SIDELANE_HOOKS_BPF_H
#define SIDELANE_HOOKS_BPF_H

#include "core/types.bpf.h"

#define HOOK static __always_inline

/* What hook_takes() did. */
enum takes {
	TAKEN, /* the lane has something */
	TAKES_ON, /* nothing: the core looks into the vectors as usual */
	TAKES_NONE, /* nothing, and the lane is to have nothing of the class */
};

/*
 * Questions: nothing changes.
 */

/* What keeps @p from running at all, + 1; 0: nothing. */
HOOK u32 hook_stops(const struct task_struct *p, const struct task_ctx *tctx);
/* Does a tick see to what waits in a lane's own queue behind a task of a higher class? */
HOOK bool hook_ticks_see_taken(void);
/* May work of @class run on @core_id now, whatever the SMT level? */
HOOK bool hook_may_run(u32 core_id, u32 class);
/* May batch run beside the critical work of @core, at least for a while? */
HOOK bool hook_bears_batch(const struct core_ctx *core);
/* Has batch to leave the core to which @tctx, critical, comes? */
HOOK bool hook_closes_at_once(const struct task_ctx *tctx);
/* Does @p, which ran on @core_id, go on there as far as mechanisms are concerned? */
HOOK bool hook_stays(const struct task_struct *p, const struct task_ctx *tctx, u32 core_id);
/* Is @lane, which idles, kept for a task? */
HOOK bool hook_lane_is_held(const struct lane_ctx *lane, u64 now_ns);
/* May @tctx use @lane, which is kept for another task? */
HOOK bool hook_shares_hold(const struct task_ctx *tctx, const struct lane_ctx *lane, s32 cpu);
/* Does what runs on @lane make room at once for @tctx, which is of the same class? */
HOOK bool hook_makes_room(const struct task_ctx *tctx, const struct lane_ctx *lane);
/* Virtual time of @p for @ran_ns on a lane. */
HOOK u64 hook_vtime(const struct task_struct *p, const struct task_ctx *tctx, u64 ran_ns);
/* When the job of @p began. */
HOOK u64 hook_job_began_ns(struct task_struct *p);
/* The place of the marked job of @tctx, which began then, among critical work that waits. */
HOOK u64 hook_job_place_ns(const struct task_ctx *tctx, u64 began_ns, u64 now_ns);

/*
 * Where a task goes.
 */

/* @p is to be queued: a mechanism sends it where it is going. False: the core places it. */
HOOK bool hook_sends(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags);
/* Does a mechanism want to know when tasks wake? */
HOOK bool hook_times_wakeups(void);
/* @p woke. */
HOOK void hook_woke(struct task_ctx *tctx, u64 now_ns);
/* What kind of task @p is may have changed. */
HOOK void hook_looks(struct task_struct *p, struct task_ctx *tctx, u64 now_ns);
/* The lane that is kept for @p, which wakes and may run (@may) or not: the CPU @prev, or -1. */
HOOK s32 hook_lane_held(struct task_struct *p, struct task_ctx *tctx, s32 prev, bool may,
			u64 now_ns);
/* The lane for @p, which is normal and comes from @home; -1: the core finds one. */
HOOK s32 hook_lane(struct task_struct *p, u32 home, s32 prev);
/* @lane was kept for a task that cannot take it at once. */
HOOK void hook_lane_back(struct lane_ctx *lane, u64 now_ns);
/* Keeps @p from running, as hook_stops() said. */
HOOK void hook_holds(struct task_struct *p, struct task_ctx *tctx, u32 stops, bool woke,
		     u64 enq_flags);
/* @p, which wakes, waits for the lane @cpu; @waker: the CPU whose task woke it and is about to sleep, or -1. */
HOOK void hook_awaits(const struct task_struct *p, const struct lane_ctx *lane, s32 cpu, s32 waker);
/* A task was sent to @core; @selecting: no lock is held under which timers are not set. */
HOOK void hook_sent(const struct task_ctx *tctx, struct core_ctx *core, bool waking,
		    bool selecting);
/* A task comes to the vector of @core; it leaves that. */
HOOK void hook_enters_vector(struct core_ctx *core, const struct task_ctx *tctx, u32 class);
HOOK void hook_leaves_vector(struct core_ctx *core, const struct task_ctx *tctx, u32 class);

/*
 * Critical work and its core.
 */

/* A critical task of @budget comes to @core_id, or runs there. */
HOOK void hook_critical_comes(struct core_ctx *core, u32 core_id, u32 budget);
/* One wakes for @core, and no other waits, for that or anywhere. */
HOOK void hook_critical_wakes(struct core_ctx *core, u64 now_ns);
/* One of @budget was sent to @core_id; @timers: they may be set. */
HOOK void hook_critical_sent(u32 core_id, u32 budget, bool timers, u64 now_ns);
/* A critical job of @budget took @latency_ns. */
HOOK void hook_job_ended(u32 budget, u64 latency_ns);
/* A marked job of @budget has @allowed_ns until its deadline; how much such jobs usually have. */
HOOK void hook_job_allows(u32 budget, u64 allowed_ns);
HOOK u64 hook_job_allowed_ns(u32 budget);
/* @core_id may have fallen free of critical and normal work. */
HOOK void hook_core_falls_free(u32 core_id);

/*
 * A task on a lane.
 */

/* The lane @cpu of @core_id looks for normal work, or goes on (@goes_on) with that of @prev. */
HOOK u32 hook_takes(u32 core_id, s32 cpu, bool goes_on, const struct lane_ctx *prev);
/* A lane of @core_id, which is kept for a task, takes what may share it. */
HOOK bool hook_takes_held(u32 core_id, s32 cpu);
/* This lane takes a normal task of @side from the vector of @core_id. */
HOOK bool hook_takes_side(u32 core_id, u32 side);
/* @p could go on on @core_id: is it moved elsewhere instead? */
HOOK bool hook_moves(struct task_struct *p, struct task_ctx *tctx, u32 core_id, u64 now_ns);
/* What ran on @lane is over, or goes on like any other. */
HOOK void hook_slice_ends(struct lane_ctx *lane, u64 now_ns);
/* @p is about to run on @lane; it does. */
HOOK void hook_begins(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		      u64 now_ns);
HOOK void hook_began(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		     u64 now_ns);
/* @p, which is batch, is about to run on @lane. */
HOOK void hook_batch_begins(const struct task_struct *p, struct task_ctx *tctx,
			    struct lane_ctx *lane);
/* The tick of @p, which was charged. */
HOOK void hook_ticks(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		     u64 now_ns);
/* The tick of a task that the kernel's own scheduler runs on @lane. */
HOOK void hook_others_tick(struct lane_ctx *lane, s32 cpu, u64 now_ns);
/* The tick of the lane @cpu, whatever runs there. */
HOOK void hook_any_ticks(s32 cpu);
/* A task that was charged leaves @lane, and @sleeps or does not. */
HOOK void hook_ends(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		    bool sleeps, u64 now_ns);
/* A task of @class ran for @ran_ns on its core. */
HOOK void hook_ran(struct task_ctx *tctx, u32 class, u64 ran_ns, u64 now_ns);

/*
 * Lanes and cores.
 */

/* The lanes of @core are in @states from now on. */
HOOK void hook_core_changes(struct core_ctx *core, u32 core_id, u64 states, u64 now_ns);
/* Is that to be told? */
HOOK bool hook_follows(const struct core_ctx *core, u64 states);
/* The lane @cpu runs @pid, or nothing: enum lane_state. */
HOOK void hook_lane_runs(u32 cpu, u32 state, u32 pid);
/* Batch is asked to leave @lane. */
HOOK void hook_evicted(const struct lane_ctx *lane, s32 cpu);
/* A @step of the promotion of @p to core @to. */
HOOK void hook_promotes(struct task_struct *p, const struct task_ctx *tctx, u32 step, u32 to);

/*
 * Counters of hardware, from tracepoints.
 */

/* The CPU switches from @prev; it ticks while @p runs. */
HOOK void hook_switches(u32 cpu, struct task_struct *prev, u64 now_ns);
HOOK void hook_counts(u32 cpu, struct task_struct *p, u64 now_ns);
/*
 * The interval of @tctx (NULL: of none) on @core since then ends, in which it had so many @instructions; 0: unknown.
 * @cycles: what is counted so far.
 */
HOOK void hook_counted(struct task_ctx *tctx, struct lane_count *count, struct core_ctx *core,
		       u64 instructions, u64 cycles, u64 since_ns, u64 now_ns);

/*
 * Beginnings. 0, or an error of the kernel's.
 */

HOOK s32 hook_scheduler_begins(void);
HOOK s32 hook_core_begins(u32 core_id);
/* @p comes to the scheduler; it leaves it. */
HOOK s32 hook_task_comes(struct task_struct *p);
HOOK void hook_task_goes(struct task_struct *p, struct task_ctx *tctx);
/* @p wants to run; it does no longer. */
HOOK void hook_wants(struct task_struct *p, struct task_ctx *tctx);
HOOK void hook_wants_no_more(struct task_ctx *tctx);

#include "core/classify.bpf.h"
#include "core/vector.bpf.h"
#include "core/account.bpf.h"
#include "core/kick.bpf.h"
#include "core/arrive.bpf.h"
#include "core/find.bpf.h"
#include "core/overdue.bpf.h"
#include "core/kthread.bpf.h"
#include "core/place.bpf.h"
#include "core/missed.bpf.h"
#include "core/old.bpf.h"
#include "core/promote.bpf.h"
#include "core/spread.bpf.h"
#include "core/fair.bpf.h"
#include "core/dispatch.bpf.h"
#include "core/others.bpf.h"
#include "core/adopt.bpf.h"
#include "budget/budget.bpf.h"
#include "budget/counter.bpf.h"
#include "budget/objective.bpf.h"
#include "budget/borrow.bpf.h"
#include "io/profile.bpf.h"
#include "io/symbiosis.bpf.h"
#include "io/pair.bpf.h"
#include "io/retain.bpf.h"
#include "io/adjust.bpf.h"
#include "share/weight.bpf.h"
#include "share/pool.bpf.h"
#include "share/throttle.bpf.h"
#include "share/polarize.bpf.h"
#include "share/release.bpf.h"
#include "see/signal.bpf.h"
#include "see/jobs.bpf.h"
#include "see/trace.bpf.h"
#include "see/nap.bpf.h"

HOOK u32 hook_stops(const struct task_struct *p, const struct task_ctx *tctx)
{
	return pool_stops(p, tctx);
}

HOOK bool hook_ticks_see_taken(void)
{
	return missed_sees_taken();
}

HOOK bool hook_may_run(u32 core_id, u32 class)
{
	return class != CLASS_BATCH || !core_closed(core_id);
}

HOOK bool hook_bears_batch(const struct core_ctx *core)
{
	return !budget_is_none(core->strictest);
}

HOOK bool hook_closes_at_once(const struct task_ctx *tctx)
{
	return budget_is_none(tctx->budget) || !budget_ns(tctx->budget);
}

HOOK bool hook_stays(const struct task_struct *p, const struct task_ctx *tctx, u32 core_id)
{
	return !pool_stops(p, tctx) && !adjust_asks_of(core_id, tctx);
}

HOOK bool hook_lane_is_held(const struct lane_ctx *lane, u64 now_ns)
{
	return nap_holds(lane, now_ns) || lane_held(lane, now_ns);
}

HOOK bool hook_shares_hold(const struct task_ctx *tctx, const struct lane_ctx *lane, s32 cpu)
{
	return pair_uses_held(tctx, lane, cpu);
}

HOOK bool hook_makes_room(const struct task_ctx *tctx, const struct lane_ctx *lane)
{
	return pair_makes_room(tctx, lane);
}

HOOK u64 hook_vtime(const struct task_struct *p, const struct task_ctx *tctx, u64 ran_ns)
{
	return weight_vtime(p, tctx, ran_ns);
}

HOOK u64 hook_job_began_ns(struct task_struct *p)
{
	return job_began_ns(p);
}

HOOK u64 hook_job_place_ns(const struct task_ctx *tctx, u64 began_ns, u64 now_ns)
{
	return job_place_ns(tctx, began_ns, now_ns);
}

HOOK bool hook_sends(struct task_struct *p, struct task_ctx *tctx, u64 enq_flags)
{
	if (is_pinned_kthread(p) && kthread_send(p, tctx, enq_flags))
		return true;
	if (fixed.nr_pools && tctx->held && throttle_again(p, enq_flags))
		return true;
	if (pool_stops(p, tctx)) {
		promote_drop(p, tctx);
		spread_drop(tctx);
		return false;
	}
	return spread_send(p, tctx, enq_flags) ||
	       (!(enq_flags & SCX_ENQ_WAKEUP) && promote_send(p, tctx, enq_flags)) ||
	       kthread_passes(p, tctx, enq_flags);
}

HOOK bool hook_times_wakeups(void)
{
	return fixed.retain || fixed.pair || fixed.keep_slice;
}

HOOK void hook_woke(struct task_ctx *tctx, u64 now_ns)
{
	retain_woke(tctx, now_ns);
	pair_woke(tctx, now_ns);
}

HOOK void hook_looks(struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	pair_look(p, tctx, now_ns);
}

HOOK s32 hook_lane_held(struct task_struct *p, struct task_ctx *tctx, s32 prev, bool may,
			u64 now_ns)
{
	return adjust_lane_held(p, tctx, prev, may, now_ns);
}

HOOK s32 hook_lane(struct task_struct *p, u32 home, s32 prev)
{
	s32 cpu = fixed.pair ? place_paired(p, home, prev) : -1;

	return cpu < 0 && fixed.gather ? gather_lane(p, prev) : cpu;
}

HOOK void hook_lane_back(struct lane_ctx *lane, u64 now_ns)
{
	retain_back(lane, now_ns);
}

HOOK void hook_holds(struct task_struct *p, struct task_ctx *tctx, u32 stops, bool woke,
		     u64 enq_flags)
{
	throttle_hold(p, tctx, stops - 1, woke, enq_flags);
}

HOOK void hook_awaits(const struct task_struct *p, const struct lane_ctx *lane, s32 cpu, s32 waker)
{
	retain_awaits(p, lane, cpu, waker);
}

HOOK void hook_sent(const struct task_ctx *tctx, struct core_ctx *core, bool waking, bool selecting)
{
	if (selecting)
		polar_need();
	if (waking && tctx->class == CLASS_NORMAL)
		retain_need(core);
	if (selecting && tctx->class == CLASS_NORMAL)
		pair_need();
}

HOOK void hook_enters_vector(struct core_ctx *core, const struct task_ctx *tctx, u32 class)
{
	pair_enters(core, tctx, class);
}

HOOK void hook_leaves_vector(struct core_ctx *core, const struct task_ctx *tctx, u32 class)
{
	pair_sides(core, tctx, class, -1);
}

HOOK void hook_critical_comes(struct core_ctx *core, u32 core_id, u32 budget)
{
	budget_enter(core, core_id, budget);
}

HOOK void hook_critical_wakes(struct core_ctx *core, u64 now_ns)
{
	budget_refresh(core, now_ns);
}

HOOK void hook_critical_sent(u32 core_id, u32 budget, bool timers, u64 now_ns)
{
	core_close(core_id, now_ns);
	if (!timers || budget_is_none(budget))
		return;
	budget_arm(core_id, now_ns, 0);
	window_need(budget);
}

HOOK void hook_job_ended(u32 budget, u64 latency_ns)
{
	objective_job(budget, latency_ns);
}

HOOK void hook_job_allows(u32 budget, u64 allowed_ns)
{
	objective_allows(budget, allowed_ns);
}

HOOK u64 hook_job_allowed_ns(u32 budget)
{
	return objective_allowed(budget);
}

HOOK void hook_core_falls_free(u32 core_id)
{
	promote_offer(core_id);
}

HOOK u32 hook_takes(u32 core_id, s32 cpu, bool goes_on, const struct lane_ctx *prev)
{
	u32 side;

	if (fair_take(core_id, cpu, goes_on, prev->vtime))
		return TAKEN;
	side = pair_first(core_id, cpu);
	if (side < NR_SIDES)
		return pair_find(core_id, side, goes_on && pair_keeps(core_id, prev->side, side))
			       ? TAKEN
			       : TAKES_NONE;
	if (fixed.symbiotic && symbiosis_take(core_id, NR_SIDES))
		return TAKEN;
	return goes_on && !fair_yields(core_id, prev) ? TAKES_NONE : TAKES_ON;
}

HOOK bool hook_takes_held(u32 core_id, s32 cpu)
{
	return fixed.pair && pair_take_held(core_id, cpu);
}

HOOK bool hook_takes_side(u32 core_id, u32 side)
{
	return fixed.pair && pair_take_side(core_id, side);
}

HOOK bool hook_moves(struct task_struct *p, struct task_ctx *tctx, u32 core_id, u64 now_ns)
{
	return tctx->yields || promote_moves(p, tctx, now_ns) || spread_moves(p, tctx, core_id);
}

HOOK void hook_slice_ends(struct lane_ctx *lane, u64 now_ns)
{
	overdue_ends(lane, now_ns);
}

HOOK void hook_begins(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		      u64 now_ns)
{
	promote_runs(p, tctx);
	spread_drop(tctx);
	retain_runs(p, lane, pair_uses_held(tctx, lane, cpu), now_ns);
	overdue_begins(p, tctx, lane);
	pair_waited(tctx, now_ns);
	pair_runs(tctx, lane, cpu);
	profile_begins(tctx, lane);
	count_begins(cpu, tctx->budget);
}

HOOK void hook_batch_begins(const struct task_struct *p, struct task_ctx *tctx,
			    struct lane_ctx *lane)
{
	nap_runs(p, tctx, lane);
}

HOOK void hook_began(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		     u64 now_ns)
{
	if (fixed.gather && tctx->class == CLASS_NORMAL)
		gather_notes(p);
	pool_begins(tctx, now_ns);
	borrow_check(p, lane, cpu, now_ns);
	pair_recheck(lane, cpu);
	throttle_check(p, tctx, cpu);
}

HOOK void hook_ticks(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		     u64 now_ns)
{
	pair_look(p, tctx, now_ns);
	pair_runs(tctx, lane, cpu);
	if (tctx->classified_ns == now_ns)
		weight_check(p, tctx);
	if (pool_stops(p, tctx))
		scx_bpf_task_set_slice(p, 0);
	if (tctx->class == CLASS_CRITICAL) {
		jobs_take(p, tctx);
		lane->marks = tctx->job_tid > 0;
		job_yields(p, tctx, now_ns);
		old_yields(p, tctx, lane, cpu, now_ns);
		promote_yields(p, tctx, lane);
	}
	promote_check(p, lane);
	nap_check(p, tctx, lane, now_ns);
	borrow_check(p, lane, cpu, now_ns);
	overdue_check(p, tctx, lane, cpu, now_ns);
	missed_check(p, tctx, lane, cpu);
}

HOOK void hook_any_ticks(s32 cpu)
{
	missed_taken(cpu);
	window_tick(cpu);
}

HOOK void hook_others_tick(struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	if (lane->state == LANE_CRITICAL)
		core_close(lane->core, now_ns);
	if (overdue_hinted(lane->core))
		overdue_kick_idle(lane->core, 0, now_ns);
	missed_batch(cpu);
}

HOOK void hook_ends(struct task_struct *p, struct task_ctx *tctx, struct lane_ctx *lane, s32 cpu,
		    bool sleeps, u64 now_ns)
{
	bool critical = tctx->class == CLASS_CRITICAL, marked = critical && jobs_take(p, tctx);

	pair_look(p, tctx, now_ns);
	promote_stops(tctx);
	if (sleeps) {
		spread_drop(tctx);
		retain_begin(p, tctx, lane, now_ns);
		nap_begins(p, tctx, lane, now_ns);
		promote_drop(p, tctx);
		if (critical && !marked && now_ns > tctx->job_ns)
			objective_job(tctx->budget, now_ns - tctx->job_ns);
	}
	borrow_ends(lane, now_ns);
	overdue_ends(lane, now_ns);
	due_ends(tctx, lane, sleeps, now_ns);
	count_ends(cpu, now_ns);
}

HOOK void hook_ran(struct task_ctx *tctx, u32 class, u64 ran_ns, u64 now_ns)
{
	pair_ran(tctx, ran_ns);
	retain_worked(tctx, ran_ns);
	polar_charge(tctx->core, class, ran_ns);
	pool_account(tctx, ran_ns, now_ns);
}

HOOK void hook_core_changes(struct core_ctx *core, u32 core_id, u64 states, u64 now_ns)
{
	u32 busy = states_busy(core, states);

	if (fixed.counters)
		company_update(core_id, now_ns);
	if (fixed.symbiotic)
		crowd_update(core, busy, now_ns);
	if (fixed.nr_pools)
		clock_advance(core, busy, now_ns);
	budget_changes(core, core_id, states, busy, now_ns);
}

HOOK bool hook_follows(const struct core_ctx *core, u64 states)
{
	return fixed.counters || fixed.symbiotic || fixed.nr_pools || budget_follows(core, states);
}

HOOK void hook_lane_runs(u32 cpu, u32 state, u32 pid)
{
	signal_write(cpu, state, pid);
}

HOOK void hook_evicted(const struct lane_ctx *lane, s32 cpu)
{
	if (fixed.trace)
		trace_eviction(lane->pid, cpu, lane->core);
}

HOOK void hook_promotes(struct task_struct *p, const struct task_ctx *tctx, u32 step, u32 to)
{
	if (fixed.trace)
		trace_step(p, tctx, step, to, job_began_ns(p));
}

HOOK void hook_switches(u32 cpu, struct task_struct *prev, u64 now_ns)
{
	count_read(cpu, prev, now_ns);
	if (fixed.retain_counts)
		retain_switches(lane_count(cpu));
}

HOOK void hook_counts(u32 cpu, struct task_struct *p, u64 now_ns)
{
	count_ends(cpu, now_ns);
	count_read(cpu, p, now_ns);
}

HOOK void hook_counted(struct task_ctx *tctx, struct lane_count *count, struct core_ctx *core,
		       u64 instructions, u64 cycles, u64 since_ns, u64 now_ns)
{
	retain_counted(tctx, count, core, instructions, now_ns - since_ns);
	if (fixed.symbiotic)
		profile_read(tctx, count, core, instructions, cycles, now_ns);
}

HOOK s32 hook_scheduler_begins(void)
{
	return budget_init(nr_cores) ?: pools_init() ?: pair_init() ?: polar_init();
}

HOOK s32 hook_core_begins(u32 core_id)
{
	return budget_init(core_id) ?: retain_init(core_id);
}

HOOK s32 hook_task_comes(struct task_struct *p)
{
	if (fixed.gather)
		gather_counts(p);
	return pools_begin();
}

HOOK void hook_task_goes(struct task_struct *p, struct task_ctx *tctx)
{
	spread_drop(tctx);
	promote_drop(p, tctx);
}

HOOK void hook_wants(struct task_struct *p, struct task_ctx *tctx)
{
	if (fixed.cgroup_weights)
		weight_begins(p, tctx);
}

HOOK void hook_wants_no_more(struct task_ctx *tctx)
{
	weight_ends(tctx);
}

#endif /* SIDELANE_HOOKS_BPF_H */
