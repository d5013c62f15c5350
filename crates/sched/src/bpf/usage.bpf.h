/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks and cgroups use and wait for.
 *
 * Problem: the time that a task spent on a lane says little about what it used of the core.
 *
 * Rule: a task's MT1-equivalent time is what the core's MT1 clock went on while it ran
 * (density.bpf.h). At each switch it is charged to the task, in its storage, and to its
 * cgroup. So is what batch borrowed, by the clock of critical work, and what critical work forced
 * its siblings to idle (forced.bpf.h); both need the classes of the scheduler. A job lasts
 * from a wake-up until the task sleeps. A task that ends is listed in a table that forgets the
 * oldest; its time stays in its cgroup.
 *
 * Cost: at each switch a few atomic additions to the cgroup; memory for each living task.
 *
 * Does not: add up cgroups below each other; follow a task whose class changes while it runs.
 */
#ifndef SIDELANE_USAGE_BPF_H
#define SIDELANE_USAGE_BPF_H

#include "density.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct metrics_task);
} metrics_tasks SEC(".maps");

/* The scheduler's tasks: of its context only the beginning is of interest here. */
struct scheduler_task {
	u32 class; /* enum task_class */
	u32 pad;
};

/* The loader puts the running scheduler's in its place, which has this name. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct scheduler_task);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, METRICS_ENDED_MAX);
	__type(key, struct metrics_ended_key);
	__type(value, struct metrics_ended);
} metrics_ended SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, METRICS_CGROUPS_MAX);
	__type(key, u64);
	__type(value, struct metrics_cgroup);
} metrics_cgroups SEC(".maps");

/* Values too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct metrics_ended);
} metrics_scratch SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct metrics_cgroup);
} metrics_nothing SEC(".maps");

/* The bucket of a latency. */
static __always_inline u32 job_bucket(u64 latency_ns)
{
	u32 log;

	if (latency_ns >> METRICS_JOB_FIRST == 0)
		return 0;
	if (latency_ns >> METRICS_JOB_LAST)
		return METRICS_JOB_BUCKETS - 1;
	log = 63 - __builtin_clzll(latency_ns);
	return 1 + 4 * (log - METRICS_JOB_FIRST) + ((latency_ns >> (log - 2)) & 3);
}

/* The scheduler's class of @p, + 1; 0: unknown. */
static __always_inline u32 class_of(struct task_struct *p)
{
	struct scheduler_task *known = classes ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;

	return known ? known->class + 1 : 0;
}

static __always_inline u64 cgroup_id(struct task_struct *p)
{
	return BPF_CORE_READ(p, cgroups, dfl_cgrp, kn, id);
}

/* The counters of cgroup @id, made if need be; those of cgroup 0 if there is no room. */
static __always_inline struct metrics_cgroup *cgroup_of(u64 id)
{
	struct metrics_cgroup *group = bpf_map_lookup_elem(&metrics_cgroups, &id), *nothing;
	u32 zero = 0;

	if (group)
		return group;
	nothing = bpf_map_lookup_elem(&metrics_nothing, &zero);
	if (!nothing)
		return NULL;
	bpf_map_update_elem(&metrics_cgroups, &id, nothing, BPF_NOEXIST);
	group = bpf_map_lookup_elem(&metrics_cgroups, &id);
	if (group)
		return group;
	__sync_fetch_and_add(&control.unlisted_cgroups, 1);
	id = 0;
	return bpf_map_lookup_elem(&metrics_cgroups, &id);
}

static __always_inline struct metrics_task *task_of(struct task_struct *p)
{
	struct metrics_task *task = bpf_task_storage_get(&metrics_tasks, p, 0,
							 BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!task)
		__sync_fetch_and_add(&control.lost, 1);
	return task;
}

/* The task's job is over at @now_ns: it sleeps. */
static __always_inline void job_ends(struct metrics_task *task, struct metrics_cgroup *group,
				     u64 now_ns)
{
	u64 latency_ns;
	u32 bucket;

	if (!task->job_ns)
		return;
	latency_ns = now_ns > task->job_ns ? now_ns - task->job_ns : 0;
	bucket = BOUNDED(job_bucket(latency_ns), METRICS_JOB_BUCKETS);
	task->job_ns = 0;
	task->jobs[bucket]++;
	if (group)
		__sync_fetch_and_add(&group->jobs[bucket], 1);
}

static __always_inline void describe(struct metrics_reading *reading, struct task_struct *p)
{
	reading->pid = p->pid;
	reading->tgid = p->tgid;
	reading->start_ns = p->start_boottime;
	reading->cgroup = cgroup_id(p);
	reading->class = class_of(p);
	reading->torn = 0;
	reading->run_ns = 0;
	__builtin_memset(&reading->pending, 0, sizeof(reading->pending));
	bpf_probe_read_kernel(reading->comm, sizeof(reading->comm), p->comm);
}

