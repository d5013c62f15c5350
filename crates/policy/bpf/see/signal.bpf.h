/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The lane signal: user space sees what every lane runs.
 *
 * Problem: a batch program that looks for itself whether critical work runs beside it
 * can step aside within nanoseconds, with no interrupt and no scheduler. It needs a place
 * to look that costs one load.
 *
 * Rule: one cache line a lane, in a map that user space maps read-only. Each lane writes what
 * it runs into its own line, and whether that is critical as its own bit into the lines of
 * its siblings. So one word says whether critical work runs beside a lane, for any
 * number of lanes, and no bit has two writers. Between two tasks the bit stays: critical work
 * that follows critical work is no gap.
 *
 * A program that cannot wait for a write to a line (crates/runtime, nap.rs) sleeps on a futex, which
 * cannot stand in a map. While there are such waiters, the end of critical work beside a
 * lane is told to the service, which wakes them.
 *
 * Cost: a few stores a switch; one atomic operation a sibling where critical work
 * begins or ends.
 *
 * Source: Elfen (USENIX ATC 2016): the exposed signal cpu_task_map. Does not: decide anything.
 */
#ifndef SIDELANE_SIGNAL_BPF_H
#define SIDELANE_SIGNAL_BPF_H

#include "../intf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lane_signal);
} lane_signals SEC(".maps");

/* CPU numbers of lanes beside which critical work ended. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} signal_events SEC(".maps");

/* How many programs want those. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} signal_waiters SEC(".maps");

/* No critical work runs beside @cpu any more. */
static __always_inline void signal_tell(u32 cpu)
{
	u32 zero = 0;
	u32 *waiters = bpf_map_lookup_elem(&signal_waiters, &zero);

	if (waiters && *waiters)
		bpf_ringbuf_output(&signal_events, &cpu, sizeof(cpu), 0);
}

/* Tells the lane @other that its sibling with @bit runs critical work or not. The lane after it, or none: that of @own. */
static __always_inline u32 signal_sibling(u32 own, u32 other, u64 bit, u32 critical)
{
	struct lane_signal *lane = bpf_map_lookup_elem(&lane_signals, &other);

	if (!lane || other == own)
		return own;
	if (critical)
		__sync_fetch_and_or(&lane->critical_beside, bit);
	else if (__sync_fetch_and_and(&lane->critical_beside, ~bit) == bit)
		signal_tell(other);
	return lane->next_lane;
}

/* Tells the siblings of @cpu whether it runs critical work. */
VERIFIED_ONCE int signal_siblings(u32 cpu, u32 critical)
{
	struct lane_signal *own = bpf_map_lookup_elem(&lane_signals, &cpu);
	u32 i, other;
	u64 bit;

	if (!own)
		return 0;
	bit = 1ULL << (own->index & 63);
	other = signal_sibling(cpu, own->next_lane, bit, critical);
	if (other == cpu)
		return 0; /* two lanes: no loop, which costs as much as all else */
	bpf_for(i, 2, MAX_LANES_PER_CORE) {
		if (other == cpu)
			break;
		other = signal_sibling(cpu, other, bit, critical);
	}
	return 0;
}

/* The lane @cpu is in @state now (enum lane_state), with the task of that id. */
static __always_inline void signal_write(u32 cpu, u32 state, u32 task)
{
	struct lane_signal *lane = bpf_map_lookup_elem(&lane_signals, &cpu);
	u32 critical = state == LANE_CRITICAL;

	if (!lane)
		return;
	lane->task = task;
	lane->state = state;
	if (critical == lane->critical)
		return;
	lane->critical = critical;
	signal_siblings(cpu, critical);
}

#endif /* SIDELANE_SIGNAL_BPF_H */
