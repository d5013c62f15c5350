/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Fast first: where a task that begins to wait should run.
 *
 * Problem: a critical task wants a whole core, the fastest there is, and its
 * caches warm; batch wants whatever is left.
 *
 * Rule, critical: the waker's core, if the waker says that it is about to sleep and
 * no critical work is there; a whole idle core of the highest capacity, its own first; a
 * core on which only batch runs (which closes at once); any other core without
 * critical work; an idle lane of a shared core, if the SMT level allows; its own
 * core's vector. Within the first two, capacity decides before idleness does. On cores of
 * several speeds an idle lane beside critical work comes before a core that is slower than
 * it, shared (capacity * threadPerf, if that is known).
 * Normal: the lane of a waker that says the same and is gone sooner than another lane would come, or that it answers while
 * no lane is free (follows_waker()); its own lane if that is idle or runs batch and the core is open; also if it is
 * idle beside critical work, for a task that runs only for a moment each time (is_brief()): it is gone
 * sooner than batch elsewhere is evicted. But not beside critical or normal work while a
 * whole idle core is there where it is faster: two tasks that met once would share a core
 * for ever. A task that is so brief does not go to another last-level cache for that.
 * Then the same order as for critical work, without closing anything: only the lane
 * itself is taken.
 * Batch: its own lane if idle on an open core; an idle core; an idle lane of an
 * open core; its own core's vector.
 * With fixed.batch_lanes batch uses only the last so many lanes of each core, unless it is
 * bound to others. Normal work that wakes, and critical work without a budget, takes a lane of
 * batch there, not the idle one beside it: that is one interrupt instead of two, batch is back as
 * soon as the lane is free, and normal work does not lose by sharing what batch gains.
 * Of idle lanes of shared cores always the one that is fastest there: capacity * threadPerf.
 *
 * With vertical polarization normal and batch work keeps to cores that are awake
 * (polarize.bpf.h), unless it may use none of them.
 *
 * A task that wakes for an idle lane, or for this CPU while it runs a lower class, goes
 * there directly. So does, behind what runs or is about to begin, or in its place (fair.bpf.h), work that is bound and next
 * (lane_next()), and behind its waker what follows that.
 * Otherwise it waits in the core's vector, and whichever lane is first
 * takes it. For one on a waker's lane no lane is woken if the waker is brief (is_brief()): a
 * sibling that came to look would slow it down. If it does not sleep all the same, its tick ends that.
 * Critical work asks for the lane of lower work of its core; one of normal work, if the SMT level allows no lane beside that.
 * A lane that takes one of several critical tasks asks again for the others.
 *
 * Two wakers at the same time: the first has the core expect its task (arrive.bpf.h), the second goes on. A core that expects
 * critical work is closed. An idle core to whose vector normal work was sent counts as idle no longer.
 *
 * Cost: usually a look at the own core; at worst one pass over a bitmap of all
 * cores.
 *
 * Source: Fast Old and First (FOF): fast first. Fast old is promote.bpf.h.
 */
#ifndef SIDELANE_PLACE_BPF_H
#define SIDELANE_PLACE_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "arrive.bpf.h"
#include "classify.bpf.h"
#include "fair.bpf.h"
#include "find.bpf.h"
#include "kick.bpf.h"
#include "vector.bpf.h"

/* Counts where a critical task was placed. */
static __always_inline void count_placed(const struct core_ctx *core, u32 core_id)
{
	if (core_idles(core))
		count(critical_idle_core);
	else if (core_is(core, CORES_LENT))
		count(critical_borrowed_core);
	else
		count(critical_shared_core);
}

/*
 * The waker's lane, if its core has no critical work and is as fast as any; -1
 * otherwise. A waker that is about to sleep leaves its lane within moments.
 */
static __always_inline s32 lane_of_waker(struct task_struct *p, struct task_ctx *tctx, s32 waker)
{
	struct lane_ctx *lane = lane_ctx(waker);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;

	if (!core || core_critical(lane->core) || core->capacity < capacity_of(0) ||
	    !bpf_cpumask_test_cpu(waker, p->cpus_ptr) || !critical_chooses(tctx, core, lane->core))
		return -1;
	return waker;
}

