/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Lanes of one core take turns: a plug-in for QEMU's translator.
 *
 * Problem: the lanes of an emulated core are threads on one host CPU. Between two that only
 * compute, the host chooses anew on its tick, 1 to 10 ms apart, so a lane that gets an interrupt
 * may be that late. Timers that preempt them more often are dear on a virtual machine.
 *
 * Rule: a lane that has run for a turn, while a sibling is not idle, yields the host CPU. Turns are
 * of time, not of instructions: instructions differ in what they cost, and siblings share evenly.
 * A lane that idles asks the host for a shorter slice than one that runs, so that its waking
 * preempts a sibling at once (Linux 6.12 and later) and not at the next tick.
 *
 * Cost: an addition and a comparison for each translated block that closes a loop, for no code runs
 * long without; every CHECK of those a look at whether a sibling runs, and then at the clock; a system
 * call a turn, and one each time that a lane falls idle or resumes. Attaching the scheduler took 3.7 s
 * without this plug-in, 4.3 s with it, and 5.2 s when all blocks counted.
 *
 * QEMU's header is not needed to build this: what is used of its plug-in interface (version 3,
 * QEMU 9.1) is declared below.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	struct {
		int smp_vcpus, max_vcpus;
	} system;
} qemu_info_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_scoreboard;
typedef struct {
	struct qemu_plugin_scoreboard *score;
	size_t offset;
} qemu_plugin_u64;
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_cond { QEMU_PLUGIN_COND_GE = 7 };

typedef void (*vcpu_cb)(qemu_plugin_id_t, unsigned int);
struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
void qemu_plugin_u64_set(qemu_plugin_u64, unsigned int, uint64_t);
void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_idle_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_resume_cb(qemu_plugin_id_t, vcpu_cb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
					   void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(struct qemu_plugin_tb *, enum qemu_plugin_op,
						       qemu_plugin_u64, uint64_t);
void qemu_plugin_register_vcpu_tb_exec_cond_cb(struct qemu_plugin_tb *,
					       void (*)(unsigned int, void *),
					       enum qemu_plugin_cb_flags, enum qemu_plugin_cond,
					       qemu_plugin_u64, uint64_t, void *);

EXPORT int qemu_plugin_version = 3;

#define MAX_LANES 256
#define CHECK 2000 /* instructions of blocks that close loops */
#define INSTRUCTION_BYTES 15 /* the longest of x86 */
#define RUNNING_SLICE 10 /* turns */
#define IDLE_SLICE 1
#define CACHE_LINES 256 /* bytes: neighbours must not share a line, nor a pair of lines */

struct lane {
	_Alignas(CACHE_LINES) uint64_t began_ns; /* of its turn; 0: no sibling ran */
	bool busy; /* its own view: not idle */
};

struct core {
	_Alignas(CACHE_LINES) _Atomic unsigned int busy_lanes;
};

static struct lane lanes[MAX_LANES];
static struct core cores[MAX_LANES];
static unsigned int lanes_per_core = 1;
static uint64_t turn_ns;
/* For each lane, the instructions of blocks that close loops since its last look. */
static qemu_plugin_u64 executed;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct core *core_of(unsigned int lane)
{
	return &cores[lane / lanes_per_core];
}

static void look(unsigned int number, void *unused)
{
	struct lane *lane = &lanes[number % MAX_LANES];
	uint64_t now;

	(void)unused;
	qemu_plugin_u64_set(executed, number, 0);
	if (atomic_load_explicit(&core_of(number)->busy_lanes, memory_order_relaxed) < 2) {
		lane->began_ns = 0;
		return;
	}
	now = now_ns();
	if (!lane->began_ns) {
		lane->began_ns = now;
	} else if (now - lane->began_ns >= turn_ns) {
		sched_yield();
		lane->began_ns = now_ns();
	}
}

static bool is_prefix(uint8_t byte)
{
	/* REX; operand size; repeat, as for bnd; segments, as for hints and notrack */
	return (byte & 0xf0) == 0x40 || byte == 0x66 || byte == 0xf2 || byte == 0xf3 ||
	       byte == 0x2e || byte == 0x3e;
}

/*
 * Is this x86 instruction a jump back, or to anywhere? Of a jump with a distance, that comes last,
 * with its sign in its last byte.
 */
static bool jumps_back(const uint8_t *code, size_t size)
{
	bool relative, indirect;
	size_t i = 0;

	while (i < size && is_prefix(code[i]))
		i++;
	if (i + 1 >= size)
		return false;
	relative = (code[i] & 0xf0) == 0x70 || /* Jcc, and with the longer distance */
		   (code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80) ||
		   (code[i] & 0xfc) == 0xe0 || /* LOOP, JCXZ */
		   code[i] == 0xe9 || code[i] == 0xeb; /* JMP */
	indirect = code[i] == 0xff && (code[i + 1] >> 3 & 7) == 4;
	return relative ? code[size - 1] & 0x80 : indirect;
}

static bool closes_loop(const struct qemu_plugin_tb *block)
{
	size_t last = qemu_plugin_tb_n_insns(block) - 1;
	uint8_t code[INSTRUCTION_BYTES];
	size_t size;

	size = qemu_plugin_insn_data(qemu_plugin_tb_get_insn(block, last), code, sizeof(code));
	return jumps_back(code, size);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
	(void)id;
	if (!closes_loop(block))
		return;
	qemu_plugin_register_vcpu_tb_exec_cond_cb(block, look, QEMU_PLUGIN_CB_NO_REGS,
						  QEMU_PLUGIN_COND_GE, executed, CHECK, NULL);
	qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, QEMU_PLUGIN_INLINE_ADD_U64,
							  executed, qemu_plugin_tb_n_insns(block));
}

