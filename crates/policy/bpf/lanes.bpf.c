/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lane signal on a kernel that keeps its own scheduler.
 *
 * Problem: programs that step aside for critical work need the signal also where no
 * sched_ext scheduler can be attached.
 *
 * Rule: at each context switch the lane's line is written. The class of a task is that
 * of its cgroup: critical or batch if it is, or lies below, the one named so. Other
 * tasks are batch if their policy says so, else normal.
 *
 * Cost: at each context switch a walk from the task's cgroup to the root.
 *
 * Does not: schedule. What runs where is up to cpusets and the kernel.
 */
#include <scx/common.bpf.h>

#define CONSTANT const volatile
#define VERIFIED_ONCE __attribute__((noinline))

#include "see/signal.bpf.h"

#define SCHED_IDLE 5
#define CGROUP_DEPTH_MAX 32

char _license[] SEC("license") = "GPL";

CONSTANT u64 critical_cgroup; /* id */
CONSTANT u64 batch_cgroup; /* id */

/* enum lane_state of a lane that runs @p. */
static __always_inline u32 state_of(struct task_struct *p)
{
	struct cgroup *cgrp = BPF_CORE_READ(p, cgroups, dfl_cgrp);
	u32 i;

	if (p->pid == 0)
		return LANE_IDLE;
	for (i = 0; i < CGROUP_DEPTH_MAX && cgrp; i++) {
		u64 id = BPF_CORE_READ(cgrp, kn, id);

		if (id == critical_cgroup)
			return LANE_CRITICAL;
		if (id == batch_cgroup)
			return LANE_BATCH;
		/* self is the first member of struct cgroup */
		cgrp = (struct cgroup *)BPF_CORE_READ(cgrp, self.parent);
	}
	return p->policy == SCHED_IDLE ? LANE_BATCH : LANE_NORMAL;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(sidelane_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	signal_write(bpf_get_smp_processor_id(), state_of(next), next->pid);
	return 0;
}