/* Does all of the core of @lane, the CPU @prev, idle, and may @p use that? */
static __always_inline bool home_idles(struct task_struct *p, const struct lane_ctx *lane, s32 prev)
{
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;

	return core && lane->state == LANE_IDLE && core_idles(core) &&
	       bpf_cpumask_test_cpu(prev, p->cpus_ptr);
}

/* Does critical @p go back to @prev, of @core, without a search? The usual case; find_open_core() would find the same. */
static __always_inline bool critical_stays(struct task_struct *p, struct task_ctx *tctx,
					   struct core_ctx *core, u32 home, s32 prev)
{
	return home_idles(p, lane_ctx(prev), prev) && core->capacity >= capacity_of(0) &&
	       !vector_expected(core, CLASS_NORMAL) && critical_chooses(tctx, core, home);
}

/*
 * The lane of @core_id for critical @p, in one of @states; -1: none that the SMT level allows. Where that allows no other lane beside
 * normal work, the lane of that, unless it runs because it is due.
 */
VERIFIED_ONCE s32 critical_lane(struct task_struct *p __arg_trusted, u32 core_id, u32 states,
				s32 prev)
{
	s32 cpu = pick_lane(p, core_id, states, prev), normal;
	struct core_ctx *core = core_ctx(core_id);
	struct lane_ctx *lane;

	if (cpu < 0 || !core || level_allows(core, core_id, cpu))
		return cpu;
	if (!level_leaves(core_id, cpu, true))
		return -1;
	normal = pick_lane(p, core_id, states & STATE(LANE_NORMAL), prev);
	lane = lane_ctx(normal);
	return lane && !lane->overdue ? normal : cpu;
}

VERIFIED_ONCE s32 place_critical(struct task_struct *p __arg_trusted, u32 home, s32 prev, s32 waker)
{
	u32 states = BELOW_CRITICAL;
	struct task_ctx *tctx = task_ctx(p);
	struct core_ctx *core = core_ctx(home);
	s32 id, cpu;

	if (!core || !tctx)
		return prev;
	if (is_bound(p) && bpf_cpumask_test_cpu(prev, p->cpus_ptr)) {
		if (core_critical(home))
			count(critical_queued);
		else
			count_placed(core, home);
		return prev;
	}
	if (hook_closes_at_once(tctx)) /* else batch may go on beside it */
		states |= OVER_BATCH;
	cpu = lane_of_waker(p, tctx, waker);
	if (cpu >= 0) {
		count(critical_borrowed_core);
		return cpu;
	}
	if (critical_stays(p, tctx, core, home, prev)) {
		count(critical_idle_core);
		return prev;
	}
	id = find_open_core(p, states, home, nr_cores);
	cpu = shared_lane_beyond(p, id, prev);
	if (cpu >= 0) {
		count(critical_shared_core);
		return cpu;
	}
	if (id >= 0) {
		core = core_ctx(id);
		cpu = critical_lane(p, id, states, prev);
		if (core && cpu >= 0 && critical_chooses(tctx, core, id)) {
			count_placed(core, id);
			return cpu;
		}
	}
	cpu = find_idle_lane(p, FOR_CRITICAL, home, prev, nr_cores);
	if (cpu >= 0) {
		count(critical_shared_core);
		return cpu;
	}
	count(critical_queued);
	cpu = critical_lane(p, home, BELOW_CRITICAL, prev);
	if (cpu < 0) /* it wakes none in vain */
		cpu = pick_lane(p, home, STATE(LANE_CRITICAL) | STATE(LANE_OTHER), prev);
	return cpu >= 0 ? cpu : fallback_lane(p, home, prev, nr_cores);
}

/* May @p, which is normal and @brief, or not, go back to its lane @prev, of core @home? */
static __always_inline bool keeps_lane(struct task_struct *p, u32 home, s32 prev, bool brief)
{
	struct lane_ctx *lane = lane_ctx(prev);
	struct core_ctx *core = core_ctx(home);

	if (!lane || !core || !bpf_cpumask_test_cpu(prev, p->cpus_ptr))
		return false;
	if (lane->state == LANE_IDLE && core_is_full(core, home) &&
	    lanes_in_state(home, LANE_BATCH))
		return false; /* the place of batch is better */
	if (lane->state == LANE_IDLE && brief && level_allows(core, home, prev))
		return true;
	return (lane->state == LANE_IDLE || lane->state == LANE_BATCH) && !core_critical(home);
}

