// SPDX-License-Identifier: BSD-2-Clause
/*
 * tick HZ: the minimum cost of sampling: a sampling event on each CPU that nothing reads. Exits at the end of its
 * input.
 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	int hz = argc == 2 ? atoi(argv[1]) : 0;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.size = sizeof(attr),
		.sample_period = hz > 0 ? 1000000000 / hz : 0,
	};

	for (int cpu = 0; cpu < sysconf(_SC_NPROCESSORS_ONLN); cpu++) {
		if (syscall(__NR_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC) < 0) {
			perror("perf_event_open");
			return 1;
		}
	}
	while (getchar() != EOF)
		;
	return 0;
}
