/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks and cgroups use and wait for.
 *
 * Problem: the time that a task spent on a lane says little about what it used of the core.
 *
 * Rule: a task's MT1-equivalent time is what the core's MT1 clock went on while it ran
 * (density.bpf.h). At each switch it is charged to the task, in its storage, and to its
 * cgroup. A job lasts from a wake-up until the task sleeps. A task that ends is listed in a
 * table that forgets the oldest; its time stays in its cgroup.
 *
 * Cost: at each switch a few atomic additions to the cgroup; memory for each living task.
 *
 * Does not: add up cgroups below each other.
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
	struct scheduler_task *known = bpf_task_storage_get(&tasks, p, 0, 0);

	reading->pid = p->pid;
	reading->tgid = p->tgid;
	reading->start_ns = p->start_boottime;
	reading->cgroup = cgroup_id(p);
	reading->class = known ? known->class + 1 : 0;
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

/* @p leaves @lane at @now_ns, when the core's MT1 clock shows @mt1. */
static __always_inline void task_leaves(struct task_struct *p, struct metrics_lane *lane,
					u64 now_ns, u64 mt1, bool runnable, bool dead)
{
	u64 raw_ns = counted_ns(lane->start_ns, now_ns);
	u64 mt1_rest = mt1 - lane->start_mt1;
	struct metrics_cgroup *group = cgroup_of(cgroup_id(p));
	struct metrics_task *task = task_of(p);

	lane->busy_ns += raw_ns;
	if (task)
		mt1_rest += task->mt1_rest;
	if (group) {
		__sync_fetch_and_add(&group->times.raw_ns, raw_ns);
		__sync_fetch_and_add(&group->times.mt1_ns, mt1_rest >> METRICS_SPEED_SHIFT);
	}
	if (!task)
		return;
	task->times.raw_ns += raw_ns;
	task->times.mt1_ns += mt1_rest >> METRICS_SPEED_SHIFT;
	task->mt1_rest = mt1_rest & ((1ULL << METRICS_SPEED_SHIFT) - 1);
	task->queued_ns = runnable ? now_ns : 0;
	if (!runnable)
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
		task->queued_ns = 0;
		task->times.waiting_ns += waited_ns;
		task->times.runs++;
	}
	if (group) {
		__sync_fetch_and_add(&group->times.waiting_ns, waited_ns);
		__sync_fetch_and_add(&group->times.runs, 1);
	}
}

#endif /* SIDELANE_USAGE_BPF_H */