/*
 * @p, which is normal, could go back to its lane of @home: the idle core to which it goes rather than
 * share @home; -1: it stays. What runs only for a moment does not leave its caches for that.
 */
static __always_inline s32 roomier_core(struct task_struct *p, u32 home, u32 end, bool brief)
{
	s32 id = find_roomier(p, home, lanes_foreground(home) + 1, end);
	struct core_ctx *own, *core;

	if (id < 0 || !brief)
		return id;
	own = core_ctx(home);
	core = core_ctx(id);
	if (!own || !core || core_distance(own, core) > DISTANCE_CACHE)
		return -1;
	return id;
}

/* Normal and batch work goes to one of the first @end cores. @brief: @p runs only for a moment each time. */
VERIFIED_ONCE s32 place_normal(struct task_struct *p __arg_trusted, u32 home, s32 prev, u32 end,
			       bool brief)
{
	bool keeps = keeps_lane(p, home, prev, brief);
	s32 id, cpu;

	id = keeps ? roomier_core(p, home, end, brief) : find_open_core(p, FREE_STATES, home, end);
	cpu = id >= 0 ? pick_lane(p, id, FREE_STATES | OVER_BATCH, prev) : -1;
	if (keeps && cpu < 0)
		cpu = prev;
	if (cpu >= 0)
		return cpu;
	cpu = find_idle_lane(p, FOR_NORMAL, home, prev, end);
	return cpu >= 0 ? cpu : fallback_lane(p, home, prev, end);
}

/* Is the lane @cpu, of @core_id, one of those for batch, and may @p use it? */
static __always_inline bool fits_batch(struct task_struct *p, u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);
	struct lane_ctx *lane = lane_ctx(cpu);

	return core && lane && lane->core == core_id &&
	       lane->index >= first_meant_for_batch(core) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

VERIFIED_ONCE s32 place_batch(struct task_struct *p __arg_trusted, u32 home, s32 prev, u32 end)
{
	u32 idle = STATE(LANE_IDLE) | FOR_BATCH;
	s32 id, cpu;

	if (core_set_some(CORES_FOR_BATCH)) {
		if (hook_may_run(home, CLASS_BATCH) && pick_lane(p, home, idle, prev) == prev)
			return prev;
		id = find_core(p, CORES_IDLE, idle, home, end);
		cpu = id >= 0 ? pick_lane(p, id, idle, prev) : -1;
		if (cpu < 0)
			cpu = find_idle_lane(p, CORES_FOR_BATCH, home, prev, end);
		if (cpu >= 0)
			return cpu;
	}
	if (fits_batch(p, home, prev)) /* as when something better takes its lane */
		return prev;
	cpu = pick_lane(p, home, ANY_STATE | FOR_BATCH, prev);
	return cpu >= 0 ? cpu : fallback_lane(p, home, prev, end);
}

/* How many of the first cores @p may go to while some are parked: those that are awake, unless it may use none of them. */
VERIFIED_ONCE u32 cores_awake_for(struct task_struct *p __arg_trusted)
{
	u32 awake = live.cores_awake, id;
	u64 allowed;

	if (!awake || awake >= nr_cores)
		return nr_cores;
	allowed = allowed_cores(p);
	bpf_for(id, 0, awake) {
		if (core_is_allowed(allowed, id) && pick_lane(p, id, ANY_STATE, -1) >= 0)
			return awake;
	}
	return nr_cores;
}

/* How many of the first cores @p, of @class, may go to. */
static __always_inline u32 cores_for(struct task_struct *p, u32 class)
{
	return live.vertical && class != CLASS_CRITICAL ? cores_awake_for(p) : nr_cores;
}

/* Does @p, which ran on @core_id, leave it because it was parked? */
static __always_inline bool parked_leaves(struct task_struct *p, u32 class, u32 core_id)
{
	return core_parked(core_id) && cores_for(p, class) <= core_id;
}

