// SPDX-License-Identifier: BSD-2-Clause
#include "target/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/small_file.h"

/* A line for each of the 13 hierarchies that Linux has at most. */
#define FILE_BYTES (16 * (XP_CGROUP_BYTES + 64))

/* hierarchy-ID:controller-list:cgroup-path, cgroups(7). The path may contain colons. */
int xp_cgroup_parse(char *text, char path[XP_CGROUP_BYTES])
{
	char *rest, *line;

	path[0] = 0;
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *controllers = strchr(line, ':'), *its = controllers ? strchr(controllers + 1, ':') : NULL;
		bool is_v2 = its == controllers + 1 && !strncmp(line, "0:", 2);

		if (!its || its[1] != '/' || strlen(++its) >= XP_CGROUP_BYTES)
			continue;
		if (strlen(its) > strlen(path) || (is_v2 && its[1]))
			strcpy(path, its);
		if (is_v2 && its[1])
			break;
	}
	return path[0] ? 0 : -EINVAL;
}

int xp_target_cgroup(pid_t pid, char path[XP_CGROUP_BYTES])
{
	char text[FILE_BYTES];
	ssize_t bytes = xp_small_file_read(text, sizeof(text), "/proc/%d/cgroup", pid);

	if (bytes < 0)
		return bytes == -ENOENT ? -ESRCH : (int)bytes;
	return xp_cgroup_parse(text, path);
}
