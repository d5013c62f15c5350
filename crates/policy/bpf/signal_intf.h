/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lane signal as user space sees it: an array with one line a CPU number, mapped
 * read-only. crates/runtime has the same layout in Rust, and checks that it is.
 */
#ifndef SIDELANE_SIGNAL_INTF_H
#define SIDELANE_SIGNAL_INTF_H

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

#endif /* SIDELANE_SIGNAL_INTF_H */
