/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Symbiosis: of the computation that waits, a lane takes what its siblings bear best.
 *
 * Problem: on cores that only compute, which tasks run beside each other decides how fast they are, and the
 * order of the vector knows nothing of that.
 *
 * Rule (fixed.symbiotic): a lane that looks for CPU-bound normal work, while siblings run normal tasks
 * whose profile is known (profile.bpf.h), takes, of the first SYMBIOSIS_LOOKS of the vector that it may
 * take, the one beside which both are fastest in sum. A task further behind in virtual time than the lag
 * is not passed over, and one that comes earlier stays unless another is better by a part of SYMBIOSIS_BETTER. Of tasks whose
 * profile is not known what runs beside is taken to be alike.
 *
 * Model: of a task with base, waiting and miss components B, W and M beside one with W' and M' an instruction takes
 * b B + w W + ww W W' + m M + mm M M' cycles. The five coefficients are settings (fixed.symbiosis). Beside several
 * siblings: of a mean.
 *
 * Cost: a look at the siblings and at a few tasks, each time a lane looks for normal work.
 *
 * Source: vSMT-IO (USENIX ATC 2020), 4.3.2: "Linux CFS select[s] a few vCPUs based on its policies. Then,
 * among these vCPUs, RASS selects a vCPU based on symbiosis." The source prints no coefficients; the defaults are those of its
 * published code (the repository vSMT-IO/linux: "model trained beforehand"), of a processor of 2014, with the products brought to the scale of
 * the other terms: there they count a thousand times, which cannot be meant. It takes the task beside which the one that runs
 * loses least; here what both lose counts, and a task that comes earlier stays within 3 %.
 */
#ifndef SIDELANE_SYMBIOSIS_BPF_H
#define SIDELANE_SYMBIOSIS_BPF_H

#include "../core/types.bpf.h"
#include "profile.bpf.h"
#include "../core/vector.bpf.h"

#define SYMBIOSIS_LOOKS 8
#define SYMBIOSIS_BETTER 33

/* The speed of @own beside @other, of SPEED_ONE alone. */
static __always_inline u64 symbiosis_speed(u64 own, u64 other)
{
	u64 base = PROFILE_BASE(own), wait = PROFILE_WAIT(own), miss = PROFILE_MISS(own);
	const volatile u32 *w = fixed.symbiosis;
	u64 beside = w[SYMBIOSIS_BASE] * base + w[SYMBIOSIS_WAIT] * wait +
		     w[SYMBIOSIS_WAIT_WAIT] * wait / PROFILE_ONE * PROFILE_WAIT(other) +
		     w[SYMBIOSIS_MISS] * miss +
		     w[SYMBIOSIS_MISS_MISS] * miss / PROFILE_ONE * PROFILE_MISS(other);

	beside /= SPEED_ONE;
	return (base + wait + miss) * SPEED_ONE / (beside ? beside : 1);
}

/* The speeds of both, in sum. */
static __always_inline u64 symbiosis_speeds(u64 one, u64 other)
{
	return symbiosis_speed(one, other) + symbiosis_speed(other, one);
}

/*
 * The profile of what runs beside the lane @cpu of @core_id; 0: of none it is known. Of several lanes
 * a mean in which later ones weigh more: if it counted them, the verifier would follow each number.
 */
VERIFIED_ONCE u64 symbiosis_beside(u32 core_id, s32 cpu)
{
	struct core_ctx *core = core_ctx(core_id);
	u64 beside = 0;
	u32 i;

	if (!core)
		return 0;
	bpf_for(i, 0, core->nr_lanes) {
		s32 other = core_lane(core, i);
		struct lane_ctx *lane = lane_ctx(other);
		u64 profile;

		if (!lane || other == cpu || lane->state != LANE_NORMAL)
			continue;
		profile = lane->profile;
		if (profile)
			beside = beside ? profile_mean(beside, profile, 1) : profile;
	}
	return beside;
}

/* May a lane that looks for tasks of @side (NR_SIDES: of any) take @p, by side and affinity? */
static __always_inline bool symbiosis_fits(struct task_struct *p, const struct task_ctx *tctx,
					   u32 side, s32 cpu)
{
	return tctx && (side >= NR_SIDES || tctx->side == side) &&
	       bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
}

/* Which of the first tasks of the vector is best beside @beside; 0: there is none to choose from. */
VERIFIED_ONCE u32 symbiosis_best(u32 core_id, u32 side, s32 cpu, u64 beside)
{
	u64 latest = 0, most = 0, speeds;
	struct task_struct *p;
	u32 looks = some_value(0), pid = some_value(0);

	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_NORMAL), 0) {
		struct task_ctx *tctx = task_ctx(p);
		u64 profile;

		if (looks++ >= SYMBIOSIS_LOOKS)
			break;
		if (!symbiosis_fits(p, tctx, side, cpu))
			continue;
		if (!latest)
			latest = p->scx.dsq_vtime + fixed.lag_ns;
		if (time_before(latest, p->scx.dsq_vtime))
			break;
		profile = profile_of(tctx);
		speeds = symbiosis_speeds(profile ? profile : beside, beside);
		if (speeds <= most + most / SYMBIOSIS_BETTER)
			continue;
		most = speeds;
		pid = p->pid;
	}
	return pid;
}

/* Moves the normal task of @side (NR_SIDES: of any) to this lane that its siblings bear best. False: none. */
VERIFIED_ONCE bool symbiosis_take(u32 core_id, u32 side)
{
	s32 cpu = bpf_get_smp_processor_id();
	u64 beside = symbiosis_beside(core_id, cpu);
	u32 looks = 0, pid;
	struct task_struct *p;
	bool taken = false;

	if (!beside || !vector_hinted(core_id, CLASS_NORMAL))
		return false;
	pid = symbiosis_best(core_id, side, cpu, beside);
	if (!pid)
		return false;
	bpf_for_each(scx_dsq, p, VECTOR_ID(core_id, CLASS_NORMAL), 0) {
		if (looks++ >= SYMBIOSIS_LOOKS)
			break;
		if ((u32)p->pid != pid)
			continue;
		taken = scx_bpf_dsq_move(BPF_FOR_EACH_ITER, p, SCX_DSQ_LOCAL, 0);
		break;
	}
	if (taken)
		count(symbiotic);
	return taken;
}

#endif /* SIDELANE_SYMBIOSIS_BPF_H */
