// SPDX-License-Identifier: BSD-2-Clause
/* The value of --pid: PIDs, and names of running processes. */
#include "option_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/small_file.h"
#include "base/util.h"

#define COMMAND_BYTES 4096
#define SHOWN_MAX 20 /* maximum number of processes in an error message */

static int pid_add(struct xp_pid_list *list, pid_t pid)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->pids[i] == pid)
			return 0;
	return XP_ARRAY_ADD(list->pids, list->count, list->room, pid);
}

/*
 * Returns whether the process has this name: as its comm, or as the file name of its executable. Sets command to the
 * path of the executable, or to comm if the user may not read the path. Does not read the command line, because a
 * process can block its readers forever.
 */
static bool has_name(pid_t pid, const char *name, char command[COMMAND_BYTES])
{
	char path[64], comm[32] = "";
	const char *slash;
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	bytes = readlink(path, command, COMMAND_BYTES - 1);
	if (bytes < 0 && errno != EACCES && errno != EPERM) /* a kernel thread, or a zombie */
		return false;
	command[XP_MAX(bytes, 0)] = 0;
	if (xp_small_file_read(comm, sizeof(comm), "/proc/%d/comm", pid) > 0)
		comm[strcspn(comm, "\n")] = 0;
	slash = strrchr(command, '/');
	if (!command[0])
		snprintf(command, COMMAND_BYTES, "%s", comm);
	return !strcmp(comm, name) || (slash && !strcmp(slash + 1, name));
}

/* Finds all processes with this name. Returns 0 or -errno. */
static int find_named(struct xp_pid_list *found, const char *name)
{
	DIR *proc = opendir("/proc");
	char command[COMMAND_BYTES];
	const struct dirent *entry;
	int err = proc ? 0 : -errno;

	while (!err && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid > 0 && pid != getpid() && has_name(pid, name, command))
			err = pid_add(found, pid);
	}
	if (proc)
		closedir(proc);
	return err;
}

static int fail_ambiguous(const struct xp_pid_list *found, const char *name)
{
	char command[COMMAND_BYTES];

	xp_error("%zu processes have the name '%s'; give the PID of one:", found->count, name);
	for (size_t i = 0; i < XP_MIN(found->count, (size_t)SHOWN_MAX); i++)
		if (has_name(found->pids[i], name, command))
			xp_put_line(stderr, "  %7d  %.70s", found->pids[i], command);
	if (found->count > SHOWN_MAX)
		xp_put_line(stderr, "  and %zu more", found->count - SHOWN_MAX);
	return -EINVAL;
}

static int name_add(struct xp_pid_list *list, const char *text, size_t length)
{
	struct xp_pid_list found = { 0 };
	char name[NAME_MAX + 1] = "";
	int err;

	if (length < sizeof(name))
		memcpy(name, text, length);
	err = *name ? find_named(&found, name) : 0;
	if (!err && found.count == 1)
		err = pid_add(list, found.pids[0]);
	else if (!err && found.count)
		err = fail_ambiguous(&found, name);
	else if (!err)
		err = xp_fail(-EINVAL, "no process has the name '%.*s'", (int)length, text);
	free(found.pids);
	return err;
}

int xp_option_pids_set(struct xp_pid_list *list, const char *text, bool with_names)
{
	for (;;) {
		size_t length = strcspn(text, ","), digits = strspn(text, "0123456789");
		unsigned long pid = strtoul(text, NULL, 10);
		int err;

		if (with_names && length > digits && *text != '-')
			err = name_add(list, text, length);
		else if (!length || length != digits || pid < 1 || pid > INT_MAX)
			err = xp_fail(-EINVAL, "--pid takes process IDs%s separated by commas, not '%s'",
				      with_names ? " or names" : "", text);
		else
			err = pid_add(list, (pid_t)pid);
		if (err || !text[length])
			return err;
		text += length + 1;
	}
}
