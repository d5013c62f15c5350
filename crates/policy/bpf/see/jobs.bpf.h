/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marked jobs: programs say themselves where their jobs begin and end.
 *
 * Problem: from outside, a job lasts from wake-up until sleep. A server thread that takes the
 * next request without sleeping looks like one long job, and one that waits for a
 * device in the middle of a request like two.
 *
 * Rule: a program that marks jobs (crates/runtime, job.rs) has a board in memory that it shares
 * with the scheduler: for each thread when its job began, and the latencies of its last jobs.
 * The age of a critical job, for promotion, is that of the mark. Between two jobs a thread
 * has none, and is as young as can be. The latencies, for objectives, are those of the marks;
 * its sleep ends no job then. So it is for threads that have ended a job; one that only begins
 * them counts from its wake-up, or from the mark if that is later. All others as ever.
 *
 * Deadlines: a job beyond its deadline is as young as can be, so that it yields to those that can still meet theirs; one that runs
 * then is looked at at the next tick, by which a program that stops there has answered. With fixed.by_deadline a job that waits
 * is ordered by its deadline, not by its age: its place is where one of the same budget would be that began then with as much time
 * as such jobs usually have (a moving average), so that jobs of different budgets compare by age. It is off from its age by no more
 * than the starvation bound.
 *
 * What a board says is not believed: a job that begins in the future, or is older than any
 * objective, is not looked at; of jobs that ended since the last look, as many count as the ring
 * holds. Times are differences on CLOCK_MONOTONIC, so that it does not matter that
 * the scheduler's clock is another one.
 *
 * The service (signal/jobs.rs) makes the board when a program asks for it, and takes it away
 * when the program's connection ends.
 *
 * Cost: a look into a hash table at each tick and stop of a critical task, once some program has a board.
 *
 * Source: FOF ("fast first, old fast"): jobs are requests, with deadlines and partial results. Does not: follow jobs that a
 * thread works on in turns: the last one begun tells the age, and all that end are counted.
 */
#ifndef SIDELANE_JOBS_BPF_H
#define SIDELANE_JOBS_BPF_H

#include "../hooks.bpf.h"
#include "../core/types.bpf.h"
#include "../core/vector.bpf.h"

#define JOB_BOARDS_MAX 1024
/* Beyond the largest objective: such a job was left and never ended. */
#define JOB_AGE_MAX_NS (200 * NS_PER_S)
/* No thread ends more between two looks. */
#define JOBS_AT_ONCE_MAX (1U << 20)
#define START_NS (NS_PER_S / 100) /* job_board_key: start */

/* Never used: clang leaves a type out of BTF that only the definition of an inner map names. */
CONSTANT struct job_slot job_slot_type;

struct job_board {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, JOB_SLOTS);
	__type(key, u32);
	__type(value, struct job_slot);
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH_OF_MAPS);
	__uint(max_entries, JOB_BOARDS_MAX);
	__type(key, struct job_board_key);
	__type(value, u32);
	__array(values, struct job_board);
} job_boards SEC(".maps");

/* How many of them there are. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} job_boards_kept SEC(".maps");

/* Does any program mark its jobs? */
static __always_inline bool jobs_marked(void)
{
	u32 *kept = bpf_map_lookup_elem(&job_boards_kept, &(u32){0});

	return kept && *kept;
}

/* The board of @p's program, or NULL. */
static __always_inline struct job_board *job_board_of(struct task_struct *p)
{
	struct job_board_key key = {
		.tgid = p->tgid,
		.start = BPF_CORE_READ(p, group_leader, start_boottime) / START_NS,
	};

	return (void *)bpf_map_lookup_elem(&job_boards, &key);
}

/* The number by which @p knows itself, in its own PID namespace; 0: it has left it. */
static __always_inline u32 own_tid(struct task_struct *p)
{
	struct pid *pid = BPF_CORE_READ(p, thread_pid);
	u32 level, tid = 0;

	if (!pid)
		return 0;
	level = BPF_CORE_READ(pid, level);
	bpf_probe_read_kernel(&tid, sizeof(tid), &pid->numbers[level].nr);
	return tid;
}

/* The slot that was @p's at the last look, or NULL. */
static __always_inline struct job_slot *job_slot_of(struct task_struct *p, struct task_ctx *tctx)
{
	struct job_board *board = tctx->job_tid ? job_board_of(p) : NULL;
	u32 key = tctx->job_slot;
	struct job_slot *slot = board ? bpf_map_lookup_elem(board, &key) : NULL;

	return slot && slot->tid == tctx->job_tid ? slot : NULL;
}

/* Looks for the slot of @p, and remembers it. False: it has none. */
VERIFIED_ONCE bool job_slot_find(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	struct job_board *board = job_board_of(p);
	u32 tid, i;

	if (!tctx || !board)
		return false;
	tid = own_tid(p);
	bpf_for(i, 0, JOB_PROBES) {
		u32 key = (tid + i) % JOB_SLOTS;
		struct job_slot *slot = bpf_map_lookup_elem(board, &key);

		if (!tid || !slot || slot->tid != tid)
			continue;
		tctx->job_slot = key;
		tctx->job_tid = tid;
		tctx->jobs_seen = 0;
		return true;
	}
	return false;
}

/* Has its thread ever marked a job? It may only nap (see/nap.bpf.h). */
static __always_inline bool job_slot_marks(const struct job_slot *slot)
{
	return *(volatile const u64 *)&slot->ended || *(volatile const u64 *)&slot->began_ns;
}

