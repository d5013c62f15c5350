/* SPDX-License-Identifier: GPL-2.0-only */
/* The scheduler's own source, compiled to native code, and access to its globals. */
#include <scx/common.bpf.h>
#include "main.bpf.c"

/* What stands for each map in this thread: a table of the simulation's. */
struct native_table {
	char *elements;
	u32 nr_elements;
};
static _Thread_local struct native_table tables[NR_TABLES];

/* Gives a map its elements, which stay the caller's. */
void native_set_table(enum native_map map, void *elements, u32 nr_elements)
{
	tables[map].elements = elements;
	tables[map].nr_elements = nr_elements;
}

/* Of the simulated kernel. */
struct cgroup_known *native_cgroup(u64 id);
struct cgroup_demand *native_cgroup_demand(u64 id);

/* All programs of a simulation have one job board, if it has any. */
static const struct job_board job_board_of_all;
static const u32 one_job_board = 1;

/* Which table stands for a map: known when a call is compiled. */
static __always_inline enum native_map table_of(const void *map)
{
	if (map == &lanes)
		return LANES;
	if (map == &core_lanes)
		return CORE_LANES;
	if (map == &cores)
		return CORES;
	if (map == &sidelane_stats)
		return COUNTERS;
	if (map == &core_timers)
		return CORE_TIMERS;
	if (map == &sidelane_slo)
		return OBJECTIVES;
	if (map == &job_board_of_all)
		return JOB_SLOTS_OF_ALL;
	if (map == &lane_counts)
		return LANE_COUNTS;
	if (map == &sidelane_ipc)
		return BUDGET_IPCS;
	if (map == &sidelane_limits)
		return POOL_LIMITS;
	if (map == &sidelane_pools)
		return POOLS;
	return map == &rules ? RULES : NR_TABLES;
}

/* One board for all programs, each of one thread, that have a slot there. */
static void *native_job_board(struct job_board_key program)
{
	const struct job_slot *slots = (const void *)tables[JOB_SLOTS_OF_ALL].elements;

	return slots && slots[program.tgid % JOB_SLOTS].tid == program.tgid
		       ? (void *)&job_board_of_all
		       : NULL;
}

static __always_inline void *native_map_element(const void *map, const void *key, size_t key_size,
						size_t value_size)
{
	enum native_map table;
	u32 element;

	if (map == &job_boards)
		return native_job_board(*(const struct job_board_key *)key);
	if (map == &job_boards_kept)
		return tables[JOB_SLOTS_OF_ALL].elements ? (void *)&one_job_board : NULL;
	if (map == &cgroup_demands)
		return native_cgroup_demand(*(const u64 *)key);
	if (key_size == sizeof(u64))
		return native_cgroup(*(const u64 *)key);
	table = table_of(map);
	element = *(const u32 *)key;
	if (table == NR_TABLES || element >= tables[table].nr_elements)
		return NULL;
	return tables[table].elements + element * value_size;
}

/* Sets what the loader sets before it attaches, and forgets what an earlier simulation left. */
void native_reset(u32 cores_wanted, u32 lanes_wanted, u64 tick_wanted,
		  const struct fixed_settings *fixed_wanted,
		  const struct live_settings *live_wanted)
{
	nr_cores = cores_wanted;
	nr_lanes = lanes_wanted;
	tick_ns = tick_wanted;
	fixed = *fixed_wanted;
	live = *live_wanted;
	vtime_stride = 0;
	critical_free = 0;
	critical_free_since_ns = 0;
	pools_begun = 0;
	window_armed = 0;
	polar_armed = 0;
	polar_low = 0;
	pair_armed = 0;
	pair_seen = 0;
	pair_period = 0;
	batch_wanting = 0;
	batch_left_ns = 0;
	others_followed = 0;
	live.cores_awake = cores_wanted;
	__builtin_memset(core_words, 0, sizeof(core_words));
	__builtin_memset(core_some, 0, sizeof(core_some));
}

/* Sets what may change while the scheduler is attached. */
void native_set_smt_level(u32 level)
{
	live.smt_level = level;
}

void native_timer_set(u32 element, u64 after_ns); /* of the simulated kernel */

long native_timer_start(const struct bpf_timer *timer, u64 after_ns)
{
	size_t offset = (const char *)timer - tables[CORE_TIMERS].elements;

	native_timer_set(offset / sizeof(struct core_timer), after_ns);
	return 0;
}

/* Of the simulated kernel: instructions, cycles, cycles for which memory is waited for. */
u64 native_counter(u32 which);

long native_perf_event_read(const void *map, struct bpf_perf_event_value *value)
{
	if (map == &miss_events)
		value->counter = native_counter(2) / fixed.miss_cycles;
	else
		value->counter = native_counter(map == &cycle_events);
	return 0;
}

/* The speed of a task with these components beside another, of SPEED_ONE. */
u64 native_symbiosis_speed(const struct fixed_settings *model, const u64 own[3], const u64 other[3])
{
	fixed = *model;
	return symbiosis_speed(profile_word(own[0], own[1], own[2]),
			       profile_word(other[0], other[1], other[2]));
}

/* A period of @timeout ends, in which so much was done. */
void native_timeout_step(struct timeout *timeout, const struct fixed_settings *bounds,
			 const struct timeout_done *done)
{
	fixed = *bounds;
	timeout_step(timeout, done);
}

/* The one in force. */
u64 native_timeout_now_ns(const struct timeout *timeout, const struct fixed_settings *bounds)
{
	fixed = *bounds;
	return timeout->other ? timeout_other_ns(timeout) : timeout->best_ns;
}

/* A timer rings. */
void native_timer_ring(u32 element)
{
	static int (*const rings[NR_TIMERS])(void *, u32 *, struct core_timer *) = {
		[TIMER_BUDGET] = budget_timer,	[TIMER_WINDOW] = budget_timer,
		[TIMER_POLARIZE] = polar_timer, [TIMER_POOLS] = pool_timer,
		[TIMER_RETAIN] = retain_timer,	[TIMER_PAIR] = pair_timer,
	};
	enum timer kind = NR_TIMERS - 1;
	struct core_timer *timer;
	u32 key = element;

	if (element >= tables[CORE_TIMERS].nr_elements)
		return;
	timer = (struct core_timer *)tables[CORE_TIMERS].elements + element;
	while (kind && element < timer_first(kind))
		kind--;
	rings[kind](&core_timers, &key, timer);
}

/* Does the scheduler know that the vector may have a task? */
bool native_vector_hinted(u32 core, u32 class)
{
	return vector_hinted(core, class);
}

/* Does the scheduler keep up with what lanes run that are not its own? */
bool native_others_followed(void)
{
	return others_followed;
}
