/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Layouts shared by the collector of metrics and its reader (Rust, through bindgen).
 */
#ifndef SIDELANE_METRICS_INTF_H
#define SIDELANE_METRICS_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
#endif

enum metrics_limits {
	METRICS_LANES_MAX = 64, /* of a core */
	METRICS_CORES_MAX = 4096,
	METRICS_ENDED_MAX = 4096, /* ended tasks that are listed */
	METRICS_CGROUPS_MAX = 4096, /* that ran, removed ones until the next reading */
	METRICS_PATH_LEN = 512, /* of a removed cgroup */
	METRICS_NO_CORE = 0x7fffffff,
	METRICS_NAME_LEN = 16,
	METRICS_SPEED_SHIFT = 14, /* speeds are of 1 << this */
};

/*
 * Latencies: the first bucket is all below 1 << FIRST ns, then four an octave, the last one
 * all from 1 << LAST on.
 */
enum metrics_jobs {
	METRICS_JOB_FIRST = 10,
	METRICS_JOB_LAST = 36,
	METRICS_JOB_BUCKETS = 4 * (METRICS_JOB_LAST - METRICS_JOB_FIRST) + 2,
};

/* A core's clocks. What passes between two looks at them is of interest, so they may wrap. */
struct core_clocks {
	u64 mt1; /* sum of time x speed of a lane, in ns << METRICS_SPEED_SHIFT */
	u64 prorated; /* sum of time / lanes busy, in ns << METRICS_SPEED_SHIFT */
	u64 critical_ns; /* time during which critical work ran on any lane */
	u64 forced; /* forced-idle time for each lane with critical work, in ns << METRICS_SPEED_SHIFT */
};

/* What a core did up to a moment at which its lanes changed. */
struct density_record {
	u64 at_ns;
	u64 waits_ns; /* the clock of waiting batch then (forced.bpf.h) */
	struct core_clocks clocks;
	u64 forced_idle_ns; /* of all its lanes */
	u32 busy; /* lanes that are busy from then on */
	u32 speed; /* of each of them, of 1 << METRICS_SPEED_SHIFT */
	u32 critical; /* lanes with critical work */
	u32 kept; /* idle lanes from which batch is kept away */
	u32 bound; /* 1: batch waits that is bound to a part of the machine with this core */
	u32 reading; /* of a view: the number of the reading that it is for */
	u32 share; /* of the core, of each busy lane, of 1 << METRICS_SPEED_SHIFT */
	u32 pad;
	u64 by_density_ns[METRICS_LANES_MAX + 1]; /* by lanes busy, from 0 */
};

/* One core. The loader fills it. */
struct metrics_core {
	u32 first_lane; /* its lanes are metrics_core_lanes[first_lane .. +nr_lanes] */
	u32 nr_lanes;
	u64 current; /* changes << 32 | index of the record that holds */
	u32 scheduler_core; /* the scheduler's number of it */
	u32 bound; /* batch that waits here and is bound to a part of the machine */
	u64 pad[5];
} __attribute__((aligned(64)));

/* One lane. The loader fills in its core. */
struct metrics_lane {
	u32 core; /* index, or METRICS_NO_CORE */
	u32 pid; /* of the task that runs; 0: none */
	u32 fence; /* written for the order of memory accesses only */
	u8 online;
	u8 busy; /* 1: a task runs */
	u8 class; /* its enum task_class + 1; 0: unknown, or none runs */
	u8 pad8;
	u64 changes; /* odd while a switch is counted */
	u64 start_ns; /* when that task began to run; 0: nothing was seen yet */
	u64 busy_ns; /* total */
	struct core_clocks start; /* the core's when that task began */
	struct core_clocks now; /* the same at a switch */
	u64 cgroup; /* of that task */
	u64 pad[2];
} __attribute__((aligned(64)));

struct metrics_times {
	u64 raw_ns;
	u64 mt1_ns;
	u64 prorated_ns;
	u64 waiting_ns;
	u64 runs;
	u64 borrowed_ns; /* of batch: beside critical work */
	u64 forced_idle_ns; /* of critical work: of its siblings */
};

/* Where a batch task counts that could run. */
enum batch_waits {
	WAITS_NOT = 0,
	WAITS_ANYWHERE = 1, /* it may use all lanes */
	WAITS_BOUND = 2,
};

/* What a task used so far. */
struct metrics_task {
	struct metrics_times times;
	struct metrics_times late; /* part of it: after the view of @late_reading */
	u64 mt1_rest; /* below a nanosecond */
	u64 queued_ns; /* since when it could run and does not; 0: it runs or sleeps */
	u64 job_ns; /* when its job began; 0: it sleeps, or began before all this */
	u32 waits; /* enum batch_waits, or the core where it counts + WAITS_BOUND */
	u32 late_reading; /* number of a reading */
	u32 jobs[METRICS_JOB_BUCKETS]; /* by latency */
};

