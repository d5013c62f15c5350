/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time-out: for how long lanes are held (retain.bpf.h), found by trying.
 *
 * Problem: the longer lanes are held, the fewer switches and the less of the lane for others; which time-out is best depends on
 * what runs. A core sees some 25 returns a period: by chance alone that number differs by a fifth from one to the next.
 *
 * Rule: the cores of a last-level cache have one time-out. Periods (fixed.retain_period_ns) alternate between the best one so
 * far and another (A B B A ...). Each pair of periods says by how much the tasks gained with the other on average: normal tasks
 * whose sleeps a hold could mostly cover, by how often they slept; all others by instructions where there are counters, else
 * by run time x speed of the lane. A pair in which the former did nothing does not count. The other becomes the best one once the mean of
 * the pairs is positive by so many standard errors (GAIN_CERTAIN); it is given up once PAIRS_MIN pairs have brought
 * nothing, or PAIRS_MAX too little. Tried are steps up and down, by timeout_percent: a success is followed by another step the same
 * way, a failure by the other way, then by a smaller step. When the smallest has failed, the best one stays for TIMEOUT_REST
 * periods; then the largest is tried again, for the load may change.
 *
 * Cost: half of the periods but those go to what is mostly not the best one. Each core adds what it counted when its timer
 * rings; the first that rings after a period's end decides. With counters these are read at each switch and tick.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.2, Algorithm 1. There each core has its own, one pair of periods decides, steps are a
 * tenth, and both groups have to gain on average: where what one gains the other loses it stays where it began. Here each task
 * counts the same.
 */
#ifndef SIDELANE_TIMEOUT_BPF_H
#define SIDELANE_TIMEOUT_BPF_H

#include "../core/types.bpf.h"

#define GAIN_ONE (1 << 16)
#define GAIN_SHARES 64
/*
 * Square of how many standard errors the mean gain is from 0. As it is asked after each pair, one of six trials without any
 * effect succeeds: where the time-out makes no difference it wanders.
 */
#define GAIN_CERTAIN 4
#define PAIRS_MIN 4
#define PAIRS_MAX 32
#define TIMEOUT_REST 64
/* More is counted in no period: a counter was set anew. */
#define COUNT_MAX (1ULL << 44)

static const u32 timeout_percent[] = {300, 100, 30};
#define TIMEOUT_STEPS (sizeof(timeout_percent) / sizeof(timeout_percent[0]))

/* Within the bounds of the settings. */
static __always_inline u64 timeout_bounded_ns(u64 timeout_ns)
{
	if (timeout_ns < fixed.retain_min_ns)
		return fixed.retain_min_ns;
	return timeout_ns > fixed.retain_max_ns ? fixed.retain_max_ns : timeout_ns;
}

/* What is tried beside the best one. */
static __always_inline u64 timeout_other_ns(const struct timeout *t)
{
	u32 percent = 100 + timeout_percent[BOUNDED(t->step, TIMEOUT_STEPS)];

	return timeout_bounded_ns(t->down ? t->best_ns * 100 / percent
					  : t->best_ns * percent / 100);
}

/* By how much more @after is than @before, of their mean, in GAIN_ONE at most; of counts that are 0 or beyond all measure, 0. */
static __always_inline s64 timeout_gain(u64 before, u64 after)
{
	u64 apart = after > before ? after - before : before - after, gain;

	if (before >= COUNT_MAX || after >= COUNT_MAX || !before || !after)
		return 0;
	gain = 2 * apart * GAIN_ONE / (before + after);
	gain = gain < GAIN_ONE ? gain : GAIN_ONE;
	return after > before ? (s64)gain : -(s64)gain;
}

/* Chooses what is tried next: once more the same way, or else the other way, or with another step. */
static __always_inline void timeout_choose(struct timeout *t, bool gained)
{
	t->sum = 0;
	t->squares = 0;
	t->pairs = 0;
	if (gained) {
		t->failures = 0;
		return;
	}
	t->down = !t->down;
	if (++t->failures < 2)
		return;
	t->failures = 0;
	if (++t->step < TIMEOUT_STEPS)
		return;
	t->step = 0;
	t->rest = TIMEOUT_REST;
}

/* Is the mean gain so far positive beyond chance? */
static __always_inline bool timeout_certain(const struct timeout *t)
{
	u64 sum = t->sum, n = t->pairs;

	return n >= PAIRS_MIN && t->sum > 0 &&
	       sum * sum * (n - 1) >= GAIN_CERTAIN * (n * t->squares - sum * sum);
}

/* A pair of periods is over: with the other time-out so much more was done than with the best one. */
static __always_inline void timeout_judge(struct timeout *t, s64 gain)
{
	t->sum += gain;
	t->squares += gain * gain;
	t->pairs++;
	if (timeout_certain(t)) {
		t->best_ns = timeout_other_ns(t);
		timeout_choose(t, true);
	} else if (t->pairs >= PAIRS_MAX || (t->pairs >= PAIRS_MIN && t->sum <= 0)) {
		timeout_choose(t, false);
	}
	if (timeout_other_ns(t) == t->best_ns) /* at a bound */
		timeout_choose(t, false);
}

/* The mean gain of the tasks of a period over the one before, in GAIN_ONE * GAIN_SHARES. */
static __always_inline s64 timeout_mean(const struct timeout_done *before,
					const struct timeout_done *after)
{
	u64 all = after->waiting + after->working;
	s64 waiting = all ? after->waiting * GAIN_SHARES / all : 0;

	return waiting * timeout_gain(before->rounds, after->rounds) +
	       (GAIN_SHARES - waiting) * timeout_gain(before->work, after->work);
}

/* A period ends, in which so much was done. */
static __always_inline void timeout_step(struct timeout *t, const struct timeout_done *done)
{
	s64 gain;

	t->periods++;
	if (t->rest) {
		t->rest--;
		return;
	}
	if (t->second) {
		gain = timeout_mean(&t->before, done);
		if (t->before.rounds && done->rounds)
			timeout_judge(t, t->other ? gain : -gain);
		/* the next pair begins as this one ended */
	} else {
		t->before = *done;
		t->other = !t->other;
	}
	t->second = !t->second;
	if (t->rest)
		t->other = 0;
}

#endif /* SIDELANE_TIMEOUT_BPF_H */