/* Asks the host's scheduler for slices of this length. Older ones do not know them. */
static void set_slice(uint64_t slice_ns)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime_ns, deadline_ns, period_ns;
	} attributes = {.size = sizeof(attributes), .runtime_ns = slice_ns};

	syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* Called by the lane's own thread, as are the two that call it. */
static void set_busy(unsigned int number, bool busy)
{
	struct lane *lane = &lanes[number % MAX_LANES];

	if (lane->busy == busy)
		return;
	lane->busy = busy;
	set_slice((busy ? RUNNING_SLICE : IDLE_SLICE) * turn_ns);
	atomic_fetch_add(&core_of(number)->busy_lanes, busy ? 1 : -1);
}

static void falls_idle(qemu_plugin_id_t id, unsigned int number)
{
	(void)id;
	set_busy(number, false);
}

static void resumes(qemu_plugin_id_t id, unsigned int number)
{
	(void)id;
	set_busy(number, true);
}

/* The number in "name=number", if @argument is that. */
static void read_number(const char *argument, const char *name, uint64_t *number)
{
	size_t length = strlen(name);

	if (!strncmp(argument, name, length) && argument[length] == '=')
		*number = strtoull(argument + length + 1, NULL, 10);
}

/*
 * Arguments: turn_ns; lanes (of each core); try: 1 ends QEMU with status 0, which tells that
 * it can load this.
 */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	uint64_t lanes_wanted = 0, try = 0;
	int i;

	for (i = 0; i < argc; i++) {
		read_number(argv[i], "turn_ns", &turn_ns);
		read_number(argv[i], "lanes", &lanes_wanted);
		read_number(argv[i], "try", &try);
	}
	if (try)
		_Exit(0);
	if (!turn_ns || !lanes_wanted || !info->system_emulation ||
	    info->system.max_vcpus > MAX_LANES)
		return -1;
	lanes_per_core = (unsigned int)lanes_wanted;
	executed.score = qemu_plugin_scoreboard_new(CACHE_LINES);
	qemu_plugin_register_vcpu_init_cb(id, resumes);
	qemu_plugin_register_vcpu_idle_cb(id, falls_idle);
	qemu_plugin_register_vcpu_resume_cb(id, resumes);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
