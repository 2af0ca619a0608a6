/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/cpu.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/small_file.h"

bool xp_cpu_online(unsigned int cpu)
{
	char path[64], text[8];

	if (xp_small_file_read(text, sizeof(text), "/sys/devices/system/cpu/cpu%u/online", cpu) >= 0)
		return text[0] == '1';
	/* A CPU that cannot go offline has no such file; a CPU that does not exist has no directory. */
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u", cpu);
	return !access(path, F_OK);
}

int xp_cpu_list_parse(const char *text, bool *cpus, size_t count)
{
	memset(cpus, 0, count * sizeof(*cpus));
	do {
		unsigned long first, last;
		char *end;

		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		first = last = strtoul(text, &end, 10);
		if (*end == '-') {
			if (!isdigit((unsigned char)end[1]))
				return -EINVAL;
			last = strtoul(end + 1, &end, 10);
		}
		if (last < first || (*end && *end != ','))
			return -EINVAL;
		if (last >= count)
			return -ERANGE;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			cpus[cpu] = true;
		text = *end ? end + 1 : end;
		if (!*text && *end)
			return -EINVAL;
	} while (*text);
	return 0;
}
