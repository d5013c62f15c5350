/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Layouts shared by the BPF scheduler, its loader (Rust, through bindgen) and
 * the simulator. Plain C: no kernel header is needed to read it.
 */
#ifndef SIDELANE_INTF_H
#define SIDELANE_INTF_H

#ifndef __VMLINUX_H__
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#endif

/* Limits; the loader refuses a machine or a configuration beyond them. */
enum limits {
	MAX_CORES = 4096,
	CORE_SET_WORDS = MAX_CORES / 64,
	POOL_DEPTH_MAX = 32, /* pools within pools */
	POOL_PATH_LEN = 4096, /* the kernel's PATH_MAX */
	MAX_LANES_PER_CORE = 64,
	COMM_LEN = 16,
	EXE_NAME_LEN = 64,
	PAIR_BUCKETS = 32, /* of retention rates */
	PROFILE_BITS = 21, /* of each component in a profile: base, waiting, miss */
	PROFILE_MIN = 8, /* after so many intervals a task's profile is known (profile.bpf.h) */
};

/* 1 in fixed point, as threadPerf is given. */
#define SPEED_ONE 1024

/* Overdue work has one part in so many of a lane (overdue.bpf.h). */
#define OVERDUE_PARTS 3
/* The timer of a dynamic budget is not set for less: so late a core may close that was charged slowly first. */
#define BUDGET_GRAIN_NS 20000ULL
/* Nor for less while what waits closes the core: the clock may stand still then. */
#define BUDGET_WAITS_NS 200000ULL

/* Old first (old.bpf.h). What has not slept for so many slices of its own takes turns. */
#define OLD_SLICES 2
/* A burst up to this long is brief. It may run beside critical work: no more than batch does that is overdue. */
#define BRIEF_NS 1000000ULL
/* Sets of threads of a program that share a core (spread.bpf.h); those of larger programs share sets. */
#define GATHER_SETS 8
/* A task's mean burst: earlier ones together weigh one less of so many. */
#define BURST_WEIGHT 8
/* What is brief counts as so much older (old.bpf.h). */
#define OLD_BRIEF_NS 100000000ULL
/* For each step of distance beyond the last-level cache a job has to be older by a slice / so much than those nearer. */
#define OLD_MOVE_PARTS 4
/* A lane looks at so many vectors, its own and those that follow: where more have work, the oldest of these will do. */
#define OLD_LOOKS 64

/* What timers are for, in their order in core_timers. */
enum timer {
	TIMER_BUDGET, /* one a core: its budget may be used up (borrow.bpf.h) */
	TIMER_WINDOW, /* windows of objectives (objective.bpf.h) */
	TIMER_POLARIZE, /* windows of vertical polarization (polarize.bpf.h) */
	TIMER_POOLS, /* periods of pools (release.bpf.h) */
	TIMER_RETAIN, /* one a core: its lanes are no longer held (retain.bpf.h) */
	TIMER_PAIR, /* periods of pairing (adjust.bpf.h) */
	NR_TIMERS,
	TIMERS_A_CORE = 1 << TIMER_BUDGET | 1 << TIMER_RETAIN, /* of the others there is one */
};

/* The task classes, highest first. */
enum task_class {
	CLASS_CRITICAL = 0,
	CLASS_NORMAL = 1,
	CLASS_BATCH = 2,
	NR_CLASSES = 3,
};

/* What a lane does. The first NR_CLASSES values are the class that runs. */
enum lane_state {
	LANE_CRITICAL = CLASS_CRITICAL,
	LANE_NORMAL = CLASS_NORMAL,
	LANE_BATCH = CLASS_BATCH,
	LANE_IDLE = 3,
	LANE_OTHER = 4, /* looks for work, is taken over, or runs a higher scheduling class */
	LANE_HELD = 5, /* idle, held for a task that is expected back (retain.bpf.h, nap.bpf.h) */
	NR_LANE_STATES = 6,
};

/* How far apart two cores are: the steal barriers (vector.bpf.h). */
enum distance {
	DISTANCE_CORE = 0, /* the same core */
	DISTANCE_CACHE = 1, /* the same last-level cache */
	DISTANCE_NODE = 2, /* the same package and NUMA node */
	DISTANCE_REMOTE = 3, /* further */
	NR_DISTANCES = 4,
};

