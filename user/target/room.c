// SPDX-License-Identifier: BSD-2-Clause
#include "target/room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory_room.h"
#include "base/small_file.h"
#include "base/util.h"
#include "base/why.h"
#include "target/status.h"
#include "target/target.h"

#define ADDRESS_SPACE "Max address space"

/*
 * Returns the soft limit with this name from /proc/PID/limits. prlimit(2) requires CAP_SYS_RESOURCE for other users'
 * processes.
 */
static uint64_t limit_of(pid_t pid, const char *name)
{
	char text[4096];
	const char *line;
	uint64_t limit;

	if (xp_small_file_read(text, sizeof(text), "/proc/%d/limits", pid) < 0)
		return UINT64_MAX;
	line = strstr(text, name);
	/* The value can be "unlimited". */
	return line && sscanf(line + strlen(name), "%" SCNu64, &limit) == 1 ? limit : UINT64_MAX;
}

/* Does the same check as may_expand_vm() in mm/mmap.c. */
static bool exceeds(uint64_t limit, uint64_t used_kib, uint64_t bytes)
{
	return limit != UINT64_MAX && (limit < bytes || used_kib << 10 > limit - bytes);
}

static bool exceeds_count(pid_t pid, uint64_t mappings)
{
	uint64_t max, count = 0;
	char *text;

	if (xp_small_file_number("/proc/sys/vm/max_map_count", &max) || xp_mappings_text(&text, pid))
		return false;
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		count++;
	free(text);
	return count + mappings > max;
}

/* Returns a value of /proc/meminfo in KiB; 0: unknown. */
static uint64_t memory_kib(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, 10) : 0;
}

/*
 * Returns true if vm.overcommit_memory is 2 and this many more bytes would leave less than a quarter of CommitLimit
 * free.
 */
static bool exceeds_commitment(uint64_t bytes)
{
	uint64_t mode, limit, used;
	char text[8192];

	if (xp_small_file_number("/proc/sys/vm/overcommit_memory", &mode) || mode != 2 ||
	    xp_small_file_read(text, sizeof(text), "/proc/meminfo") < 0)
		return false;
	limit = memory_kib(text, "CommitLimit:");
	used = memory_kib(text, "Committed_AS:") + (bytes >> 10);
	return used > limit - limit / 4;
}

int xp_target_check_room(pid_t pid, uint64_t bytes, uint64_t mappings)
{
	struct xp_target_status status;

	bytes = XP_MIN(bytes, UINT64_MAX - XP_ROOM_BYTES) + XP_ROOM_BYTES;
	xp_thread_status(&status, pid, pid);
	if (exceeds(limit_of(pid, ADDRESS_SPACE), status.address_kib, bytes))
		return xp_why_set(-EOPNOTSUPP,
				  "its address space is near its limit (`ulimit -v`): raise that with `prlimit --pid "
				  "%d --as=unlimited`",
				  pid);
	if (exceeds(limit_of(pid, "Max data size"), status.data_kib, bytes))
		return xp_why_set(-EOPNOTSUPP,
				  "its data is near its limit (`ulimit -d`): raise that with `prlimit --pid %d "
				  "--data=unlimited`",
				  pid);
	if (exceeds_count(pid, mappings + XP_ROOM_MAPPINGS))
		return xp_why_set(-EOPNOTSUPP, "it is near its limit of mappings: raise that with `sysctl "
					       "vm.max_map_count=262144`");
	return 0;
}

int xp_target_check_room_for_rings(pid_t pid, uint64_t bytes)
{
	if (limit_of(pid, ADDRESS_SPACE) != UINT64_MAX)
		return xp_why_set(-EOPNOTSUPP,
				  "its address space is limited (`ulimit -v`), and call rings need %" PRIu64
				  " MiB of it: `prlimit --pid %d --as=unlimited` removes the limit",
				  bytes >> 20, pid);
	if (exceeds_commitment(bytes))
		return xp_why_set(-EOPNOTSUPP, "less than a quarter of the memory that the machine grants is free "
					       "(vm.overcommit_memory=2)");
	return 0;
}

int xp_target_check_group_room(pid_t pid, uint64_t bytes)
{
	char groups[64];
	uint64_t room;

	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", pid);
	room = xp_memory_room_in(groups, "/sys/fs/cgroup");
	if (room >= bytes)
		return 0;
	return xp_why_set(-EOPNOTSUPP,
			  "the memory limit of its control group (memory.max) leaves it %" PRIu64
			  " KiB, of up to %" PRIu64
			  " KiB that it may need: beyond that the kernel would kill it; raise the limit",
			  room >> 10, bytes >> 10);
}
