/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Profiles: what the cycles of a task go into while it has a core to itself.
 *
 * Problem: how much two tasks slow each other down on a core depends on what they need: who waits for
 * memory most of the time leaves its sibling the core, two that compute halve each other's speed.
 *
 * Rule (fixed.symbiotic): at each context switch and tick the lane's counters of cycles and of cache
 * misses are read. An interval in which no other lane of the core was busy (idle, or held by retention,
 * retain.bpf.h) tells of the task that ran how many of its cycles it waits for memory: misses *
 * fixed.miss_cycles, of its cycles. The others are its base. A moving average; known after PROFILE_MIN
 * intervals of PROFILE_CYCLES_MIN cycles each.
 *
 * Who: as counter.bpf.h, programs on tracepoints.
 *
 * Cost: three counters read at each switch and tick, and a few words where a core begins or ends to have
 * several busy lanes.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.3.2, after Eyerman and Eeckhout: cycles an instruction are base, miss
 * and waiting components; alone on its core a task has none of the last. It is measured while the sibling
 * retains. Here as shares of the cycles; miss cycles by the number of misses, for counters of stalls differ
 * from one processor to the next.
 */
#ifndef SIDELANE_PROFILE_BPF_H
#define SIDELANE_PROFILE_BPF_H

#include "../core/types.bpf.h"

#define PROFILE_CYCLES_MIN (1ULL << 17) /* some ten microseconds */
#define PROFILE_CYCLES_MAX (1ULL << 40) /* longer is none: a counter was set anew */
#define PROFILE_WEIGHT 8 /* earlier intervals together weigh 7 of 8 */
/* An interval counts if siblings were busy for less than one of so many parts of it. */
#define PROFILE_ALONE 64

/* Opened by the loader, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} miss_events SEC(".maps");

/* For how long several lanes of @core have been busy by @now_ns, in all. */
static __always_inline u64 crowded_total_ns(const struct core_ctx *core, u64 now_ns)
{
	u64 total_ns = core->crowded_ns;

	if (core->crowded && now_ns > core->crowd_since_ns)
		total_ns += now_ns - core->crowd_since_ns;
	return total_ns;
}

/*
 * From now on @busy lanes of @core run something. Lanes may come here at the same time: who takes the old
 * moment charges for the time since.
 */
static __always_inline void crowd_update(struct core_ctx *core, u32 busy, u64 now_ns)
{
	u64 since_ns = core->crowd_since_ns;
	u32 crowded = busy > 1, before = core->crowded;

	if (crowded == before ||
	    __sync_val_compare_and_swap(&core->crowd_since_ns, since_ns, now_ns) != since_ns)
		return;
	core->crowded = crowded;
	if (before && now_ns > since_ns)
		__sync_fetch_and_add(&core->crowded_ns, now_ns - since_ns);
}

/* @tctx had so many cycles alone on its core. */
static __always_inline void profile_add(struct task_ctx *tctx, u64 cycles, u64 misses)
{
	u64 waited = misses * fixed.miss_cycles;
	u32 share = waited < cycles ? waited * SPEED_ONE / cycles : SPEED_ONE;

	if (!tctx->profiled)
		tctx->miss_share = share;
	tctx->miss_share = (tctx->miss_share * (PROFILE_WEIGHT - 1) + share) / PROFILE_WEIGHT;
	if (tctx->profiled < PROFILE_MIN)
		tctx->profiled++;
}

/* What is known of @tctx, + 1; 0: nothing. */
static __always_inline u32 profile_of(const struct task_ctx *tctx)
{
	return tctx->profiled >= PROFILE_MIN ? tctx->miss_share + 1 : 0;
}

/* @tctx begins to run on @lane. */
static __always_inline void profile_begins(const struct task_ctx *tctx, struct lane_ctx *lane)
{
	if (fixed.symbiotic)
		lane->profile = profile_of(tctx);
}

/* The interval of @tctx (NULL: of nobody) on the lane with @count ends; @cycles: what its counter reads. */
static __always_inline void profile_read(struct task_ctx *tctx, struct lane_count *count,
					 const struct core_ctx *core, u64 cycles, u64 now_ns)
{
	struct bpf_perf_event_value misses = {};
	u64 crowded_ns = crowded_total_ns(core, now_ns), passed = cycles - count->profile_cycles;
	u64 span_ns = now_ns - count->profile_ns;

	if (bpf_perf_event_read_value(&miss_events, BPF_F_CURRENT_CPU, &misses, sizeof(misses))) {
		count->profile_ns = 0;
		return;
	}
	if (tctx && count->profile_ns && now_ns > count->profile_ns &&
	    passed >= PROFILE_CYCLES_MIN && passed < PROFILE_CYCLES_MAX &&
	    crowded_ns - count->core_crowded_ns < span_ns / PROFILE_ALONE)
		profile_add(tctx, passed, misses.counter - count->misses);
	count->misses = misses.counter;
	count->profile_cycles = cycles;
	count->core_crowded_ns = crowded_ns;
	count->profile_ns = now_ns;
}

#endif /* SIDELANE_PROFILE_BPF_H */
