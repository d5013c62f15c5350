/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Collects what SMT metrics are made of, on any scheduler, by tracing: time at each density
 * (density.bpf.h), what tasks and cgroups used (usage.bpf.h); beside Sidelane's scheduler, whose
 * classes it reads, also what they borrowed and kept idle (forced.bpf.h). Or by looking at all lanes
 * now and then, from one of them, which costs the others nothing (metrics_sample).
 *
 * Source: z/VM for z13: thread density, MT1-equivalent time.
 * Does not: count instructions; the reader does.
 */
#include <scx/common.bpf.h>

#include "usage.bpf.h"

#define TASK_DEAD 0x80

char _license[] SEC("license") = "GPL";

static __always_inline bool is_critical(u32 class)
{
	return class == CLASS_CRITICAL + 1;
}

/*
 * Sets @clocks to @now where that is later: another lane's change may have been earlier than it became
 * visible.
 */
static __always_inline void clocks_later(struct core_clocks *clocks, const struct core_clocks *now)
{
	clocks->mt1 += passed(clocks->mt1, now->mt1);
	clocks->prorated += passed(clocks->prorated, now->prorated);
	clocks->critical_ns += passed(clocks->critical_ns, now->critical_ns);
	clocks->forced += passed(clocks->forced, now->forced);
}

/*
 * From now on the lane @cpu is busy or not, with a task of @class: the moment from which on its core's clocks, which
 * lane->now shows then, know it.
 */
VERIFIED_ONCE u64 lane_turns(u32 cpu, u32 busy, u32 class)
{
	struct metrics_lane *lane = lane_of(cpu);
	struct density_record *record = NULL;
	u64 now_ns;

	if (!lane)
		return 0;
	if (lane->busy != busy || is_critical(class) != is_critical(lane->class)) {
		lane->busy = busy;
		lane->class = class;
		fence(lane);
		record = record_of(core_changed(lane->core, cpu * 2));
	}
	lane->class = class;
	now_ns = record ? record->at_ns : bpf_ktime_get_ns();
	core_clocks_read(lane->core, cpu, now_ns);
	return now_ns;
}

/*
 * On @lane @next follows @prev. NULL: nothing does, or it is not known what. @runnable, @dead: what
 * becomes of @prev.
 */
