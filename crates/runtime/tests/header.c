/* SPDX-License-Identifier: MIT */
/* Calls everything that sidelane.h declares; no service runs. Ends with 0 if all is well. */
#include <errno.h>
#include <stdio.h>

#include "sidelane.h"

#define REQUIRE(condition)                                           \
	do {                                                         \
		if (!(condition)) {                                  \
			fprintf(stderr, "not so: %s\n", #condition); \
			return 1;                                    \
		}                                                    \
	} while (0)

int main(void)
{
	struct sidelane_job job = sidelane_job_begin(0);
	const uint64_t *flag;

	errno = 42;
	sidelane_check();
	sidelane_step_aside();
	REQUIRE(errno == 42);
	REQUIRE(!sidelane_start());
	REQUIRE(!sidelane_critical_beside());
	flag = sidelane_bind();
	REQUIRE(flag && *flag == 0);
	sidelane_check_bound(flag);
	REQUIRE(sidelane_nap_totals().naps == 0);

	REQUIRE(sidelane_job_time_left_ns(job) == UINT64_MAX);
	REQUIRE(!sidelane_job_should_stop(job, 1000));
	job = sidelane_job_begin(3600000000000ULL);
	REQUIRE(!sidelane_job_should_stop(job, 1000));
	job = sidelane_job_begun_at(1, 1000);
	REQUIRE(sidelane_job_time_left_ns(job) == 0);
	REQUIRE(sidelane_job_should_stop(job, 0));
	REQUIRE(sidelane_job_end(job) > 0);
	return 0;
}
