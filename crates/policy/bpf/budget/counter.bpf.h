/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Counters: what critical work loses beside batch, measured.
 *
 * Problem: threadPerf says what a thread loses on average; this critical work beside this
 * batch may lose half of that, or twice.
 *
 * Rule: at each context switch and tick of a lane its counters of instructions and cycles are
 * read. What passed since the last reading is an interval of the task that ran. If that is
 * critical, its core tells how much of it batch ran beside, and whether anything else did: then
 * the interval is left out. One without batch counts to the IPC alone, one with batch all the time
 * to the IPC beside. Of one that is neither, the part alone is taken to have gone at the IPC
 * alone, once that is known; the rest of its instructions and cycles was beside. Without that a
 * budget shorter than a tick would never be seen.
 *
 * Each budget (of the settings, of a rule) has both IPCs, as sums over cycles of which the older
 * half fades with each IPC_WINDOW_CYCLES. Once both rest on IPC_INTERVALS_MIN intervals and
 * IPC_CYCLES_MIN cycles, its critical work loses 1 - beside / alone, 0 at least; until then, and
 * without counters, it is threadPerf that says what is lost (budget.bpf.h).
 *
 * Jobs that are done before their budget is used up would never run alone while there is batch.
 * So one busy period in PROBE_GAP of each core, in PROBE_GAP_UNKNOWN before the loss is known, begins
 * closed, until its next job.
 *
 * By: operations of sched_ext may not read counters, programs on tracepoints may. These are
 * loaded only where a setting wants them and the loader could open counters for each lane.
 * At the tracepoint the lane already does the next thing; so what the interval was is
 * noted when the task stops.
 *
 * Cost: two counters read each switch and tick, and another look at the siblings where a lane
 * changes; co-running in one of PROBE_GAP busy periods.
 *
 * Source: Elfen (USENIX ATC 2016): the dynamic budget, charged by the IPC beside batch against
 * the IPC alone. There the latter is measured beforehand.
 * Does not: tell batch tasks apart, nor one sibling from several. All critical work with one
 * budget is averaged. An IPC is no speed where a task spins.
 */
#ifndef SIDELANE_COUNTER_BPF_H
#define SIDELANE_COUNTER_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"

#define IPC_INTERVALS_MIN 32
#define IPC_CYCLES_MIN (1ULL << 24) /* some milliseconds */
#define IPC_WINDOW_CYCLES (1ULL << 31) /* about a second */
#define IPC_ONE (1ULL << 20)
#define PROBE_GAP 32
#define PROBE_GAP_UNKNOWN 4
/* Of an interval: shorter is not at all, and so much has to be beside if only a part is. */
#define PART_NONE 64
#define PART_BESIDE 4

/* Opened by the loader, by CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} instruction_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(u32));
	__uint(value_size, sizeof(u32));
} cycle_events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lane_count);
} lane_counts SEC(".maps");

/* By budget: that of the settings, then those of the rules. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct budget_ipc);
} sidelane_ipc SEC(".maps");

static __always_inline struct lane_count *lane_count(u32 cpu)
{
	return bpf_map_lookup_elem(&lane_counts, &cpu);
}

static __always_inline struct budget_ipc *budget_ipc(u32 index)
{
	return bpf_map_lookup_elem(&sidelane_ipc, &index);
}

/*
 * What the critical task of @core_id has beside it now: enum company. Without one, or with
 * several, mixed.
 */
static __always_inline u32 company_now(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	u32 i, company = COMPANY_NONE;
	bool critical = false;

	if (!core)
		return COMPANY_MIXED;
	bpf_for(i, 0, core->nr_lanes) {
		struct lane_ctx *lane = lane_ctx(core_lane(core, i));
		u32 state = lane ? lane->state : LANE_OTHER;

		/* no counting: the verifier would follow each number */
		if (state == LANE_BATCH)
			company = COMPANY_BATCH;
		else if (state == LANE_CRITICAL && !critical)
			critical = true;
		else if (state != LANE_IDLE && state != LANE_HELD)
			return COMPANY_MIXED;
	}
	return critical ? company : COMPANY_MIXED;
}

