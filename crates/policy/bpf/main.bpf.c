/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sidelane's sched_ext operations. The mechanisms are in the headers, one each.
 */
#include <scx/common.bpf.h>

#include "core/types.bpf.h"
#include "core/classify.bpf.h"
#include "core/vector.bpf.h"
#include "core/overdue.bpf.h"
#include "core/account.bpf.h"
#include "see/signal.bpf.h"
#include "budget/borrow.bpf.h"
#include "core/kthread.bpf.h"
#include "core/place.bpf.h"
#include "core/missed.bpf.h"
#include "io/retain.bpf.h"
#include "io/pair.bpf.h"
#include "io/symbiosis.bpf.h"
#include "io/adjust.bpf.h"
#include "see/jobs.bpf.h"
#include "core/promote.bpf.h"
#include "share/release.bpf.h"
#include "core/spread.bpf.h"
#include "core/fair.bpf.h"

char _license[] SEC("license") = "GPL";

UEI_DEFINE(uei);

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} cgroup_events SEC(".maps");

static __always_inline int report_cgroup(struct cgroup *cgrp, bool removed)
{
	struct cgroup_event event = {.id = cgrp->kn->id, .removed = removed};

	bpf_ringbuf_output(&cgroup_events, &event, sizeof(event), 0);
	return 0;
}

s32 BPF_STRUCT_OPS(sidelane_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 waker = wake_flags & SCX_WAKE_SYNC ? (s32)bpf_get_smp_processor_id() : -1;
	struct task_ctx *tctx = task_ctx(p);
	s32 cpu;

	if (is_pinned_kthread(p) || !tctx)
		return prev_cpu;
	cpu = place(p, tctx, prev_cpu, waker, true, 0);
	return cpu >= 0 ? cpu : prev_cpu;
}

void BPF_STRUCT_OPS(sidelane_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, fixed.slice_ns[CLASS_NORMAL], enq_flags);
		return;
	}
	if (is_pinned_kthread(p) && kthread_send(p, tctx, enq_flags))
		return;
	if (pool_stops(p, tctx)) {
		promote_drop(p, tctx);
		spread_drop(tctx);
	} else if (spread_send(p, tctx, enq_flags)) {
		return;
	} else if (!(enq_flags & SCX_ENQ_WAKEUP) && promote_send(p, tctx, enq_flags)) {
		return;
	} else if (kthread_passes(p, tctx, enq_flags)) {
		return;
	}
	if (place(p, tctx, scx_bpf_task_cpu(p), -1, false, enq_flags) < 0)
		scx_bpf_error("cannot place %s[%d]", p->comm, p->pid);
}

/* Lets @prev go on if nobody with a better claim waits. */
static __always_inline bool keep_running(struct task_struct *prev, struct lane_ctx *lane,
					 u64 now_ns)
{
	struct task_ctx *tctx = prev ? task_ctx(prev) : NULL;
	u32 class;

	if (!tctx)
		return false;
	class = task_class(tctx);
	if (class == CLASS_BATCH && !borrow_allowed(lane->core))
		return false;
	scx_bpf_task_set_slice(prev, slice_of(tctx));
	lane->slice_ends_ns = now_ns + slice_of(tctx);
	return true;
}

/* Class of @prev if it can go on running on @core_id, else NR_CLASSES. */
static __always_inline u32 class_of_prev(struct task_struct *prev, u32 core_id, u64 now_ns)
{
	struct core_ctx *core;
	struct task_ctx *tctx;

	if (!prev || !(prev->scx.flags & SCX_TASK_QUEUED))
		return NR_CLASSES;
	tctx = task_ctx(prev);
	if (!tctx || promote_leaves(prev, tctx, now_ns) || tctx->misclassified ||
	    parked_leaves(prev, task_class(tctx), core_id) || pool_stops(prev, tctx))
		return NR_CLASSES;
	core = fixed.pair ? core_ctx(core_id) : NULL;
	if (core && adjust_asks(core, tctx))
		return NR_CLASSES;
	if (spread_leaves(prev, tctx, core_id))
		return NR_CLASSES;
	return task_class(tctx);
}