/*
 * Batch @p is about to wait in the vector of @core_id, for which the lane @cpu was chosen. If it may
 * use none of the lanes for batch there, batch may use all until it runs.
 */
VERIFIED_ONCE int batch_enters(struct task_struct *p __arg_trusted, u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);
	struct task_ctx *tctx = task_ctx(p);

	if (!core || !tctx || !first_meant_for_batch(core) || fits_batch(p, core_id, cpu) ||
	    pick_lane(p, core_id, ANY_STATE | FOR_BATCH, -1) >= 0)
		return 0;
	tctx->in_vector = IN_VECTOR_UNFIT;
	__sync_fetch_and_add(&core->unfit, 1);
	core_update(core_id, UPDATE_JOINS);
	return 0;
}

/* The current task, which says that it is about to sleep: will it? */
static __always_inline bool waker_is_brief(void)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct task_ctx *tctx = waker ? task_ctx(waker) : NULL;

	return tctx && tctx->class != CLASS_BATCH && is_brief(tctx);
}

/*
 * Sees to it that a lane looks at the vector that @p was put into for @cpu, on which its waker is
 * about to sleep if it @yields.
 */
static __always_inline void kick_for(struct task_struct *p, const struct task_ctx *tctx,
				     struct lane_ctx *lane, s32 cpu, bool yields)
{
	const struct core_ctx *core = core_ctx(lane->core);
	u32 state = lane->state;
	bool stays; /* what runs on the lane */

