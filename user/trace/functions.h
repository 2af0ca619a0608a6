/* SPDX-License-Identifier: BSD-2-Clause */
/* The functions of a process: converts their IDs in events to their IDs in the log of the process. */
#ifndef XPROF_TRACE_FUNCTIONS_H
#define XPROF_TRACE_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sled/object.h"
#include "sled/sleds.h"

/* An instrumented object in a process, and the IDs of its functions in the process's log. */
struct xp_range {
	struct xp_object *object;
	uint32_t fn_base;	 /* as in the object */
	uint32_t function_count; /* its table's */
	uint32_t fdr_base;	 /* function ID i of the object is fdr_base + i in the log; 0 for the executable */
	/* The object's budget. A budget is set before the object is added to a process. */
	struct xp_function_budget *budget;
	struct xp_sled_result sleds;
	size_t overwritten; /* number of sleds that XRay's runtime patched during the recording */
};

/* The functions with triggers (triggers.h), by their IDs in the log, as in struct xp_object. */
struct xp_watched {
	uint8_t *by_id; /* NULL: none */
};

/* Empty if zeroed. The objects are borrowed. */
struct xp_functions {
	struct xp_range *ranges;
	size_t range_count, range_room;
	uint32_t count; /* sum over all ranges: the last id */
	bool has_typed; /* has typed event sleds, which llvm-xray's reader of instrumentation maps rejects */
	const struct xp_object *main_object; /* the executable, if it is instrumented; set by the caller */
	struct xp_watched watched;
};

/* Adds an object. Returns 0, 1 if it has been added before, -ENOSPC if there are no more IDs, or -ENOMEM. */
int xp_functions_add(struct xp_functions *functions, struct xp_object *object, const struct xp_sled_result *sleds);
/* Adds all objects of another process. Returns 0 or an error as above. */
int xp_functions_copy(struct xp_functions *functions, const struct xp_functions *from);
void xp_functions_free(struct xp_functions *functions);

/*
 * Whether a budget has excluded a function of the log, or is excluding it: its sleds may be restored. arg: the functions
 * (xp_thread_forget_if()).
 */
bool xp_functions_excluded(const void *arg, uint32_t fn_id);

/* Returns whether a budget excluded the function at this time. */
static inline bool xp_function_is_out(const struct xp_function_budget *budget, uint64_t tsc)
{
	return tsc > __atomic_load_n(&budget->out_tsc, __ATOMIC_RELAXED);
}

/* Returns the range with this function ID, and the function's ID in its object; NULL: none. */
static inline const struct xp_range *xp_functions_find(const struct xp_functions *functions, uint32_t fn, uint32_t *id)
{
	for (size_t i = 0; i < functions->range_count; i++) {
		const struct xp_range *range = &functions->ranges[i];
		uint32_t offset = fn - range->fn_base - 1;

		if (offset < range->function_count) {
			*id = 1 + offset;
			return range;
		}
	}
	return NULL;
}

#endif
