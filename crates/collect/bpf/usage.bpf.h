/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What tasks and cgroups use and wait for.
 *
 * Problem: the time that a task spent on a lane says little about what it used of the core.
 *
 * Rule: a task's MT1-equivalent time is what the core's MT1 clock went on while it ran
 * (density.bpf.h), and its prorated time what the prorated clock did. At each switch it is charged to
 * the task, in its storage, and to its cgroup. So is what batch borrowed, by the clock of critical work, and what critical work forced
 * its siblings to idle (forced.bpf.h); both need the classes of the scheduler. A job lasts
 * from a wake-up until the task sleeps. A task that ends is listed in a table that forgets the
 * oldest; its time stays in its cgroup. A cgroup that is removed stays in the table until the next
 * reading, which is told its path; then the reader drops it.
 *
 * Cost: at each switch a few atomic additions to the cgroup; memory for each living task.
 *
 * Does not: add up cgroups below each other; follow a task whose class changes while it runs; make room
 * for cgroups of which more live than the table holds.
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

/* By id: cgroups of the table that were removed since the last reading. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, METRICS_CGROUPS_MAX);
	__type(key, u64);
	__type(value, struct metrics_removed);
} metrics_removed SEC(".maps");

/* Values too large for the stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct metrics_removed);
} metrics_path SEC(".maps");

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

/* The scheduler's class of @p, + 1; 0: unknown. */
static __always_inline u32 class_of(struct task_struct *p)
{
	struct scheduler_task *known = classes ? bpf_task_storage_get(&tasks, p, 0, 0) : NULL;

	return known ? known->class + 1 : 0;
}

/* The counters of cgroup @id; those of cgroup 0 if it has none. */
static __always_inline struct metrics_cgroup *known_cgroup(u64 id)
{
	struct metrics_cgroup *group = bpf_map_lookup_elem(&metrics_cgroups, &id);

	if (group)
		return group;
	id = 0;
	return bpf_map_lookup_elem(&metrics_cgroups, &id);
}

/*
 * The counters of the cgroup of @p, made if need be; those of cgroup 0 if there is no room, or if the
 * cgroup was removed and dropped: a task may leave its lane for the last time after that.
 */
static __always_inline struct metrics_cgroup *cgroup_of(struct task_struct *p)
{
	struct metrics_cgroup *group, *nothing;
	u64 id = cgroup_id(p);
	u32 zero = 0;

	group = bpf_map_lookup_elem(&metrics_cgroups, &id);
	if (group)
		return group;
	nothing = bpf_map_lookup_elem(&metrics_nothing, &zero);
	if (!nothing)
		return NULL;
	bpf_map_update_elem(&metrics_cgroups, &id, nothing, BPF_NOEXIST);
	/* looked at after it was made: one that is removed later is found there (cgroup_removed) */
	if (!(p->cgroups->dfl_cgrp->self.flags & CSS_ONLINE)) {
		bpf_map_delete_elem(&metrics_cgroups, &id);
		return known_cgroup(0);
	}
	group = bpf_map_lookup_elem(&metrics_cgroups, &id);
	if (group)
		return group;
	__sync_fetch_and_add(&control.unlisted_cgroups, 1);
	return known_cgroup(0);
}

/* The reader is told that a cgroup is no more, if anything ran there. The kernel does so one by one. */
static __always_inline void cgroup_removed(struct cgroup *cgrp, const char *path)
{
	struct metrics_removed *removed;
	u64 id = cgrp->kn->id;
	u32 zero = 0;

	/* other hierarchies number theirs by themselves */
	if (cgrp->root->hierarchy_id || !bpf_map_lookup_elem(&metrics_cgroups, &id))
		return;
	removed = bpf_map_lookup_elem(&metrics_path, &zero);
	if (!removed)
		return;
	if (bpf_probe_read_kernel_str(removed->path, sizeof(removed->path), path) ==
	    sizeof(removed->path))
		removed->path[0] = 0;
	if (!bpf_map_update_elem(&metrics_removed, &id, removed, BPF_ANY))
		__sync_fetch_and_add(&control.removed, 1);
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
	reading->late_reading = 0;
	__builtin_memset(&reading->late, 0, sizeof(reading->late));
	__builtin_memset(&reading->pending, 0, sizeof(reading->pending));
	bpf_probe_read_kernel(reading->comm, sizeof(reading->comm), p->comm);
}

