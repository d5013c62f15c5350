/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time at each density of a core, and its MT1 clock.
 *
 * Problem: lanes change at any time and must not wait for each other, but each nanosecond of
 * a core has to count once, and all that is read of it has to belong together.
 *
 * Rule: a core's record holds since when so many lanes are busy, the time at each density
 * until then, and the MT1 clock: it goes at the speed of a lane at that density. Both follow
 * for any later moment from the record alone. A lane that falls idle or becomes busy writes
 * the next record beside and makes it the current one by one compare-and-swap. Each lane has
 * two records and never writes the current one. So has the reader: no lane writes a record
 * that begins before what was told.
 *
 * Cost: a record is written only when the density changes; reading is one look at it.
 *
 * Does not: know what interrupts took of idle lanes.
 */
#ifndef SIDELANE_DENSITY_BPF_H
#define SIDELANE_DENSITY_BPF_H

#include "metrics_intf.h"

#define CONSTANT const volatile
#define GLOBAL
#define VERIFIED_ONCE __attribute__((noinline))
#define BOUNDED(i, n)                \
	({                           \
		u32 __i = (i);       \
		barrier_var(__i);    \
		__i < (n) ? __i : 0; \
	})

/* A compare-and-swap fails only if another lane's has just succeeded. */
#define TRIES 32

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct metrics_lane);
} metrics_lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct metrics_core);
} metrics_cores SEC(".maps");

/* CPU numbers, core after core. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} metrics_core_lanes SEC(".maps");

/* Two a lane, then two a core for the reader: each writes its own that is not current. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, u32);
	__type(value, struct density_record);
} metrics_records SEC(".maps");

/* By core: the record as of the last reading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct density_record);
} metrics_view SEC(".maps");

/* By lane: time busy as of the last reading. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} metrics_lane_view SEC(".maps");

CONSTANT u32 nr_cores = 1;
CONSTANT u32 nr_lanes = 1; /* highest CPU number + 1 */

GLOBAL struct metrics_control control SEC(".data.metrics");

static __always_inline struct metrics_lane *lane_of(u32 cpu)
{
	return bpf_map_lookup_elem(&metrics_lanes, &cpu);
}

static __always_inline struct metrics_core *core_of(u32 core)
{
	return bpf_map_lookup_elem(&metrics_cores, &core);
}

static __always_inline struct density_record *record_of(u32 index)
{
	return bpf_map_lookup_elem(&metrics_records, &index);
}

/* What is written before is seen before what is written, or read, after. */
static __always_inline void fence(struct metrics_lane *lane)
{
	__sync_lock_test_and_set(&lane->fence, 1);
}

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

/* The MT1 clock of @record at @now_ns. */
static __always_inline u64 mt1_at(const struct density_record *record, u64 now_ns)
{
	return record->mt1 + counted_ns(record->at_ns, now_ns) * record->speed;
}

/* Lanes of @core_id that run a task: counted anew each time, so that it cannot drift. */
VERIFIED_ONCE u32 busy_lanes(u32 core_id)
{
	struct metrics_core *core = core_of(core_id);
	u32 i, busy = 0;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		u32 key = core->first_lane + i;
		u32 *cpu = bpf_map_lookup_elem(&metrics_core_lanes, &key);
		struct metrics_lane *lane = cpu ? lane_of(*cpu) : NULL;

		if (lane && READ_ONCE(lane->busy))
			busy++;
	}
	return busy;
}

/* Copies @from to @to as it is at @now_ns. */
static __always_inline void record_advance(struct density_record *to,
					   const struct density_record *from, u32 nr_lanes,
					   u64 now_ns)
{
	u64 passed_ns = counted_ns(from->at_ns, now_ns);
	u32 i, busy = from->busy;

	to->at_ns = now_ns > from->at_ns ? now_ns : from->at_ns;
	to->mt1 = mt1_at(from, now_ns);
	to->busy = busy;
	to->speed = from->speed;
	bpf_for(i, 0, nr_lanes + 1) {
		u32 k = BOUNDED(i, METRICS_LANES_MAX + 1);

		to->by_density_ns[k] = from->by_density_ns[k] + (k == busy ? passed_ns : 0);
	}
}

