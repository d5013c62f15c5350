/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which class a task belongs to.
 *
 * Problem: an operator names the work that somebody waits for and the work that
 * may wait; everything else says of itself what it is, or is normal.
 *
 * Rule: the first rule that matches decides. Without a match SCHED_IDLE means batch, as with the kernel's default scheduler, and
 * the rest is normal: nice values are weights, and what is SCHED_BATCH takes no lane from normal work when it wakes (fair.bpf.h).
 * Kernel threads are always normal. The class is looked up when a task wakes as something else than
 * before (class_mark()) and once a slice, so that exec, a rename, a new nice value or a
 * move to another cgroup take effect at the wake-up without a hook for each, and new rules
 * of the loader's soon.
 *
 * Cgroup rules are globs over paths; matching those is the loader's work. It
 * keeps, for every cgroup, the first of them that matches the cgroup or one of
 * its ancestors: later ones never decide. A cgroup that the loader has not seen
 * yet goes by its nearest known ancestor.
 *
 * Cost: a wake-up, a few loads; a look-up, a few compares a rule up to the one that decides and, with
 * cgroup rules, one hash look-up.
 *
 * Does not: follow symbolic links of `exe` rules after the loader resolved
 * them (the loader looks again every second).
 */
#ifndef SIDELANE_CLASSIFY_BPF_H
#define SIDELANE_CLASSIFY_BPF_H

#include "types.bpf.h"
#include "../share/pool.bpf.h"

#define CGROUP_DEPTH_MAX 32

/* Eight characters of a name. */
typedef u64 __attribute__((may_alias)) mark_word;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct rule);
} rules SEC(".maps");

/* By cgroup id. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct cgroup_known);
} cgroups_known SEC(".maps");

/* Of @p's cgroup or, while the loader has not seen that, of its nearest ancestor that it knows. */
static __always_inline const struct cgroup_known *cgroup_known(struct task_struct *p)
{
	struct cgroup *cgrp = BPF_CORE_READ(p, cgroups, dfl_cgrp);
	const struct cgroup_known *known;
	u32 i;

	bpf_for(i, 0, CGROUP_DEPTH_MAX) {
		u64 id;

		if (!cgrp)
			break;
		id = BPF_CORE_READ(cgrp, kn, id);
		known = bpf_map_lookup_elem(&cgroups_known, &id);
		if (known)
			return known;
		/* self is the first member of struct cgroup */
		cgrp = (struct cgroup *)BPF_CORE_READ(cgrp, self.parent);
	}
	return NULL;
}

/* The first cgroup rule that matches @p, + 1; 0: none. Above it the budget that its label has, as known. */
VERIFIED_ONCE u64 cgroup_rule(struct task_struct *p __arg_trusted)
{
	const struct cgroup_known *known = cgroup_known(p);

	return known ? (u64)known->budget << 32 | known->rule : 0;
}

/* The cgroup in which @p's weight counts; 0: none. */
VERIFIED_ONCE u64 cgroup_group(struct task_struct *p __arg_trusted)
{
	const struct cgroup_known *known = cgroup_known(p);

	return known ? known->group : 0;
}

/* The pool of @p, + 1; 0: none. Kernel threads have none. */
VERIFIED_ONCE u32 cgroup_pool(struct task_struct *p __arg_trusted)
{
	const struct cgroup_known *known;

	if (p->flags & PF_KTHREAD)
		return 0;
	known = cgroup_known(p);
	return known ? known->pool : 0;
}

static __always_inline bool text_matches(const char *text, const struct rule *r, u32 max)
{
	u32 i;

	bpf_for(i, 0, max) {
		if (i >= r->text_len)
			return r->prefix || text[i] == '\0';
		if (text[i] != r->text[i & (EXE_NAME_LEN - 1)])
			return false;
	}
	return true;
}

