/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NATIVE_TABLES_H
#define NATIVE_TABLES_H

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

#endif