/* Why a task runs before all else, for a slice of its own (overdue.bpf.h). */
enum overdue {
	OVERDUE_NOT = 0, /* it does not */
	OVERDUE_BOUND = 1, /* by the starvation bound */
	OVERDUE_KTHREAD = 2, /* a kernel thread of that lane, which woke */
	NR_OVERDUE = 3,
};

/* Why a task is next on a lane, and waits in that lane's own queue (place.bpf.h). */
enum next {
	NEXT_NONE = 0, /* none does */
	NEXT_BOUND = 1, /* it may run nowhere else */
	NEXT_FOLLOWS = 2, /* it follows its waker, which is about to sleep */
	NEXT_AT_ONCE = 3, /* it took the lane over, which may have to wake first */
	NEXT_TWO = 4, /* the same, and behind it one that may run nowhere else */
};

/* One lane. The loader fills the first block, the scheduler keeps the rest. */
struct lane_ctx {
	u32 core; /* index into cores */
	u16 online; /* 1 if the scheduler may use it */
	u16 index; /* in its core */

	u32 state; /* enum lane_state */
	u32 overdue; /* enum overdue of the task that runs */
	u32 rechecked; /* 1 after the one extra dispatch of this idle period */
	u32 was_critical; /* 1 if the last task that ran was critical */
	u64 since_ns; /* when the state began */
	u64 evict_ns; /* when batch was asked to leave; 0: it was not */
	u64 job_ns; /* when the job of the critical task began that runs, or did last */
	u32 pid; /* the task that runs; 0: none */
	u32 marks; /* 1: it marks its jobs (jobs.bpf.h) */
	u32 held_pid; /* the task for which it is held, or was until it is looked at; 0: none */
	u32 held_waited; /* 1: work waited when that began */
	u64 held_ns; /* since when */
	u64 held_until_ns;
	u64 nap_until_ns; /* so long at most it is held for the nap of a task; 0: it never was */
	u32 nap_pid; /* which; 0: none (nap.bpf.h) */
	u32 nap_opened; /* core's number of openings when the first nap began since it opened */
	u32 steps_aside; /* of batch that runs: 1: it naps by itself */
	u32 fills; /* 1: what runs there makes room for I/O-bound work (pair.bpf.h) */
	u32 came; /* pair.came of its core when it made room by itself last */
	u32 kthread; /* 1: a kernel thread of this lane was sent there and does not run yet */
	u32 next; /* enum next of the task that waits in this lane's own queue */
	u32 leaves_soon; /* of the task that runs */
	u32 missed; /* from which core on its ticks look at vectors next (missed.bpf.h) */
	u32 stuck; /* the same for due work of which no lane takes care (overdue.bpf.h) */
	u32 rescues; /* from the vector of this core, + 1, it takes due work next; 0: none */
	u32 side; /* enum side of the task that ran when it was last compared with what waits (dispatch.bpf.h) */
	u64 profile; /* of the task that runs; 0: not known (profile.bpf.h) */
	u64 vtime; /* virtual time of the normal task that runs: when it began, at its last tick, or when it was last compared */
	u64 vtime_ns; /* when that was */
	u64 vtime_pace; /* how much the task has in VTIME_PACE_NS (vector.bpf.h) */
	u64 vtime_began; /* the same when it began */
	u64 reached; /* virtual time to which normal work has come that began in its turn here */
	u32 fair; /* 1: it takes normal work of another core that was behind (fair.bpf.h) */
	u32 woke; /* 1: what runs has woken a task that waits for this core */
	u32 looked; /* how many vectors it has looked at, to be fair */
	u64 slice_ends_ns; /* when the slice ends of the critical task that runs, or did last */
	u64 overdue_paid_ns[NR_OVERDUE]; /* until then such work has had its share */
	u64 timely_ns[NR_CLASSES]; /* until then nothing that waits in that vector for it is due */
	u64 forgotten_ns; /* until then nothing is, by far, of the class that it serves by itself */
} __attribute__((aligned(64)));

/* What tasks did on the cores of a last-level cache, or on one of them: those that are mostly soon back, and the others. */
struct timeout_done {
	u64 rounds; /* sleeps of the former */
	u64 work; /* of the latter */
	u64 waiting; /* so many they were */
	u64 working;
};