/* How long @core has had this company by @now_ns, in all. */
static __always_inline u64 company_total_ns(const struct core_ctx *core, u32 company, u64 now_ns)
{
	u64 total_ns = company == COMPANY_BATCH ? core->beside_ns : core->mixed_ns;

	if (core->company == company && now_ns > core->company_ns)
		total_ns += now_ns - core->company_ns;
	return total_ns;
}

/*
 * The lanes of @core_id have changed. Lanes may come here at the same time: the one that takes the old
 * moment charges for the time since.
 */
VERIFIED_ONCE int company_update(u32 core_id, u64 now_ns)
{
	u32 company = company_now(core_id), before;
	struct core_ctx *core = core_ctx(core_id);
	u64 since_ns;

	if (!core)
		return 0;
	before = core->company;
	since_ns = core->company_ns;
	if (company == before ||
	    __sync_val_compare_and_swap(&core->company_ns, since_ns, now_ns) != since_ns)
		return 0;
	core->company = company;
	if (now_ns <= since_ns)
		return 0;
	if (before == COMPANY_BATCH)
		__sync_fetch_and_add(&core->beside_ns, now_ns - since_ns);
	else if (before == COMPANY_MIXED)
		__sync_fetch_and_add(&core->mixed_ns, now_ns - since_ns);
	return 0;
}

/* IPC in parts of IPC_ONE; 0: not known well enough. */
static __always_inline u64 ipc_of(const struct ipc_sum *sum)
{
	if (sum->intervals < IPC_INTERVALS_MIN || sum->cycles < IPC_CYCLES_MIN)
		return 0;
	return sum->instructions * IPC_ONE / sum->cycles;
}

/* Adds to what critical work with budget @index did in one company. */
VERIFIED_ONCE int ipc_add(u32 index, u32 company, u64 instructions, u64 cycles)
{
	struct budget_ipc *ipc = budget_ipc(index);
	struct ipc_sum *sum;
	u64 sum_cycles;

	if (!ipc)
		return 0;
	sum = &ipc->sums[BOUNDED(company, NR_COMPANIES)];
	sum_cycles = __sync_fetch_and_add(&sum->cycles, cycles) + cycles;
	__sync_fetch_and_add(&sum->instructions, instructions);
	__sync_fetch_and_add(&sum->intervals, 1);
	/* the lane that halves the one halves the other; what is added meanwhile is added to both */
	if (sum_cycles > IPC_WINDOW_CYCLES &&
	    __sync_val_compare_and_swap(&sum->cycles, sum_cycles, sum_cycles / 2) == sum_cycles)
		__sync_fetch_and_sub(&sum->instructions, sum->instructions / 2);
	return 0;
}

/* The interval of the lane @cpu that ends: what it was has been noted. */
VERIFIED_ONCE int ipc_interval(u32 cpu, u64 instructions, u64 cycles)
{
	struct lane_count *count = lane_count(cpu);
	struct budget_ipc *ipc = count ? budget_ipc(count->budget) : NULL;
	u64 span_ns, beside_ns, alone, beside, apart, done;

	if (!ipc)
		return 0;
	span_ns = count->span_ns;
	beside_ns = count->beside_ns;
	if (!span_ns || !cycles || cycles > IPC_WINDOW_CYCLES || instructions > IPC_WINDOW_CYCLES)
		return 0; /* no such interval: a counter was set anew */
	alone = ipc_of(&ipc->sums[COMPANY_NONE]);
	if (beside_ns <= span_ns / PART_NONE) {
		ipc_add(count->budget, COMPANY_NONE, instructions, cycles);
	} else if (beside_ns >= span_ns - span_ns / PART_NONE) {
		ipc_add(count->budget, COMPANY_BATCH, instructions, cycles);
	} else if (alone && beside_ns >= span_ns / PART_BESIDE) {
		apart = (span_ns - beside_ns) * SPEED_ONE / span_ns * cycles / SPEED_ONE;
		done = apart * alone / IPC_ONE;
		if (done < instructions && apart < cycles)
			ipc_add(count->budget, COMPANY_BATCH, instructions - done, cycles - apart);
	}
	alone = ipc_of(&ipc->sums[COMPANY_NONE]);
	beside = ipc_of(&ipc->sums[COMPANY_BATCH]);
	if (!alone || !beside)
		return 0;
	ipc->loss = beside < alone ? (alone - beside) * SPEED_ONE / alone : 0;
	ipc->known = 1;
	return 0;
}

