/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Profiles: what the cycles of a task go into while it has a core to itself.
 *
 * Problem: how much two tasks slow each other down on a core depends on what they need: one that waits for
 * memory most of the time leaves its sibling the core, two that compute halve each other's speed.
 *
 * Rule (fixed.symbiotic): at each context switch and tick the lane's counters are read. An interval in which no other lane
 * of the core was busy (idle, or held by retention, retain.bpf.h) tells of the task that ran how many cycles an
 * instruction takes: those in which nothing is executed, for memory mostly (the miss component), those in which the
 * core's units are full (the waiting component), and all others (the base component). Where there are no such
 * counters misses * fixed.miss_cycles are the first, and none the second. Moving averages; known after
 * PROFILE_MIN intervals of PROFILE_CYCLES_MIN cycles each.
 *
 * By: as counter.bpf.h, programs on tracepoints.
 *
 * Cost: three or four counters read at each switch and tick, and a few words where a core begins or ends to have
 * several busy lanes.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.3.2, after Eyerman and Eeckhout: cycles an instruction are base, miss and waiting
 * components, measured while the sibling retains. Counters as in its tools (CYCLE_ACTIVITY.STALLS_TOTAL,
 * RESOURCE_STALLS.ANY), on processors that have both; they overlap, so the base component may come out as none. Not tried
 * on such a processor.
 */
#ifndef SIDELANE_PROFILE_BPF_H
#define SIDELANE_PROFILE_BPF_H

#include "../core/types.bpf.h"

#define PROFILE_CYCLES_MIN (1ULL << 17) /* some ten microseconds */
#define PROFILE_CYCLES_MAX (1ULL << 40) /* longer is none: a counter was set anew */
#define PROFILE_WEIGHT 8 /* earlier intervals together weigh 7 of 8 */
/* An interval counts if siblings were busy for less than one of so many parts of it. */
#define PROFILE_ALONE 64

/* A profile is one word: three components, each an instruction's cycles of PROFILE_ONE. 0: not known. */
#define PROFILE_MOST ((1ULL << PROFILE_BITS) - 1)
#define PROFILE_ONE 1024
#define PROFILE_BASE(profile) ((profile) & PROFILE_MOST)
#define PROFILE_WAIT(profile) ((profile) >> PROFILE_BITS & PROFILE_MOST)
#define PROFILE_MISS(profile) ((profile) >> 2 * PROFILE_BITS & PROFILE_MOST)

/* Opened by the loader, by CPU: cycles in which nothing is executed, or cache misses. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} miss_events SEC(".maps");

/* Cycles in which the core's units are full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} wait_events SEC(".maps");

/* The profile of these components, of PROFILE_ONE. */
static __always_inline u64 profile_word(u64 base, u64 wait, u64 miss)
{
	base = base < PROFILE_MOST ? base : PROFILE_MOST;
	wait = wait < PROFILE_MOST ? wait : PROFILE_MOST;
	miss = miss < PROFILE_MOST ? miss : PROFILE_MOST;
	return base | wait << PROFILE_BITS | miss << 2 * PROFILE_BITS;
}

/* The mean of two, of which the first counts so many times. */
static __always_inline u64 profile_mean(u64 first, u64 second, u32 times)
{
	return profile_word((PROFILE_BASE(first) * times + PROFILE_BASE(second)) / (times + 1),
			    (PROFILE_WAIT(first) * times + PROFILE_WAIT(second)) / (times + 1),
			    (PROFILE_MISS(first) * times + PROFILE_MISS(second)) / (times + 1));
}

/* For how long several lanes of @core have been busy by @now_ns, in all. */
static __always_inline u64 crowded_total_ns(const struct core_ctx *core, u64 now_ns)
{
	u64 total_ns = core->crowded_ns;

	if (core->crowded && now_ns > core->crowd_since_ns)
		total_ns += now_ns - core->crowd_since_ns;
	return total_ns;
}

/*
 * From now on @busy lanes of @core run something. Lanes may come here at the same time: the one that takes the old
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

/* @tctx had so many instructions alone on its core, in so many cycles, of which it waited for units and for memory. */
static __always_inline void profile_add(struct task_ctx *tctx, u64 instructions, u64 cycles,
					u64 waits, u64 misses)
{
	u64 missed = misses * fixed.miss_cycles, base, profile;

	missed = missed < cycles ? missed : cycles;
	base = cycles - missed;
	waits = waits < base ? waits : base;
	base -= waits;
	profile = profile_word(base * PROFILE_ONE / instructions,
			       waits * PROFILE_ONE / instructions,
			       missed * PROFILE_ONE / instructions);
	tctx->profile = tctx->profiled ? profile_mean(tctx->profile, profile, PROFILE_WEIGHT - 1)
				       : profile;
	if (tctx->profiled < PROFILE_MIN)
		tctx->profiled++;
}

/* What is known of @tctx; 0: nothing. */
static __always_inline u64 profile_of(const struct task_ctx *tctx)
{
	return tctx->profiled >= PROFILE_MIN ? tctx->profile : 0;
}

/* @tctx begins to run on @lane. */
static __always_inline void profile_begins(const struct task_ctx *tctx, struct lane_ctx *lane)
{
	if (fixed.symbiotic)
		lane->profile = profile_of(tctx);
}

/*
 * The interval of @tctx (NULL: of none) on the lane with @count ends, in which it had so many @instructions (0:
 * unknown); @cycles: what its counter reads.
 */
static __always_inline void profile_read(struct task_ctx *tctx, struct lane_count *count,
					 const struct core_ctx *core, u64 instructions, u64 cycles,
					 u64 now_ns)
{
	struct bpf_perf_event_value misses = {}, waits = {};
	u64 crowded_ns = crowded_total_ns(core, now_ns), passed = cycles - count->profile_cycles;
	u64 span_ns = now_ns - count->profile_ns;

	if (bpf_perf_event_read_value(&miss_events, BPF_F_CURRENT_CPU, &misses, sizeof(misses)) ||
	    (fixed.wait_counts &&
	     bpf_perf_event_read_value(&wait_events, BPF_F_CURRENT_CPU, &waits, sizeof(waits)))) {
		count->profile_ns = 0;
		return;
	}
	if (tctx && instructions && instructions < PROFILE_CYCLES_MAX && count->profile_ns &&
	    now_ns > count->profile_ns && passed >= PROFILE_CYCLES_MIN &&
	    passed < PROFILE_CYCLES_MAX &&
	    crowded_ns - count->core_crowded_ns < span_ns / PROFILE_ALONE)
		profile_add(tctx, instructions, passed, waits.counter - count->waits,
			    misses.counter - count->misses);
	count->misses = misses.counter;
	count->waits = waits.counter;
	count->profile_cycles = cycles;
	count->core_crowded_ns = crowded_ns;
	count->profile_ns = now_ns;
}

#endif /* SIDELANE_PROFILE_BPF_H */