/* The same as told to the reader: of a living task followed by its jobs, as u32. */
struct metrics_reading {
	u32 pid;
	u32 tgid;
	u64 start_ns;
	u64 cgroup;
	char comm[METRICS_NAME_LEN];
	u32 class; /* enum task_class + 1; 0: unknown */
	u32 torn; /* 1: it changed while it was read */
	u32 cpu; /* of its lane */
	u32 late_reading; /* number of a reading */
	u64 run_ns; /* when it began to run there; 0: it does not run */
	struct metrics_times times; /* what it was charged for */
	struct metrics_times late; /* part of it: after the view of @late_reading */
	struct metrics_times pending; /* what not yet: it runs, or waits */
};

struct metrics_ended {
	struct metrics_reading reading;
	u32 jobs[METRICS_JOB_BUCKETS];
};

struct metrics_ended_key {
	u32 pid;
	u32 pad;
	u64 start_ns;
};

struct metrics_cgroup {
	struct metrics_times times;
	struct metrics_times late; /* part of it: what came after the views of all readings */
	u64 jobs[METRICS_JOB_BUCKETS];
};

/* A cgroup that was removed. */
struct metrics_removed {
	char path[METRICS_PATH_LEN]; /* from the root; empty: it is longer */
};

/* What reader and collector tell each other. */
struct metrics_control {
	u64 began_ns; /* nothing is counted before; 0: not yet */
	u64 lost; /* changes that could not be counted */
	u64 unknown_lanes; /* switches on lanes without a core */
	u64 ended; /* tasks that ended and were listed */
	u64 unlisted_cgroups; /* switches counted for cgroup 0: there was no room */
	u64 removed; /* cgroups that ran and were removed */
	u64 waiting; /* batch that could run on any lane and does not run */
	u64 waits_clock; /* for how long there was some (forced.bpf.h) */
	/* of a lane, by lanes busy; a change holds for a core from its next record on */
	u32 speeds[METRICS_LANES_MAX + 1];
	u32 reading; /* the number of the reading that is under way; 0: none is */
};

/* What service.bpf.c counts. */
enum service_limits {
	SERVICE_GROUPS = 2,
	SERVICE_MEMBERS_MAX = 16384, /* cgroups */
	SERVICE_OTHERS_MAX = 4096, /* kinds of tasks beside it */
	SERVICE_WAITS_MAX = 16384, /* threads that wait */
};

enum service_groups {
	SERVICE_ITSELF = 0,
	SERVICE_BATCH = 1, /* counted, too */
};

/* Tasks that are told as one. */
struct service_task {
	u64 cgroup; /* id; 0: none runs */
	char comm[METRICS_NAME_LEN];
};

/* One lane. The loader fills in its core. */
struct service_lane {
	struct service_task task; /* that runs there */
	u32 core; /* index, or METRICS_NO_CORE */
	u32 group; /* of that task, its enum service_groups + 1; 0: none */
	u64 start_ns; /* when it began to run */
	u64 alone_ns; /* since then, time in which no other lane of the core was busy */
	u64 instructions; /* that the lane had executed then */
	u32 pid; /* of that task; 0: none runs */
	u32 pad;
} __attribute__((aligned(64)));

/* One core. The loader fills it. */
struct service_core {
	u32 first_lane; /* its lanes are service_cpus[first_lane .. +nr_lanes] */
	u32 nr_lanes;
	u64 at_ns; /* up to then all is charged */
	u64 pad[6];
} __attribute__((aligned(64)));

struct service_work {
	u64 ns;
	u64 instructions;
};

/* Of a group, on one lane. */
struct service_totals {
	u64 by_density_ns[METRICS_LANES_MAX +
			  1]; /* its run time, by lanes of the core that were busy */
	u64 runs;
	u64 waiting_ns;
	u64 waits[METRICS_JOB_BUCKETS]; /* by length */
	/* where instructions are counted: of runs that have ended */
	struct service_work all;
	struct service_work alone; /* in which no other lane was busy */
	struct service_work beside; /* in which always one was */
};

struct service_control {
	u64 began_ns; /* nothing is counted before; 0: not yet */
	u64 unlisted_ns; /* run time beside tasks for which there was no room */
	u64 strangers; /* cgroups that are not counted: there was no room */
};

#ifdef __VMLINUX_H__
/* What the programs share. */

#define CONSTANT const volatile
#define GLOBAL
#define VERIFIED_ONCE __attribute__((noinline))
#define BOUNDED(i, n)                \
	({                           \
		u32 __i = (i);       \
		barrier_var(__i);    \
		__i < (n) ? __i : 0; \
	})

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
	/* BPF_CORE_READ would call a function for each arrow */
	return p->cgroups->dfl_cgrp->kn->id;
}
#endif

#endif /* SIDELANE_METRICS_INTF_H */