/* Is it known what critical work with budget @index loses beside batch? Then *@loss of SPEED_ONE. */
static __always_inline bool counted_loss(u32 index, u64 *loss)
{
	struct budget_ipc *ipc = fixed.counters ? budget_ipc(index) : NULL;

	if (!ipc || !ipc->known)
		return false;
	*loss = ipc->loss;
	return true;
}

/*
 * Is the busy period that begins now, with a task with budget @index, to show how critical work
 * does alone?
 */
static __always_inline bool probe_due(struct core_ctx *core, u32 index)
{
	u64 loss;
	u32 gap = counted_loss(index, &loss) ? PROBE_GAP : PROBE_GAP_UNKNOWN;

	return fixed.counters && core->periods++ % gap == 0;
}

/* A task with budget @index begins to run on the lane of this CPU. */
static __always_inline void count_begins(u32 cpu, u32 index)
{
	struct lane_count *count = fixed.counters ? lane_count(cpu) : NULL;

	if (count)
		count->next_budget = index;
}

/*
 * The interval of the critical task on the lane of this CPU ends now, or with the next reading:
 * notes what it was. Of other tasks, and of intervals that are left out, it has no length.
 */
static __always_inline void count_ends(u32 cpu, u64 now_ns)
{
	struct lane_count *count = fixed.counters ? lane_count(cpu) : NULL;
	struct lane_ctx *lane = count ? lane_ctx(cpu) : NULL;
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	u64 span_ns, beside_ns, mixed_ns;

	if (!core)
		return;
	count->span_ns = 0;
	if (lane->state != LANE_CRITICAL || !count->read_ns || now_ns <= count->read_ns)
		return;
	company_update(lane->core, now_ns);
	span_ns = now_ns - count->read_ns;
	beside_ns = company_total_ns(core, COMPANY_BATCH, now_ns) - count->core_beside_ns;
	mixed_ns = company_total_ns(core, COMPANY_MIXED, now_ns) - count->core_mixed_ns;
	if (mixed_ns > span_ns / PART_NONE || beside_ns > span_ns)
		return;
	count->budget = count->next_budget;
	count->beside_ns = beside_ns;
	count->span_ns = span_ns;
}

/* Reads the counters of this CPU: an interval of @p (NULL: of an unknown task) ends and another begins. */
static __always_inline void count_read(u32 cpu, struct task_struct *p, u64 now_ns)
{
	struct bpf_perf_event_value instructions = {}, cycles = {};
	struct lane_count *count = lane_count(cpu);
	struct lane_ctx *lane = lane_ctx(cpu);
	struct core_ctx *core = lane ? core_ctx(lane->core) : NULL;
	u64 since_ns;

	if (!count || !core)
		return;
	since_ns = count->read_ns;
	count->read_ns = 0;
	if (bpf_perf_event_read_value(&instruction_events, BPF_F_CURRENT_CPU, &instructions,
				      sizeof(instructions)) ||
	    bpf_perf_event_read_value(&cycle_events, BPF_F_CURRENT_CPU, &cycles, sizeof(cycles))) {
		count->span_ns = 0;
		count->profile_ns = 0;
		return;
	}
	hook_counted(p ? task_ctx(p) : NULL, count, core,
		     since_ns ? instructions.counter - count->instructions : 0, cycles.counter,
		     since_ns, now_ns);
	ipc_interval(cpu, instructions.counter - count->instructions,
		     cycles.counter - count->cycles);
	count->span_ns = 0;
	count->instructions = instructions.counter;
	count->cycles = cycles.counter;
	count->core_beside_ns = company_total_ns(core, COMPANY_BATCH, now_ns);
	count->core_mixed_ns = company_total_ns(core, COMPANY_MIXED, now_ns);
	count->read_ns = now_ns;
}

#endif /* SIDELANE_COUNTER_BPF_H */