/* How long the lanes of the cores of a last-level cache are held (timeout.bpf.h): kept by the first of these. */
struct timeout {
	u64 best_ns; /* so far; 0: lanes were not held yet */
	u64 since_ns; /* when this period began */
	struct timeout_done done; /* in it */
	struct timeout_done before; /* in the first period of a pair */
	s64 sum; /* of the gains of all pairs with the other one */
	u64 squares;
	u32 periods; /* so far */
	u32 pairs;
	u32 second; /* 1: this period is the second of a pair */
	u32 other; /* 1: the other time-out is in force */
	u32 down; /* 1: that is the shorter one */
	u32 step; /* by how much */
	u32 failures; /* ways that have brought nothing with this step */
	u32 rest; /* periods for which nothing else is tried */
};

/* How the lanes of a core are held (retain.bpf.h). */
struct retain {
	u32 attentive; /* 1: the timer rings when holds end, so that there may be some */
	u32 woken; /* 1: a normal task woke since seen_ns, or is held */
	u64 timeout_ns
		[2]; /* of its cache: the best one, and the other; as they were when the timer rang last */
	u64 seen_ns; /* when it was looked last whether a task woke */
	struct timeout_done done; /* since the timer rang */
	u64 firsts; /* intervals of others that began with a switch, */
	u64 first_ns; /* how long they were, as time of a lane alone, */
	u64 first_done_ns; /* and in how much of that their tasks do as much otherwise */
	u32 period; /* of its cache then */
	u32 other; /* 1: the other time-out is in force */
};

/* To which lanes of a core a normal task belongs (pair.bpf.h). */
enum side {
	SIDE_CPU = 0,
	SIDE_IO = 1,
	NR_SIDES = 2,
};

/* How the tasks of a core are split, while that is done. */
struct pair_halves {
	u64 all; /* weight of all */
	u64 above; /* of those looked at so far, from the highest rate on */
	u64 apart; /* the least difference of two halves */
	u32 upper; /* then, the lowest bucket of the upper one; 0: none yet */
	u32 lower; /* and the highest of the lower one */
};

/* What the normal tasks of a core are, and which is to leave it (pair.bpf.h, adjust.bpf.h). */
struct pair {
	u32 split; /* a task with a rate of this bucket or above is I/O-bound; 0: none is */
	u32 tasks; /* so many told their rates in the last period; 0: nothing is known */
	u32 mean; /* of their rates, of RATE_ALL */
	u32 variance;
	u32 waits[NR_SIDES]; /* those that wait in the core's vector, by side */
	u32 swap_to; /* core to which a task is to go, + 1; 0: none */
	u32 swap_least; /* one with such a rate */
	u32 swap_most;
	u32 swap_back; /* 1: when it went, one is to come from there */
	u32 swapping; /* for so many periods it takes part in no other swap */
	u32 told; /* so many told their rates in this period */
	u32 came; /* I/O-bound tasks that came to the core's vector since attach */
	u32 pad;
	u64 sum; /* of these rates */
	u64 squares;
	u32 weights[PAIR_BUCKETS]; /* of these tasks, by rate */
	struct pair_halves halves;
};

