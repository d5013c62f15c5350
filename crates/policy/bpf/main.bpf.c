/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Sidelane's sched_ext operations: what the core does at each, and where it asks the mechanisms (hooks.bpf.h).
 */
#include <scx/common.bpf.h>

#include "hooks.bpf.h"

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
	if (fixed.only_batch)
		batch_comes();
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
	if (!hook_sends(p, tctx, enq_flags) &&
	    place(p, tctx, scx_bpf_task_cpu(p), -1, false, enq_flags) < 0)
		scx_bpf_error("cannot place %s[%d]", p->comm, p->pid);
}

/* The lane @cpu, whose run queue is @rq, has nothing to run. */
static __always_inline void lane_idles(struct lane_ctx *lane, struct core_ctx *core, s32 cpu,
				       const struct rq *rq, u64 now_ns)
{
	u32 idle = hook_lane_is_held(lane, now_ns) ? LANE_HELD : LANE_IDLE;

	/* some kernels ask us before they ask the higher class that outranked what ran */
	if (lane->state == idle || (lane->state == LANE_OTHER && outranked(rq)))
		return;
	lane_set_state(lane, core, idle, now_ns);
	if (idle == LANE_HELD && !hook_lane_is_held(lane, now_ns)) /* it is over since */
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	hook_lane_runs(cpu, LANE_IDLE, 0);
	if (lane->was_critical) {
		lane->was_critical = 0;
		core_reopen(lane->core, -1);
	}
	hook_core_falls_free(lane->core);
	/* what waits here may not use this lane: while this one counted for the SMT level a sibling may have left it, too */
	if (core_set_some(CORES_QUEUED + CLASS_CRITICAL))
		core_kick_idle(lane->core, CLASS_CRITICAL, cpu);
}

void BPF_STRUCT_OPS(sidelane_dispatch, s32 cpu, struct task_struct *prev)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	bool goes_on = prev && (prev->scx.flags & SCX_TASK_QUEUED);
	const struct rq *rq = rq_of(cpu);
	u64 now_ns = rq_clock(rq);

	if (!core || (fixed.only_batch && others_have(rq)))
		return;
	if (goes_on || work_hinted()) {
		if (goes_on)
			hook_slice_ends(lane, now_ns);
		else if (lane->state < LANE_IDLE) /* what ran sleeps */
			lane_state_write(lane, core, LANE_OTHER, now_ns);
		if (find_work(lane, core, cpu, goes_on ? prev : NULL, now_ns) || goes_on)
			return;
	}
	lane_idles(lane, core, cpu, rq, now_ns);
}

void BPF_STRUCT_OPS(sidelane_tick, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p); /* without a tick of its own, another CPU's */
	struct lane_ctx *lane = lane_ctx(cpu);
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = clock_of(cpu);

	if (!lane || !tctx)
		return;
	account_lane(p, tctx, lane, now_ns);
	class_check(p, tctx, now_ns);
	hook_ticks(p, tctx, lane, cpu, now_ns);
}

void BPF_STRUCT_OPS(sidelane_running, struct task_struct *p)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = clock_of(cpu);
	bool was_critical;
	u32 class;

	if (!core || !tctx)
		return;
	class = task_class(tctx);
	hook_begins(p, tctx, lane, cpu, now_ns);
	vector_left(tctx);
	if (class == CLASS_CRITICAL)
		critical_arrived(tctx, core, lane->core, now_ns);
	else if (class == CLASS_BATCH)
		hook_batch_begins(p, tctx, lane);
	account_begins(p, tctx, lane, core, now_ns);
	was_critical = lane->was_critical;
	lane->was_critical = class == CLASS_CRITICAL;
	lane_set_state(lane, core, class, now_ns);
	hook_lane_runs(cpu, class, p->pid);
	hook_began(p, tctx, lane, cpu, now_ns);
	next_begins(p, tctx, lane, cpu);
	if (was_critical && class != CLASS_CRITICAL)
		core_reopen(lane->core, cpu);
	if (class == CLASS_BATCH)
		hook_core_falls_free(lane->core);
}