/* May @lane, which may run critical and normal work by the SMT @level, serve @class by itself? */
static __always_inline bool lane_serves(const struct lane_ctx *lane, u32 class, bool level)
{
	return class == CLASS_BATCH ? borrow_allows(lane) : level;
}

/* Takes what waits too long behind the class that @lane serves next by itself. */
static __always_inline bool take_overdue(const struct lane_ctx *lane, s32 cpu, u32 prev_class,
					 bool level, bool held, u64 now_ns)
{
	u32 class, own = NR_CLASSES;

	if (!overdue_expected(lane, now_ns))
		return false;
	UNROLLED
	for (class = 0; class < NR_CLASSES; class += 1) {
		if (own == NR_CLASSES && (!held || class == CLASS_CRITICAL) &&
		    (class == prev_class || vector_waiting(lane->core, class) ||
		     vector_waits(class)) &&
		    lane_serves(lane, class, level))
			own = class;
	}
	return overdue_take(cpu, own, now_ns);
}

/* Takes work of @class for the lane @cpu. */
static __always_inline bool take(struct lane_ctx *lane, s32 cpu, u32 class,
				 struct task_struct *prev, u32 prev_class)
{
	u32 side;

	if (!core_set_some(CORES_QUEUED + class))
		return false;
	if (class == CLASS_NORMAL && fair_take(lane->core))
		return true;
	side = class == CLASS_NORMAL ? pair_first(lane->core, cpu) : NR_SIDES;
	if (side < NR_SIDES)
		return pair_find(lane->core, side,
				 class == prev_class && pair_keeps(prev, lane->core, side));
	if (class == CLASS_NORMAL && fixed.symbiotic && symbiosis_take(lane->core, NR_SIDES))
		return true;
	return vector_take(lane->core, class) || vector_steal(lane->core, class, NR_SIDES);
}

/* Finds something for the lane @cpu to run. False: nothing, and @prev does not go on. */
static __always_inline bool find_work(struct lane_ctx *lane, struct core_ctx *core, s32 cpu,
				      struct task_struct *prev, u64 now_ns)
{
	u32 prev_class = class_of_prev(prev, lane->core, now_ns), class;
	bool queued = work_hinted(), level, held;

	if (!queued && prev_class == NR_CLASSES)
		return false;
	level = level_allows(core, lane->core, cpu);
	held = lane_held(lane, now_ns);
	if (queued && take_overdue(lane, cpu, prev_class, level, held, now_ns))
		return true;
	UNROLLED
	for (class = 0; class < NR_CLASSES; class += 1) {
		if (held && class != CLASS_CRITICAL)
			return fixed.pair && level && pair_take_held(lane->core, cpu);
		if (class != prev_class && !core_set_some(CORES_QUEUED + class))
			continue;
		if (!lane_serves(lane, class, level))
			continue;
		if (take(lane, cpu, class, prev, prev_class))
			return true;
		if (class == prev_class && keep_running(prev, lane, now_ns)) {
			if (lane->state == LANE_OTHER) { /* taken over, as below */
				lane_set_state(lane, core, class, now_ns);
				signal_write(cpu, class, prev->pid);
			}
			return true;
		}
	}
	return false;
}

void BPF_STRUCT_OPS(sidelane_dispatch, s32 cpu, struct task_struct *prev)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	u64 now_ns = scx_bpf_now();
	u32 idle;

	if (!core)
		return;
	overdue_ends(lane, now_ns);
	if (find_work(lane, core, cpu, prev, now_ns) || prev ||
	    (lane->state != LANE_OTHER && lane->state != LANE_HELD))
		return;
	idle = lane_held(lane, now_ns) ? LANE_HELD : LANE_IDLE;
	if (lane->state == idle)
		return;
	/* taken over for a task that then had to go elsewhere, or no longer held: it is still idle */
	lane_set_state(lane, core, idle, now_ns);
	signal_write(cpu, LANE_IDLE, 0);
}