/* One task. */
struct task_ctx {
	u32 class; /* enum task_class */
	u32 core; /* core whose vector it waits in, or last ran on */
	u32 misclassified; /* 1: its class has changed since it began to run */
	u32 expected; /* core that expects it, + 1; 0: none */
	u32 in_vector; /* enum in_vector */
	u32 budget; /* which one holds beside it: 0 of the settings, else of rule budget - 1 */
	u32 job_slot; /* of its program's job board (jobs.bpf.h) */
	u32 job_tid; /* what stands there, if the slot is its own; 0: it has none */
	u32 promotable; /* 1: it is critical, and runs (promote.bpf.h) */
	u32 promote_to; /* core that is reserved for it, + 1; 0: none */
	u32 promote_lane; /* CPU of the lane there that was taken over for it, + 1; 0: none yet */
	u32 yields; /* 1: it leaves its core to an older job */
	u32 job_new; /* 1: a marked job has begun, and has not had a tick yet */
	u32 returns
		[2]; /* how often it was back from sleep within each time-out of its cache (retain.bpf.h) */
	u32 short_sleeps; /* how often it was within the longest one */
	u32 timeout_period; /* of its cache, in which it was counted last */
	u32 pool; /* that it is charged to, + 1; 0: none (pool.bpf.h) */
	u32 held; /* how it came to its pool's queue; 0: it is not there (throttle.bpf.h) */
	u32 held_by; /* which pool's */
	u32 pool_pass; /* 1: it may begin to run though its pool is used up */
	u32 side; /* enum side (pair.bpf.h) */
	u32 rate; /* retention rate: moving average, of RATE_ALL */
	u32 rated; /* 1: it is known */
	u32 rate_period; /* of pair_period: in which it was brought up to date last */
	u32 overdue; /* enum overdue, once a lane has taken it for that */
	u32 spread_lane; /* CPU + 1 of the lane to which it goes (spread.bpf.h); 0: it stays */
	u32 holds; /* sleeps since then that a lane is held for */
	u32 profiled; /* intervals in its profile, up to PROFILE_MIN */
	u32 holds_per_s; /* such sleeps a second before that: retention frequency */
	u32 adoption; /* enum adoption */
	u32 steps_aside; /* batch: 1 + how often it may fail to nap by itself; 0: not known whether it does (nap.bpf.h) */
	u32 nap_lane; /* CPU + 1 of the lane where it napped last, and may be held for it; 0: none */
	u32 leaves_soon; /* 1: it runs for less than follow_waker_ns each time, so far as its ticks tell */
	u32 woke; /* pid of the last task that it woke and that might have followed it, while no lane was free (place.bpf.h) */
	u32 had; /* its policy and nice value before it was adopted: HAD; 0: it never was */
	u32 number; /* among the threads of its program, in their order (spread.bpf.h) */
	u32 threads; /* of the first thread of a program: how many it has had */
	u32 mates
		[GATHER_SETS]; /* the same: core + 1 of each set of threads that share one; 0: not known */
	u64 allowed_cores; /* that it may use: bit n, one or more of those whose number is n, modulo 64 (find.bpf.h) */
	u64 profile; /* what its cycles go into, alone: moving average (profile.bpf.h) */
	u64 pace; /* instructions in so many ns, PACE_NS, but for intervals that begin with a switch: moving average (retain.bpf.h) */
	u64 mt1; /* core's MT1 clock up to which it is charged */
	u64 held_ns; /* since when its pool keeps it from running; 0: it does not */
	u64 vtime; /* virtual time: of normal work on lanes, by weight */
	u64 weight_group; /* cgroup in which its weight counts; 0: none (weight.bpf.h) */
	u64 weight; /* as what; 0: it sleeps */
	u64 job_ns; /* critical: when its job began: it woke; else 0 */
	u64 job_mark_ns; /* its last mark that a job begins, as the board says it */
	u64 deadline_ns; /* of its marked job at the last look; 0: none */
	u64 deadline_of_ns; /* which job that was: when it began, by its mark */
	u64 jobs_seen; /* marked jobs of its slot that had ended at the last look */
	u64 queued_ns; /* when it began to wait in a vector; 0 once it runs */
	u64 due_ns; /* when it is to run at the latest; 0: it has run since, or sleeps */
	u64 running_ns; /* until when its running time is charged */
	u64 classified_ns; /* when its class was looked up last: at that tick, or at the wake-up after the sleep that began then */
	u64 class_mark; /* what it was then (classify.bpf.h) */
	u64 slept_ns; /* when it slept last */
	u64 slice_left_ns; /* with which it goes on if it wakes soon; 0: with a whole one */
	u64 held_slice_ns; /* what was left of its slice when its lane was held for it */
	u64 rate_since_ns; /* when the rate was brought up to date last */
	u64 rate_held_ns; /* how long it slept since then in such sleeps */
	u64 rate_waited_ns; /* and waited for a lane */
	u64 rate_ran_ns; /* and ran */
	u64 burst_ns; /* how long it has run since it woke */
	u64 burst_mean_ns; /* the same for earlier bursts: moving average */
};

/* One core. The loader fills the first block. */
struct core_ctx {
	u32 first_lane; /* its lanes are core_lanes[first_lane .. +nr_lanes] */
	u32 nr_lanes;
	u32 capacity; /* 1..1024 */
	u32 cache; /* index of the last-level cache */
	u32 node; /* index of (package, NUMA node) */
	u32 near; /* the first core on that cache; kept by the scheduler */
	u32 kinds; /* sets of cores in which it is for sure: bit n, set n of enum core_set; kept by the scheduler */
	u32 opened; /* how often it has lost its last critical work */
	u32 unfit; /* batch in its vector that may use none of its lanes for batch */