	if (!core || (yields && waker_is_brief()))
		return;
	/* an idle sibling is woken, and may come sooner; without one the waker has to leave */
	stays = yields && lanes_in_state(lane->core, LANE_IDLE) &&
		(tctx->class == CLASS_BATCH || level_allows(core, lane->core, -1));
	if (idles_for(state, tctx->class) || hook_shares_hold(tctx, lane, cpu))
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	else if (!stays && hook_makes_room(tctx, lane)) {
		count(hand_backs);
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	} else if (!stays && !lane->overdue &&
		   ((state < LANE_IDLE && state > tctx->class) ||
		    fair_preempts(p, tctx, lane, cpu)))
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
	else if (!is_bound(p) && hook_may_run(lane->core, tctx->class)) {
		/* one may have fallen idle meanwhile */
		cpu = pick_lane(p, lane->core,
				IDLE_STATES(tctx->class == CLASS_CRITICAL) |
					(tctx->class == CLASS_BATCH ? FOR_BATCH : 0),
				-1);
		if (cpu >= 0 && (tctx->class == CLASS_BATCH || level_allows(core, lane->core, cpu)))
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
}

/*
 * Can a waking task of @class run on the lane @cpu at once? Then it need not wait in a
 * vector. The lane is taken over, so that no other comes to count on it: of two tasks in a
 * lane's own queue, one waits where no other lane can help it. @held: it is held for the task.
 */
static __always_inline bool lane_take_over(struct lane_ctx *lane, struct core_ctx *core, s32 cpu,
					   u32 class, bool held)
{
	u32 state = lane->state;
	bool idle = idles_for(state, class) || (state == LANE_HELD && held);

	if (class == CLASS_BATCH)
		return false; /* whether batch may run is decided when a lane is free */
	/* the next one there would run before this comes on */
	if (!idle && !(state < LANE_IDLE && state > class && !lane->overdue && !lane->next &&
		       cpu == (s32)bpf_get_smp_processor_id()))
		return false;
	return level_allows(core, lane->core, cpu) &&
	       lane_state_take(lane, core, state, LANE_OTHER) == state;
}

/* May waking @p wait in the own queue of @lane, where work of its class runs? One such task a lane at most. */
static __always_inline bool lane_queues(const struct task_struct *p, const struct task_ctx *tctx,
					const struct lane_ctx *lane)
{
	return !(p->flags & PF_KTHREAD) && tctx->class != CLASS_BATCH &&
	       lane->state == tctx->class && !lane->next;
}

/*
 * Is it next there, if it has to run there? If it is the only task that waits at all: in the lane's own queue it costs no look
 * at the vectors then. What comes after it is compared with what else waits.
 */
static __always_inline bool lane_next(const struct task_struct *p, const struct task_ctx *tctx,
				      const struct lane_ctx *lane)
{
	return lane_queues(p, tctx, lane) && !work_hinted();
}

/* The same behind normal work that is about to begin on @lane, for @p that is normal. */
static __always_inline bool lane_next_but_one(const struct task_struct *p,
					      const struct task_ctx *tctx,
					      const struct lane_ctx *lane)
{
	return !(p->flags & PF_KTHREAD) && tctx->class == CLASS_NORMAL &&
	       lane->next == NEXT_AT_ONCE && !core_critical(lane->core) && !work_hinted();
}

/* Is @p, which may run nowhere else? Not if it has come so far that what runs goes on before it. */
static __always_inline bool lane_next_bound(const struct task_struct *p,
					    const struct task_ctx *tctx,
					    const struct lane_ctx *lane,
					    const struct core_ctx *core)
{
	return is_bound(p) && (lane_next(p, tctx, lane) || lane_next_but_one(p, tctx, lane)) &&
	       (tctx->class != CLASS_NORMAL ||
		!time_before(lane_reached(lane, core) + fair_lag(), tctx->vtime));
}

/*
 * Does normal @p, while no lane of the machine is free, run after its waker, the current task, on @lane, the CPU @waker, rather than
 * take another from other work? If the two answer each other, what waits there is behind that one or will be soon, and @p is
 * next. On two lanes at once they would have more than their share until they both wait for a turn of what computes. Notes
 * which one the waker woke. (After an interrupt that is what was interrupted: tasks that answer each other through the network do so.)
 */
static __always_inline bool answers_waker(const struct task_struct *p, const struct task_ctx *tctx,
					  const struct lane_ctx *lane, s32 waker)
{
	const struct core_ctx *home = core_ctx(tctx->core), *core = core_ctx(lane->core);
	struct task_struct *current = bpf_get_current_task_btf();
	struct task_ctx *other = current ? task_ctx(current) : NULL;
	u64 come, first;

	if (!other || !home || !core)
		return false;
	other->woke = p->pid;
	if (tctx->woke != (u32)current->pid)
		return false;
	come = vtime_on(tctx, home, core);
	first = fair_first(lane->core, waker, come - 1);
	return !time_before(first, come) &&
	       time_before(first, fair_running(lane) + fair_lag() / PREEMPT_PARTS);
}

/*
 * Does normal @p run after its @waker, on that one's lane? If it is brief, nothing waits, and that lane is free sooner than another
 * comes: an interrupt, a way out of the idle state, a switch. So two tasks that answer each other keep one lane, and
 * wake none. Else see answers_waker().
 */
static __always_inline bool follows_waker(const struct task_struct *p, const struct task_ctx *tctx,
					  s32 waker)
{
	bool some = fixed.follow_waker_ns && waker >= 0;
	const struct lane_ctx *lane = some ? lane_ctx(waker) : NULL;
	bool soon = lane && lane->leaves_soon && is_brief(tctx) && !work_hinted();

	if (!lane || (!soon && (!fixed.wakes_preempt || core_set_some(CORES_FREE))))
		return false;
	return lane_queues(p, tctx, lane) && !core_parked(lane->core) &&
	       bpf_cpumask_test_cpu(waker, p->cpus_ptr) &&
	       (soon || answers_waker(p, tctx, lane, waker));
}

/* A tick of @p, which runs on @lane: it does not leave so soon. What followed it, and might run elsewhere, waits no longer. */
static __always_inline void next_waited(struct task_struct *p, struct task_ctx *tctx,
					struct lane_ctx *lane)
{
	tctx->leaves_soon = 0;
	lane->leaves_soon = 0;
	if (lane->next != NEXT_FOLLOWS)
		return;
	scx_bpf_task_set_slice(p, 0);
	lane->next = NEXT_NONE; /* if it is there still, it is next in any case */
}

/* So many tasks that wait are looked at. */
#define ASKING_LOOKS 16

/*
 * A lane of @core_id takes critical work, and more waits there. Of two tasks that came at the same time both may have asked this
 * lane: the next one that may use another lane asks again.
 */
VERIFIED_ONCE int critical_asks_again(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	struct task_struct *p;
	u32 looks = some_value(0);

	if (!core || !(states_present(states_of(core)) & BELOW_CRITICAL))
		return 0;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_CRITICAL), 0) {
		s32 cpu = critical_lane(p, core_id, BELOW_CRITICAL, -1);
		struct lane_ctx *lane = lane_ctx(cpu);
		struct task_ctx *tctx = task_ctx(p);

		if (looks++ >= ASKING_LOOKS)
			break;
		if (!lane || !tctx || lane->overdue)
			continue;
		kick_for(p, tctx, lane, cpu, false);
		break;
	}
	return 0;
}

