/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of /proc/PID/cgroup: hierarchy-ID:controller-list:cgroup-path, cgroups(7). */
#ifndef XPROF_BASE_CGROUP_LINE_H
#define XPROF_BASE_CGROUP_LINE_H

#include <stdbool.h>

struct xp_cgroup_line {
	const char *controllers; /* comma-separated controllers of cgroup v1; "": cgroup v2 */
	const char *path;	 /* starts at the root of the hierarchy, with a slash; any bytes may follow */
};

/* Parses a line and modifies it. line->path ends before the newline. Returns false if the line is malformed. */
bool xp_cgroup_line_parse(struct xp_cgroup_line *line, char *text);
/* Returns whether the comma-separated list contains this word. */
bool xp_cgroup_list_has(const char *list, const char *word);

#endif
