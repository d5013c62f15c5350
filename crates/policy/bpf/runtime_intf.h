/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef SIDELANE_RUNTIME_INTF_H
#define SIDELANE_RUNTIME_INTF_H

/*
 * The lane signal as user space sees it: an array with one line a CPU number, mapped
 * read-only. crates/runtime has the same layout in Rust, and checks that it is.
 */

/*
 * One lane: a cache line that only the lanes of its core write. The loader fills the last
 * two numbers. The state and the task are written one after the other: a reader may see a mixture
 * at a switch.
 */
struct lane_signal {
	u64 critical_beside; /* bit i: the core's lane i, another one, runs critical work */
	u64 reserved;
	u32 state; /* enum lane_state; between two tasks that of the first */
	u32 task; /* thread id of what runs; 0: nothing */
	u32 critical; /* 1: it told its siblings that it runs critical work */
	u32 index; /* which lane of its core it is: its bit */
	u32 next_lane; /* CPU number of the core's next lane; the last names the first */
	u32 pad[7];
} __attribute__((aligned(64)));

/*
 * The job board: where a program tells the scheduler of its jobs. An array of slots, one a
 * thread, that the program maps and writes. crates/runtime has the same layout in Rust, and
 * crates/sched checks that it is.
 */

enum job_board_limits {
	JOB_SLOTS = 128, /* threads of a program that can mark jobs at a time */
	JOB_PROBES = 4, /* a thread has one of so many slots, from tid % JOB_SLOTS on */
	JOB_RING = 56, /* jobs that end between two looks and are counted */
	JOB_LATENCY_NS = 64, /* unit of latencies: 32 bits hold 274 s */
};

/* One thread. Nothing here is trusted: it spoils the program's own jobs only. */
struct job_slot {
	u32 tid; /* as the thread sees itself; 0: the slot is free */
	u32 naps; /* 1: it naps (see/nap.bpf.h) */
	u64 began_ns; /* when the job began that it works on, CLOCK_MONOTONIC; 0: on none */
	u64 ended; /* jobs so far */
	u64 deadline_ns; /* of that job, CLOCK_MONOTONIC; 0: it has none */
	u32 latencies[JOB_RING]; /* of the last jobs: of the nth at n % JOB_RING, from 0 on */
} __attribute__((aligned(64)));

/* Whose board: a process, and not another that got its number later. */
struct job_board_key {
	u32 tgid;
	u32 start; /* when it started after boot, in hundredths of a second */
};

#endif /* SIDELANE_RUNTIME_INTF_H */