	u64 states; /* how many of its lanes are in each state: eight bits for each (types.bpf.h) */
	u64 settled_ns; /* when a search took it out of a set last */
	u64 reserved_ns; /* since when it is kept for a job that is promoted to it; 0: it is not */
	u64 deserted_ns; /* when such a job did not come last */
	u32 expected; /* critical tasks that were sent here, or have chosen it, and do not run yet */
	u32 sent[NR_CLASSES]; /* tasks that were sent to that vector and do not run yet */
	u32 strictest; /* of this busy period: index of its critical tasks' strictest budget */
	u32 period; /* 1 once that is known */
	u64 overlap_ns; /* since when the budget's clock runs in this busy period; 0: not yet */
	u64 charge_ns; /* dynamic budget: charged up to here; 0: batch does not run beside */
	u64 charged_ns; /* dynamic budget: used up so far */
	u64 charge_rate; /* dynamic budget: of SPEED_ONE, since charge_ns */
	u64 company_ns; /* with counters: since when it has this company */
	u64 beside_ns; /* how long it had company BATCH before that, in all */
	u64 mixed_ns; /* the same for MIXED */
	u32 company; /* enum company */
	u32 periods; /* with counters: busy periods so far */
	u32 probe; /* dynamic budget: 1 while batch stays away, to see critical work alone */
	u64 vtime; /* virtual time that normal work has reached here (vector.bpf.h) */
	u64 alone; /* how much of it was not held against tasks that ran alone (fair.bpf.h) */
	u32 closed; /* 1: critical work ran when a lane changed last, and batch had to stay away; for the collector */
	u64 used_ns; /* with vertical polarization: lane time of normal and batch work in this window */
	u64 critical_ns; /* the same of critical work */
	struct timeout timeout; /* of its cache, if it is the first core there */
	struct retain retain;
	struct pair pair;
	u64 clock_ns; /* with pools: until when the MT1 clock below is brought */
	u64 mt1; /* nanoseconds, in SPEED_ONE */
	u64 mt1_speed; /* of a lane since then, of SPEED_ONE */
	u64 crowded_ns; /* how long several of its lanes were busy, in all (profile.bpf.h) */
	u64 crowd_since_ns; /* since when they are or are not */
	u32 crowded; /* 1: they are */
} __attribute__((aligned(64)));

/* Coefficients of what a task's instruction takes beside another (symbiosis.bpf.h). */
enum symbiosis {
	SYMBIOSIS_BASE = 0, /* its base component */
	SYMBIOSIS_WAIT = 1, /* its waiting component */
	SYMBIOSIS_WAIT_WAIT = 2, /* the product of both tasks' */
	SYMBIOSIS_MISS = 3, /* its miss component */
	SYMBIOSIS_MISS_MISS = 4, /* the product of both tasks' */
	NR_SYMBIOSIS = 5,
};

/* How long batch may run beside critical work (budget.bpf.h). */
enum budget_policy {
	BUDGET_NONE = 0, /* not at all: borrow-idle */
	BUDGET_FIXED = 1,
	BUDGET_REFRESH = 2,
	BUDGET_DYNAMIC = 3,
	BUDGET_OFF = 4, /* without a limit */
	BUDGET_INHERIT = 5, /* of a rule: as the settings say */
	BUDGET_OBJECTIVE = 6, /* refresh, with a budget that follows the tail (objective.bpf.h) */
};

struct budget {
	u32 policy; /* enum budget_policy */
	u32 beyond; /* objective: of 1000 jobs, how many may be later */
	u64 budget_ns; /* fixed, refresh and dynamic */
	u64 objective_ns;
};

/* What a core's one critical task has beside it (counter.bpf.h). */
enum company {
	COMPANY_NONE = 0, /* its siblings idle */
	COMPANY_BATCH = 1, /* some run batch, none anything else */
	NR_COMPANIES = 2,
	COMPANY_MIXED = 2, /* anything else */
};

