/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Contexts: all state of the scheduler, per task, per lane and per core.
 *
 * Nothing is hidden in the kernel's own structures, so that the same source
 * runs in the kernel and, compiled natively, in the simulator. The loader sizes
 * `lanes`, `cores` and `core_lanes` for the machine; there is no constant for
 * the number of lanes of a core.
 *
 * Core sets are bitmaps over core indices. They are hints that make searching
 * cheap: what acts on a bit looks at the lanes again. Core indices are
 * ordered by capacity, fastest first, so the first bit is the best core.
 */
#ifndef SIDELANE_TYPES_BPF_H
#define SIDELANE_TYPES_BPF_H

#include "../intf.h"

/*
 * Storage of globals: what the loader sets once before the program is loaded, and
 * what changes. Compiled natively, they are one set a simulation.
 */
#ifndef CONSTANT
#define CONSTANT const volatile
#define GLOBAL
#endif

/*
 * A function that the kernel's verifier checks by itself, once, instead of at
 * each call: external linkage, arguments that may be anything, a scalar result.
 */
#ifndef VERIFIED_ONCE
#define VERIFIED_ONCE __attribute__((noinline))
#endif

/* @value, of which the verifier knows nothing more: it follows one path from here on, not one for each way that led here. */
VERIFIED_ONCE u32 some_value(u32 value)
{
	barrier_var(value); /* else the compiler goes on with the argument */
	return value;
}

/* A loop over constants, of which no loop is left. */
#ifndef UNROLLED
#define UNROLLED _Pragma("unroll")
#endif

/* @i if it is below @n, else 0, in one register that the verifier follows. */
#define BOUNDED(i, n)                \
	({                           \
		u32 __i = (i);       \
		barrier_var(__i);    \
		__i < (n) ? __i : 0; \
	})

#define SCHED_NORMAL 0
#define SCHED_BATCH 3
#define SCHED_IDLE 5
#define SCHED_EXT 7
#define NICE_0_STATIC_PRIO 120
#define MAX_RT_PRIO 100
#define NICE_OF_STATIC_PRIO(prio) ((s32)(prio) - NICE_0_STATIC_PRIO)

/* Does a task count among those that were sent to its core's vector? */
enum in_vector {
	IN_NO_VECTOR = 0,
	IN_VECTOR = 1,
	IN_VECTOR_UNFIT = 2, /* in core->unfit, too */
	IN_VECTOR_FREE = 3, /* critical, and bound to no lane: in critical_free, too */
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct task_ctx);
} tasks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct lane_ctx);
} lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct core_ctx);
} cores SEC(".maps");

/* By enum timer; of those of which each core has one, by core: timer_of(). */
struct core_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct core_timer);
} core_timers SEC(".maps");

/* By budget: that of the settings, then those of the rules. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct objective);
} sidelane_slo SEC(".maps");

/* CPU numbers, core after core. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} core_lanes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} sidelane_stats SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pool_limit);
} sidelane_limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pool);
} sidelane_pools SEC(".maps");

/* By pool; the scheduler itself has no use for it. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pool_path);
} sidelane_paths SEC(".maps");

CONSTANT u32 nr_cores = 1;
CONSTANT u32 nr_lanes = 1; /* highest CPU number + 1 */
CONSTANT u64 tick_ns; /* between two ticks: by one a slice ends */

/*
 * Settings that stay: the verifier knows them, and leaves out what is not in use. In a map of their own,
 * by whose name other processes find them.
 */
CONSTANT struct fixed_settings fixed SEC(".rodata.sidelane");

/* Element of core_timers of the first timer of this kind; with NR_TIMERS, how many there are. */
static __always_inline u32 timer_first(enum timer kind)
{
	u32 earlier = __builtin_popcount(TIMERS_A_CORE & ((1 << kind) - 1));

	return earlier * nr_cores + (kind - earlier);
}

/* A timer of which each core has one, or all have one (@core_id is 0 then). */
static __always_inline struct core_timer *timer_of(enum timer kind, u32 core_id)
{
	return bpf_map_lookup_elem(&core_timers, &(u32){timer_first(kind) + core_id});
}

/* Settings that may be changed at run time, in a map of their own, too. */
GLOBAL struct live_settings live SEC(".data.sidelane");

/*
 * threadPerf: speed of a lane of @core while @busy lanes of it run, of SPEED_ONE on a core with SMT off. A core with
 * one lane has none to lose by. Without a known threadPerf sharing counts for nothing.
 */
static __always_inline u32 thread_perf(const struct core_ctx *core, u32 busy)
{
	u32 i = BOUNDED(busy ? busy - 1 : 0, MAX_LANES_PER_CORE);
	u32 speed = core->nr_lanes > 1 ? live.thread_perf[i] : 0;

	return speed ? speed : SPEED_ONE;
}

