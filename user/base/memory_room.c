// SPDX-License-Identifier: BSD-2-Clause
#include "base/memory_room.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup_line.h"
#include "base/util.h"

/* The files of a cgroup version (Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst). */
struct version {
	const char *hierarchy; /* path below the root */
	const char *limit;
	const char *usage;
	const char *stat_prefix; /* prefix of the sums over the cgroup and its descendants */
};
static const struct version v1 = { "/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_" };
static const struct version v2 = { "", "memory.max", "memory.current", "" };

static FILE *open_file(const char *directory, const char *name)
{
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s/%s", directory, name);

	return length < 0 || (size_t)length >= sizeof(path) ? NULL : fopen(path, "re");
}

/* Returns false if the file does not exist or contains no number, such as "max". */
static bool read_number(const char *directory, const char *name, uint64_t *number)
{
	FILE *file = open_file(directory, name);
	bool found = file && fscanf(file, "%" SCNu64, number) == 1;

	if (file)
		fclose(file);
	return found;
}

static uint64_t file_cache(const char *directory, const char *prefix)
{
	FILE *file = open_file(directory, "memory.stat");
	const size_t skip = strlen(prefix);
	uint64_t sum = 0, bytes;
	char name[64];

	while (file && fscanf(file, "%63s %" SCNu64, name, &bytes) == 2)
		if (!strncmp(name, prefix, skip) &&
		    (!strcmp(name + skip, "inactive_file") || !strcmp(name + skip, "active_file")))
			sum += bytes;
	if (file)
		fclose(file);
	return sum;
}

static uint64_t room_of(const char *directory, const struct version *version)
{
	uint64_t limit, usage, cache;

	if (!read_number(directory, version->limit, &limit) || !read_number(directory, version->usage, &usage))
		return UINT64_MAX;
	cache = file_cache(directory, version->stat_prefix);
	usage -= XP_MIN(usage, cache);
	return limit - XP_MIN(limit, usage);
}

/*
 * Returns the space in a cgroup and all its ancestors. In a container, ancestors may be invisible: the container's
 * cgroup is then the root.
 */
static uint64_t room_up(const char *root, const char *group, const struct version *version)
{
	const size_t top = strlen(root) + strlen(version->hierarchy);
	uint64_t room = UINT64_MAX;
	char path[PATH_MAX];
	int length = snprintf(path, sizeof(path), "%s%s%s", root, version->hierarchy, group);

	if (length < 0 || (size_t)length >= sizeof(path))
		return room;
	for (;;) {
		uint64_t here = room_of(path, version);
		char *slash = strrchr(path + top, '/');

		room = XP_MIN(room, here);
		if (!slash)
			return room;
		*slash = 0;
	}
}

uint64_t xp_memory_room_in(const char *groups_file, const char *root)
{
	FILE *file = fopen(groups_file, "re");
	uint64_t room = UINT64_MAX;
	char *line = NULL;
	size_t line_bytes = 0;

	while (file && getline(&line, &line_bytes, file) > 0) {
		struct xp_cgroup_line group;
		uint64_t here;

		if (!xp_cgroup_line_parse(&group, line) || (*group.controllers && strcmp(group.controllers, "memory")))
			continue;
		here = room_up(root, group.path, *group.controllers ? &v1 : &v2);
		room = XP_MIN(room, here);
	}
	free(line);
	if (file)
		fclose(file);
	return room;
}

uint64_t xp_memory_room(void)
{
	return xp_memory_room_in("/proc/self/cgroup", "/sys/fs/cgroup");
}
