/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Substitute for the kernel's and libbpf's headers: what the scheduler's source needs
 * of them, so that it compiles to native code and the simulator can drive it.
 *
 * Every kernel call keeps its ordinary name; those that touch the simulated kernel
 * are implemented in Rust (kernel/calls.rs). Globals and map contents are one set a
 * thread, so that simulations run side by side without a lock.
 */
#ifndef SIDELANE_NATIVE_COMMON_H
#define SIDELANE_NATIVE_COMMON_H

#include <stdbool.h>
#include <stddef.h>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
#define __VMLINUX_H__ /* intf.h: the types are there */

#include "kernel.h"

/* Language */
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __arg_trusted
#define __arg_nonnull
#define barrier_var(var) asm volatile("" : "+r"(var))
#define SEC(name)
#define GLOBAL _Thread_local
#define CONSTANT _Thread_local
#define VERIFIED_ONCE static inline
#define UNROLLED
#define time_before(a, b) ((s64)((a) - (b)) < 0)
#define bpf_for(i, from, to) for ((i) = (from); (i) < (to); (i)++)

/* The tasks of a queue, as they stand there when the loop begins; those that left are passed over. */
#define bpf_for_each(type, p, dsq, flags) for (native_dsq_begin((dsq), (flags)); ((p) = native_dsq_next());)
#define scx_bpf_dsq_move(it, p, dsq, flags) native_dsq_move((p), (dsq))
#define scx_bpf_dsq_move_vtime(it, p, dsq, flags) native_dsq_move_vtime((p), (dsq))
#define scx_bpf_dsq_move_set_slice(it, slice_ns) native_dsq_move_slice(slice_ns)
#define scx_bpf_dsq_move_set_vtime(it, vtime) native_dsq_move_set_vtime(vtime)

#define NATIVE_CORE_READ_1(s, a) ((s)->a)
#define NATIVE_CORE_READ_2(s, a, b) ((s)->a->b)
#define NATIVE_CORE_READ_N(s, a, b, name, ...) name
#define BPF_CORE_READ(s, ...) \
	NATIVE_CORE_READ_N(s, __VA_ARGS__, NATIVE_CORE_READ_2, NATIVE_CORE_READ_1)(s, __VA_ARGS__)
#define BPF_CORE_READ_BITFIELD(s, field) ((s)->field)
#define bpf_core_field_exists(field) ((void)sizeof(field), true)

/* Maps */
#define __uint(name, value) int (*name)[value]
#define __type(name, type) typeof(type) *name
#define __array(name, type) typeof(type) *name[]
enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY,
	BPF_MAP_TYPE_PERCPU_ARRAY,
	BPF_MAP_TYPE_TASK_STORAGE,
	BPF_MAP_TYPE_RINGBUF,
	BPF_MAP_TYPE_HASH_OF_MAPS,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY,
	BPF_F_NO_PREALLOC = 1,
	BPF_F_MMAPABLE = 1024,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
};
/* Inline: the scheduler looks things up all the time. In scheduler.c, which knows the maps. */
static __always_inline void *native_map_element(const void *map, const void *key, size_t key_size,
						size_t value_size);
void *native_task_storage(struct task_struct *p, size_t size, u64 flags);
#define bpf_map_lookup_elem(m, k)                                       \
	((typeof((m)->value))native_map_element((m), (k), sizeof(*(m)->key), \
						sizeof(*(m)->value)))
#define bpf_task_storage_get(map, p, init, flags) \
	((typeof((map)->value))native_task_storage((p), sizeof(*(map)->value), (flags)))
static inline long bpf_ringbuf_output(void *map, void *data, u64 size, u64 flags)
{
	(void)map, (void)data, (void)size, (void)flags;
	return 0; /* the simulator itself keeps the masks of cgroups */
}

/* Nobody looks at all tasks here. */
struct seq_file;
struct linux_binprm;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
static inline long bpf_seq_write(struct seq_file *seq, const void *data, u32 size)
{
	(void)seq, (void)data, (void)size;
	return 0;
}

/* Timers: of the array that has them, by element. In scheduler.c. */
struct bpf_timer {
	u64 unused;
};
enum { CLOCK_MONOTONIC = 1 };
long native_timer_start(const struct bpf_timer *timer, u64 after_ns);
#define bpf_timer_init(timer, map, clock) ((void)(timer), (void)(map), 0)
#define bpf_timer_set_callback(timer, callback) ((void)(timer), (void)(callback), 0)
#define bpf_timer_start(timer, after_ns, flags) native_timer_start((timer), (after_ns))

/* Counters of this CPU: instructions, or cycles. In scheduler.c, which knows the maps. */
struct bpf_perf_event_value {
	u64 counter, enabled, running;
};
enum { BPF_F_CURRENT_CPU = -1 };
long native_perf_event_read(const void *map, struct bpf_perf_event_value *value);
#define bpf_perf_event_read_value(map, flags, value, size) native_perf_event_read((map), (value))

/* Run queues matter only beside another scheduling class: else there is one clock, and no lock. */
#define bpf_per_cpu_ptr(variable, cpu) (fixed.only_batch ? native_rq(cpu) : (const struct rq *)NULL)

static inline u64 bpf_ktime_get_ns(void)
{
	return scx_bpf_now();
}

/* Nobody reads a trace here: a simulation has its records. */
static inline void bpf_printk(const char *format, ...)
{
	(void)format;
}

/* Operations */
#define BPF_STRUCT_OPS(name, ...) name(__VA_ARGS__)
#define BPF_STRUCT_OPS_SLEEPABLE(name, ...) name(__VA_ARGS__)
#define BPF_PROG(name, ...) name(__VA_ARGS__)
#define SCX_OPS_DEFINE(name, ...) const struct sched_ext_ops name = { __VA_ARGS__ }
#define UEI_DEFINE(name) static int name __attribute__((unused))
#define UEI_RECORD(name, info) ((void)(info))

#endif /* SIDELANE_NATIVE_COMMON_H */