/* What the counters of a lane read last. */
struct lane_count {
	u64 instructions;
	u64 cycles;
	u64 read_ns; /* 0: they could not be read */
	u64 core_beside_ns; /* of its core then: company BATCH and MIXED, in all */
	u64 core_mixed_ns;
	u64 span_ns; /* of the interval that ends with the next reading; 0: it is none */
	u64 beside_ns; /* of that, beside batch */
	u32 budget; /* of the task that ran in it */
	u32 next_budget; /* of the task that runs */
	u32 switched; /* 1: the interval began with a switch */
	u32 pad;
	u64 misses; /* profile.bpf.h: cycles or misses, */
	u64 waits; /* cycles that wait for the core's units, */
	u64 profile_cycles;
	u64 profile_ns; /* when; 0: they could not be read, */
	u64 core_crowded_ns; /* and how long the core had had several busy lanes */
} __attribute__((aligned(64)));

/* What critical work did in such intervals. */
struct ipc_sum {
	u64 instructions;
	u64 cycles;
	u64 intervals;
};

/* What critical work with one budget loses beside batch, measured. */
struct budget_ipc {
	struct ipc_sum sums[NR_COMPANIES];
	u32 known; /* 1 once both are known well enough */
	u32 loss; /* then, of SPEED_ONE */
};

/* Latencies are counted up to twice the objective. */
enum latency_buckets {
	OBJECTIVE_BUCKETS = 64,
	LATENCY_BUCKETS = 128, /* the last one: and all beyond */
};

/* A budget that follows the tail of the critical jobs (objective.bpf.h). */
struct objective {
	u64 cgroup; /* whose label it is, by id; 0: it is of a rule, or of the settings */
	u64 budget_ns;
	u64 tail_ns; /* in the window before; 0: there was none */
	u64 windows; /* totals: windows, and those whose tail was beyond the objective */
	u64 missed;
	u64 since_ns; /* when this window began */
	u64 evictions; /* batch had to leave in this window */
	u64 allowed_ns; /* that marked jobs have until their deadlines: moving average; 0: not known (jobs.bpf.h) */
	u32 jobs[LATENCY_BUCKETS]; /* of this window, by latency */
};

/* One classification rule: the first that matches decides the class. */
enum rule_kind {
	RULE_CGROUP = 0, /* kept by the loader in cgroups_known */
	RULE_EXE = 1, /* inode and file name of the executable */
	RULE_COMM = 2, /* thread name, or a prefix of it */
	RULE_USER = 3, /* effective user id */
	RULE_POLICY = 4, /* scheduling policy number */
	RULE_NICE = 5, /* nice between nice_min and nice_max */
};

struct rule {
	u32 kind; /* enum rule_kind */
	u32 class; /* enum task_class */
	u64 exe_inode;
	u32 uid;
	u32 policy;
	s32 nice_min;
	s32 nice_max;
	u32 text_len; /* characters to compare in text */
	u32 prefix; /* 1: text is a prefix */
	char text[EXE_NAME_LEN]; /* thread name or executable file name */
	struct budget budget; /* beside tasks that match; of critical work only */
};