static __always_inline void lane_switches(struct metrics_lane *lane, u32 cpu,
					  struct task_struct *prev, struct task_struct *next,
					  bool runnable, bool dead)
{
	u32 pid = next ? next->pid : 0, class_before = lane->class;
	struct metrics_cgroup *group = NULL;
	bool began = READ_ONCE(control.began_ns) != 0;
	u64 now_ns, id = 0;

	lane->changes++;
	fence(lane);
	lane->online = 1;
	now_ns = lane_turns(cpu, pid != 0, pid ? class_of(next) : 0);
	if (began && lane->pid && lane->start_ns) {
		if (!prev)
			unknown_leaves(lane, class_before, now_ns);
		else if (prev->pid == lane->pid) {
			id = cgroup_id(prev);
			group = cgroup_of(prev);
			task_leaves(prev, group, lane, class_before, now_ns, runnable, dead);
		}
	}
	if (began && pid) {
		lane->cgroup = cgroup_id(next);
		if (!group || lane->cgroup != id)
			group = cgroup_of(next);
		task_enters(next, group, lane, now_ns);
	}
	lane->start_ns = now_ns;
	clocks_later(&lane->start, &lane->now);
	lane->pid = pid;
	fence(lane);
	lane->changes++;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(metrics_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	u32 cpu = bpf_get_smp_processor_id();
	struct metrics_lane *lane = lane_of(cpu);

	if (!lane || lane->core == METRICS_NO_CORE)
		__sync_fetch_and_add(&control.unknown_lanes, 1);
	if (lane)
		lane_switches(lane, cpu, prev, next, preempt || !prev_state,
			      prev_state & TASK_DEAD);
	return 0;
}

/* Nothing runs on @lane, @cpu, any more, and nothing will. Its last switch was to be counted before. */
static __always_inline void lane_ends(struct metrics_lane *lane, u32 cpu)
{
	lane->busy = 0;
	lane->class = 0;
	lane->pid = 0;
	lane->start_ns = 0;
	lane->online = 0;
	fence(lane);
	core_changed(lane->core, cpu * 2);
}

/*
 * A lane has gone offline: the kernel does not trace its last switch, from a thread of its own to
 * idle. It counts as if it were now, some moments later.
 */
SEC("tp_btf/cpuhp_exit")
int BPF_PROG(metrics_offline, unsigned int cpu, int state, int step, int result)
{
	struct metrics_lane *lane = lane_of(cpu);
	struct task_struct *p;

	if (!lane || result || step != bpf_core_enum_value(enum cpuhp_state, CPUHP_TEARDOWN_CPU))
		return 0;
	p = lane->pid ? bpf_task_from_pid(lane->pid) : NULL;
	if (p) {
		lane_switches(lane, cpu, p, NULL, false, false);
		bpf_task_release(p);
	}
	lane_ends(lane, cpu);
	return 0;
}

/* The sampler finds task @pid on @lane, another one than at its last look; 0: it idles. */
static __always_inline void lane_looks(struct metrics_lane *lane, u32 cpu, u32 pid)
{
	struct task_struct *prev = lane->pid ? bpf_task_from_pid(lane->pid) : NULL;
	struct task_struct *next = pid ? bpf_task_from_pid(pid) : NULL;

	lane_switches(lane, cpu, prev, next, false, false);
	if (prev)
		bpf_task_release(prev);
	if (next)
		bpf_task_release(next);
}

/* One look at the lane @cpu, by the only program that writes of it. */
VERIFIED_ONCE int lane_sample(u32 cpu)
{
	struct rq *rq = bpf_per_cpu_ptr(&runqueues, cpu);
	struct metrics_lane *lane = lane_of(cpu);
	u32 pid;

	if (!rq || !lane || lane->core == METRICS_NO_CORE)
		return 0;
	pid = BPF_CORE_READ(rq, online) ? BPF_CORE_READ(rq, curr, pid) : 0;
	/* the first look begins what is counted, also on lanes that idle */
	if (pid != lane->pid || !lane->start_ns)
		lane_looks(lane, cpu, pid);
	if (!BPF_CORE_READ(rq, online) && lane->online)
		lane_ends(lane, cpu);
	return 0;
}

/*
 * In place of all tracing: what is found at a look is taken to have begun then, and to last until
 * another look finds something else. Right on average, if nothing keeps step with the looks; waits and
 * jobs are not seen.
 */
SEC("perf_event")
int metrics_sample(void *ctx)
{
	u32 cpu;

	bpf_for(cpu, 0, nr_lanes)
		lane_sample(cpu);
	return 0;
}

SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(metrics_rmdir, struct cgroup *cgrp, const char *path)
{
	cgroup_removed(cgrp, path);
	return 0;
}

/* Is @p on a lane? */
static __always_inline bool runs(struct task_struct *p)
{
	struct metrics_lane *lane = lane_of(p->thread_info.cpu);

	return lane && lane->pid == p->pid;
}

/* @p may run, and its job begins. */
static __always_inline int task_wakes(struct task_struct *p)
{
	u64 now_ns = bpf_ktime_get_ns();
	struct metrics_task *task;

	if (!READ_ONCE(control.began_ns))
		return 0;
	task = task_of(p);
	if (!task)
		return 0;
	if (!task->job_ns)
		task->job_ns = now_ns;
	if (!task->queued_ns && !runs(p))
		begins_to_wait(p, task, now_ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(metrics_wakeup, struct task_struct *p)
{
	return task_wakes(p);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(metrics_wakeup_new, struct task_struct *p)
{
	return task_wakes(p);
}

/* The reader asks for a view. Returns how many cores and lanes could not be read. */
SEC("syscall")
int metrics_read(void *ctx)
{
	int missed = 0;
	u32 i;

	bpf_for(i, 0, nr_cores)
		missed += view_core(i);
	bpf_for(i, 0, nr_lanes)
		missed += view_lane(i);
	return missed;
}

/*
 * What the task that runs on @lane used from when it was charged last until the view was taken:
 * cores and tasks are told as of the same moment.
 */
static __always_inline void running_task(struct metrics_reading *reading, struct metrics_lane *lane,
					 const struct density_record *view, u64 mt1_rest)
{
	reading->run_ns = lane->start_ns;
	if (view->at_ns <= lane->start_ns)
		return;
	charge_for(&reading->pending, lane->class, lane->start_ns, &lane->start, view->at_ns,
		   &view->clocks, mt1_rest);
}

/* Tells the reader what a living task used: a reading, then its jobs. */
SEC("iter/task")
int metrics_tasks_read(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	struct metrics_reading reading = {};
	struct density_record *view;
	u32 try, core;
	struct metrics_task *task;
	struct metrics_lane *lane;

	if (!p)
		return 0;
	reading.cpu = p->thread_info.cpu;
	lane = lane_of(reading.cpu);
	if (!lane)
		return 0;
	/* one that has run since before all this began is not known yet */
	task = bpf_task_storage_get(&metrics_tasks, p, 0,
				    lane->pid == p->pid ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	if (!task)
		return 0;
	describe(&reading, p);
	core = lane->core;
	view = bpf_map_lookup_elem(&metrics_view, &core);
	if (!view)
		return 0;
	reading.torn = 1;
	bpf_for(try, 0, TRIES) {
		u64 changes = READ_ONCE(lane->changes);

		fence(lane);
		reading.times = task->times;
		reading.late = task->late;
		reading.late_reading = task->late_reading;
		reading.run_ns = 0;
		__builtin_memset(&reading.pending, 0, sizeof(reading.pending));
		if (lane->pid == reading.pid && lane->start_ns)
			running_task(&reading, lane, view, task->mt1_rest);
		else if (task->queued_ns)
			reading.pending.waiting_ns = counted_ns(task->queued_ns, view->at_ns);
		fence(lane);
		if (!(changes & 1) && READ_ONCE(lane->changes) == changes) {
			reading.torn = 0;
			break;
		}
	}
	bpf_seq_write(ctx->meta->seq, &reading, sizeof(reading));
	bpf_seq_write(ctx->meta->seq, task->jobs, sizeof(task->jobs));
	return 0;
}
