/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace/goroutines.h"

#include <errno.h>

#define GOROUTINES_MANY 1024u
#define HAND_STEPS 16 /* maximum number of steps per call */

/* Returns a goroutine without open calls; NULL: none was found. */
static struct xp_thread *find_idle(struct xp_goroutines *goroutines)
{
	const struct xp_u64_map *map = &goroutines->by_address;

	for (int i = 0; i < HAND_STEPS && map->count; i++) {
		struct xp_thread *goroutine = map->entries[goroutines->hand++ % map->count].pointer;

		if (!goroutine->depth)
			return goroutine;
	}
	return NULL;
}

int xp_goroutine_find(struct xp_processes *processes, const struct xp_event_go *event, struct xp_thread **result)
{
	struct xp_process *process = xp_processes_find(processes, (pid_t)event->head.pid);
	struct xp_thread *goroutine;
	struct xp_u64_map *map;
	int err = 0;

	if (!process)
		return -ENOENT;
	map = &process->goroutines.by_address;
	*result = xp_u64_map_get(map, event->goroutine);
	if (*result)
		return 0;
	goroutine = map->count >= GOROUTINES_MANY ? find_idle(&process->goroutines) : NULL;
	if (goroutine)
		xp_u64_map_remove(map, goroutine->goroutine);
	else
		err = xp_process_add_goroutine(process, &goroutine);
	if (err)
		return err;
	goroutine->goroutine = event->goroutine;
	*result = goroutine;
	return xp_u64_map_put(map, event->goroutine, goroutine);
}
