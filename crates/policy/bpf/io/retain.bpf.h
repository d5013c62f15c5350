/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Retention: a lane is held idle for a task that is expected back soon.
 *
 * Problem: a task that waits for a device, or a virtual CPU that halts, sleeps for moments. What is
 * switched in meanwhile is switched out again at once: two switches, cold caches for both, and each
 * switch slows the sibling lane, which an idle lane does not.
 *
 * Rule (fixed.retain): when a normal task sleeps that mostly came back within the time-out T of its
 * core, its lane is held: no normal or batch task is switched in or sent there. It wakes there, at once.
 * After T the lane is released. Being held is part of the task's slice, and is charged like running; while
 * normal work waits for the core, nothing is held beyond the slice. Nor is a lane held against what its task has
 * woken: it probably sleeps until that has run. Critical work takes a held lane like an idle one, work that waits beyond the
 * starvation bound does too, and a held lane does not count for the SMT level.
 *
 * On the I/O lane of a core with sides (pair.bpf.h) computation that waits would make room at once: there a hold saves
 * two switches and nothing else. While some waits, it ends when what the lane would have added to its core
 * (threadPerf) is worth as much as these: as the settings say (fixed.retain_switches_ns), or with counters as it shows in the
 * intervals that begin with a switch, which take longer than others of the same task. What the I/O-bound task loses is taken to be as much.
 *
 * T is found by trying, for all cores of a last-level cache (timeout.bpf.h).
 *
 * Cost: a timer a core that rings at the end of each hold and each fixed.retain_min_ns while normal
 * tasks come and go there, else each RETAIN_REST_NS: operations run under a lock under which it cannot be
 * set. What holding costs others is counted (held_waited_ns).
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.2: long-term context retention. There the guest holds
 * the lane by MWAIT, so that the virtual CPU does not even leave; here the host's lane idles, and the
 * hypervisor's thread sleeps. There every halt is retained; here only of tasks that mostly come back in time, and no longer than it
 * pays.
 */
#ifndef SIDELANE_RETAIN_BPF_H
#define SIDELANE_RETAIN_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"
#include "../core/account.bpf.h"
#include "../core/kick.bpf.h"
#include "pair.bpf.h"
#include "timeout.bpf.h"
#include "../core/vector.bpf.h"

/* How often a task came back in time: moving average, of RETURNS_ALL. */
#define RETURNS_ALL 1024
#define RETURNS_WEIGHT 8 /* earlier ones together weigh 7 of 8 */
/* So often it is looked whether any normal task woke; for so long nothing is held after the last one. */
#define RETAIN_REST_NS 20000000ULL
/* What did less at a time is no task that works: housekeeping. Instructions, or ns. */
#define RETAIN_WORKS_MIN (1ULL << 17)
/* What two switches cost where that is not known. */
#define SWITCHES_TYPICAL_NS 50000
/* Intervals that tell what a switch costs: so many first, and then the older half of them fades with each so many; from so long to so long. */
#define FIRSTS_MIN 32
#define FIRSTS_MOST 512
#define SPAN_MIN_NS 100000
#define SPAN_MAX_NS 100000000
#define PACE_NS 65536
/* What a second lane adds to its core where threadPerf is not known: by 1, 0.6. */
#define RETAIN_ADDS_TYPICAL (SPEED_ONE / 5)

/* Is the lane held for a task? */
static __always_inline bool lane_held(const struct lane_ctx *lane, u64 now_ns)
{
	return fixed.retain && lane->held_pid && now_ns < lane->held_until_ns;
}

/* An average of how often a sleep was shorter than something, and the next one. */
static __always_inline u32 retain_average(u32 average, bool shorter)
{
	return (average * (RETURNS_WEIGHT - 1) + (shorter ? RETURNS_ALL : 0)) / RETURNS_WEIGHT;
}

/* Could a hold mostly cover the sleeps of @tctx? Whatever the time-out is now. */
static __always_inline bool retain_fits(const struct task_ctx *tctx)
{
	return tctx->class == CLASS_NORMAL && tctx->short_sleeps >= RETURNS_ALL / 2;
}

