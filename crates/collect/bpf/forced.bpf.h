/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lanes that idle because batch has to stay away.
 *
 * Problem: a lane that idles beside critical work costs something only while there is work for it.
 *
 * Rule: a lane is forced idle while it idles on a closed core on which critical work runs, and batch
 * waits that may use it. That is batch that may use all lanes, wherever it waits, or batch that is
 * bound to some and ran last on this core. The time is shared by the lanes with critical work, as
 * core scheduling shares its own.
 *
 * Of batch that may use all lanes only the number is kept, and a clock that goes while there is
 * any: a core that reads it at its own changes knows how much of the time between it was. So nothing
 * has to look at all cores when batch begins to wait. The clock is one word: with CLOCK_GOES, what
 * the time has to be reduced by to get it, else what it shows. The lane that changed the number brings it
 * in line.
 *
 * Cost: an atomic addition whenever batch begins or ends to wait; without the scheduler, nothing.
 *
 * Does not: know of batch that waited before all this began and has not run since. Batch that is
 * bound to some lanes counts at no other core, though it may use others.
 */
#ifndef SIDELANE_FORCED_BPF_H
#define SIDELANE_FORCED_BPF_H

#include "../../policy/bpf/intf.h"
#include "metrics_intf.h"

/* A compare-and-swap fails only if another lane's has just succeeded. */
#define TRIES 32

#define CLOCK_GOES (1ULL << 63)

CONSTANT u32 classes; /* 1: the scheduler is attached, and its maps are shared */

GLOBAL struct metrics_control control SEC(".data.metrics");

/* The loader puts the running scheduler's in its place, which has this name: struct core_ctx. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} cores SEC(".maps");

/* What of the time from @from_ns to @to_ns counts. */
static __always_inline u64 counted_ns(u64 from_ns, u64 to_ns)
{
	u64 began_ns = READ_ONCE(control.began_ns);

	if (!began_ns)
		return 0;
	if (from_ns < began_ns)
		from_ns = began_ns;
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* What passed from @from to @to on a clock that may wrap; 0 if @to is the earlier. */
static __always_inline u64 passed(u64 from, u64 to)
{
	return (s64)(to - from) > 0 ? to - from : 0;
}

/* Does the scheduler keep batch away from its core @index? */
static __always_inline bool batch_kept_away(u32 index)
{
	struct core_ctx *core;

	if (!classes)
		return false;
	core = bpf_map_lookup_elem(&cores, &index);
	return core && READ_ONCE(core->closed);
}

/* The clock of waiting batch at @now_ns; not before @before_ns, which it has shown already. */
static __always_inline u64 waits_after(u64 before_ns, u64 now_ns)
{
	u64 clock = READ_ONCE(control.waits_clock);
	u64 shown_ns = clock & CLOCK_GOES ? now_ns - (clock & ~CLOCK_GOES) : clock;

	return before_ns + passed(before_ns, shown_ns);
}

/*
 * For how long of the @passed_ns after @record batch waited that might use the core's lanes, by the
 * clock of waiting batch, which shows @waits_ns now.
 */
static __always_inline u64 forced_ns(const struct density_record *record, u64 passed_ns,
				     u64 waits_ns)
{
	u64 waited_ns = waits_ns - record->waits_ns;

	return record->bound || waited_ns > passed_ns ? passed_ns : waited_ns;
}

/* Brings the clock of waiting batch in line with the number that waits. */
VERIFIED_ONCE int waits_follow(u64 now_ns)
{
	u32 try;

	bpf_for(try, 0, TRIES) {
		u64 clock = READ_ONCE(control.waits_clock), next;
		bool goes = READ_ONCE(control.waiting) > 0;

		if (goes == !!(clock & CLOCK_GOES))
			return 0;
		next = passed(clock & ~CLOCK_GOES, now_ns);
		__sync_val_compare_and_swap(&control.waits_clock, clock,
					    goes ? next | CLOCK_GOES : next);
	}
	__sync_fetch_and_add(&control.lost, 1);
	return 0;
}

#endif /* SIDELANE_FORCED_BPF_H */
