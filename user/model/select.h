/* SPDX-License-Identifier: BSD-2-Clause */
/* The selected part of a recording. */
#ifndef XPROF_MODEL_SELECT_H
#define XPROF_MODEL_SELECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* A criterion that is empty or 0 selects everything. The caller owns the arrays. */
struct xp_select {
	const int *pids;
	size_t pid_count;
	uint64_t tid;
	const char *const *comms; /* globs: names of processes or threads */
	size_t comm_count;
	uint64_t from_ns; /* since the start of the recording */
	uint64_t to_ns;	  /* 0: to the end */
	/*
	 * Patterns (elf/function_patterns.h): selects stacks with a function that a pattern matches; with a leading
	 * '!', stacks without such a function.
	 */
	const char *const *functions;
	size_t function_count;
	struct xp_pattern_uses *uses; /* records which patterns matched; NULL: not recorded */
};

/* Returns whether samples and calls of this thread are selected. Names may be NULL. */
bool xp_select_thread(const struct xp_select *select, uint64_t pid, uint64_t tid, const char *process_name,
		      const char *thread_name);
bool xp_select_time(const struct xp_select *select, uint64_t time_ns);
/* Returns whether any criterion is set. */
bool xp_select_is_given(const struct xp_select *select);
/* Returns whether the selection depends on threads or times, which profiles do not contain. */
bool xp_select_needs_threads(const struct xp_select *select);

/*
 * Returns the marks of a function from the patterns `functions`. The marks of a stack are the bitwise OR of its
 * functions' marks; xp_select_marked() returns whether the stack is selected.
 */
uint8_t xp_select_marks(const struct xp_select *select, const char *name, const char *symbol);
bool xp_select_marked(const struct xp_select *select, uint8_t marks);

/* Sets the marks of each stack, after naming. The caller frees *stacks, also after an error. Returns 0 or -ENOMEM. */
int xp_select_mark_stacks(const struct xp_select *select, const struct xp_model *model, uint8_t **stacks);

/* Removes the samples and waits whose stacks are not selected by `functions`. Call it after naming. Returns 0 or
 * -ENOMEM. */
int xp_select_stacks(const struct xp_select *select, struct xp_model *model);

#endif