/* Writes record @next of @core_id, which follows record @current. */
VERIFIED_ONCE int record_next(u32 core_id, u32 current, u32 next, u64 now_ns)
{
	struct density_record *from = record_of(current), *to = record_of(next);
	struct metrics_core *core = core_of(core_id);
	u32 busy;

	if (!core || !from || !to)
		return 0;
	record_advance(to, from, core->nr_lanes, now_ns);
	busy = busy_lanes(core_id);
	to->busy = busy;
	to->speed = control.speeds[BOUNDED(busy, METRICS_LANES_MAX + 1)];
	return 0;
}

#define NO_RECORD 0xffffffff

/*
 * A lane of @core_id has changed, or somebody reads: a new record, one of the two from @first
 * on, which are the caller's. Returns its index, or NO_RECORD.
 */
VERIFIED_ONCE u32 core_changed(u32 core_id, u32 first)
{
	struct metrics_core *core = core_of(core_id);
	u32 try;

	if (!core)
		return NO_RECORD;
	bpf_for(try, 0, TRIES) {
		u64 current = READ_ONCE(core->current);
		u32 next = first;

		if (next == (u32)current)
			next++;
		record_next(core_id, (u32)current, next, bpf_ktime_get_ns());
		if (__sync_val_compare_and_swap(&core->current, current,
						((current >> 32) + 1) << 32 | next) == current)
			return next;
	}
	/* the next change counts the lanes again */
	__sync_fetch_and_add(&control.lost, 1);
	return NO_RECORD;
}

/* The MT1 clock of @core_id at @now_ns, read on @cpu. */
VERIFIED_ONCE u64 core_mt1(u32 core_id, u32 cpu, u64 now_ns)
{
	struct metrics_core *core = core_of(core_id);
	struct metrics_lane *lane = lane_of(cpu);
	u64 mt1 = 0;
	u32 try;

	if (!core || !lane)
		return 0;
	bpf_for(try, 0, TRIES) {
		u64 current = READ_ONCE(core->current);
		struct density_record *record = record_of((u32)current);

		if (!record)
			return 0;
		mt1 = mt1_at(record, now_ns);
		fence(lane);
		if (READ_ONCE(core->current) == current)
			return mt1;
	}
	__sync_fetch_and_add(&control.lost, 1);
	return mt1;
}

/*
 * Copies what @core_id did until now for the reader. A record is made of it, so that no lane
 * writes one that begins earlier: what was told stays.
 */
VERIFIED_ONCE int view_core(u32 core_id)
{
	struct density_record *view = bpf_map_lookup_elem(&metrics_view, &core_id), *record;
	struct metrics_core *core = core_of(core_id);

	record = record_of(core_changed(core_id, (nr_lanes + core_id) * 2));
	if (!core || !view || !record)
		return 1;
	record_advance(view, record, core->nr_lanes, 0);
	return 0;
}

/* The same for the lane @cpu. */
VERIFIED_ONCE int view_lane(u32 cpu)
{
	u64 *view = bpf_map_lookup_elem(&metrics_lane_view, &cpu);
	struct metrics_lane *lane = lane_of(cpu);
	u32 try;

	if (!view || !lane)
		return 0;
	bpf_for(try, 0, TRIES) {
		u64 changes = READ_ONCE(lane->changes), busy_ns;

		fence(lane);
		busy_ns = lane->busy_ns;
		if (lane->pid && lane->start_ns)
			busy_ns += counted_ns(lane->start_ns, bpf_ktime_get_ns());
		fence(lane);
		if (!(changes & 1) && READ_ONCE(lane->changes) == changes) {
			*view = busy_ns;
			return 0;
		}
	}
	return 1;
}

#endif /* SIDELANE_DENSITY_BPF_H */