/* The time-out in force on the core of @r. */
static __always_inline u64 retain_timeout_ns(const struct retain *r)
{
	return r->timeout_ns[!!r->other];
}

/* Is @tctx to be counted, for the first time in this period? */
static __always_inline bool retain_first(struct task_ctx *tctx, const struct retain *r)
{
	if (tctx->timeout_period == r->period)
		return false;
	tctx->timeout_period = r->period;
	return true;
}

/* @p woke: did it come back in time? */
static __always_inline void retain_woke(struct task_ctx *tctx, u64 now_ns)
{
	struct core_ctx *core = fixed.retain ? core_ctx(tctx->core) : NULL;
	struct retain *r;
	u64 slept_ns;

	if (!core || !tctx->slept_ns)
		return;
	r = &core->retain;
	slept_ns = now_ns > tctx->slept_ns ? now_ns - tctx->slept_ns : 0;
	tctx->returns[0] = retain_average(tctx->returns[0], slept_ns < r->timeout_ns[0]);
	tctx->returns[1] = retain_average(tctx->returns[1], slept_ns < r->timeout_ns[1]);
	tctx->short_sleeps = retain_average(tctx->short_sleeps, slept_ns < fixed.retain_max_ns);
	if (!fixed.retain_period_ns || !retain_fits(tctx))
		return;
	__sync_fetch_and_add(&r->done.rounds, 1);
	if (retain_first(tctx, r))
		__sync_fetch_and_add(&r->done.waiting, 1);
}

/*
 * What @busy lanes of a core and one more do beyond what the former do alone, of SPEED_ONE; as is typical
 * where it is not known.
 */
static __always_inline u64 retain_adds(u32 busy)
{
	u32 with = live.thread_perf[BOUNDED(busy, MAX_LANES_PER_CORE)];
	u32 alone = busy ? live.thread_perf[BOUNDED(busy - 1, MAX_LANES_PER_CORE)] : 0;

	if (!with)
		return RETAIN_ADDS_TYPICAL;
	return with * (busy + 1) > alone * busy ? with * (busy + 1) - alone * busy : 0;
}

/* What two switches cost on @core, as time of a lane alone: as the settings say, else as measured, else as is typical. */
static __always_inline u64 retain_switches_ns(const struct core_ctx *core)
{
	const struct retain *r = &core->retain;

	if (fixed.retain_switches_ns)
		return fixed.retain_switches_ns;
	if (r->firsts < FIRSTS_MIN)
		return SWITCHES_TYPICAL_NS;
	return r->first_ns > r->first_done_ns ? 2 * (r->first_ns - r->first_done_ns) / r->firsts
					      : 0;
}

/* So long @lane, beside which the others run, is held at most for what two switches cost. */
static __always_inline u64 retain_paid_ns(const struct lane_ctx *lane, const struct core_ctx *core,
					  u64 timeout_ns)
{
	u32 busy = lanes_busy(lane->core);
	u64 adds = retain_adds(busy ? busy - 1 : 0); /* this lane still counts */
	u64 paid_ns = retain_switches_ns(core) * SPEED_ONE / (adds ? adds : 1);

	/* as seldom as the timer rings */
	if (paid_ns < fixed.retain_min_ns)
		paid_ns = fixed.retain_min_ns;
	return paid_ns < timeout_ns ? paid_ns : timeout_ns;
}

/*
 * Waking @p waits for @lane, the CPU @cpu. If what runs on this CPU has woken it, and is about to sleep (@waker, or -1) or
 * @p can go nowhere else, that probably waits for @p: no lane of the core is held against it.
 */
static __always_inline void retain_awaits(const struct task_struct *p, const struct lane_ctx *lane,
					  s32 cpu, s32 waker)
{
	s32 self = bpf_get_smp_processor_id();
	struct lane_ctx *own;

	if (!fixed.retain || (waker < 0 && !(is_bound(p) && cpu == self)))
		return;
	own = lane_ctx(self);
	if (own && own->core == lane->core)
		own->woke = 1;
}