/* A moment of CLOCK_MONOTONIC that a board says, on the scheduler's clock; 0: it cannot be, or is too far off. */
static __always_inline u64 job_clock_ns(u64 at_ns, u64 now_ns)
{
	s64 ahead_ns = at_ns - bpf_ktime_get_ns();

	return ahead_ns > -(s64)JOB_AGE_MAX_NS && ahead_ns < (s64)JOB_AGE_MAX_NS &&
			       ahead_ns + (s64)now_ns > 0
		       ? now_ns + ahead_ns
		       : 0;
}

/* The deadline of the job in @slot, on the scheduler's clock; 0: it has none. */
static __always_inline u64 job_deadline_ns(const struct job_slot *slot, u64 now_ns)
{
	u64 deadline_ns = *(volatile const u64 *)&slot->deadline_ns;

	return deadline_ns ? job_clock_ns(deadline_ns, now_ns) : 0;
}

/* Notes whether the job in @slot is a new one, its deadline, and, once a job, how much time it has. */
static __always_inline void job_look(struct task_ctx *tctx, const struct job_slot *slot)
{
	u64 began_ns = *(volatile const u64 *)&slot->began_ns;
	u64 deadline_ns = *(volatile const u64 *)&slot->deadline_ns;

	if (began_ns && began_ns != tctx->job_mark_ns) {
		tctx->job_mark_ns = began_ns;
		tctx->job_new = 1;
	}
	tctx->deadline_ns = began_ns ? job_deadline_ns(slot, scx_bpf_now()) : 0;
	if (!tctx->deadline_ns || began_ns == tctx->deadline_of_ns || deadline_ns <= began_ns)
		return;
	tctx->deadline_of_ns = began_ns;
	hook_job_allows(tctx->budget, deadline_ns - began_ns);
}

/* How many of the jobs that the slot says have ended are new, at most as many as it holds. */
static __always_inline u32 jobs_new(struct task_ctx *tctx, u64 ended)
{
	/* less than before: another board */
	u64 jobs = ended >= tctx->jobs_seen ? ended - tctx->jobs_seen : ended;

	tctx->jobs_seen = ended;
	if (jobs > JOBS_AT_ONCE_MAX)
		return 0;
	if (jobs > JOB_RING) {
		count_add(marked_jobs_missed, jobs - JOB_RING);
		jobs = JOB_RING;
	}
	count_add(marked_jobs, jobs);
	return jobs;
}

/* Counts the jobs that @p has ended since the last look, by its program's board. True: it marks their ends. */
VERIFIED_ONCE bool jobs_count(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	struct job_slot *slot;
	u32 jobs, i;
	u64 ended;

	if (!tctx)
		return false;
	slot = job_slot_of(p, tctx);
	if (!slot && job_slot_find(p))
		slot = job_slot_of(p, tctx);
	if (!slot || !job_slot_marks(slot)) {
		tctx->deadline_ns = 0;
		tctx->job_tid = 0;
		return false;
	}
	ended = *(volatile u64 *)&slot->ended;
	jobs = jobs_new(tctx, ended);
	job_look(tctx, slot);
	bpf_for(i, 0, jobs) {
		u32 at = (ended - 1 - i) % JOB_RING;

		hook_job_ended(tctx->budget,
			       (u64)slot->latencies[BOUNDED(at, JOB_RING)] * JOB_LATENCY_NS);
	}
	return ended > 0;
}

/* The same for any critical @p. */
static __always_inline bool jobs_take(struct task_struct *p, struct task_ctx *tctx)
{
	if (jobs_marked())
		return jobs_count(p);
	tctx->deadline_ns = 0;
	tctx->job_tid = 0;
	return false;
}

/* When the job of @p began, on the scheduler's clock. */
VERIFIED_ONCE u64 job_began_ns(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = scx_bpf_now(), began_ns;
	struct job_slot *slot;

	if (!tctx)
		return now_ns;
	slot = job_slot_of(p, tctx);
	if (!slot)
		return tctx->job_ns;
	began_ns = *(volatile u64 *)&slot->began_ns;
	if (!began_ns)
		return tctx->jobs_seen ? now_ns : tctx->job_ns;
	began_ns = job_clock_ns(began_ns, now_ns);
	if (!began_ns || began_ns > now_ns)
		return tctx->job_ns;
	return tctx->jobs_seen || began_ns > tctx->job_ns ? began_ns : tctx->job_ns;
}

/*
 * The place of the marked job of @tctx that began then, among those that wait: by its deadline, but never further from where it
 * began than the starvation bound.
 */
static __always_inline u64 job_place_ns(const struct task_ctx *tctx, u64 began_ns, u64 now_ns)
{
	s64 bound_ns = fixed.starvation_bound_ns[CLASS_CRITICAL], later_ns, usual_ns;

	if (!tctx->deadline_ns)
		return began_ns;
	if (now_ns >= tctx->deadline_ns)
		return now_ns;
	usual_ns = fixed.by_deadline ? hook_job_allowed_ns(tctx->budget) : 0;
	if (!usual_ns)
		return began_ns;
	later_ns = (s64)(tctx->deadline_ns - began_ns) - usual_ns;
	if (later_ns > bound_ns)
		later_ns = bound_ns;
	if (later_ns < -bound_ns)
		later_ns = -bound_ns;
	return (s64)began_ns + later_ns > 0 ? began_ns + later_ns : 1;
}

/* The tick of critical @p, whose jobs were just looked at: a job that has just become late yields to those that wait. */
static __always_inline void job_yields(struct task_struct *p, const struct task_ctx *tctx,
				       u64 now_ns)
{
	if (tctx->deadline_ns && now_ns >= tctx->deadline_ns &&
	    now_ns < tctx->deadline_ns + 2 * tick_ns && vector_waits(CLASS_CRITICAL))
		scx_bpf_task_set_slice(p, 0);
}

#endif /* SIDELANE_JOBS_BPF_H */
