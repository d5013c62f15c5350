/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a service meets on its lanes, on any scheduler: how long its tasks wait for one, how many lanes of the
 * core are busy while they run, and with what.
 *
 * Problem: what SMT costs one service shows in no total of the machine, and no task knows what runs beside it.
 *
 * Rule: each lane says what runs there. A switch on one of its lanes changes a core; the lane first charges
 * the time since the last change: one compare-and-swap claims it, so that it counts once. Of that time each
 * lane with a task of the service counts, by how many lanes were busy; and it is shared by what ran beside.
 * A wait lasts from when a task could run until it runs. Instructions are those of whole runs in which no
 * other lane, or always one, was busy.
 *
 * Which cgroups belong to the service, and to a second group that is only counted, the loader says; cgroups that are
 * made below them follow.
 *
 * Cost: at each switch a look at all lanes of the core; beside others, an update of a table for each.
 *
 * Does not: count a lane right in the moment between its switch and what is written of it; know of waits that
 * began before it did, or of members beyond its table.
 */
#include <scx/common.bpf.h>

#include "metrics_intf.h"

/* Of a run, in which no other lane was busy for less than 1 / RATHER of the time, or for more than all but that. */
#define RATHER 20

char _license[] SEC("license") = "GPL";

CONSTANT u32 nr_cores = 1;
CONSTANT u32 counted; /* 1: instructions are counted */

GLOBAL struct service_control control SEC(".data.service");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct service_lane);
} service_lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct service_core);
} service_cores SEC(".maps");

/* CPU numbers, core after core. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} service_cpus SEC(".maps");

/* By id of the cgroup: its enum service_groups. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SERVICE_MEMBERS_MAX);
	__type(key, u64);
	__type(value, u32);
} service_members SEC(".maps");

/* By group. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, SERVICE_GROUPS);
	__type(key, u32);
	__type(value, struct service_totals);
} service_totals SEC(".maps");

/* How long they ran beside the service, ns. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, SERVICE_OTHERS_MAX);
	__type(key, struct service_task);
	__type(value, u64);
} service_others SEC(".maps");

/* By thread: since when it could run and does not. Not storage of tasks, which some kernels free badly while lanes go. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, SERVICE_WAITS_MAX);
	__type(key, u32);
	__type(value, u64);
} service_waits SEC(".maps");

/* By CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
	__uint(max_entries, 1);
} service_events SEC(".maps");

static __always_inline struct service_lane *lane_of(u32 cpu)
{
	return bpf_map_lookup_elem(&service_lanes, &cpu);
}

/* The group of @cgroup, + 1; 0: none. */
static __always_inline u32 group_of(u64 cgroup)
{
	u32 *group = bpf_map_lookup_elem(&service_members, &cgroup);

	return group ? *group + 1 : 0;
}

/* @group: + 1. */
static __always_inline struct service_totals *totals_of(u32 group)
{
	u32 key = group - 1;

	return group ? bpf_map_lookup_elem(&service_totals, &key) : NULL;
}

/* The lane at @index of @core. */
static __always_inline struct service_lane *lane_at(struct service_core *core, u32 index)
{
	u32 key = core->first_lane + index;
	u32 *cpu = bpf_map_lookup_elem(&service_cpus, &key);

	return cpu ? lane_of(*cpu) : NULL;
}

/* @lane ran beside @service lanes of the service, each of which had @others beside it, for @passed_ns. */
VERIFIED_ONCE int charge_other(struct service_lane *lane __arg_nonnull, u32 service, u32 others,
			       u64 passed_ns)
{
	struct service_task key = lane->task;
	u64 ns = passed_ns * service / (others ? others : 1), *known;

	known = bpf_map_lookup_elem(&service_others, &key);
	if (known) {
		__sync_fetch_and_add(known, ns);
		return 0;
	}
	/* where two come first, what one of them has is lost: a single change */
	if (bpf_map_update_elem(&service_others, &key, &ns, BPF_NOEXIST))
		__sync_fetch_and_add(&control.unlisted_ns, ns);
	return 0;
}

/* What ran on a core: a bit for each of its lanes. */
struct ran {
	u64 busy;
	u64 service;
	u64 batch;
};

/* @lanes lanes with tasks of @group ran for @passed_ns, while @busy were busy. */
static __always_inline void charge_group(u32 group, u32 lanes, u32 busy, u64 passed_ns)
{
	struct service_totals *totals = bpf_map_lookup_elem(&service_totals, &group);

	if (totals && lanes)
		totals->by_density_ns[BOUNDED(busy, METRICS_LANES_MAX + 1)] += passed_ns * lanes;
}

/* The lanes of @core_id that are in @ran ran for @passed_ns. */
VERIFIED_ONCE int charge_core(u32 core_id, const struct ran *ran __arg_nonnull, u64 passed_ns)
{
	struct service_core *core = bpf_map_lookup_elem(&service_cores, &core_id);
	u32 i, busy = __builtin_popcountll(ran->busy), service = __builtin_popcountll(ran->service);

	if (!core)
		return 0;
	charge_group(SERVICE_ITSELF, service, busy, passed_ns);
	charge_group(SERVICE_BATCH, __builtin_popcountll(ran->batch), busy, passed_ns);
	bpf_for(i, 0, core->nr_lanes) {
		struct service_lane *lane = lane_at(core, i);
		u32 beside = service - ((ran->service >> i) & 1);

		if (!lane || !((ran->busy >> i) & 1))
			continue;
		if (busy == 1)
			lane->alone_ns += passed_ns;
		else if (beside)
			charge_other(lane, beside, busy - 1, passed_ns);
	}
	return 0;
}