/* Lists a task that has ended. */
VERIFIED_ONCE int list_ended(struct task_struct *p __arg_trusted,
			     const struct metrics_task *task __arg_nonnull)
{
	struct metrics_ended_key key = {};
	struct metrics_ended *ended;
	u32 zero = 0, i;

	ended = bpf_map_lookup_elem(&metrics_scratch, &zero);
	if (!ended)
		return 0;
	key.pid = p->pid;
	key.start_ns = p->start_boottime;
	describe(&ended->reading, p);
	ended->reading.times = task->times;
	ended->reading.late = task->late;
	ended->reading.late_reading = task->late_reading;
	bpf_for(i, 0, METRICS_JOB_BUCKETS) {
		u32 k = BOUNDED(i, METRICS_JOB_BUCKETS);

		ended->jobs[k] = task->jobs[k];
	}
	if (!bpf_map_update_elem(&metrics_ended, &key, ended, BPF_ANY))
		__sync_fetch_and_add(&control.ended, 1);
	return 0;
}

/*
 * One that is bound waits on @core_id now, or none does any more. A lane of another core leaves that to the next record there:
 * one of its own two is current for its own core.
 */
static __always_inline void bound_changed(u32 core_id)
{
	u32 cpu = bpf_get_smp_processor_id();
	const struct metrics_lane *lane = lane_of(cpu);

	if (lane && lane->core == core_id)
		core_changed(core_id, cpu * 2);
}

/* @p could run from @now_ns on, and does not. */
VERIFIED_ONCE int begins_to_wait(struct task_struct *p __arg_trusted,
				 struct metrics_task *task __arg_nonnull, u64 now_ns)
{
	struct metrics_lane *lane;
	struct metrics_core *core;

	task->queued_ns = now_ns;
	if (!classes || task->waits || class_of(p) != CLASS_BATCH + 1)
		return 0;
	if (p->nr_cpus_allowed >= nr_online) {
		task->waits = WAITS_ANYWHERE;
		if (!__sync_fetch_and_add(&control.waiting, 1))
			waits_follow(now_ns);
		return 0;
	}
	lane = lane_of(p->thread_info.cpu);
	core = lane ? core_of(lane->core) : NULL;
	if (!lane || !core)
		return 0;
	task->waits = lane->core + WAITS_BOUND;
	if (!__sync_fetch_and_add(&core->bound, 1))
		bound_changed(lane->core);
	return 0;
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
		bound_changed(waits - WAITS_BOUND);
}

/*
 * The view of @core_id that is being read, NULL if there is none. What is charged meanwhile is
 * for a time after it, too: that part is counted beside, as late, and the reader leaves it out.
 */
static __always_inline struct density_record *view_being_read(u32 core_id)
{
	u32 reading = READ_ONCE(control.reading);
	struct density_record *view;

	if (!reading)
		return NULL;
	view = bpf_map_lookup_elem(&metrics_view, &core_id);
	return view && READ_ONCE(view->reading) == reading ? view : NULL;
}

/*
 * What a task of @class is to be charged for that ran from @from_ns, when its core's clocks
 * showed @from, until @to_ns and @to. Of its MT1 time, @mt1_rest was left below a nanosecond.
 * Returns what is left now.
 */
static __always_inline u64 charge_for(struct metrics_times *charge, u32 class, u64 from_ns,
				      const struct core_clocks *from, u64 to_ns,
				      const struct core_clocks *to, u64 mt1_rest)
{
	u64 mt1 = passed(from->mt1, to->mt1);

	charge->raw_ns = counted_ns(from_ns, to_ns);
	if (mt1)
		mt1 += mt1_rest;
	charge->mt1_ns = mt1 >> METRICS_SPEED_SHIFT;
	/* the nearest ns: what is too much or too little evens out */
	charge->prorated_ns = (passed(from->prorated, to->prorated) +
			       (1ULL << (METRICS_SPEED_SHIFT - 1))) >>
			      METRICS_SPEED_SHIFT;
	if (class == CLASS_BATCH + 1)
		charge->borrowed_ns = passed(from->critical_ns, to->critical_ns);
	else if (class == CLASS_CRITICAL + 1)
		charge->forced_idle_ns = passed(from->forced, to->forced) >> METRICS_SPEED_SHIFT;
	return mt1 ? mt1 & ((1ULL << METRICS_SPEED_SHIFT) - 1) : mt1_rest;
}

/* Adds @charge to times that only one lane writes at a time. */
static __always_inline void add_times(struct metrics_times *times,
				      const struct metrics_times *charge)
{
	times->raw_ns += charge->raw_ns;
	times->mt1_ns += charge->mt1_ns;
	times->prorated_ns += charge->prorated_ns;
	times->waiting_ns += charge->waiting_ns;
	times->runs += charge->runs;
	times->borrowed_ns += charge->borrowed_ns;
	times->forced_idle_ns += charge->forced_idle_ns;
}

