// SPDX-License-Identifier: BSD-2-Clause
#include "trace/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "xprof/event.h"

static bool has_typed_sleds(const struct xp_sled_table *table)
{
	for (size_t i = 0; i < table->sled_count; i++)
		if (table->sleds[i].kind == XP_SLED_TYPED_EVENT)
			return true;
	return false;
}

/* Adds the watched functions of an object, whose IDs in the log follow the existing ones. */
static int add_watched(struct xp_functions *functions, const struct xp_object *object)
{
	size_t count = object->table->function_count;
	uint8_t *by_id;

	if (!object->watched && !functions->watched.by_id)
		return 0;
	by_id = realloc(functions->watched.by_id, functions->count + count + 1);
	if (!by_id)
		return -ENOMEM;
	if (!functions->watched.by_id)
		memset(by_id, 0, functions->count + 1);
	functions->watched.by_id = by_id;
	if (object->watched)
		memcpy(by_id + functions->count + 1, object->watched + 1, count);
	else
		memset(by_id + functions->count + 1, 0, count);
	return 0;
}

int xp_functions_add(struct xp_functions *functions, struct xp_object *object, const struct xp_sled_result *sleds)
{
	struct xp_range range = {
		.object = object,
		.fn_base = object->fn_base,
		.function_count = object->table->function_count,
		.fdr_base = functions->count,
		.budget = object->budget,
		.sleds = *sleds,
	};

	for (size_t i = 0; i < functions->range_count; i++)
		if (functions->ranges[i].object == object)
			return 1;
	if (object->table->function_count > XP_FN_MAX - functions->count)
		return -ENOSPC;
	if (add_watched(functions, object) ||
	    XP_ARRAY_ADD(functions->ranges, functions->range_count, functions->range_room, range))
		return -ENOMEM;
	functions->count += object->table->function_count;
	functions->has_typed = functions->has_typed || has_typed_sleds(object->table);
	return 0;
}

int xp_functions_copy(struct xp_functions *functions, const struct xp_functions *from)
{
	int err = 0;

	for (size_t i = 0; i < from->range_count && err >= 0; i++)
		err = xp_functions_add(functions, from->ranges[i].object, &from->ranges[i].sleds);
	return XP_MIN(err, 0);
}

void xp_functions_free(struct xp_functions *functions)
{
	free(functions->ranges);
	free(functions->watched.by_id);
}

bool xp_functions_excluded(const void *arg, uint32_t fn_id)
{
	const struct xp_functions *functions = arg;

	for (size_t i = 0; i < functions->range_count; i++) {
		const struct xp_range *range = &functions->ranges[i];

		if (!range->budget || fn_id <= range->fdr_base || fn_id - range->fdr_base > range->function_count)
			continue;
		return __atomic_load_n(&range->budget[fn_id - range->fdr_base].excluded, __ATOMIC_RELAXED) !=
		       XP_EXCLUDED_NOT;
	}
	return false;
}
