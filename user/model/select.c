// SPDX-License-Identifier: BSD-2-Clause
#include "model/select.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "elf/function_patterns.h"

static bool matches_any(const char *const *globs, size_t count, const char *name)
{
	for (size_t i = 0; name && i < count; i++)
		if (!fnmatch(globs[i], name, 0))
			return true;
	return false;
}

bool xp_select_thread(const struct xp_select *select, uint64_t pid, uint64_t tid, const char *process_name,
		      const char *thread_name)
{
	bool pid_matches = !select->pid_count;

	for (size_t i = 0; i < select->pid_count; i++)
		pid_matches |= (uint64_t)select->pids[i] == pid;
	return pid_matches && (!select->tid || select->tid == tid) &&
	       (!select->comm_count || matches_any(select->comms, select->comm_count, process_name) ||
		matches_any(select->comms, select->comm_count, thread_name));
}

bool xp_select_time(const struct xp_select *select, uint64_t time_ns)
{
	return time_ns >= select->from_ns && (!select->to_ns || time_ns < select->to_ns);
}

bool xp_select_is_given(const struct xp_select *select)
{
	return select->pid_count || select->comm_count || select->function_count || xp_select_needs_threads(select);
}

bool xp_select_needs_threads(const struct xp_select *select)
{
	return select->tid || select->from_ns || select->to_ns;
}

/* ---- functions ---- */

enum { WANTED = 1, UNWANTED = 2 };

uint8_t xp_select_marks(const struct xp_select *select, const char *name, const char *symbol)
{
	uint8_t marks = 0;

	for (size_t i = 0; i < select->function_count; i++) {
		bool excludes = *select->functions[i] == '!';

		if (xp_pattern_uses_match(select->uses, select->functions, i, symbol, name))
			marks |= excludes ? UNWANTED : WANTED;
	}
	return marks;
}

bool xp_select_marked(const struct xp_select *select, uint8_t marks)
{
	uint8_t required = 0;

	for (size_t i = 0; i < select->function_count; i++)
		if (*select->functions[i] != '!')
			required = WANTED;
	return (marks & (required | UNWANTED)) == required;
}

/* A stack has the marks of all its functions. Callers have lower indexes. */
static void mark_stacks(const struct xp_model *model, const uint8_t *functions, uint8_t *stacks)
{
	for (size_t i = 1; i < model->stack_count; i++) {
		const struct xp_model_stack *stack = &model->stacks[i];
		const struct xp_model_location *location = &model->locations[stack->location];

		stacks[i] = stacks[stack->callers];
		for (uint32_t j = 0; j < location->frame_count; j++)
			stacks[i] |= functions[model->frames[location->first_frame + j].function];
	}
}

int xp_select_mark_stacks(const struct xp_select *select, const struct xp_model *model, uint8_t **stacks)
{
	uint8_t *functions = calloc(XP_MAX(model->function_count, (size_t)1), 1);

	*stacks = calloc(model->stack_count, 1);
	if (!functions || !*stacks) {
		free(functions);
		return -ENOMEM;
	}
	for (size_t i = 0; select->function_count && i < model->function_count; i++)
		functions[i] = xp_select_marks(select, model->functions[i].name, model->functions[i].symbol);
	mark_stacks(model, functions, *stacks);
	free(functions);
	return 0;
}

int xp_select_stacks(const struct xp_select *select, struct xp_model *model)
{
	uint8_t *stacks;
	int err;

	if (!select->function_count)
		return 0;
	err = xp_select_mark_stacks(select, model, &stacks);
	if (!err) {
		XP_ARRAY_KEEP(model->samples, model->sample_count, i,
			      xp_select_marked(select, stacks[model->samples[i].stack]));
		XP_ARRAY_KEEP(model->waits, model->wait_count, i,
			      xp_select_marked(select, stacks[model->waits[i].stack]));
	}
	free(stacks);
	return err;
}