/* The same for times that all lanes write. */
VERIFIED_ONCE int add_times_shared(struct metrics_times *times __arg_nonnull,
				   const struct metrics_times *charge __arg_nonnull)
{
	if (charge->raw_ns)
		__sync_fetch_and_add(&times->raw_ns, charge->raw_ns);
	if (charge->mt1_ns)
		__sync_fetch_and_add(&times->mt1_ns, charge->mt1_ns);
	if (charge->prorated_ns)
		__sync_fetch_and_add(&times->prorated_ns, charge->prorated_ns);
	if (charge->waiting_ns)
		__sync_fetch_and_add(&times->waiting_ns, charge->waiting_ns);
	if (charge->runs)
		__sync_fetch_and_add(&times->runs, charge->runs);
	if (charge->borrowed_ns)
		__sync_fetch_and_add(&times->borrowed_ns, charge->borrowed_ns);
	if (charge->forced_idle_ns)
		__sync_fetch_and_add(&times->forced_idle_ns, charge->forced_idle_ns);
	return 0;
}

/* Charges a task and its cgroup. Of @charge, @late is the part after @view, which may be NULL. */
static __always_inline void charge_both(struct metrics_task *task, struct metrics_cgroup *group,
					const struct metrics_times *charge,
					const struct metrics_times *late,
					const struct density_record *view)
{
	if (group && view)
		add_times_shared(&group->late, late);
	if (group)
		add_times_shared(&group->times, charge);
	if (task && view) {
		if (task->late_reading != view->reading)
			__builtin_memset(&task->late, 0, sizeof(task->late));
		task->late_reading = view->reading;
		add_times(&task->late, late);
	}
	if (task)
		add_times(&task->times, charge);
}

/* What of @charge, for the time since @lane->start_ns, is for after @view; NULL: nothing. */
static __always_inline void late_part(struct metrics_times *late,
				      const struct metrics_times *charge, struct metrics_lane *lane,
				      u32 class, u64 now_ns, const struct density_record *view)
{
	if (view && view->at_ns > lane->start_ns)
		charge_for(late, class, view->at_ns, &view->clocks, now_ns, &lane->now, 0);
	else if (view)
		*late = *charge;
}

/* @p of @class and @group leaves @lane at @now_ns, when the core's clocks show lane->now. */
static __always_inline void task_leaves(struct task_struct *p, struct metrics_cgroup *group,
					struct metrics_lane *lane, u32 class, u64 now_ns,
					bool runnable, bool dead)
{
	struct density_record *view = view_being_read(lane->core);
	struct metrics_times charge = {}, late = {};
	struct metrics_task *task = task_of(p);
	u64 mt1_rest;

	mt1_rest = charge_for(&charge, class, lane->start_ns, &lane->start, now_ns, &lane->now,
			      task ? task->mt1_rest : 0);
	late_part(&late, &charge, lane, class, now_ns, view);
	lane->busy_ns += charge.raw_ns;
	charge_both(task, group, &charge, &late, view);
	if (!task)
		return;
	task->mt1_rest = mt1_rest;
	if (runnable)
		begins_to_wait(p, task, now_ns);
	else
		job_ends(task, group, now_ns);
	if (dead)
		list_ended(p, task);
}

/* The task that ran on @lane leaves it, and is no more to be found: its cgroup is charged. */
static __always_inline void unknown_leaves(struct metrics_lane *lane, u32 class, u64 now_ns)
{
	struct density_record *view = view_being_read(lane->core);
	struct metrics_times charge = {}, late = {};

	charge_for(&charge, class, lane->start_ns, &lane->start, now_ns, &lane->now, 0);
	late_part(&late, &charge, lane, class, now_ns, view);
	lane->busy_ns += charge.raw_ns;
	charge_both(NULL, known_cgroup(lane->cgroup), &charge, &late, view);
	__sync_fetch_and_add(&control.ended, 1);
}

/* @p of @group begins to run on @lane. */
static __always_inline void task_enters(struct task_struct *p, struct metrics_cgroup *group,
					struct metrics_lane *lane, u64 now_ns)
{
	struct density_record *view = view_being_read(lane->core);
	struct metrics_times charge = {.runs = 1}, late = {.runs = 1};
	struct metrics_task *task = task_of(p);

	if (task) {
		if (task->queued_ns)
			charge.waiting_ns = counted_ns(task->queued_ns, now_ns);
		if (task->queued_ns && view)
			late.waiting_ns = counted_ns(
				view->at_ns > task->queued_ns ? view->at_ns : task->queued_ns,
				now_ns);
		ends_to_wait(task, now_ns);
	}
	charge_both(task, group, &charge, &late, view);
}

#endif /* SIDELANE_USAGE_BPF_H */
