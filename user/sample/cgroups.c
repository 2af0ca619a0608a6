// SPDX-License-Identifier: BSD-2-Clause
#include "sample/cgroups.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"
#include "target/cgroup.h"

static uint64_t path_key(const void *elements, uint32_t index)
{
	return xp_hash_text(((char *const *)elements)[index]);
}

static const char *keep(struct xp_cgroups *cgroups, const char *path)
{
	uint64_t key = xp_hash_text(path);
	char *copy;

	for (const uint32_t *slot = xp_hash_first(&cgroups->by_path, key); *slot;
	     slot = xp_hash_next(&cgroups->by_path, slot))
		if (strcmp(cgroups->paths[*slot - 1], path) == 0)
			return cgroups->paths[*slot - 1];
	if (cgroups->count == XP_CGROUPS_MAX || XP_ARRAY_RESERVE(cgroups->paths, cgroups->room, cgroups->count + 1) ||
	    !(copy = strdup(path)))
		return NULL;
	if (xp_hash_add(&cgroups->by_path, key, (uint32_t)cgroups->count, path_key, cgroups->paths)) {
		free(copy);
		return NULL;
	}
	return cgroups->paths[cgroups->count++] = copy;
}

const char *xp_cgroups_of(struct xp_cgroups *cgroups, pid_t pid)
{
	char path[XP_CGROUP_BYTES] = "/";

	return pid && xp_target_cgroup(pid, path) ? NULL : keep(cgroups, path);
}

void xp_cgroups_free(struct xp_cgroups *cgroups)
{
	for (size_t i = 0; i < cgroups->count; i++)
		free(cgroups->paths[i]);
	free(cgroups->paths);
	xp_hash_free(&cgroups->by_path);
}
