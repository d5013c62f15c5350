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

/* A critical task chooses @core, @core_id. False: another has. */
static __always_inline bool critical_chooses(struct task_ctx *tctx, struct core_ctx *core,
					     u32 core_id)
{
	if (__sync_val_compare_and_swap(&core->expected, 0, 1))
		return false;
	tctx->core = core_id;
	tctx->expected = 1;
	return true;
}

/* A critical task is sent to @core_id, which its context names, and which it may have chosen. */
static __always_inline void critical_sent(struct task_ctx *tctx, u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return;
	if (!tctx->expected)
		__sync_fetch_and_add(&core->expected, 1);
	tctx->expected = 1;
	hook_critical_comes(core, core_id, tctx);
}

/* A critical task no longer waits for the core to which it was sent. */
static __always_inline void critical_gone(struct task_ctx *tctx)
{
	struct core_ctx *core = tctx->expected ? core_ctx(tctx->core) : NULL;

	if (!core)
		return;
	tctx->expected = 0;
	__sync_fetch_and_sub(&core->expected, 1);
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
	if (!tctx->expected)
		return;
	critical_gone(tctx);
	critical_stays_away(tctx->core, scx_bpf_now());
}

/*
 * A critical task begins to run on @core, @core_id. If it was sent to another core, a lane of
 * which this is not, that one may open.
 */
static __always_inline void critical_arrived(struct task_ctx *tctx, struct core_ctx *core,
					     u32 core_id, u64 now_ns)
{
	hook_critical_comes(core, core_id, tctx);
	if (!tctx->expected)
		return;
	critical_gone(tctx);
	if (tctx->core != core_id)
		critical_stays_away(tctx->core, now_ns);
}

#endif /* SIDELANE_ARRIVE_BPF_H */