void BPF_STRUCT_OPS(sidelane_tick, struct task_struct *p)
{
	s32 cpu = bpf_get_smp_processor_id();
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = scx_bpf_now();

	if (!lane || !tctx)
		return;
	retain_worked(tctx, account_run(p, tctx, now_ns));
	class_check(p, tctx, now_ns);
	pair_look(p, tctx, now_ns);
	pair_runs(tctx, lane, cpu);
	if (tctx->classified_ns == now_ns)
		weight_check(p, tctx);
	if (pool_stops(p, tctx))
		scx_bpf_task_set_slice(p, 0);
	if (tctx->class == CLASS_CRITICAL) {
		jobs_take(p);
		lane->marks = tctx->job_tid > 0;
	}
	promote_check(p, lane, now_ns);
	borrow_check(p, lane, cpu, now_ns);
	overdue_check(p, tctx, lane, cpu, now_ns);
	missed_check(p, tctx, lane, cpu);
}

void BPF_STRUCT_OPS(sidelane_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = scx_bpf_now();
	bool was_critical;
	u32 class;

	if (!core || !tctx)
		return;
	class = task_class(tctx);
	tctx->running_ns = now_ns;
	promote_drop(p, tctx); /* it came back before it left */
	retain_runs(p, lane, pair_uses_held(tctx, lane, cpu), now_ns);
	vector_left(tctx);
	throttle_ends(p, tctx);
	if (class == CLASS_CRITICAL)
		critical_arrived(tctx, lane->core);
	tctx->core = lane->core;
	core_runs(core);
	pool_begins(tctx, now_ns);
	overdue_begins(p, tctx, lane);
	/* out of turn it has not the virtual time that normal work has reached */
	if (class == CLASS_NORMAL && !lane->overdue && time_before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
	pair_waited(tctx, now_ns);
	tctx->queued_ns = 0;
	lane->kthread = 0;
	if (fixed.retain)
		lane->woke = 0;
	lane->slice_ends_ns = now_ns + p->scx.slice;
	count(switches[class]);
	lane->job_ns = tctx->job_ns;
	lane->pid = p->pid;
	lane->marks = tctx->job_tid > 0;
	if (fixed.symbiotic)
		lane->profile = profile_of(tctx);
	count_begins(cpu, tctx->budget);
	was_critical = lane->was_critical;
	lane->was_critical = class == CLASS_CRITICAL;
	lane->rechecked = 0;
	lane->evict_ns = 0;
	pair_runs(tctx, lane, cpu);
	lane_set_state(lane, core, class, now_ns);
	signal_write(cpu, class, p->pid);
	borrow_check(p, lane, cpu, now_ns);
	pair_recheck(lane, cpu);
	throttle_check(p, tctx, cpu);
	next_begins(p, tctx, lane, cpu);
	if (was_critical && class != CLASS_CRITICAL)
		core_reopen(lane->core, cpu);
	if (class == CLASS_BATCH)
		promote_offer(lane->core, now_ns);
}

void BPF_STRUCT_OPS(sidelane_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = scx_bpf_now();
	bool critical, marked;

	if (!core || !tctx)
		return;
	retain_worked(tctx, account_run(p, tctx, now_ns));
	critical = tctx->class == CLASS_CRITICAL;
	marked = critical && jobs_take(p);
	pair_look(p, tctx, now_ns);
	if (!runnable) {
		spread_drop(tctx);
		account_burst(tctx);
		slice_ends(p, tctx, now_ns);
		retain_begin(p, tctx, lane, now_ns);
		if (critical && !marked && now_ns > tctx->job_ns)
			objective_job(tctx->budget, now_ns - tctx->job_ns);
	}
	if (lane->evict_ns) {
		count_add(evict_wait_ns, now_ns > lane->evict_ns ? now_ns - lane->evict_ns : 0);
		lane->evict_ns = 0;
	}
	overdue_ends(lane, now_ns);
	due_ends(tctx, lane, !runnable, now_ns);
	count_ends(cpu, now_ns);
	/* the core sets follow when it is known what the lane does next: after normal work its own queue, more of it */
	if (!lane->next || lane->state != LANE_NORMAL)
		lane_state_write(lane, core, LANE_OTHER, now_ns);
	if (!runnable)
		promote_drop(p, tctx);
}

/* Both are left out unless weights of cgroups count. */
void BPF_STRUCT_OPS(sidelane_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx && fixed.cgroup_weights)
		weight_begins(p, tctx);
}