void BPF_STRUCT_OPS(sidelane_stopping, struct task_struct *p, bool runnable)
{
	s32 cpu = scx_bpf_task_cpu(p);
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	struct task_ctx *tctx = task_ctx(p);
	const struct rq *rq = rq_of(cpu);
	u64 now_ns = rq_clock(rq);
	bool sleeps;

	if (!core || !tctx)
		return;
	account_run(p, tctx, now_ns);
	sleeps = !runnable && p->__state; /* else something of it changes */
	if (sleeps) {
		account_burst(tctx);
		slice_ends(p, tctx, now_ns);
	}
	hook_ends(p, tctx, lane, cpu, sleeps, now_ns);
	if (!outranked(rq)) /* running, dispatch or update_idle says what the lane does */
		return;
	lane_state_put(lane, core, LANE_OTHER);
	held_look(lane->core);
	/* with a rest of its slice it waits in the lane's own queue */
	if (runnable && (fixed.only_batch || (!is_bound(p) && !hook_ticks_see_taken())))
		scx_bpf_task_set_slice(p, 0);
}

/* Both are left out unless weights of cgroups count, or the scheduler has batch alone. */
void BPF_STRUCT_OPS(sidelane_runnable, struct task_struct *p, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (fixed.only_batch)
		batch_wants();
	if (tctx)
		hook_wants(p, tctx);
}

void BPF_STRUCT_OPS(sidelane_quiescent, struct task_struct *p, u64 deq_flags)
{
	struct task_ctx *tctx = task_ctx(p);

	if (fixed.only_batch)
		batch_wants_no_more();
	if (tctx)
		hook_wants_no_more(tctx);
}

void BPF_STRUCT_OPS(sidelane_update_idle, s32 cpu, bool idle)
{
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core;
	const struct rq *rq;

	if (!lane)
		return;
	if (idle && lane->state >= LANE_IDLE) { /* dispatch has said so */
		idle_check(lane, cpu);
		return;
	}
	core = lane->state == LANE_OTHER ? NULL : core_ctx(lane->core); /* taken over */
	if (!core)
		return;
	if (idle) { /* what ran could have gone on, and left */
		rq = rq_of(cpu);
		lane_idles(lane, core, cpu, rq, rq_clock(rq));
		stranded_check(rq, cpu);
		idle_check(lane, cpu);
	} else {
		/* running follows, or a higher scheduling class has the lane */
		lane_state_put(lane, core, LANE_OTHER);
	}
}

s32 BPF_STRUCT_OPS(sidelane_init_task, struct task_struct *p, struct scx_init_task_args *args)
{
	struct task_ctx *tctx;

	tctx = bpf_task_storage_get(&tasks, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!tctx)
		return -ENOMEM;
	class_assign(p, tctx);
	tctx->allowed_cores = allowed_cores_by_lane(p);
	if (fixed.only_batch && args->fork)
		adopt_born(bpf_get_current_task_btf(), p, tctx);
	return hook_task_comes(p);
}

/* The task's affinity has changed, or may have while another scheduling class had it. */
void BPF_STRUCT_OPS(sidelane_set_cpumask, struct task_struct *p, const struct cpumask *allowed)
{
	struct task_ctx *tctx = task_ctx(p);

	/* one that is bound for a moment may use its cores again after that */
	if (tctx && allowed == &p->cpus_mask)
		tctx->allowed_cores = allowed_cores_by_lane(p);
}

void BPF_STRUCT_OPS(sidelane_enable, struct task_struct *p)
{
	struct task_ctx *tctx = task_ctx(p);
	const struct core_ctx *core;

	if (!tctx)
		return;
	core = core_ctx(tctx->core);
	tctx->vtime = core ? core->vtime : 0;
	if (fixed.only_batch) {
		tctx->class = CLASS_BATCH;
		/* an event may say another class in the same moment: it is asked anew */
		tctx->class_mark = 0;
	}
}

