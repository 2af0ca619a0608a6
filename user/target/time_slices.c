/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/time_slices.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/small_file.h"
#include "target/target.h"

/* The file contains three numbers: time on a CPU, time waiting for a CPU, number of time slices. */
static uint64_t slices_of(pid_t pid, pid_t tid)
{
	uint64_t slices;
	char text[96];

	xp_small_file_read(text, sizeof(text), "/proc/%d/task/%d/schedstat", pid, tid);
	return sscanf(text, "%*u %*u %" SCNu64, &slices) == 1 ? slices : 0;
}

uint64_t xp_time_slices(pid_t pid)
{
	uint64_t threads = 0, looked = 0, sum = 0;
	DIR *list = xp_target_list(pid);
	pid_t tid;

	if (!list)
		return 0;
	while ((tid = xp_target_next(list))) {
		if (threads++ >= XP_TIME_SLICES_THREADS_MAX)
			continue;
		sum += slices_of(pid, tid);
		looked++;
	}
	closedir(list);
	return looked ? sum * threads / looked : 0;
}
