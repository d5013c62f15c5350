/* SPDX-License-Identifier: GPL-2.0-only */
/* What Rust sees: the simulated kernel's structures, the scheduler's, and its operations. */
#include "kernel.h"
#include "intf.h"

void native_set_table(enum native_map map, void *elements, u32 nr_elements);
void native_reset(u32 cores_wanted, u32 lanes_wanted, u64 tick_wanted,
		  const struct fixed_settings *fixed_wanted,
		  const struct live_settings *live_wanted);
void native_set_smt_level(u32 level);
void native_timer_ring(u32 element);
void native_timeout_step(struct timeout *timeout, const struct fixed_settings *bounds,
			 const struct timeout_done *done);
u64 native_timeout_now_ns(const struct timeout *timeout, const struct fixed_settings *bounds);
u64 native_symbiosis_speed(const struct fixed_settings *model, const u64 own[3],
			   const u64 other[3]);
bool native_vector_hinted(u32 core, u32 class);
bool native_others_followed(void);

s32 sidelane_select_cpu(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
void sidelane_enqueue(struct task_struct *p, u64 enq_flags);
void sidelane_dispatch(s32 cpu, struct task_struct *prev);
void sidelane_tick(struct task_struct *p);
void sidelane_runnable(struct task_struct *p, u64 enq_flags);
void sidelane_quiescent(struct task_struct *p, u64 deq_flags);
void sidelane_running(struct task_struct *p);
void sidelane_stopping(struct task_struct *p, bool runnable);
void sidelane_update_idle(s32 cpu, bool idle);
int sidelane_follow_switch(bool preempt, struct task_struct *prev, struct task_struct *next);
int sidelane_count_switch(bool preempt, struct task_struct *prev, struct task_struct *next);
int sidelane_count_tick(void);
int sidelane_follow_tick(void);
s32 sidelane_init_task(struct task_struct *p, struct scx_init_task_args *args);
void sidelane_set_cpumask(struct task_struct *p, const struct cpumask *allowed);
void sidelane_enable(struct task_struct *p);
void sidelane_disable(struct task_struct *p);
s32 sidelane_init(void);
