// SPDX-License-Identifier: BSD-2-Clause
#include "target/room.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/memory_room.h"
#include "base/small_file.h"
#include "target/status.h"
#include "target/target.h"

/* may_expand_vm(), mm/mmap.c */
static bool exceeds(pid_t pid, int resource, uint64_t used_kib, uint64_t bytes)
{
	struct rlimit limit;

	return !prlimit(pid, (enum __rlimit_resource)resource, NULL, &limit) && limit.rlim_cur != RLIM_INFINITY &&
	       (limit.rlim_cur < bytes || used_kib << 10 > limit.rlim_cur - bytes);
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

bool xp_target_lacks_room(pid_t pid, uint64_t bytes, uint64_t mappings, char *why, size_t why_size)
{
	struct xp_target_status status;

	xp_thread_status(&status, pid, pid);
	if (exceeds(pid, RLIMIT_AS, status.address_kib, bytes))
		snprintf(why, why_size,
			 "its address space is at its limit (`ulimit -v`): raise that with `prlimit --pid %d "
			 "--as=unlimited`",
			 pid);
	else if (exceeds(pid, RLIMIT_DATA, status.data_kib, bytes))
		snprintf(why, why_size,
			 "its data is at its limit (`ulimit -d`): raise that with `prlimit --pid %d --data=unlimited`",
			 pid);
	else if (exceeds_count(pid, mappings))
		snprintf(why, why_size,
			 "it has reached its limit of mappings: raise that with `sysctl vm.max_map_count=262144`");
	else
		return false;
	return true;
}

bool xp_target_group_lacks_room(pid_t pid, uint64_t bytes, char *why, size_t why_size)
{
	char groups[64];
	uint64_t room;

	snprintf(groups, sizeof(groups), "/proc/%d/cgroup", pid);
	room = xp_memory_room_in(groups, "/sys/fs/cgroup");
	if (room >= bytes)
		return false;
	snprintf(why, why_size,
		 "the memory limit of its control group (memory.max) leaves it %" PRIu64 " KiB, of up to %" PRIu64
		 " KiB that it may need: beyond that the kernel would kill it; raise the limit",
		 room >> 10, bytes >> 10);
	return true;
}