static __always_inline bool exe_matches(struct task_struct *p, const struct rule *r)
{
	struct file *exe = BPF_CORE_READ(p, mm, exe_file);
	char name[EXE_NAME_LEN] = {};
	const unsigned char *dname;

	if (!exe || BPF_CORE_READ(exe, f_inode, i_ino) != r->exe_inode)
		return false;
	/* the name guards against equal inode numbers of two file systems */
	dname = BPF_CORE_READ(exe, f_path.dentry, d_name.name);
	if (bpf_probe_read_kernel_str(name, sizeof(name), dname) < 0)
		return false;
	return text_matches(name, r, EXE_NAME_LEN);
}

static __always_inline bool comm_matches(struct task_struct *p, const struct rule *r)
{
	char comm[COMM_LEN] = {};

	if (bpf_probe_read_kernel_str(comm, sizeof(comm), p->comm) < 0)
		return false;
	return text_matches(comm, r, COMM_LEN);
}

/* What @p had before it was adopted, if it is as it was made then: HAD; 0: go by what it has. */
static __always_inline u32 had_before(struct task_struct *p)
{
	const struct task_ctx *tctx;
	bool lent;

	if (!fixed.only_batch || (p->policy != SCHED_EXT && p->policy != SCHED_IDLE))
		return 0;
	tctx = task_ctx(p);
	if (!tctx || tctx->adoption == ADOPTED_NOT || tctx->adoption == ADOPTED_LEFT)
		return 0;
	lent = tctx->adoption == ADOPTED_LENT || tctx->adoption == ADOPTED_LENT_BORN;
	return p->policy == (lent ? SCHED_IDLE : SCHED_EXT) ? tctx->had : 0;
}

/* The policy of @p as rules see it. */
static __always_inline u32 policy_by_rules(struct task_struct *p)
{
	u32 had = had_before(p);

	return had ? HAD_POLICY(had) : p->policy;
}

/* And its nice value. */
static __always_inline s32 nice_by_rules(struct task_struct *p)
{
	s32 nice = NICE_OF_STATIC_PRIO(p->static_prio);
	u32 had = nice == ADOPTED_NICE ? had_before(p) : 0;

	return had ? HAD_NICE(had) : nice;
}

/* Does rule @index match @p? @by_cgroup: cgroup_rule(). */
VERIFIED_ONCE bool rule_matches(struct task_struct *p __arg_trusted, u32 index, u32 by_cgroup)
{
	const struct rule *r = bpf_map_lookup_elem(&rules, &index);
	s32 nice;

	if (!r)
		return false;
	switch (r->kind) {
	case RULE_CGROUP:
		return index + 1 == by_cgroup;
	case RULE_EXE:
		return exe_matches(p, r);
	case RULE_COMM:
		return comm_matches(p, r);
	case RULE_USER:
		return BPF_CORE_READ(p, cred, euid.val) == r->uid;
	case RULE_POLICY:
		return policy_by_rules(p) == r->policy;
	case RULE_NICE:
		nice = nice_by_rules(p);
		return nice >= r->nice_min && nice <= r->nice_max;
	}
	return false;
}

/* What a task says of itself. */
static __always_inline u32 class_of_policy(const struct task_struct *p)
{
	if (fixed.only_batch) /* those of the kernel's scheduler (others.bpf.h) */
		return p->policy == SCHED_IDLE ? CLASS_NORMAL : fixed.others;
	return p->policy == SCHED_IDLE ? CLASS_BATCH : CLASS_NORMAL;
}

/* What classify() finds: the class, and the budget of its rule or label, 0: that of the settings. */
#define KIND(class, budget) ((budget) << 8 | (class))
#define KIND_CLASS(kind) ((kind) & 0xff)
#define KIND_BUDGET(kind) ((kind) >> 8)

/* What the rules say of @p: KIND. */
VERIFIED_ONCE u32 class_by_rules(struct task_struct *p __arg_trusted)
{
	u64 by_cgroup;
	u32 i;

	by_cgroup = fixed.has_cgroup_rules ? cgroup_rule(p) : 0;
	bpf_for(i, 0, fixed.nr_rules) {
		u32 key = i, budget = 0;
		struct rule *r;

		if (!rule_matches(p, i, by_cgroup))
			continue;
		r = bpf_map_lookup_elem(&rules, &key);
		if (!r)
			break;
		if (r->kind == RULE_CGROUP)
			budget = by_cgroup >> 32;
		if (!budget && r->budget.policy != BUDGET_INHERIT)
			budget = i + 1;
		return KIND(r->class < NR_CLASSES ? r->class : CLASS_NORMAL, budget);
	}
	return KIND(class_of_policy(p), 0);
}