/* @p sleeps on @lane, which is held for it if it is expected back. */
static __always_inline void retain_begin(struct task_struct *p, struct task_ctx *tctx,
					 struct lane_ctx *lane, u64 now_ns)
{
	struct core_ctx *core = fixed.retain ? core_ctx(lane->core) : NULL;
	u64 timeout_ns;

	if (!core || tctx->class != CLASS_NORMAL || tctx->misclassified ||
	    (p->flags & PF_EXITING) || lane->woke ||
	    tctx->returns[!!core->retain.other] < RETURNS_ALL / 2 || !core->retain.attentive ||
	    vector_waits(CLASS_CRITICAL) || !pair_may_hold(core, tctx, scx_bpf_task_cpu(p)))
		return;
	timeout_ns = retain_timeout_ns(&core->retain);
	if (vector_waiting(lane->core, CLASS_NORMAL) && timeout_ns > p->scx.slice &&
	    !pair_may_extend(core, scx_bpf_task_cpu(p)))
		timeout_ns = p->scx.slice;
	lane->held_waited = waits_for(lane);
	if (lane->held_waited && pair_owns(core, scx_bpf_task_cpu(p)))
		timeout_ns = retain_paid_ns(lane, core, timeout_ns);
	if (!timeout_ns)
		return;
	tctx->held_slice_ns = p->scx.slice;
	lane->held_until_ns = now_ns + timeout_ns;
	lane->held_ns = now_ns;
	/* a full barrier: the timer that rings seldom from now on sees this, or we that */
	__sync_lock_test_and_set(&lane->held_pid, p->pid);
	if (!core->retain.attentive)
		lane->held_pid = 0;
}

/* The hold of @lane ends: another task runs there, its task runs (@back), or none. */
VERIFIED_ONCE int retain_end(struct lane_ctx *lane __arg_nonnull, bool back, u64 now_ns)
{
	u64 held_ns = now_ns > lane->held_ns ? now_ns - lane->held_ns : 0;

	lane->held_pid = 0;
	count_add(held_ns, held_ns);
	if (lane->held_waited || waits_for(lane))
		count_add(held_waited_ns, held_ns);
	if (back)
		count(retentions);
	else
		count(retentions_failed);
	return 0;
}

/* @p begins to run on @lane; @shared: if that is held for another, it is so for @p too. */
static __always_inline void retain_runs(struct task_struct *p, struct lane_ctx *lane, bool shared,
					u64 now_ns)
{
	if (!fixed.retain)
		return;
	if (lane->held_pid)
		retain_end(lane, lane->held_pid == (u32)p->pid || shared, now_ns);
	lane->woke = 0;
}

/* The lane is held for no task any more; false: it is not idle either. */
static __always_inline bool retain_free(struct lane_ctx *lane)
{
	if (lane_state_take(lane, core_ctx(lane->core), LANE_HELD, LANE_IDLE) != LANE_HELD)
		return false;
	core_update(lane->core, UPDATE_JOINS);
	return true;
}

/* Its task is back, but not at once on the lane. */
static __always_inline void retain_back(struct lane_ctx *lane, u64 now_ns)
{
	retain_end(lane, true, now_ns);
	retain_free(lane);
}

