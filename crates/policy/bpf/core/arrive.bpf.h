/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Critical work on its way to a core.
 *
 * Problem: between the moment when a critical task is sent to a core and that when it runs there, nothing of it
 * is seen on the core's lanes.
 *
 * Rule: the core counts what it expects: what was sent to it, or chose it, and does not run yet. While it expects something, it is
 * as if critical work ran there. Of two that choose it at the same time the first takes it, by one exchange.
 *
 * Cost: an atomic operation each way.
 *
 * Source: none.
 */
#ifndef SIDELANE_ARRIVE_BPF_H
#define SIDELANE_ARRIVE_BPF_H

#include "../hooks.bpf.h"
#include "types.bpf.h"
#include "account.bpf.h"
#include "kick.bpf.h"

/*
 * @tctx is expected by the core @by - 1 (0: by none) from now on, which counts it already, and no longer by the one of before,
 * which is returned in the same form. One exchange: the lane that takes it from a core counts it off there.
 */
static __always_inline u32 critical_moves(struct task_ctx *tctx, u32 by)
{
	u32 before = __sync_lock_test_and_set(&tctx->expected, by);
	struct core_ctx *core = before ? core_ctx(before - 1) : NULL;

	if (core)
		__sync_fetch_and_sub(&core->expected, 1);
	return before;
}

/* @tctx is expected by none any more. The core of before, + 1; 0: there was none. */
static __always_inline u32 critical_gone(struct task_ctx *tctx)
{
	return tctx->expected ? critical_moves(tctx, 0) : 0;
}

/* A critical task chooses @core, @core_id. False: another has. */
static __always_inline bool critical_chooses(struct task_ctx *tctx, struct core_ctx *core,
					     u32 core_id)
{
	if (__sync_val_compare_and_swap(&core->expected, 0, 1))
		return false;
	critical_moves(tctx, core_id + 1);
	return true;
}

/* Does @core expect no critical task but perhaps @tctx? */
static __always_inline bool critical_alone(const struct core_ctx *core, const struct task_ctx *tctx)
{
	return *(volatile const u32 *)&core->expected == (tctx->expected > 0);
}

/* Does no critical task wait but perhaps @tctx, for @core or, bound to no lane, anywhere else? */
static __always_inline bool none_waits(const struct core_ctx *core, const struct task_ctx *tctx)
{
	return critical_alone(core, tctx) && !critical_waits_free();
}

/* A critical task is sent to @core_id, which it may have chosen. */
static __always_inline void critical_sent(struct task_ctx *tctx, u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return;
	if (tctx->expected != core_id + 1) {
		__sync_fetch_and_add(&core->expected, 1);
		critical_moves(tctx, core_id + 1);
	}
	hook_critical_comes(core, core_id, tctx->budget);
}

/* A critical task that was expected on @core_id does not come: that may open. */
static __always_inline void critical_stays_away(u32 core_id, u64 now_ns)
{
	core_changed(core_id, now_ns);
	core_reopen(core_id, -1);
}

/* @tctx is placed anew, or leaves the scheduler: if it was expected, that core may open. */
static __always_inline void critical_leaves(struct task_ctx *tctx)
{
	u32 by = critical_gone(tctx);

	if (by)
		critical_stays_away(by - 1, scx_bpf_now());
}

/*
 * A critical task begins to run on @core, @core_id. If it was sent to another core, a lane of
 * which this is not, that one may open.
 */
static __always_inline void critical_arrived(struct task_ctx *tctx, struct core_ctx *core,
					     u32 core_id, u64 now_ns)
{
	u32 by;

	hook_critical_comes(core, core_id, tctx->budget);
	by = critical_gone(tctx);
	if (by && by - 1 != core_id)
		critical_stays_away(by - 1, now_ns);
}

#endif /* SIDELANE_ARRIVE_BPF_H */
