/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Closed cores: batch borrows lanes and gives them back.
 *
 * Problem: batch on a sibling lane slows a critical task by a third to a half,
 * however little it does; idle lanes on the other hand are capacity thrown away.
 *
 * Rule (borrow-idle): batch runs on a core only while no critical task runs on
 * any of its lanes and none waits in its vector. When a critical task is placed
 * on a core, the core closes: every lane that runs batch is kicked at once, from
 * the waker, before the critical task itself runs, and stays idle. To the batch
 * task that is a nap in the core's batch vector, from which an open core may
 * steal it. When the last critical task leaves, idle lanes are kicked to look at
 * the batch vector again.
 *
 * Between "this lane begins batch" and "that lane begins critical work" there is
 * no lock: each side writes its state with a full barrier, then looks at the
 * other, so that at least one of them sees the conflict and evicts.
 *
 * Cost: a kick (one interrupt) for each lane that runs batch when a core closes,
 * and one for each idle lane when it opens.
 *
 * Source: seeds "Elfen": borrow-idle. The source's batch threads watch the
 * sibling lane themselves and nap; here the scheduler does it for any program.
 * Not here: budgets, service-level feedback, the lane signal.
 */
#ifndef SIDELANE_BORROW_BPF_H
#define SIDELANE_BORROW_BPF_H

#include "types.bpf.h"
#include "account.bpf.h"
#include "vector.bpf.h"

/* May batch run on @core_id now? */
static __always_inline bool borrow_allowed(u32 core_id)
{
	return !core_closed(core_id);
}

/* Asks batch to leave the lane @cpu. */
static __always_inline void evict_lane(struct lane_ctx *lane, s32 cpu, u64 now_ns)
{
	if (!lane->evict_ns) {
		lane->evict_ns = now_ns;
		count(evictions);
	}
	scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Closes a core: critical work runs there or is about to. */
VERIFIED_ONCE int core_close(u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && lane->state == LANE_BATCH && !lane->overdue)
			evict_lane(lane, cpu, now_ns);
	}
	return 0;
}

/* Wakes the idle lanes of @core_id but @self, so that they dispatch again. */
VERIFIED_ONCE int core_kick_idle(u32 core_id, s32 self)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 cpu = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(cpu);

		if (lane && cpu != self && lane->state == LANE_IDLE)
			scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	}
	return 0;
}

/*
 * The lane @cpu went from critical work to something else. If that was the last
 * critical work of the core, batch may come back.
 */
VERIFIED_ONCE int core_reopen(u32 core_id, s32 cpu)
{
	core_refresh(core_id);
	if (!borrow_allowed(core_id))
		return 0;
	count(openings);
	if (vector_waits(CLASS_BATCH))
		core_kick_idle(core_id, cpu);
	return 0;
}

/*
 * A critical task begins to run on @core_id: it is no longer expected where it was
 * sent. If a lane of another core took it, the core it was sent to may open.
 */
static __always_inline void critical_arrived(const struct task_ctx *tctx, u32 core_id)
{
	struct core_ctx *core = core_ctx(tctx->core);

	if (!core || !tctx->queued_ns)
		return;
	core->claim_ns = 0;
	if (tctx->core != core_id)
		core_reopen(tctx->core, -1);
}

/* Batch that cannot leave now: exiting, or bound to its CPU for a moment. */
static __always_inline bool batch_is_stuck(const struct task_struct *p)
{
	s32 disabled = 0;

	if (p->flags & PF_EXITING)
		return true;
	if (bpf_core_field_exists(p->migration_disabled))
		disabled = p->migration_disabled;
	/* the program that asks disables migration of the current task */
	if (p == bpf_get_current_task_btf())
		disabled--;
	return disabled > 0;
}

/* A task begins to run on @cpu: whoever should not run beside it is evicted. */
static __always_inline void borrow_check(struct task_struct *p, struct lane_ctx *lane, s32 cpu,
					 u64 now_ns)
{
	if (lane->state == LANE_CRITICAL)
		core_close(lane->core, now_ns);
	else if (lane->state == LANE_BATCH && !lane->overdue && !borrow_allowed(lane->core) &&
		 !batch_is_stuck(p))
		evict_lane(lane, cpu, now_ns);
}

/* The first open core with an idle lane, or -1. */
VERIFIED_ONCE s32 core_with_room(void)
{
	u32 w;

	bpf_for(w, 0, (nr_cores + 63) / 64) {
		u64 *word = core_set_word(CORES_WITH_ROOM, w);
		u64 members = word ? *word : 0;

		if (members)
			return w * 64 + take_first(&members);
	}
	return -1;
}

/*
 * Work that waits while a lane idles: a wake-up and a lane that falls idle can miss
 * each other. The tick of a busy lane sends idle lanes to look: its siblings, and
 * those of a core with room.
 */
static __always_inline void missed_check(struct lane_ctx *lane)
{
	bool urgent;
	u32 class;
	s32 room;

	bpf_for(class, 0, NR_CLASSES)
		vector_refresh(lane->core, class); /* the remedy for a lost hint */
	urgent = vector_waits(CLASS_CRITICAL) || vector_waits(CLASS_NORMAL);
	if (urgent && lanes_in_state(lane->core, LANE_IDLE))
		core_kick_idle(lane->core, -1);
	room = core_with_room();
	if (room >= 0 && (urgent || (vector_waits(CLASS_BATCH) && borrow_allowed(room))))
		core_kick_idle(room, -1);
}

/*
 * The starvation bound, from the tick of a task that does not pause: whoever
 * waited too long gets an idle lane of this core, or else this one.
 */
static __always_inline void overdue_check(struct task_struct *p, struct lane_ctx *lane, u64 now_ns)
{
	if (lane->overdue || !(vector_overdue(lane->core, CLASS_NORMAL, now_ns) ||
			       vector_overdue(lane->core, CLASS_BATCH, now_ns)))
		return;
	if (lanes_in_state(lane->core, LANE_IDLE))
		core_kick_idle(lane->core, -1);
	else
		scx_bpf_task_set_slice(p, 0);
}

#endif /* SIDELANE_BORROW_BPF_H */
