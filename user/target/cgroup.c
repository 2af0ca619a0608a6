// SPDX-License-Identifier: BSD-2-Clause
#include "target/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/cgroup_line.h"
#include "base/small_file.h"

/* Linux has at most 13 hierarchies, with one line each. */
#define FILE_BYTES (16 * (XP_CGROUP_BYTES + 64))

int xp_cgroup_parse(char *text, char path[XP_CGROUP_BYTES])
{
	struct xp_cgroup_line line;
	char *rest, *at;

	path[0] = 0;
	for (at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
		bool is_own;

		if (!xp_cgroup_line_parse(&line, at) || strlen(line.path) >= XP_CGROUP_BYTES)
			continue;
		is_own = !*line.controllers && line.path[1];
		if (strlen(line.path) > strlen(path) || is_own)
			strcpy(path, line.path);
		if (is_own)
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
