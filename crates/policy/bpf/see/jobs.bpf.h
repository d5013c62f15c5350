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
 * Source: FOF ("fast first, old fast"): jobs are requests. Does not: see deadlines; follow jobs that a
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
		tctx->job_tid = 0;
		return false;
	}
	ended = *(volatile u64 *)&slot->ended;
	jobs = jobs_new(tctx, ended);
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
	tctx->job_tid = 0;
	return false;
}

/* When the job of @p began, on the scheduler's clock. */
VERIFIED_ONCE u64 job_began_ns(struct task_struct *p __arg_trusted)
{
	struct task_ctx *tctx = task_ctx(p);
	u64 now_ns = scx_bpf_now(), began_ns, age_ns;
	struct job_slot *slot;

	if (!tctx)
		return now_ns;
	slot = job_slot_of(p, tctx);
	if (!slot)
		return tctx->job_ns;
	began_ns = *(volatile u64 *)&slot->began_ns;
	if (!began_ns)
		return tctx->jobs_seen ? now_ns : tctx->job_ns;
	age_ns = bpf_ktime_get_ns() - began_ns; /* huge if that is to come */
	if (age_ns > JOB_AGE_MAX_NS || age_ns > now_ns)
		return tctx->job_ns;
	began_ns = now_ns - age_ns;
	return tctx->jobs_seen || began_ns > tctx->job_ns ? began_ns : tctx->job_ns;
}

#endif /* SIDELANE_JOBS_BPF_H */