/*
 * Which cores are in which condition. A member may be so no longer (core_settle()); a core that is no member is not, once what runs on
 * its lanes has begun.
 */
enum core_set {
	CORES_IDLE, /* every lane is idle */
	CORES_LENT, /* some lanes run batch, the others idle */
	CORES_OPEN, /* no critical work */
	CORES_WITH_ROOM, /* a lane is idle, the core is not parked, and batch may run beside what critical work it has */
	CORES_FOR_BATCH, /* the same, and batch may use that lane */
	CORES_SLOWED, /* several lanes run critical work, or any does and there are faster cores */
	CORES_FREE, /* a lane idles, is held or runs batch */
	CORES_QUEUED, /* + class: the vector of that class is not empty */
	NR_CORE_SETS = CORES_QUEUED + NR_CLASSES,
};

/* Of 64 cores, which are in each set: what a core is stands in one or two cache lines. */
struct core_word {
	u64 sets[NR_CORE_SETS];
} __attribute__((aligned(64)));

GLOBAL struct core_word core_words[CORE_SET_WORDS];

/* By set: which of these words have a member. */
GLOBAL u64 core_some[NR_CORE_SETS] __attribute__((aligned(64)));
_Static_assert(CORE_SET_WORDS <= 64, "a bit for each word of a set");

/* What 64 cores are, the one of @core among them, or NULL. */
static __always_inline struct core_word *core_word_of(u32 core)
{
	u32 word = core / 64;

	/* the verifier has to see the compare and the access in one register */
	barrier_var(word);
	return word < CORE_SET_WORDS ? &core_words[word] : NULL;
}

/* The word of @set that holds cores 64 * @word ..., or NULL. */
static __always_inline u64 *core_set_word(u32 set, u32 word)
{
	/* the verifier has to see the compare and the access in one register */
	barrier_var(word);
	if (!__builtin_constant_p(set))
		barrier_var(set);
	return word < CORE_SET_WORDS && set < NR_CORE_SETS ? &core_words[word].sets[set] : NULL;
}

/* Takes the first member out of a word of a core set; the caller knows there is one. */
static __always_inline u32 take_first(u64 *members)
{
	u32 first = __builtin_ctzll(*members);

	*members &= *members - 1;
	return first;
}

static __always_inline bool core_set_test(u32 set, u32 core)
{
	u64 *word = core_set_word(set, core / 64);

	return word && (*word & (1ULL << (core & 63)));
}

/* Which words of @set have a member: bit n, word n. */
static __always_inline u64 core_set_words(u32 set)
{
	return *(volatile u64 *)&core_some[__builtin_constant_p(set) ? set
								     : BOUNDED(set, NR_CORE_SETS)];
}

/* Has the set a member? */
static __always_inline bool core_set_some(u32 set)
{
	return core_set_words(set) != 0;
}

/* All cores, as a task's allowed_cores. */
#define ALL_CORES (~0ULL)

/* The first member of @set from core @from on that is in @also, too, and in @allowed; -1: none. */
VERIFIED_ONCE s32 core_set_next(u32 set, u32 also, u32 from, u64 allowed)
{
	u64 words = core_set_words(set) & core_set_words(also) & ~0ULL << (from / 64 & 63);
	u32 i;

	if (from >= MAX_CORES)
		return -1;
	bpf_for(i, 0, CORE_SET_WORDS) {
		u32 w = words ? take_first(&words) : CORE_SET_WORDS;
		u64 *one = core_set_word(set, w), *other = core_set_word(also, w), members;

		if (!one || !other)
			break;
		members = *one & *other & allowed;
		if (w == from / 64)
			members &= ~0ULL << (from & 63);
		if (members)
			return w * 64 + take_first(&members);
	}
	return -1;
}

/*
 * The member of @set that is in @also, too, and in @allowed, and follows @last, or the first (@last: -1), in a circle that
 * begins at @first; -1: none.
 */
VERIFIED_ONCE s32 core_set_around(u32 set, u32 also, u32 first, s32 last, u64 allowed)
{
	bool turned = last >= 0 && (u32)last < first;
	s32 id = core_set_next(set, also, last < 0 ? first : (u32)last + 1, allowed);

	if (id < 0 && !turned) {
		id = core_set_next(set, also, 0, allowed);
		turned = true;
	}
	return turned && id >= (s32)first ? -1 : id;
}