/* No task came back to the lane @cpu. */
static __always_inline void retain_release(struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	retain_end(lane, false, now_ns);
	if (retain_free(lane) && waits_for(lane))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/*
 * The lane that is held for @p, which wakes and may run (@may) or not; -1: none. One that it does not
 * use is released.
 */
static __always_inline s32 retain_lane(struct task_struct *p, struct task_ctx *tctx, s32 prev,
				       bool may, u64 now_ns)
{
	struct lane_ctx *lane = fixed.retain ? lane_ctx(prev) : NULL;
	u64 held_ns;

	if (!lane || prev < 0 || !lane->held_pid || lane->held_pid != (u32)p->pid)
		return -1;
	if (!may || !lane_held(lane, now_ns) || tctx->class != CLASS_NORMAL ||
	    !bpf_cpumask_test_cpu(prev, p->cpus_ptr)) {
		retain_release(lane, prev, now_ns);
		return -1;
	}
	held_ns = now_ns > lane->held_ns ? now_ns - lane->held_ns : 0;
	tctx->slice_left_ns = tctx->held_slice_ns > held_ns ? tctx->held_slice_ns - held_ns : 1;
	tctx->vtime += hook_vtime(p, tctx, held_ns);
	return prev;
}

/* @tctx, whose sleeps no hold could mostly cover, did so much on @core: instructions, or ns of a lane alone. */
static __always_inline void retain_adds_work(struct task_ctx *tctx, struct core_ctx *core, u64 work)
{
	if (!fixed.retain_period_ns)
		return;
	__sync_fetch_and_add(&core->retain.done.work, work);
	if (work >= RETAIN_WORKS_MIN && retain_first(tctx, &core->retain))
		__sync_fetch_and_add(&core->retain.done.working, 1);
}

/* @tctx ran for @ran_ns: without counters its work is that at the speed of its core's lanes. */
static __always_inline void retain_worked(struct task_ctx *tctx, u64 ran_ns)
{
	struct core_ctx *core = fixed.retain ? core_ctx(tctx->core) : NULL;
	u32 busy;

	if (!core || fixed.retain_counts || retain_fits(tctx))
		return;
	busy = lanes_busy(tctx->core);
	retain_adds_work(tctx, core, ran_ns * lane_speed(core, busy) / SPEED_ONE);
}

/* The lane of @count switches. */
static __always_inline void retain_switches(struct lane_count *count)
{
	if (count)
		count->switched = 1;
}

/* An interval of a task on @core that began with a switch, so long; without that it would do as much in @done_ns. */
static __always_inline void retain_first_interval(struct core_ctx *core, u64 span_ns, u64 done_ns)
{
	u32 speed = lane_speed(core, states_busy(core, states_of(core)));
	struct retain *r = &core->retain;

	if (__sync_fetch_and_add(&r->firsts, 1) >= FIRSTS_MOST) {
		r->firsts /= 2;
		r->first_ns /= 2;
		r->first_done_ns /= 2;
	}
	__sync_fetch_and_add(&r->first_ns, span_ns * speed / SPEED_ONE);
	__sync_fetch_and_add(&r->first_done_ns, done_ns * speed / SPEED_ONE);
}

/*
 * With counters: @tctx (NULL: unknown), whose lane has @count, had so many instructions on @core in an interval
 * so long. One that began with a switch tells what that has cost: how much longer it took than at the task's pace otherwise.
 */
static __always_inline void retain_counted(struct task_ctx *tctx, struct lane_count *count,
					   struct core_ctx *core, u64 instructions, u64 span_ns)
{
	bool switched = count->switched;
	u64 pace;

	if (!fixed.retain_counts)
		return;
	count->switched = 0;
	if (!tctx || !instructions || instructions >= COUNT_MAX || retain_fits(tctx))
		return;
	retain_adds_work(tctx, core, instructions);
	if (span_ns < SPAN_MIN_NS || span_ns > SPAN_MAX_NS)
		return;
	pace = instructions * PACE_NS / span_ns;
	if (!switched)
		tctx->pace = tctx->pace
				     ? (tctx->pace * (RETURNS_WEIGHT - 1) + pace) / RETURNS_WEIGHT
				     : pace;
	else if (tctx->pace)
		retain_first_interval(core, span_ns, instructions * PACE_NS / tctx->pace);
}

static __always_inline void retain_arm(u32 core_id, u64 after_ns)
{
	struct core_timer *timer = timer_of(TIMER_RETAIN, core_id);

	if (timer)
		bpf_timer_start(&timer->timer, after_ns, 0);
}

/* A normal task wakes on @core, which may come and go. */
static __always_inline void retain_need(struct core_ctx *core)
{
	if (fixed.retain && !core->retain.woken)
		core->retain.woken = 1;
}

/* Releases the lanes of @core_id whose time is over; when the next one is, at the latest. */
VERIFIED_ONCE u64 retain_expire(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	/* whatever is held from now on is held for that long at least */
	u64 next_ns = now_ns + fixed.retain_min_ns;
	u32 i;

	if (!core)
		return next_ns;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (!lane || !lane->held_pid)
			continue;
		core->retain.woken = 1;
		if (now_ns >= lane->held_until_ns)
			retain_release(lane, cpu, now_ns);
		else if (lane->held_until_ns < next_ns)
			next_ns = lane->held_until_ns;
	}
	return next_ns;
}