/* The task leaves for another scheduling class, or exits. */
void BPF_STRUCT_OPS(sidelane_disable, struct task_struct *p)
{
	struct lane_ctx *lane = lane_ctx(scx_bpf_task_cpu(p));
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	struct task_ctx *tctx = task_ctx(p);

	if (!tctx)
		return;
	if (core && lane->pid == (u32)p->pid &&
	    lane->state < LANE_IDLE) { /* it goes on, as another class */
		lane_state_put(lane, core, LANE_OTHER);
		held_look(lane->core);
	}
	hook_task_goes(p, tctx);
	critical_leaves(tctx);
	vector_left(tctx);
	tctx->due_ns = 0;
}

s32 BPF_STRUCT_OPS_SLEEPABLE(sidelane_init)
{
	u32 core, class;
	s32 err;

	bpf_for(core, 0, nr_cores) {
		bpf_for(class, 0, NR_CLASSES) {
			err = scx_bpf_create_dsq(VECTOR_ID(core, class), -1);
			if (err) {
				scx_bpf_error("cannot create the vector of core %u: %d", core, err);
				return err;
			}
		}
		err = hook_core_begins(core);
		if (err) {
			scx_bpf_error("cannot make the timers of core %u: %d", core, err);
			return err;
		}
		core_begin(core);
	}
	err = hook_scheduler_begins();
	if (err)
		scx_bpf_error("cannot make a mechanism's timer or queues: %d", err);
	return err;
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

/* Loaded where the scheduler has batch alone. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sidelane_follow_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	others_switch(bpf_get_smp_processor_id(), next);
	return 0;
}

/* Of whatever runs. */
SEC("fentry/sched_tick")
int BPF_PROG(sidelane_follow_tick)
{
	s32 cpu = bpf_get_smp_processor_id();

	if (fixed.only_batch)
		others_tick(cpu);
	else
		hook_any_ticks(cpu);
	return 0;
}

/* Loaded where the scheduler has batch alone: what rules look at has changed. Only here a new task is in its cgroup. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sidelane_adopt_fork, struct task_struct *parent, struct task_struct *child)
{
	adopt_check(child);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sidelane_adopt_exec, struct task_struct *p, int old_pid, struct linux_binprm *bprm)
{
	adopt_check(p);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(sidelane_adopt_move, struct cgroup *cgrp, const char *path, struct task_struct *p,
	     bool all_threads)
{
	if (all_threads && BPF_CORE_READ(p, signal, nr_threads) > 1)
		adopt_tell(p, true);
	else
		adopt_check(p);
	return 0;
}

/* It has its new name only when this is over. Exec is seen above. */
SEC("tp_btf/task_rename")
int BPF_PROG(sidelane_adopt_rename, struct task_struct *task, const char *name)
{
	bool by_exec = bpf_core_field_exists(task->in_execve) &&
		       BPF_CORE_READ_BITFIELD(task, in_execve);

	if (!(task->flags & PF_KTHREAD) && !by_exec)
		adopt_tell(task, false);
	return 0;
}

/* The loader's look at all tasks. */
SEC("iter/task")
int sidelane_adopt_look(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct adopt_event found = {};

	if (p && adopt_look(p, &found))
		bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

SEC("syscall")
int sidelane_adopt_call(struct adopt_call *call)
{
	struct task_struct *p = bpf_task_from_pid(call->pid);

	if (!p)
		return 0;
	adopt_answer(p, call);
	bpf_task_release(p);
	return 0;
}

/* Loaded where there are counters: the operations above may not read them. */
SEC("tp_btf/sched_switch")
int BPF_PROG(sidelane_count_switch, bool preempt, struct task_struct *prev,
	     struct task_struct *next)
{
	hook_switches(bpf_get_smp_processor_id(), prev, scx_bpf_now());
	return 0;
}

SEC("fentry/sched_tick")
int BPF_PROG(sidelane_count_tick)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 now_ns = scx_bpf_now();

	hook_counts(cpu, bpf_get_current_task_btf(), now_ns);
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
	.set_cpumask = (void *)sidelane_set_cpumask,
	.enable = (void *)sidelane_enable,
	.disable = (void *)sidelane_disable,
	.init = (void *)sidelane_init,
	.exit = (void *)sidelane_exit,
	.timeout_ms = 30000U,
	.name = "sidelane");
/* clang-format on */
