/* SPDX-License-Identifier: MIT */
/*
 * Sidelane's runtime for C programs: link with -lsidelane_runtime (shared, or static with
 * -lpthread -ldl -lm). Every function may be called at any time from any thread; where no
 * service runs (sidelane run, sidelane lanes), they do nothing. docs/runtime.md has more.
 */
#ifndef SIDELANE_H
#define SIDELANE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Looks for the service now, and not at the first check. True: it was found. */
bool sidelane_start(void);

/*
 * Steps aside while critical work runs on another lane of this core, for a second at the
 * longest. For loops of batch programs. errno is kept.
 */
void sidelane_check(void);

/* Does critical work run on another lane of this core? */
bool sidelane_critical_beside(void);

/*
 * Binds this thread to the lane where it is, and returns the word that is not 0 while
 * critical work runs beside it; NULL if the kernel refuses. For sidelane_check_bound().
 */
const uint64_t *sidelane_bind(void);

/* The slow path of the checks: sleeps if there is reason to. */
void sidelane_step_aside(void);

/* As sidelane_check() in a thread that is bound to its lane: one load and a branch. */
static inline void sidelane_check_bound(const uint64_t *flag)
{
	if (__builtin_expect(__atomic_load_n(flag, __ATOMIC_RELAXED) != 0, 0))
		sidelane_step_aside();
}

/* Totals of this process; printed when it ends if SIDELANE_RUNTIME_VERBOSE=1. */
struct sidelane_nap_totals {
	uint64_t naps; /* times a thread stepped aside */
	uint64_t nap_ns; /* how long, summed over threads */
	uint64_t forced; /* ended by the bound, critical work still running beside */
	uint64_t woken; /* times a thread on a futex was woken by the service */
};
struct sidelane_nap_totals sidelane_nap_totals(void);

/*
 * A job: one request's worth of work. Do not look inside. Where sidelane run schedules critical
 * work, begin and end tell it how old the jobs are and how long they took. A thread works on
 * one job at a time; a job may end on another thread, and counts there.
 */
struct sidelane_job {
	uint64_t begin_ns;
	uint64_t deadline_ns;
};

/* Begins a job that has so many nanoseconds from now; 0: as long as it takes. */
struct sidelane_job sidelane_job_begin(uint64_t budget_ns);

/* The same for one that began earlier: nanoseconds of CLOCK_MONOTONIC. */
struct sidelane_job sidelane_job_begun_at(uint64_t begin_ns, uint64_t budget_ns);

/* Nanoseconds until the deadline; 0: it has passed; UINT64_MAX: there is none. */
uint64_t sidelane_job_time_left_ns(struct sidelane_job job);

/* Is it time to answer with a partial result? reserve_ns: what answering takes. */
bool sidelane_job_should_stop(struct sidelane_job job, uint64_t reserve_ns);

/* Ends a job: nanoseconds that it took. */
uint64_t sidelane_job_end(struct sidelane_job job);

#ifdef __cplusplus
}
#endif

#endif /* SIDELANE_H */
