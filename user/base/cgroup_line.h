/* SPDX-License-Identifier: BSD-2-Clause */
/* A line of /proc/PID/cgroup: hierarchy-ID:controller-list:cgroup-path, cgroups(7). */
#ifndef XPROF_BASE_CGROUP_LINE_H
#define XPROF_BASE_CGROUP_LINE_H

#include <stdbool.h>

struct xp_cgroup_line {
	const char *controllers; /* of version 1, with commas between them; "": this is version 2 */
	const char *path;	 /* below the root of the hierarchy; begins with a slash, and may contain anything */
};

/* Takes a line apart, which it modifies; line->path ends where it does, before a newline. Returns false for others. */
bool xp_cgroup_line_parse(struct xp_cgroup_line *line, char *text);
/* Whether a list with commas has this word. */
bool xp_cgroup_list_has(const char *list, const char *word);

#endif