void BPF_STRUCT_OPS(sidelane_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (tctx)
		weight_ends(tctx);
}

void BPF_STRUCT_OPS(sidelane_update_idle, s32 cpu, bool idle)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core;
	u64 now_ns;

	if (!lane || (!idle && lane->state == LANE_OTHER)) /* taken over */
		return;
	core = core_ctx(lane->core);
	if (!core)
		return;
	if (!idle) {
		/* running follows, or a higher scheduling class has the lane */
		lane_state_put(lane, core, LANE_OTHER);
		return;
	}
	now_ns = scx_bpf_now();
	lane_set_state(lane, core, lane_held(lane, now_ns) ? LANE_HELD : LANE_IDLE, now_ns);
	signal_write(cpu, LANE_IDLE, 0);
	if (lane->was_critical) {
		lane->was_critical = 0;
		core_reopen(lane->core, -1);
	}
	idle_check(lane, cpu);
	promote_offer(lane->core, now_ns);
}

s32 BPF_STRUCT_OPS(sidelane_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx;

	tctx = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tctx)
		return -ENOMEM;
	class_assign(p, tctx, scx_bpf_now());
	return pools_begin();
}

void BPF_STRUCT_OPS(sidelane_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

/* The task leaves for another scheduling class, or exits. */
void BPF_STRUCT_OPS(sidelane_disable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	critical_gone(tctx);
	vector_left(tctx);
	tctx->due_ns = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sidelane_init)
{
	u32 core, class;
	s32 err;

	bpf_for(core, 0, nr_cores + 1) {
		err = budget_init(core);
		if (err) {
			scx_bpf_error("cannot make timer %u: %d", core, err);
			return err;
		}
	}
	bpf_for(core, 0, nr_cores) {
		bpf_for(class, 0, NR_CLASSES) {
			err = scx_bpf_create_dsq(VECTOR_ID(core, class), -1);
			if (err) {
				scx_bpf_error("cannot create the vector of core %u: %d", core, err);
				return err;
			}
		}
		err = retain_init(core);
		if (err) {
			scx_bpf_error("cannot make the timer of core %u: %d", core, err);
			return err;
		}
		core_begin(core);
	}
	err = pools_init();
	if (err) {
		scx_bpf_error("cannot begin the pools: %d", err);
		return err;
	}
	err = pair_init();
	if (err) {
		scx_bpf_error("cannot make the timer of pairing: %d", err);
		return err;
	}
	return polar_init();
}

void BPF_STRUCT_OPS(sidelane_exit, struct scx_exit_info *ei)
{
	UEI_RECORD(uei, ei);
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(sidelane_cgroup_mkdir, struct cgroup *cgrp, const char *path)
{
	return report_cgroup(cgrp, false);
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(sidelane_cgroup_rmdir, struct cgroup *cgrp, const char *path)
{
	return report_cgroup(cgrp, true);
}

/* Loaded where there are counters: the operations above may not read them. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sidelane_count_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	count_read(bpf_get_smp_processor_id(), prev, scx_bpf_now());
	return 0;
}

SEC("fentry/sched_tick")
int BPF_PROG(sidelane_count_tick)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 now_ns = scx_bpf_now();

	count_ends(cpu, now_ns);
	count_read(cpu, bpf_get_current_task_btf(), now_ns);
	return 0;
}

/* clang-format off */
SCX_OPS_DEFINE(sidelane_ops,
	.select_cpu = (void *)sidelane_select_cpu,
	.enqueue = (void *)sidelane_enqueue,
	.dispatch = (void *)sidelane_dispatch,
	.tick = (void *)sidelane_tick,
	.runnable = (void *)sidelane_runnable,
	.quiescent = (void *)sidelane_quiescent,
	.running = (void *)sidelane_running,
	.stopping = (void *)sidelane_stopping,
	.update_idle = (void *)sidelane_update_idle,
	.init_task = (void *)sidelane_init_task,
	.enable = (void *)sidelane_enable,
	.disable = (void *)sidelane_disable,
	.init = (void *)sidelane_init,
	.exit = (void *)sidelane_exit,
	.timeout_ms = 30000U,
	.name = "sidelane");
/* clang-format on */