/* What the loader sets: it stays as long as the scheduler is attached. */
struct fixed_settings {
	u64 slice_ns[NR_CLASSES];
	u64 lag_ns; /* how far normal tasks get ahead of each other, or behind (fair.bpf.h) */
	u64 starvation_bound_ns
		[NR_CLASSES]; /* longest wait; critical: of marked jobs (old.bpf.h) */
	u64 overdue_slice_ns; /* what a task gets by the bound */
	u64 promote_after_ns; /* younger jobs are not promoted */
	u64 retain_start_ns; /* the time-out, to begin with */
	u64 retain_min_ns;
	u64 retain_max_ns;
	u64 retain_switches_ns; /* what two switches cost, as time of a lane alone on its core; 0: as measured */
	u64 retain_period_ns; /* so long one is tried at a time; 0: it never changes */
	u64 pair_period_ns; /* so often it is looked which tasks are I/O-bound */
	u64 follow_waker_ns; /* normal work follows a waker that runs for less each time; 0: none (place.bpf.h) */
	u64 steal_patience_ns; /* 0: barriers are the same at any load (vector.bpf.h) */
	u32 promote; /* 1: critical jobs move to better cores that fall free */
	u32 steal_min_queued[NR_DISTANCES]; /* barriers: length of the far vector */
	u32 batch_lanes; /* lanes of a core that batch may use: the last ones; 0 with only_batch: all but the first */
	u32 nr_rules;
	u32 nr_budgets; /* of the settings, then one a rule, then those of labels */
	u32 has_cgroup_rules;
	u32 wakes_preempt; /* 1: what wakes takes the lane from work of its class that has come further (fair.bpf.h) */
	u32 by_deadline; /* 1: marked jobs that have a deadline are ordered by that (jobs.bpf.h) */
	u32 keep_lane; /* 1: normal work that waits goes on on its lane of the core if it can (vector.bpf.h) */
	u32 gather; /* 1: threads of a program that are normal work share cores (spread.bpf.h) */
	u32 keep_slice; /* 1: a task that sleeps for a moment goes on with its slice (vector.bpf.h) */
	u32 retain; /* 1: lanes are held for normal tasks that are soon back (retain.bpf.h) */
	u32 retain_counts; /* 1: work is counted in instructions */
	u32 retain_exclusive; /* 1: lanes are held from other I/O-bound tasks, too (pair.bpf.h) */
	u32 hold_naps; /* 1: lanes are held for batch tasks that nap (nap.bpf.h) */
	u32 nr_pools; /* 0: there are none (pool.bpf.h) */
	u32 cgroup_weights; /* 1: those of cgroups count among normal work (weight.bpf.h) */
	u32 pair; /* 1: I/O-bound and other normal work have lanes of their own (pair.bpf.h) */
	u32 pair_uniform; /* rates of a core that deviate by less are too much alike, of RATE_ALL */
	u32 counters; /* 1: instructions and cycles of each lane are counted (counter.bpf.h) */
	u32 symbiotic; /* 1: computation shares cores with what it bears best (symbiosis.bpf.h) */
	u32 miss_cycles; /* for so many a cache miss is waited for; 1: such cycles are counted (profile.bpf.h) */
	u32 wait_counts; /* 1: cycles that wait for the core's units are counted, too */
	u32 only_batch; /* 1: the kernel's scheduler keeps all tasks but batch (others.bpf.h) */
	u32 others; /* enum task_class that those have here which no rule names */
	u32 others_ruled; /* 1: rules name some of those */
	u32 trace; /* 1: promotions and evictions write lines into the kernel's trace */
	u32 symbiosis[NR_SYMBIOSIS]; /* the model's coefficients, of SPEED_ONE (symbiosis.bpf.h) */
};

/* What the loader sets first, and may be changed while the scheduler is attached. */
struct live_settings {
	struct budget budget; /* beside tasks of rules without one */
	u32 smt_level; /* lanes of a core that critical and normal work may keep busy */
	u32 vertical; /* 1: normal and batch work on as few cores as it needs (polarize.bpf.h) */
	u32 cores_awake; /* then, kept by the scheduler: on so many, the first ones */
	u32 thread_perf
		[MAX_LANES_PER_CORE]; /* [n - 1]: speed of a thread when n lanes run, of SPEED_ONE; 0: not known */
};

/* Counters, one set a CPU; totals since attach. Times in nanoseconds. */
struct counters {
	u64 run_ns[NR_CLASSES];
	u64 switches[NR_CLASSES]; /* times a task of the class began to run */
	u64 wakeups[NR_CLASSES];
	u64 critical_idle_core; /* critical wake-ups by where they went */
	u64 critical_borrowed_core;
	u64 critical_shared_core;
	u64 critical_queued;
	u64 evictions; /* batch asked to leave because a core closed */
	u64 evict_wait_ns; /* sum, from asked to gone */
	u64 overdue[NR_CLASSES]; /* runs by the starvation bound */
	u64 steals[NR_DISTANCES];
	u64 openings; /* a core was opened to batch again */
	u64 promotions; /* critical jobs that moved to a better core */
	u64 promotions_dropped; /* that were to, but slept or found the core taken */
	u64 marked_jobs; /* that programs marked, of critical work */
	u64 marked_jobs_missed; /* more at a time than a slot of the job board holds */
	u64 cores_woken; /* with vertical polarization: for normal and batch work */
	u64 cores_parked;
	u64 retentions; /* tasks that came back to a lane that was held for them */
	u64 retentions_failed; /* that did not, in time */
	u64 held_ns; /* time that lanes were held */
	u64 held_waited_ns; /* of holds at whose beginning or end work waited */
	u64 nap_holds; /* naps of batch tasks for which a lane was held */
	u64 hand_backs; /* normal tasks that made room for I/O-bound ones */
	u64 swaps; /* tasks that went to another core so that its tasks differ */
	u64 symbiotic; /* tasks that were taken for what ran beside them */
};

