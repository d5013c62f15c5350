/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The simulated kernel as the scheduler's source sees it: its structures, as far as
 * the source reads them, its constants and its calls. Shared with Rust through
 * bindgen.
 */
#ifndef SIDELANE_NATIVE_KERNEL_H
#define SIDELANE_NATIVE_KERNEL_H

#include <stdbool.h>

struct kernfs_node {
	unsigned long long id;
};

struct cgroup_subsys_state {
	struct cgroup *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp;
};

struct inode {
	unsigned long i_ino;
};

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct qstr d_name;
};

struct path {
	struct dentry *dentry;
};

struct file {
	struct inode *f_inode;
	struct path f_path;
};

struct mm_struct {
	struct file *exe_file;
};

struct kuid {
	unsigned int val;
};

struct cred {
	struct kuid euid;
};

struct signal_struct {
	int nr_threads;
};

struct upid {
	int nr;
};

struct pid {
	unsigned int level;
	struct upid numbers[1];
};

/* Which lanes a task may use: one bit a CPU. */
struct cpumask {
	const unsigned long long *words;
	unsigned int nr_words;
};

struct sched_ext_entity {
	unsigned long long slice;
	unsigned long long dsq_vtime;
	unsigned int flags;
	unsigned int weight;
};

struct task_struct {
	unsigned int number; /* of the simulated kernel: its index */
	unsigned int flags;
	unsigned int __state; /* 0: it runs or could */
	int pid;
	int tgid;
	struct pid *thread_pid;
	struct task_struct *group_leader;
	unsigned long long start_boottime;
	int prio;
	int static_prio;
	unsigned int policy;
	unsigned int in_execve;
	struct signal_struct *signal;
	int nr_cpus_allowed;
	int migration_disabled;
	char comm[16];
	const struct cpumask *cpus_ptr;
	struct cpumask cpus_mask;
	struct sched_ext_entity scx;
	struct css_set *cgroups;
	struct mm_struct *mm;
	const struct cred *cred;
	void *storage; /* the scheduler's context of this task */
};

/* As of the moment at which it is asked for. */
struct rq {
	unsigned long long clock;
	const struct task_struct *curr;
	unsigned int nr_running;
	struct {
		unsigned int nr_running;
		struct {
			unsigned int nr;
		} local_dsq;
	} scx;
};

struct scx_init_task_args {
	bool fork;
};

struct scx_exit_info {
	int kind;
};

enum {
	PF_EXITING = 0x4,
	PF_KTHREAD = 0x200000,
	ENOENT = 2,
	ENOMEM = 12,
};

/* Values as in the kernel. */
enum {
	SCX_TASK_QUEUED = 1,
	SCX_WAKE_SYNC = 0x10,
	SCX_KICK_IDLE = 1,
	SCX_KICK_PREEMPT = 2,
};
#define SCX_ENQ_WAKEUP 0x1ULL
#define SCX_ENQ_HEAD (1ULL << 16)
#define SCX_ENQ_PREEMPT (1ULL << 32)
#define SCX_ENQ_LAST (1ULL << 41)
#define SCX_DSQ_GLOBAL ((1ULL << 63) | 1)
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DSQ_ITER_REV (1U << 16)
#define SCX_DSQ_LOCAL_ON (3ULL << 62)

struct sched_ext_ops {
	void *select_cpu, *enqueue, *dispatch, *tick, *running, *stopping, *update_idle;
	void *runnable, *quiescent;
	void *init_task, *set_cpumask, *enable, *disable, *init, *exit;
	unsigned int timeout_ms;
	const char *name;
};

unsigned long long scx_bpf_now(void);
int scx_bpf_create_dsq(unsigned long long dsq, int node);
int scx_bpf_dsq_nr_queued(unsigned long long dsq);
bool scx_bpf_dsq_insert(struct task_struct *p, unsigned long long dsq, unsigned long long slice_ns,
			unsigned long long flags);
bool scx_bpf_dsq_insert_vtime(struct task_struct *p, unsigned long long dsq,
			      unsigned long long slice_ns, unsigned long long vtime,
			      unsigned long long flags);
bool scx_bpf_dsq_move_to_local(unsigned long long dsq, unsigned long long flags);
struct task_struct *__COMPAT_scx_bpf_dsq_peek(unsigned long long dsq);
void native_dsq_begin(unsigned long long dsq, unsigned long long flags);
struct task_struct *native_dsq_next(void);
bool native_dsq_move(struct task_struct *p, unsigned long long dsq);
bool native_dsq_move_vtime(struct task_struct *p, unsigned long long dsq);
void native_dsq_move_slice(unsigned long long slice_ns);
void native_dsq_move_set_vtime(unsigned long long vtime);
void scx_bpf_kick_cpu(int cpu, unsigned long long flags);
int scx_bpf_task_cpu(const struct task_struct *p);
void scx_bpf_task_set_slice(struct task_struct *p, unsigned long long slice_ns);
unsigned int bpf_get_smp_processor_id(void);
/* Each task of the lane's own queue is placed anew, once the operation is over. */
unsigned int scx_bpf_reenqueue_local_from_anywhere(void);
#define __COMPAT_has_generic_reenq() true
#define __COMPAT_scx_bpf_reenqueue_local_from_anywhere() true
const struct rq *native_rq(int cpu); /* NULL: there is no such CPU */
struct task_struct *bpf_get_current_task_btf(void);
struct task_struct *bpf_task_from_pid(int pid);
void native_error(const char *format);
#define scx_bpf_error(format, ...) native_error(format)

static inline bool bpf_cpumask_test_cpu(unsigned int cpu, const struct cpumask *mask)
{
	return cpu / 64 < mask->nr_words && (mask->words[cpu / 64] >> (cpu % 64) & 1);
}

static inline bool bpf_cpumask_equal(const struct cpumask *a, const struct cpumask *b)
{
	unsigned int word;

	for (word = 0; word < a->nr_words; word++)
		if (a->words[word] != b->words[word])
			return false;
	return true;
}

/* The first CPU of the mask: the kernel's choice is any. */
static inline unsigned int bpf_cpumask_any_distribute(const struct cpumask *mask)
{
	unsigned int word;

	for (word = 0; word < mask->nr_words; word++)
		if (mask->words[word])
			return word * 64 + (unsigned int)__builtin_ctzll(mask->words[word]);
	return mask->nr_words * 64;
}

/* Tasks of a simulation last as long as it does. */
static inline void bpf_task_release(struct task_struct *p)
{
	(void)p;
}

static inline void bpf_rcu_read_lock(void)
{
}

static inline void bpf_rcu_read_unlock(void)
{
}

static inline long bpf_probe_read_kernel(void *to, unsigned int size, const void *from)
{
	__builtin_memcpy(to, from, size);
	return 0;
}

/* Copies a string of at most @size bytes with its end; the length with it. */
static inline long bpf_probe_read_kernel_str(void *to, unsigned int size, const void *from)
{
	const char *text = from;
	char *copy = to;
	unsigned int i;

	if (!size)
		return 0;
	for (i = 0; i + 1 < size && text[i]; i++)
		copy[i] = text[i];
	copy[i] = '\0';
	return i + 1;
}

/* The scheduler's maps that the simulation lends tables to. */
enum native_map {
	LANES,
	CORE_LANES,
	CORES,
	COUNTERS,
	RULES,
	CORE_TIMERS,
	OBJECTIVES,
	JOB_SLOTS_OF_ALL,
	LANE_COUNTS,
	BUDGET_IPCS,
	POOL_LIMITS,
	POOLS,
	NR_TABLES
};

#endif /* SIDELANE_NATIVE_KERNEL_H */