/* Has the set a member other than @except? */
static __always_inline bool core_set_any(u32 set, u32 except)
{
	u64 words = core_set_words(set), *word;

	if (!words)
		return false;
	if (words & ~(1ULL << (except / 64 & 63)))
		return true;
	word = core_set_word(set, except / 64);
	return word && (*word & ~(1ULL << (except & 63)));
}

/* Puts @core into @set. */
static __always_inline void core_set_add(u64 *word, u32 set, u32 core)
{
	if (!__sync_fetch_and_or(word, 1ULL << (core & 63)))
		__sync_fetch_and_or(&core_some[BOUNDED(set, NR_CORE_SETS)],
				    1ULL << (core / 64 & 63));
}

/* Takes @core out of @set. A core that is added to an emptied word meanwhile is seen here, or sees that. */
static __always_inline void core_set_remove(u64 *word, u32 set, u32 core)
{
	u64 bit = 1ULL << (core & 63), some = 1ULL << (core / 64 & 63);
	u64 *words = &core_some[BOUNDED(set, NR_CORE_SETS)];

	if (__sync_fetch_and_and(word, ~bit) & ~bit)
		return;
	if (__sync_fetch_and_and(words, ~some) && *(volatile u64 *)word)
		__sync_fetch_and_or(words, some);
}

/* Puts @core into @set, or takes it out; no such set: nothing. */
static __always_inline void core_set_put(u32 set, u32 core, bool member)
{
	u64 *word = core_set_word(set, core / 64);

	if (word && member)
		core_set_add(word, set, core);
	else if (word)
		core_set_remove(word, set, core);
}

/* The same apart, since it is seldom. */
VERIFIED_ONCE int core_set_change(u32 set, u32 core, bool member)
{
	core_set_put(set, core, member);
	return 0;
}

/* Writes only on change: these words are read by every lane. */
static __always_inline void core_set_assign(u32 set, u32 core, bool member)
{
	if (core_set_test(set, core) != member)
		core_set_change(set, core, member);
}

static __always_inline struct lane_ctx *lane_ctx(s32 cpu)
{
	u32 key = cpu;

	return bpf_map_lookup_elem(&lanes, &key);
}

static __always_inline struct core_ctx *core_ctx(u32 core)
{
	return bpf_map_lookup_elem(&cores, &core);
}

/* Does normal and batch work keep away from @core_id? (polarize.bpf.h) */
static __always_inline bool core_parked(u32 core_id)
{
	return live.vertical && core_id >= live.cores_awake;
}

/*
 * Time on the CPU of @rq, which the kernel has locked, as of when it began to schedule. For scx_bpf_now() the kernel asks the
 * hardware's clock again once it has let go of the lock in between, as for each dispatch.
 */
static __always_inline u64 rq_clock(const struct rq *rq)
{
	return rq ? rq->clock : scx_bpf_now();
}

static __always_inline const struct rq *rq_of(s32 cpu)
{
	return bpf_per_cpu_ptr(&runqueues, cpu);
}

static __always_inline u64 clock_of(s32 cpu)
{
	return rq_clock(rq_of(cpu));
}

/* Does a higher scheduling class have work for the CPU of @rq, which the kernel has locked? Then that comes next. */
static __always_inline bool outranked(const struct rq *rq)
{
	return rq && rq->nr_running > rq->scx.nr_running;
}

/* The time, where no run queue is locked: read when it is asked for first (@now_ns: 0 until then), for the clock is not cheap. */
static __always_inline u64 clock_once(u64 *now_ns)
{
	if (!*now_ns)
		*now_ns = scx_bpf_now();
	return *now_ns;
}

static __always_inline struct task_ctx *task_ctx(struct task_struct *p)
{
	return bpf_task_storage_get(&tasks, p, 0, 0);
}

/* May @p run on one lane only? */
static __always_inline bool is_bound(const struct task_struct *p)
{
	return p->nr_cpus_allowed == 1;
}

/* A kernel thread that is bound to one lane: the housekeeping of that. */
static __always_inline bool is_pinned_kthread(const struct task_struct *p)
{
	return (p->flags & PF_KTHREAD) && is_bound(p);
}

/* How a critical job moves to a better core (promote.bpf.h). */
enum promotion_step {
	PROMOTION_BEGUN, /* a core is reserved for it, and its lane was asked to let it go */
	PROMOTION_DONE, /* it is on its way to a lane there */
	PROMOTION_DROPPED, /* it stays */
};

/* The class of a task: enum task_class. */
static __always_inline u32 task_class(const struct task_ctx *tctx)
{
	return BOUNDED(tctx->class, NR_CLASSES);
}

/* CPU number of lane @i of @core, or -1. */
static __always_inline s32 core_lane(const struct core_ctx *core, u32 i)
{
	u32 key = core->first_lane + i;
	u32 *cpu = bpf_map_lookup_elem(&core_lanes, &key);

	return cpu ? (s32)*cpu : -1;
}

