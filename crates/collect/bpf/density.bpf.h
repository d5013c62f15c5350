/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time at each density of a core, and its MT1 and prorated clocks.
 *
 * Problem: lanes change at any time and must not wait for each other, but each nanosecond of
 * a core has to count once, and all that is read of it has to belong together.
 *
 * Rule: a core's record holds since when so many lanes are busy, the time at each density
 * until then, and the MT1 clock: it goes at the speed of a lane at that density, at 1 where that is the
 * only one online (SMT is off). The prorated clock goes at 1 over the lanes that are busy. All follow for
 * any later moment from the record alone. So do the clocks of critical work and of forced idleness
 * (forced.bpf.h). A lane that falls idle or becomes busy, or that begins or ends critical work, writes the
 * next record beside and makes it the current one by one compare-and-swap.
 * Each lane has two records and never writes the current one. So has the reader: no lane writes
 * a record that begins before what was told.
 *
 * Cost: a record is written only when that changes; reading is one look at it.
 *
 * Does not: know what interrupts took of idle lanes.
 */
#ifndef SIDELANE_DENSITY_BPF_H
#define SIDELANE_DENSITY_BPF_H

#include "forced.bpf.h"

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
CONSTANT u32 nr_online = 1; /* lanes, at the beginning */

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

/* The clocks of @record at @now_ns, when that of waiting batch shows @waits_ns. */
static __always_inline void clocks_at(struct core_clocks *clocks,
				      const struct density_record *record, u64 now_ns, u64 waits_ns)
{
	u64 passed_ns = counted_ns(record->at_ns, now_ns), idle_ns;

	clocks->mt1 = record->clocks.mt1 + passed_ns * record->speed;
	clocks->prorated = record->clocks.prorated + passed_ns * record->share;
	clocks->critical_ns = record->clocks.critical_ns + (record->critical ? passed_ns : 0);
	clocks->forced = record->clocks.forced;
	if (record->kept && record->critical) {
		idle_ns = forced_ns(record, passed_ns, waits_ns) * record->kept;
		clocks->forced += (idle_ns << METRICS_SPEED_SHIFT) / record->critical;
	}
}

/* Lanes of a core, packed: busy | with critical work << 16 | online << 32. */
#define BUSY_OF(lanes) ((u32)(lanes) & 0xffff)
#define CRITICAL_OF(lanes) ((u32)((lanes) >> 16) & 0xffff)
#define ONLINE_OF(lanes) ((u32)((lanes) >> 32))

/* The lanes of @core_id: counted anew each time, so that it cannot drift. */
VERIFIED_ONCE u64 core_lanes(u32 core_id)
{
	struct metrics_core *core = core_of(core_id);
	u64 lanes = 0;
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		u32 key = core->first_lane + i;
		u32 *cpu = bpf_map_lookup_elem(&metrics_core_lanes, &key);
		struct metrics_lane *lane = cpu ? lane_of(*cpu) : NULL;

		if (!lane)
			continue;
		if (READ_ONCE(lane->busy))
			lanes += 1;
		if (READ_ONCE(lane->class) == CLASS_CRITICAL + 1)
			lanes += 1ULL << 16;
		if (READ_ONCE(lane->online))
			lanes += 1ULL << 32;
	}
	return lanes;
}