/* Lists a task that has ended. */
static __always_inline void list_ended(struct task_struct *p, const struct metrics_task *task)
{
	struct metrics_ended_key key = {};
	struct metrics_ended *ended;
	u32 zero = 0, i;

	ended = bpf_map_lookup_elem(&metrics_scratch, &zero);
	if (!ended)
		return;
	key.pid = p->pid;
	key.start_ns = p->start_boottime;
	describe(&ended->reading, p);
	ended->reading.times = task->times;
	bpf_for(i, 0, METRICS_JOB_BUCKETS) {
		u32 k = BOUNDED(i, METRICS_JOB_BUCKETS);

		ended->jobs[k] = task->jobs[k];
	}
	if (!bpf_map_update_elem(&metrics_ended, &key, ended, BPF_ANY))
		__sync_fetch_and_add(&control.ended, 1);
}

/* @p could run from @now_ns on, and does not. */
static __always_inline void begins_to_wait(struct task_struct *p, struct metrics_task *task,
					   u64 now_ns)
{
	struct metrics_lane *lane;
	struct metrics_core *core;

	task->queued_ns = now_ns;
	if (!classes || task->waits || class_of(p) != CLASS_BATCH + 1)
		return;
	if (p->nr_cpus_allowed >= nr_online) {
		task->waits = WAITS_ANYWHERE;
		if (!__sync_fetch_and_add(&control.waiting, 1))
			waits_follow(now_ns);
		return;
	}
	lane = lane_of(BPF_CORE_READ(p, thread_info.cpu));
	core = lane ? core_of(lane->core) : NULL;
	if (!lane || !core)
		return;
	task->waits = lane->core + WAITS_BOUND;
	if (!__sync_fetch_and_add(&core->bound, 1))
		core_changed(lane->core, bpf_get_smp_processor_id() * 2);
}

/* The task that waited runs from @now_ns on. */
static __always_inline void ends_to_wait(struct metrics_task *task, u64 now_ns)
{
	struct metrics_core *core;
	u32 waits = task->waits;

	task->queued_ns = 0;
	if (!classes || waits == WAITS_NOT)
		return;
	task->waits = WAITS_NOT;
	if (waits == WAITS_ANYWHERE) {
		if (__sync_fetch_and_sub(&control.waiting, 1) == 1)
			waits_follow(now_ns);
		return;
	}
	core = core_of(waits - WAITS_BOUND);
	if (core && __sync_fetch_and_sub(&core->bound, 1) == 1)
		core_changed(waits - WAITS_BOUND, bpf_get_smp_processor_id() * 2);
}

/* What a task of @class borrowed, and forced to idle, while its core's clocks went on. */
static __always_inline void charge_company(struct metrics_times *times, u32 class,
					   const struct core_clocks *from,
					   const struct core_clocks *to)
{
	if (class == CLASS_BATCH + 1)
		times->borrowed_ns += passed(from->critical_ns, to->critical_ns);
	else if (class == CLASS_CRITICAL + 1)
		times->forced_idle_ns += passed(from->forced, to->forced) >> METRICS_SPEED_SHIFT;
}

/* @p of @class leaves @lane at @now_ns, when the core's clocks show lane->now. */
static __always_inline void task_leaves(struct task_struct *p, struct metrics_lane *lane, u32 class,
					u64 now_ns, bool runnable, bool dead)
{
	u64 raw_ns = counted_ns(lane->start_ns, now_ns);
	u64 mt1_rest = passed(lane->start.mt1, lane->now.mt1);
	struct metrics_times company = {};
	struct metrics_cgroup *group = cgroup_of(cgroup_id(p));
	struct metrics_task *task = task_of(p);

	lane->busy_ns += raw_ns;
	charge_company(&company, class, &lane->start, &lane->now);
	if (task)
		mt1_rest += task->mt1_rest;
	if (group) {
		__sync_fetch_and_add(&group->times.raw_ns, raw_ns);
		__sync_fetch_and_add(&group->times.mt1_ns, mt1_rest >> METRICS_SPEED_SHIFT);
		if (company.borrowed_ns)
			__sync_fetch_and_add(&group->times.borrowed_ns, company.borrowed_ns);
		if (company.forced_idle_ns)
			__sync_fetch_and_add(&group->times.forced_idle_ns, company.forced_idle_ns);
	}
	if (!task)
		return;
	task->times.raw_ns += raw_ns;
	task->times.mt1_ns += mt1_rest >> METRICS_SPEED_SHIFT;
	task->times.borrowed_ns += company.borrowed_ns;
	task->times.forced_idle_ns += company.forced_idle_ns;
	task->mt1_rest = mt1_rest & ((1ULL << METRICS_SPEED_SHIFT) - 1);
	if (runnable)
		begins_to_wait(p, task, now_ns);
	else
		job_ends(task, group, now_ns);
	if (dead)
		list_ended(p, task);
}

/* @p begins to run. */
static __always_inline void task_enters(struct task_struct *p, u64 now_ns)
{
	struct metrics_cgroup *group = cgroup_of(cgroup_id(p));
	struct metrics_task *task = task_of(p);
	u64 waited_ns = 0;

	if (task) {
		if (task->queued_ns)
			waited_ns = counted_ns(task->queued_ns, now_ns);
		ends_to_wait(task, now_ns);
		task->times.waiting_ns += waited_ns;
		task->times.runs++;
	}
	if (group) {
		__sync_fetch_and_add(&group->times.waiting_ns, waited_ns);
		__sync_fetch_and_add(&group->times.runs, 1);
	}
}

#endif /* SIDELANE_USAGE_BPF_H */