/* The first of the lanes of @core that are for batch; fixed.batch_lanes of 0: all but the first, if it has several. */
static __always_inline u32 first_meant_for_batch(const struct core_ctx *core)
{
	u32 nr = fixed.batch_lanes;

	if (fixed.only_batch && !nr)
		return core->nr_lanes > 1;
	return core->nr_lanes > nr ? core->nr_lanes - nr : 0;
}

/* The first that batch may use now: any lane if some waits that can use none of those. */
static __always_inline u32 first_for_batch(const struct core_ctx *core)
{
	return core->unfit ? 0 : first_meant_for_batch(core);
}

#define STATE_COUNT(states, state) ((u32)((states) >> 8 * (state)) & 0xff)
#define STATE_ONE(state) (1ULL << 8 * ((state) & 7))
#define STATE_ALL(state) (0xffULL << 8 * (state))
_Static_assert(NR_LANE_STATES <= 8 && MAX_LANES_PER_CORE < 256, "states are counted in 64 bits");

/* How many lanes of @core are in each state: eight bits for each. */
static __always_inline u64 states_of(const struct core_ctx *core)
{
	return *(volatile const u64 *)&core->states;
}

/* The same, by the core's index. */
static __always_inline u64 core_states(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	return core ? states_of(core) : 0;
}

/* Does every lane of @core idle? */
static __always_inline bool core_idles(const struct core_ctx *core)
{
	return STATE_COUNT(states_of(core), LANE_IDLE) == core->nr_lanes;
}

/* In which states any lane is: bit n, state n. One bit of each byte that is not 0, gathered by a product. */
static __always_inline u32 states_present(u64 states)
{
	u64 low = 0x7f7f7f7f7f7f7f7fULL, some = (((states & low) + low) | states) & ~low;

	return ((some >> 7) * 0x0102040810204080ULL) >> 56;
}

/* Counts a lane of @core that went from state @from to @to. */
static __always_inline void core_counts(struct core_ctx *core, u32 from, u32 to)
{
	if (core && from != to)
		__sync_fetch_and_add(&core->states, STATE_ONE(to) - STATE_ONE(from));
}

/*
 * Puts @lane, of @core, into @state. A lane's state is written here and in lane_state_take() only,
 * each time by one atomic exchange: so each change is counted once, and core->states cannot drift. A full
 * barrier: a sibling that changes at the same time sees this lane, or this lane sees it. A state that
 * stays was seen before.
 */
static __always_inline void lane_state_put(struct lane_ctx *lane, struct core_ctx *core, u32 state)
{
	if (*(volatile u32 *)&lane->state != state)
		core_counts(core, __sync_lock_test_and_set(&lane->state, state), state);
}

/* The same from any CPU, if @lane is in state @from. The state in which it was. */
static __always_inline u32 lane_state_take(struct lane_ctx *lane, struct core_ctx *core, u32 from,
					   u32 to)
{
	u32 state = __sync_val_compare_and_swap(&lane->state, from, to);

	if (state == from)
		core_counts(core, from, to);
	return state;
}

/* How many lanes of @core_id are in @state. */
static __always_inline u32 lanes_in_state(u32 core_id, u32 state)
{
	return STATE_COUNT(core_states(core_id), state);
}

/* Of the lanes of @core, which have @states: that run something. */
static __always_inline u32 states_busy(const struct core_ctx *core, u64 states)
{
	return core->nr_lanes - STATE_COUNT(states, LANE_IDLE) - STATE_COUNT(states, LANE_HELD);
}

/* How many lanes of @core_id run critical or normal work, or are about to run something. */
static __always_inline u32 lanes_foreground(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 states = core_states(core_id);

	return core ? states_busy(core, states) - STATE_COUNT(states, LANE_BATCH) : 0;
}

/* How many lanes of @core_id are busy. */
static __always_inline u32 lanes_busy(u32 core_id)
{
	struct core_ctx *core = core_ctx(core_id);

	return core ? states_busy(core, core_states(core_id)) : 0;
}

static __always_inline struct counters *counters(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&sidelane_stats, &zero);
}

/* Was a critical task sent to @core, or is one about to be, that has not begun to run? */
static __always_inline bool critical_expected(const struct core_ctx *core)
{
	return *(volatile const u32 *)&core->expected > 0;
}

#define count_add(field, n)                        \
	({                                         \
		struct counters *__c = counters(); \
		if (__c)                           \
			__c->field += (n);         \
	})
#define count(field) count_add(field, 1)

#endif /* SIDELANE_TYPES_BPF_H */
