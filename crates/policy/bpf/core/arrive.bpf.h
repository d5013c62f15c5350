/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Critical work on its way to a core.
 *
 * Problem: between the moment when a critical task is sent to a core and that when it runs there, nothing of it
 * is seen on the core's lanes.
 *
 * Rule: the core counts what was sent to it and does not run yet, and keeps a claim (a time stamp) until all of it
 * does, ARRIVAL_NS at most; longer behind a kernel thread (kthread.bpf.h). While something is expected, it is as if critical work ran there.
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

/* A critical task is sent to @core_id, which its context names. */
static __always_inline void critical_sent(struct task_ctx *tctx, u32 core_id, u64 now_ns)
{
	struct core_ctx *core = core_ctx(core_id);

	if (!core)
		return;
	if (!tctx->expected)
		__sync_fetch_and_add(&core->expected, 1);
	tctx->expected = 1;
	hook_critical_comes(core, core_id, tctx);
	core->claim_ns = now_ns;
}

/* A critical task no longer waits for the core to which it was sent. */
static __always_inline void critical_gone(struct task_ctx *tctx)
{
	struct core_ctx *core = tctx->expected ? core_ctx(tctx->core) : NULL;

	if (!core)
		return;
	tctx->expected = 0;
	if (__sync_fetch_and_sub(&core->expected, 1) != 1)
		return;
	core->claim_ns = 0;
}

/* A critical task that was expected on @core_id does not come: that may open. */
static __always_inline void critical_stays_away(u32 core_id, u64 now_ns)
{
	core_changed(core_id, now_ns);
	core_reopen(core_id, -1, now_ns);
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