/* Class of @p, enum task_class, and its budget: KIND. */
static __always_inline u32 classify(struct task_struct *p)
{
	if (fixed.only_batch && p->policy == SCHED_EXT)
		return KIND(CLASS_BATCH, 0);
	if (p->flags & PF_KTHREAD)
		return KIND(CLASS_NORMAL, 0);
	return fixed.nr_rules ? class_by_rules(p) : KIND(class_of_policy(p), 0);
}

/* The distance of two pointers: a number, with which the verifier lets compute. */
static __always_inline u64 pointer_gap(const void *a, const void *b)
{
	u64 gap = (u64)a - (u64)b;

	barrier_var(gap);
	return gap;
}

#define MARK_FACTOR 0x9e3779b97f4a7c15ULL /* odd, and no bits repeat: 2^64 / golden ratio */

/*
 * What rules look at, in one number: a task has another one when it is renamed, executes a program, changes its user,
 * policy or nice value, or moves to another cgroup. That two agree by chance does not matter for long.
 */
static __always_inline u64 class_mark(const struct task_struct *p)
{
	const mark_word *name = (const mark_word *)p->comm;
	u64 mark = name[0];

	mark = mark * MARK_FACTOR + name[1];
	mark = mark * MARK_FACTOR + pointer_gap(p->mm, p->cred);
	mark = mark * MARK_FACTOR + p->cred->euid.val;
	mark = mark * MARK_FACTOR + p->cgroups->dfl_cgrp->kn->id;
	return mark * MARK_FACTOR + ((u64)p->static_prio << 32 | p->policy);
}

/* Does @p exit, and gives back what rules look at? It stays what it was. */
static __always_inline bool has_no_program(const struct task_struct *p)
{
	return (p->flags & PF_EXITING) && !p->mm;
}

/*
 * Gives @p, which does not run, the class that it has now. What it did not change itself it is asked once a slice, from one
 * sleep to another: no clock is read for that.
 */
static __always_inline void class_assign(struct task_struct *p, struct task_ctx *tctx)
{
	u64 mark;
	u32 kind;

	if (!fixed.nr_rules && !fixed.nr_pools) {
		tctx->class = KIND_CLASS(classify(p));
		tctx->misclassified = 0;
		return;
	}
	mark = class_mark(p);
	if (mark == tctx->class_mark && !tctx->misclassified &&
	    tctx->slept_ns < tctx->classified_ns + fixed.slice_ns[task_class(tctx)])
		return;
	if (has_no_program(p) && tctx->class_mark) {
		tctx->misclassified = 0; /* it was, before it exited */
		return;
	}
	tctx->class_mark = mark;
	kind = classify(p);
	tctx->class = KIND_CLASS(kind);
	tctx->budget = KIND_BUDGET(kind);
	tctx->misclassified = 0;
	tctx->classified_ns = tctx->slept_ns;
	tctx->pool = fixed.nr_pools ? cgroup_pool(p) : 0;
}

/*
 * From the tick of @p, which was charged: has its class changed? Then it is to be queued anew, as
 * what it is now. Here and not at the end of the slice, where the next task waits for the answer.
 */
static __always_inline void class_check(struct task_struct *p, struct task_ctx *tctx, u64 now_ns)
{
	if (now_ns < tctx->classified_ns + fixed.slice_ns[task_class(tctx)] || has_no_program(p))
		return;
	tctx->classified_ns = now_ns;
	if (fixed.nr_pools)
		tctx->pool = cgroup_pool(p);
	if (KIND_CLASS(classify(p)) == tctx->class)
		return;
	tctx->misclassified = 1;
	scx_bpf_task_set_slice(p, 0);
}

#endif /* SIDELANE_CLASSIFY_BPF_H */