/* What the lanes of @core_id did until @now_ns is charged, before one of them changes. */
VERIFIED_ONCE int core_passes(u32 core_id, u64 now_ns)
{
	struct service_core *core = bpf_map_lookup_elem(&service_cores, &core_id);
	struct ran ran = {};
	u64 from_ns;
	u32 i;

	if (!core)
		return 0;
	from_ns = READ_ONCE(core->at_ns);
	/* another lane has claimed that, and changes at this moment, too */
	if (from_ns >= now_ns ||
	    __sync_val_compare_and_swap(&core->at_ns, from_ns, now_ns) != from_ns)
		return 0;
	if (!READ_ONCE(control.began_ns) || from_ns < control.began_ns)
		return 0;
	/* one look at each lane: it may change meanwhile */
	bpf_for(i, 0, core->nr_lanes) {
		struct service_lane *lane = lane_at(core, i);
		u32 group;

		if (!lane || !READ_ONCE(lane->task.cgroup))
			continue;
		group = READ_ONCE(lane->group);
		ran.busy |= 1ULL << (i & 63);
		if (group == SERVICE_ITSELF + 1)
			ran.service |= 1ULL << (i & 63);
		else if (group)
			ran.batch |= 1ULL << (i & 63);
	}
	if (ran.service || ran.batch)
		charge_core(core_id, &ran, now_ns - from_ns);
	return 0;
}

static __always_inline u64 instructions(void)
{
	u64 value = counted ? bpf_perf_event_read(&service_events, BPF_F_CURRENT_CPU) : 0;

	return (s64)value < 0 ? 0 : value;
}

/* The task on @lane, of a group, leaves it at @now_ns. */
static __always_inline void run_ends(struct service_lane *lane, u64 now_ns)
{
	struct service_totals *totals = totals_of(lane->group);
	u64 ran_ns, count = instructions();

	if (!totals || !lane->start_ns || now_ns <= lane->start_ns)
		return;
	ran_ns = now_ns - lane->start_ns;
	if (!count || !lane->instructions || count < lane->instructions)
		return;
	count -= lane->instructions;
	totals->all.ns += ran_ns;
	totals->all.instructions += count;
	if (lane->alone_ns >= ran_ns - ran_ns / RATHER) {
		totals->alone.ns += ran_ns;
		totals->alone.instructions += count;
	} else if (lane->alone_ns <= ran_ns / RATHER) {
		totals->beside.ns += ran_ns;
		totals->beside.instructions += count;
	}
}

/* @p, of @group, begins to run at @now_ns. */
static __always_inline void wait_ends(struct task_struct *p, u32 group, u64 now_ns)
{
	struct service_totals *totals = totals_of(group);
	u32 pid = p->pid;
	u64 *since_ns, wait_ns;

	if (!totals)
		return;
	totals->runs++;
	since_ns = bpf_map_lookup_elem(&service_waits, &pid);
	if (!since_ns)
		return;
	wait_ns = now_ns > *since_ns ? now_ns - *since_ns : 0;
	bpf_map_delete_elem(&service_waits, &pid);
	totals->waiting_ns += wait_ns;
	totals->waits[BOUNDED(job_bucket(wait_ns), METRICS_JOB_BUCKETS)]++;
}

/* @p could run from @now_ns on, and does not. */
static __always_inline void wait_begins(struct task_struct *p, u64 now_ns)
{
	u32 pid = p->pid;

	if (READ_ONCE(control.began_ns) && group_of(cgroup_id(p)))
		bpf_map_update_elem(&service_waits, &pid, &now_ns, BPF_NOEXIST);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(service_switch, bool preempt, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	struct service_lane *lane = lane_of(bpf_get_smp_processor_id());
	u64 now_ns = bpf_ktime_get_ns(), cgroup = next->pid ? cgroup_id(next) : 0;

	if (!lane || lane->core == METRICS_NO_CORE)
		return 0;
	core_passes(lane->core, now_ns);
	if (lane->group && READ_ONCE(control.began_ns))
		run_ends(lane, now_ns);
	if (prev->pid && (preempt || !prev_state))
		wait_begins(prev, now_ns);
	lane->pid = next->pid;
	lane->alone_ns = 0;
	lane->start_ns = now_ns;
	/* the lane is not to look idle between two tasks */
	lane->group = cgroup ? group_of(cgroup) : 0;
	lane->task.cgroup = cgroup;
	bpf_probe_read_kernel(lane->task.comm, sizeof(lane->task.comm), next->comm);
	if (!lane->group)
		return 0;
	lane->instructions = instructions();
	if (READ_ONCE(control.began_ns))
		wait_ends(next, lane->group, now_ns);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(service_wakeup, struct task_struct *p)
{
	struct service_lane *lane = lane_of(p->thread_info.cpu);

	/* one that is woken while it still runs goes on */
	if (lane && lane->pid != p->pid)
		wait_begins(p, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(service_wakeup_new, struct task_struct *p)
{
	wait_begins(p, bpf_ktime_get_ns());
	return 0;
}

/* What is made below a member is one. */
SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(service_mkdir, struct cgroup *cgrp, const char *path)
{
	u64 id = cgrp->kn->id, above = BPF_CORE_READ(cgrp, self.parent, cgroup, kn, id);
	u32 group = group_of(above);

	if (cgrp->root->hierarchy_id || !group)
		return 0;
	group--;
	if (bpf_map_update_elem(&service_members, &id, &group, BPF_ANY))
		__sync_fetch_and_add(&control.strangers, 1);
	return 0;
}

/* The reader asks for all up to now. */
SEC("syscall")
int service_read(void *ctx)
{
	u64 now_ns = bpf_ktime_get_ns();
	u32 i;

	bpf_for(i, 0, nr_cores)
		core_passes(i, now_ns);
	return 0;
}