/* @p begins to run on the lane @cpu: critical work may have come while that woke, or asked for it, too. */
static __always_inline void next_begins(const struct task_struct *p, const struct task_ctx *tctx,
					struct lane_ctx *lane, s32 cpu)
{
	if ((!lane->next && tctx->class != CLASS_CRITICAL) || is_pinned_kthread(p))
		return;
	lane->next = lane->next == NEXT_TWO ? NEXT_BOUND : NEXT_NONE;
	if (!core_set_some(CORES_QUEUED + CLASS_CRITICAL) ||
	    !vector_waiting(lane->core, CLASS_CRITICAL))
		return;
	if (tctx->class == CLASS_CRITICAL)
		critical_asks_again(lane->core);
	else if (!lane->overdue)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Sends a waking task to the lane that select_cpu returns, or on whose CPU it is queued. What it @follows there leaves by itself. */
static __always_inline void lane_insert(struct task_struct *p, struct task_ctx *tctx,
					const struct lane_ctx *lane, const struct core_ctx *core,
					bool at_once, bool follows, u64 enq_flags, u64 now_ns)
{
	u32 class = task_class(tctx);

	vtime_moves(tctx, lane->core);
	tctx->queued_ns = now_ns;
	if (class == CLASS_NORMAL)
		vtime_begins(tctx, lane_reached(lane, core));
	if (at_once || (!follows && fair_is_behind(p, tctx, lane)))
		enq_flags |= SCX_ENQ_PREEMPT;
	scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, slice_begins(tctx, now_ns), enq_flags);
}

/*
 * Chooses a lane for @p, which ran on @prev last; @waker as below. Returns its CPU, or -1. @follows: whether it is the waker's,
 * to run there next.
 */
static __always_inline s32 choose_lane(struct task_struct *p, const struct task_ctx *tctx, s32 prev,
				       s32 waker, bool *follows)
{
	struct lane_ctx *lane;
	struct core_ctx *core;
	u32 end, home;
	s32 cpu;

	if (is_bound(p) && tctx->class != CLASS_CRITICAL && bpf_cpumask_test_cpu(prev, p->cpus_ptr))
		return prev;
	lane = lane_ctx(prev);
	end = cores_for(p, tctx->class);
	home = lane ? lane->core : 0;
	if (home >= end) { /* parked meanwhile */
		home %= end;
		core = core_ctx(home);
		prev = core ? core_lane(core, 0) : prev;
		lane = lane_ctx(prev);
	}
	if (tctx->class == CLASS_CRITICAL)
		return place_critical(p, home, prev, waker);
	if (tctx->class == CLASS_BATCH)
		return place_batch(p, home, prev, end);
	cpu = hook_lane(p, home, prev);
	if (cpu >= 0)
		return cpu;
	*follows = follows_waker(p, tctx, waker);
	if (*follows)
		return waker;
	if (home_idles(p, lane, prev) && !core_parked(home) &&
	    (is_brief(tctx) || !core_critical(home)))
		return prev; /* the usual case; place_normal() would find the same */
	return place_normal(p, home, prev, end, is_brief(tctx));
}

/* @p is to be placed: it leaves where it was sent before and did not run, and is what it is now. */
static __always_inline void place_begins(struct task_struct *p, struct task_ctx *tctx, bool waking,
					 u64 *now_ns)
{
	critical_leaves(tctx);
	vector_left(tctx);
	if (tctx->misclassified) /* as what it was it did not come on */
		vtime_begins_anew(tctx);
	if (waking || tctx->misclassified)
		class_assign(p, tctx);
	if (tctx->class != CLASS_CRITICAL)
		tctx->job_ns = 0; /* one begins when it is critical */
	else if (waking || !tctx->job_ns)
		tctx->job_ns = clock_once(now_ns);
}

