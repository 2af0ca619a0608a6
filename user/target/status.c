// SPDX-License-Identifier: BSD-2-Clause
#include "target/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "target/target.h"

/* Returns the value if the line has this field, otherwise NULL. */
static const char *value_of(const char *line, const char *name)
{
	size_t length = strlen(name);

	return !strncmp(line, name, length) && line[length] == ':' ? line + length + 1 : NULL;
}

static void parse_line(struct xp_target_status *status, const char *line)
{
	uint64_t pending = 0;
	const char *value;
	const struct {
		const char *name;
		const char *format;
		void *to;
	} numbers[] = {
		{ "Tgid", "%d", &status->process },	      { "TracerPid", "%d", &status->tracer },
		{ "Uid", "%*u %u", &status->euid },	      { "Uid", "%*u %*u %*u %u", &status->fsuid },
		{ "Gid", "%*u %u", &status->egid },	      { "VmSize", "%" SCNu64, &status->address_kib },
		{ "VmData", "%" SCNu64, &status->data_kib },  { "SigPnd", "%" SCNx64, &pending },
		{ "ShdPnd", "%" SCNx64, &pending },	      { "SigBlk", "%" SCNx64, &status->blocked },
		{ "SigCgt", "%" SCNx64, &status->caught },    { "Seccomp", "%u", &status->seccomp },
		{ "VmLck", "%" SCNu64, &status->locked_kib }, { "CapEff", "%" SCNx64, &status->capabilities },
	};

	for (size_t i = 0; i < XP_ARRAY_SIZE(numbers); i++)
		if ((value = value_of(line, numbers[i].name)))
			sscanf(value, numbers[i].format, numbers[i].to);
	status->pending |= pending;
	/* The list starts with the outermost namespace and ends with the innermost. */
	if (value_of(line, "NSpid") && (value = strrchr(line, '\t')))
		sscanf(value, "%d", &status->inner_pid);
	if ((value = value_of(line, "x86_Thread_features")))
		status->has_shadow_stack = strstr(value, "shstk");
}

int xp_thread_status(struct xp_target_status *status, pid_t pid, pid_t tid)
{
	char path[64], line[512];
	FILE *file;

	*status = (struct xp_target_status){ .euid = (uid_t)-1, .egid = (gid_t)-1, .fsuid = (uid_t)-1 };
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return -ESRCH;
	while (fgets(line, sizeof(line), file))
		parse_line(status, line);
	fclose(file);
	if (!status->process)
		return -ESRCH;
	/* A kernel without PID namespaces does not have the field NSpid. */
	if (!status->inner_pid)
		status->inner_pid = tid;
	return 0;
}

int xp_target_status(struct xp_target_status *status, pid_t pid, uint64_t start_time)
{
	int err = xp_thread_status(status, pid, pid);

	return err || xp_target_start_time(pid) != start_time ? -ESRCH : 0;
}