/* Moves what @from counted to @to. */
static __always_inline void retain_move(struct timeout_done *from, struct timeout_done *to)
{
	if (from->work | from->rounds) {
		__sync_fetch_and_add(&to->work, __sync_lock_test_and_set(&from->work, 0));
		__sync_fetch_and_add(&to->rounds, __sync_lock_test_and_set(&from->rounds, 0));
		__sync_fetch_and_add(&to->working, __sync_lock_test_and_set(&from->working, 0));
		__sync_fetch_and_add(&to->waiting, __sync_lock_test_and_set(&from->waiting, 0));
	}
}

/* What @r counted is added to what its cache did, and a period of that may be over. */
static __always_inline void retain_tell(struct retain *r, u32 near, u64 now_ns)
{
	struct core_ctx *first = core_ctx(near);
	struct timeout_done done = {};
	struct timeout *t;
	u64 since_ns;

	if (!first)
		return;
	t = &first->timeout;
	if (!t->best_ns) {
		t->since_ns = now_ns; /* before others see that it has begun */
		t->best_ns = timeout_bounded_ns(fixed.retain_start_ns);
	}
	since_ns = t->since_ns;
	retain_move(&r->done, &t->done);
	if (fixed.retain_period_ns && now_ns >= since_ns + fixed.retain_period_ns &&
	    __sync_val_compare_and_swap(&t->since_ns, since_ns, now_ns) == since_ns) {
		retain_move(&t->done, &done);
		timeout_step(t, &done);
	}
	r->timeout_ns[0] = t->best_ns;
	r->timeout_ns[1] = timeout_other_ns(t);
	r->other = t->other;
	r->period = t->periods;
}

/* No task came: lanes are no longer held. */
static __always_inline void retain_rest(u32 core_id, struct retain *r, u64 now_ns)
{
	__sync_lock_test_and_set(&r->attentive, 0);
	/* a task that is held meanwhile saw that it could be */
	retain_expire(core_id, now_ns);
	if (r->woken)
		r->attentive = 1;
}

/* A hold may be over, or a period; or a task came. */
static int retain_timer(void *map, u32 *key, struct core_timer *timer)
{
	u32 core_id = *key - nr_cores - 3;
	struct core_ctx *core = core_ctx(core_id);
	u64 now_ns = scx_bpf_now(), next_ns;
	struct retain *r;

	if (!core)
		return 0;
	r = &core->retain;
	retain_tell(r, core->near, now_ns);
	if (r->woken)
		r->attentive = 1;
	next_ns = retain_expire(core_id, now_ns);
	if (now_ns >= r->seen_ns + RETAIN_REST_NS) {
		if (!r->woken)
			retain_rest(core_id, r, now_ns);
		r->woken = 0;
		r->seen_ns = now_ns;
	}
	if (!r->attentive)
		next_ns = now_ns + RETAIN_REST_NS;
	retain_arm(core_id, next_ns > now_ns ? next_ns - now_ns : 1);
	return 0;
}

/* Makes and starts the core's timer if lanes are held at all. */
VERIFIED_ONCE s32 retain_init(u32 core_id)
{
	struct core_timer *timer;
	s32 err;

	if (!fixed.retain)
		return 0;
	timer = timer_of(TIMER_RETAIN, core_id);
	if (!timer)
		return -ENOENT;
	err = bpf_timer_init(&timer->timer, &core_timers, CLOCK_MONOTONIC)
		      ?: bpf_timer_set_callback(&timer->timer, retain_timer);
	if (!err)
		retain_arm(core_id, RETAIN_REST_NS);
	return err;
}

#endif /* SIDELANE_RETAIN_BPF_H */