/*
 * Sends @p to @lane, the CPU @cpu: there at once if @at_once, or as what is next, else by the vector. True: something has
 * to look there.
 */
static __always_inline bool place_send(struct task_struct *p, struct task_ctx *tctx,
				       struct lane_ctx *lane, const struct core_ctx *core, s32 cpu,
				       s32 waker, bool follows, bool waking, bool at_once,
				       u64 enq_flags, u64 now_ns)
{
	if (at_once) {
		lane_insert(p, tctx, lane, core, true, false, enq_flags, now_ns);
		lane->next = NEXT_AT_ONCE;
		return false;
	}
	if (waking)
		hook_awaits(p, lane, cpu, waker);
	if (follows || (waking && lane_next_bound(p, tctx, lane, core) &&
			level_allows(core, lane->core, cpu))) {
		lane_insert(p, tctx, lane, core, false, follows, enq_flags, now_ns);
		lane->next = follows			  ? NEXT_FOLLOWS
			     : lane->next == NEXT_AT_ONCE ? NEXT_TWO
							  : NEXT_BOUND;
		return false;
	}
	vector_insert(p, tctx, lane->core, waking, enq_flags, now_ns);
	if (tctx->class == CLASS_BATCH)
		batch_enters(p, lane->core, cpu);
	return true;
}

/*
 * Chooses a lane for @p and, when it wakes, sends it there at once if it can run, from select_cpu
 * (@selecting) to any lane, else to its own CPU's; else puts it into the vector of that lane's core,
 * and sees to it that a lane looks there. @prev is the CPU it ran on last, @waker the CPU of a waker
 * that is about to sleep, or -1. Returns the chosen CPU. If its pool is used up it is held instead.
 */
static __always_inline s32 place(struct task_struct *p, struct task_ctx *tctx, s32 prev, s32 waker,
				 bool selecting, u64 enq_flags)
{
	bool waking = selecting || (enq_flags & SCX_ENQ_WAKEUP), follows = false, at_once, kicks;
	u64 now_ns = hook_times_wakeups() ? scx_bpf_now() : 0;
	struct lane_ctx *lane;
	struct core_ctx *core;
	s32 cpu, held = -1;
	u32 stops;

	place_begins(p, tctx, waking, &now_ns);
	stops = hook_stops(p, tctx);
	if (stops && selecting)
		return prev; /* enqueue comes next */
	if (waking) {
		count(wakeups[task_class(tctx)]);
		hook_woke(tctx, now_ns);
	}
	hook_looks(p, tctx, now_ns);
	if (waking)
		held = hook_lane_held(p, tctx, prev, !stops, now_ns);
	if (stops) {
		hook_holds(p, tctx, stops, waking, enq_flags);
		return prev;
	}
	cpu = held >= 0 ? held : choose_lane(p, tctx, prev, waker, &follows);
	lane = lane_ctx(cpu);
	core = lane ? core_ctx(lane->core) : NULL;
	if (!core)
		return -1;
	if (waking && tctx->class == CLASS_CRITICAL && none_waits(core, tctx))
		hook_critical_wakes(core, now_ns);
	at_once = waking && (selecting || cpu == prev) && cpu != waker &&
		  lane_take_over(lane, core, cpu, tctx->class,
				 held >= 0 || hook_shares_hold(tctx, lane, cpu));
	if (!at_once && !follows) {
		clock_once(&now_ns);
		if (held >= 0) /* by the vector, from which a held lane does not take */
			hook_lane_back(lane, now_ns);
	}
	kicks = place_send(p, tctx, lane, core, cpu, waker, follows, waking, at_once, enq_flags,
			   now_ns);
	if (tctx->class == CLASS_CRITICAL) {
		critical_sent(tctx, lane->core);
		/* in enqueue a lock is held under which timers are not set */
		hook_critical_sent(lane->core, tctx->budget, selecting, now_ns);
	}
	hook_sent(tctx, core, waking, selecting);
	if (kicks)
		kick_for(p, tctx, lane, cpu, cpu == waker);
	return cpu;
}

#endif /* SIDELANE_PLACE_BPF_H */