/* What a pool is charged for the time that its tasks run (pool.bpf.h). */
enum pool_charge {
	POOL_CHARGE_MT1 = 0, /* MT1-equivalent time */
	POOL_CHARGE_RAW = 1, /* time on lanes */
};

/* What a pool may use: written by the loader, and by what tunes it. */
struct pool_limit {
	u64 allowance_ns; /* a period; 0: no limit */
	u64 period_ns;
	u32 charge; /* enum pool_charge */
	u32 parent; /* the pool that it is part of, + 1; 0: none */
};

/* Path of a pool's cgroup, with a 0 at the end; for readers. */
struct pool_path {
	char text[POOL_PATH_LEN];
};

/* What a pool used: kept by the scheduler. Totals are since attach. */
struct pool {
	u64 left_ns; /* of the allowance of this period; negative if it is overdrawn */
	u64 raw_ns; /* time on lanes */
	u64 mt1_ns; /* MT1-equivalent time */
	u64 periods; /* that have ended */
	u64 throttled; /* of those, in which a task was held */
	u64 throttled_ns; /* in which any was */
	u64 held_since_ns; /* since when any is; 0: none */
	u64 ends_ns; /* when this period ends; 0: the first one has not begun */
	u64 overdrawn_ns; /* most that a period ended overdrawn by */
} __attribute__((aligned(64)));

/* What the loader knows of a cgroup. */
struct cgroup_known {
	u64 group; /* it, or the nearest ancestor, that has a weight; 0: none (weight.bpf.h) */
	u64 parent; /* if it has one: the nearest ancestor that has one; 0: none */
	u32 pool; /* innermost pool that it is in, + 1; 0: none */
	u32 weight; /* cpu.weight; 0: it has none */
	u32 rule; /* first cgroup rule that matches it or an ancestor, + 1; 0: none */
	u32 budget; /* of its label, of tasks for which that rule decides, + 1; 0: the rule's */
};

/* What wants to run in a cgroup that has a weight. */
struct cgroup_demand {
	u64 weight; /* of tasks, and of cgroups in which something does */
	u64 counted; /* as what it counts itself in the cgroup around it */
	u64 parent; /* which that was when it began to; 0: none */
};

/* A cgroup came or went (ring buffer to the loader). */
struct cgroup_event {
	u64 id;
	u32 removed;
	u32 pad;
};

/* How a task came to the scheduler, where that has batch alone (adopt.bpf.h). */
enum adoption {
	ADOPTED_NOT = 0, /* it did not, or was given back */
	ADOPTED = 1,
	ADOPTED_BORN = 2, /* its parent had, and the loader does not know of it yet */
	ADOPTED_LENT = 3, /* it is with the kernel's scheduler for a while, as SCHED_IDLE */
	ADOPTED_LENT_BORN = 4, /* the same of its parent, and the loader does not know of it yet */
	ADOPTED_LEFT = 5, /* it chose its policy itself, and keeps that as long as it is batch */
};

/* A policy and a nice value in one number, never 0. */
#define HAD(policy, nice) ((u32)(policy) << 8 | (u32)((nice) + 21))
#define HAD_POLICY(had) ((had) >> 8)
#define HAD_NICE(had) ((s32)((had) & 0xff) - 21)
/* Nice value of adopted tasks: without a scheduler the kernel gives them the least weight. */
#define ADOPTED_NICE 19

/* A task is not what it should be (ring buffer to the loader, and what it reads when it looks at all). */
struct adopt_event {
	u32 pid;
	u32 all_threads; /* 1: nor may be the other threads of its process */
	u32 waits; /* 1: for too long */
	u32 pad;
};

/* The loader's question about a task, and the answer. */
struct adopt_call {
	u64 start_ns; /* when it was made: with set, of which task it is true; else the answer */
	u32 pid;
	u32 set; /* 1: put the two below in place first */
	u32 adoption; /* enum adoption */
	u32 had;
	u32 policy;
	u32 batch; /* 1: rules call it so */
	u32 found; /* 1: there is such a task */
	u32 pad;
};

#include "runtime_intf.h"

#endif /* SIDELANE_INTF_H */
