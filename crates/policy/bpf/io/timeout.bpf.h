/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Time-out: for how long lanes are held (retain.bpf.h), found by trying.
 *
 * Problem: the longer lanes are held, the fewer switches and the less of the lane for others; which time-out is best depends on
 * what runs. A core sees some 25 returns a period: by chance alone that number differs by a fifth from one to the next.
 *
 * Rule: the cores of a last-level cache have one time-out. Periods (fixed.retain_period_ns) alternate between the best one so
 * far and another (A B B A ...). Each pair of periods says by how much more was done with the other: the relative gain of
 * the I/O-bound tasks, in sleeps a hold could have covered, plus that of all others, in instructions where there are counters,
 * else in run time x speed of the lane. A group that did nothing in either has no say. The other becomes the best one once the
 * mean gain is positive beyond chance (GAIN_CERTAIN); it is given up once PAIRS_MIN pairs have brought nothing, or PAIRS_MAX
 * too little. Tried are steps up and down, by timeout_percent: a success is followed by another step the same way, a
 * failure by the other way, then by a smaller step; after the smallest comes the largest again, for the load may change.
 *
 * Cost: each core adds what it counted when its timer rings; who rings first after a period's end decides.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.2, Algorithm 1. There each core has its own, one pair of periods decides, steps are a
 * tenth, and both groups have to gain on average: where what one gains the other loses it stays where it began. Here the sum
 * decides, which is greatest where the product of both groups' throughputs is.
 */
#ifndef SIDELANE_TIMEOUT_BPF_H
#define SIDELANE_TIMEOUT_BPF_H

#include "../core/types.bpf.h"

#define GAIN_ONE (1 << 16)
#define GAIN_MOST (GAIN_ONE / 4)
#define GAIN_SHARES 64
/* Square of how many standard errors the mean gain is from 0: 2.45, by chance in one of 26 of four pairs. */
#define GAIN_CERTAIN 4
#define PAIRS_MIN 4
#define PAIRS_MAX 32
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

/* By how much more @after is than @before, of their mean, in GAIN_ONE; of counts that are 0 or beyond all measure, 0. */
static __always_inline s64 timeout_gain(u64 before, u64 after)
{
	u64 apart = after > before ? after - before : before - after, gain;

	if (before >= COUNT_MAX || after >= COUNT_MAX || !before || !after)
		return 0;
	gain = 2 * apart * GAIN_ONE / (before + after);
	gain = gain < GAIN_MOST ? gain : GAIN_MOST;
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
	t->step = t->step + 1 < TIMEOUT_STEPS ? t->step + 1 : 0;
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
	bool other = t->other;
	s64 gain;

	if (t->second) {
		gain = timeout_mean(&t->before, done);
		timeout_judge(t, other ? gain : -gain);
		/* the next pair begins as this one ended */
	} else {
		t->before = *done;
		other = !other;
	}
	t->second = !t->second;
	t->other = other;
	t->now_ns = other ? timeout_other_ns(t) : t->best_ns;
	t->periods++;
}

#endif /* SIDELANE_TIMEOUT_BPF_H */
