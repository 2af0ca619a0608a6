// SPDX-License-Identifier: BSD-2-Clause
#define _GNU_SOURCE
/* Opens and closes pinned TSC counters on all CPUs, as each xprof does once: others lose ticks meanwhile. */
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CPUS_MAX 64

int main(void)
{
	struct perf_event_attr attr = { .size = sizeof(attr), .pinned = 1 };
	FILE *file = fopen("/sys/bus/event_source/devices/msr/type", "re");
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int fds[CPUS_MAX];

	if (!file || fscanf(file, "%u", &attr.type) != 1 || cpus > CPUS_MAX)
		return 1;
	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int cpu = 0; cpu < cpus; cpu++)
			fds[cpu] = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0);
		for (int cpu = 0; cpu < cpus; cpu++)
			if (fds[cpu] >= 0)
				close(fds[cpu]);
		usleep(200);
	}
}