/* Copies @from to @to as it is at @now_ns. */
static __always_inline void record_advance(struct density_record *to,
					   const struct density_record *from, u32 nr_lanes,
					   u64 now_ns)
{
	u64 passed_ns = counted_ns(from->at_ns, now_ns);
	u64 waits_ns = waits_after(from->waits_ns, now_ns);
	u32 i, busy = from->busy;

	to->at_ns = now_ns > from->at_ns ? now_ns : from->at_ns;
	to->waits_ns = waits_ns;
	clocks_at(&to->clocks, from, now_ns, waits_ns);
	to->forced_idle_ns = from->forced_idle_ns +
			     forced_ns(from, passed_ns, waits_ns) * from->kept;
	to->busy = busy;
	to->speed = from->speed;
	to->share = from->share;
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
	u32 busy, online;
	u64 lanes;

	if (!core || !from || !to)
		return 0;
	record_advance(to, from, core->nr_lanes, now_ns);
	lanes = core_lanes(core_id);
	busy = BUSY_OF(lanes);
	online = ONLINE_OF(lanes);
	to->busy = busy;
	to->speed = control.speeds[BOUNDED(busy, METRICS_LANES_MAX + 1)];
	if (busy == 1 && online == 1)
		to->speed = 1 << METRICS_SPEED_SHIFT;
	to->share = busy ? (1 << METRICS_SPEED_SHIFT) / busy : 0;
	to->critical = CRITICAL_OF(lanes);
	to->kept = 0;
	if (to->critical && online > busy && batch_kept_away(core->scheduler_core))
		to->kept = online - busy;
	to->bound = READ_ONCE(core->bound) > 0;
	return 0;
}

#define NO_RECORD 0xffffffff

/*
 * A lane of @core_id has changed, or a reader asks: a new record, one of the two from @first
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

/* Writes the clocks of @core at @now_ns into @lane->now; false: they changed meanwhile. */
static __always_inline bool core_clocks_try(struct metrics_core *core, struct metrics_lane *lane,
					    u64 now_ns)
{
	u64 current = READ_ONCE(core->current);
	struct density_record *record = record_of((u32)current);

	if (!record)
		return true;
	clocks_at(&lane->now, record, now_ns, waits_after(record->waits_ns, now_ns));
	fence(lane);
	return READ_ONCE(core->current) == current;
}

/* Writes the clocks of @core_id at @now_ns into lane->now of @cpu, which is the caller's. */
VERIFIED_ONCE int core_clocks_read(u32 core_id, u32 cpu, u64 now_ns)
{
	struct metrics_core *core = core_of(core_id);
	struct metrics_lane *lane = lane_of(cpu);
	u32 try;

	if (!core || !lane)
		return 0;
	/* nearly always at the first try, without the calls that a loop makes */
	if (core_clocks_try(core, lane, now_ns))
		return 0;
	bpf_for(try, 1, TRIES) {
		if (core_clocks_try(core, lane, now_ns))
			return 0;
	}
	__sync_fetch_and_add(&control.lost, 1);
	return 0;
}

/*
 * Copies what @core_id did until now for the reader. A record is made of it, so that no lane
 * writes one that begins earlier: what was told stays. A reader that finds its reading's number in it may use
 * what it says.
 */
VERIFIED_ONCE int view_core(u32 core_id)
{
	struct density_record *view = bpf_map_lookup_elem(&metrics_view, &core_id), *record;
	struct metrics_core *core = core_of(core_id);

	record = record_of(core_changed(core_id, (nr_lanes + core_id) * 2));
	if (!core || !view || !record)
		return 1;
	record_advance(view, record, core->nr_lanes, 0);
	__sync_lock_test_and_set(&view->reading, control.reading);
	return 0;
}

/* The same for the lane @cpu, as of the moment of its core's. */
VERIFIED_ONCE int view_lane(u32 cpu)
{
	u64 *view = bpf_map_lookup_elem(&metrics_lane_view, &cpu);
	struct metrics_lane *lane = lane_of(cpu);
	struct density_record *core_view;
	u32 core, try;

	if (!view || !lane)
		return 0;
	core = lane->core;
	core_view = bpf_map_lookup_elem(&metrics_view, &core);
	if (!core_view)
		return 0;
	bpf_for(try, 0, TRIES) {
		u64 changes = READ_ONCE(lane->changes), busy_ns;

		fence(lane);
		busy_ns = lane->busy_ns;
		if (lane->pid && lane->start_ns)
			busy_ns += counted_ns(lane->start_ns, core_view->at_ns);
		fence(lane);
		if (!(changes & 1) && READ_ONCE(lane->changes) == changes) {
			*view = busy_ns;
			return 0;
		}
	}
	return 1;
}

#endif /* SIDELANE_DENSITY_BPF_H */
