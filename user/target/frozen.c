// SPDX-License-Identifier: BSD-2-Clause
#include "target/frozen.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cgroup_line.h"

/* for a line of mountinfo: paths of a cgroup and of its mount, and options */
#define LINE_BYTES (4 * PATH_MAX)
#define STATE_BYTES 256

/*
 * Returns the path of the cgroup's directory below the mount, from a line of /proc/self/mountinfo, which it modifies:
 * ID parent major:minor root mount options [fields] - type source super-options, proc(5). Returns NULL if the mount
 * belongs to another hierarchy or does not contain the cgroup.
 */
static const char *find_group(const struct xp_cgroup_line *group, char *line, const char **mount)
{
	char *fields[6], *tail = strstr(line, " - "), *type, *super;
	size_t root_length;

	if (!tail)
		return NULL;
	*tail = 0;
	type = strtok_r(tail + 3, " \n", &super);
	strtok_r(NULL, " \n", &super);
	if (!type || strcmp(type, *group->controllers ? "cgroup" : "cgroup2"))
		return NULL;
	if (*group->controllers && !xp_cgroup_list_has(strtok_r(NULL, " \n", &super) ?: "", "freezer"))
		return NULL;
	for (int i = 0; i < 6; i++)
		if (!(fields[i] = strsep(&line, " ")))
			return NULL;
	*mount = fields[4];
	root_length = strcmp(fields[3], "/") ? strlen(fields[3]) : 0;
	if (strncmp(group->path, fields[3], root_length) ||
	    (group->path[root_length] && group->path[root_length] != '/'))
		return NULL;
	return group->path + root_length;
}

/*
 * Returns true if a file of the cgroup contains the word. The path is untrusted, because users can create cgroups: the
 * lookup cannot leave the mount.
 */
static bool says(const char *mount, const char *group, const char *file, const char *word)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV };
	char path[PATH_MAX], state[STATE_BYTES];
	int root = open(mount, O_PATH | O_DIRECTORY | O_CLOEXEC), fd = -1;
	ssize_t n = -1;

	while (*group == '/')
		group++;
	if (root >= 0 && (size_t)snprintf(path, sizeof(path), "%s/%s", *group ? group : ".", file) < sizeof(path))
		fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd >= 0) {
		n = read(fd, state, sizeof(state) - 1);
		close(fd);
	}
	if (root >= 0)
		close(root);
	state[n > 0 ? n : 0] = 0;
	return strstr(state, word) != NULL;
}

static bool is_frozen(const struct xp_cgroup_line *group)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = malloc(LINE_BYTES);
	bool frozen = false;

	while (mounts && line && !frozen && fgets(line, LINE_BYTES, mounts)) {
		const char *mount, *path = find_group(group, line, &mount);

		if (!path)
			continue;
		/* A cgroup whose parent is frozen also reports this. */
		frozen = *group->controllers ? says(mount, path, "freezer.state", "FR")
					     : says(mount, path, "cgroup.events", "frozen 1");
	}
	free(line);
	if (mounts)
		fclose(mounts);
	return frozen;
}

bool xp_target_frozen(pid_t pid)
{
	char *line = malloc(LINE_BYTES);
	bool frozen = false;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
	file = fopen(path, "re");
	while (file && line && !frozen && fgets(line, LINE_BYTES, file)) {
		struct xp_cgroup_line group;

		/* In cgroup v1, only the freezer hierarchy can freeze. */
		frozen = xp_cgroup_line_parse(&group, line) &&
			 (!*group.controllers || xp_cgroup_list_has(group.controllers, "freezer")) && is_frozen(&group);
	}
	free(line);
	if (file)
		fclose(file);
	return frozen;
}
