// SPDX-License-Identifier: BSD-2-Clause
#include "model/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/code_places.h"
#include "base/util.h"
#include "model/location_names.h"

#define BPF_PREFIX "bpf_prog_" /* followed by 16 digits of its tag, and '_' */
#define BPF_TAG 16

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return false;
}

/* tests/cli/test_build.py compares these with bpf/. */
static bool is_own_program(const char *name)
{
	static const char *const names[] = {
		"jit_changed",
		"sample",
		"sled_entry",
		"sled_exit",
		"sled_tail_exit",
		"sled_tail_exit_conditional",
		"sled_entry_args",
		"sled_custom_event",
		"sled_typed_event",
		"usdt_probe",
		"stub_call",
		"stub_memory_call",
		"stub_args",
		"stub_custom_event",
		"stub_typed_event",
		"switch_threads",
		"task_exec",
		"task_fork",
		"task_exit",
		"task_new",
		"task_prepare_exec",
		"task_leave_by_exec",
		"task_leave_by_exit",
		"link_map_changed",
		"wait_switch",
		"wait_waking",
		"wait_fork",
		"wait_exec",
		"wait_rename",
		"wait_exit",
		"go_call",
	};

	if (strncmp(name, BPF_PREFIX, strlen(BPF_PREFIX)) != 0 || strlen(name) <= strlen(BPF_PREFIX) + BPF_TAG)
		return false;
	return is_one_of(name + strlen(BPF_PREFIX) + BPF_TAG + 1, names, XP_ARRAY_SIZE(names));
}

/* Returns whether this is an outermost function of the trap of a uprobe, or of the newer system calls for uprobes. */
static bool is_trap(const char *name)
{
	static const char *const names[] = {
		"asm_exc_int3",	       "exc_int3",	   "asm_exc_debug", "exc_debug_user", "uprobe_notify_resume",
		"__x64_sys_uretprobe", "__x64_sys_uprobe",
	};

	return is_one_of(name, names, XP_ARRAY_SIZE(names));
}

static bool is_recorder(const struct xp_model *model, const struct xp_model_location *location)
{
	const struct xp_model_object *object = &model->objects[location->object];
	const struct xp_model_function *function;

	if (!location->frame_count)
		return false;
	function = &model->functions[model->frames[location->first_frame].function];
	if (strcmp(object->path, "[xprof]") == 0 || strcmp(object->name, "memfd:" XP_STUB_NAME) == 0)
		return true;
	return object->kind == XP_CODE_KERNEL && (is_trap(function->name) || is_own_program(function->name));
}

/* Sets the replacement of each stack; a stack's callers precede it. *any: at least one stack is replaced. */
static int find_stacks(struct xp_model *model, uint32_t *stacks, size_t count, bool *any)
{
	uint32_t recorder = XP_MODEL_NONE;
	int err = 0;

	for (size_t s = 1; !err && s < count; s++) {
		const struct xp_model_stack stack = model->stacks[s];
		uint32_t callers = stacks[stack.callers];

		stacks[s] = (uint32_t)s;
		if (callers != stack.callers) {
			stacks[s] = callers;
			continue;
		}
		if (!is_recorder(model, &model->locations[stack.location]))
			continue;
		*any = true;
		if (recorder == XP_MODEL_NONE)
			err = xp_model_location_named(model, XP_RECORDER_NAME, XP_CODE_RECORDER, &recorder);
		err = err ?: xp_model_stack(model, callers, recorder, &stacks[s]);
		err = err == -E2BIG ? 0 : err; /* the stack stays */
	}
	return err;
}

/* Adds up samples whose stacks have become equal. */
static int move_samples(struct xp_model *model, const uint32_t *stacks)
{
	size_t count;
	struct xp_model_sample *samples = xp_model_take_samples(model, &count);
	int err = 0;

	for (size_t i = 0; !err && i < count; i++) {
		samples[i].stack = stacks[samples[i].stack];
		err = xp_model_sample(model, &samples[i]);
	}
	free(samples);
	for (size_t i = 0; i < model->wait_count; i++)
		model->waits[i].stack = stacks[model->waits[i].stack];
	return err;
}

int xp_model_join_recorder(struct xp_model *model)
{
	size_t count = model->stack_count;
	uint32_t *stacks = calloc(count, sizeof(*stacks));
	bool any = false;
	int err;

	if (!stacks)
		return -ENOMEM;
	/* The replacements may exceed the limit of a full model: at most one per stack. */
	model->stack_max = XP_MODEL_STACKS_MAX;
	err = find_stacks(model, stacks, count, &any);
	if (!err && any)
		err = move_samples(model, stacks);
	free(stacks);
	return err == -E2BIG ? -ENOMEM : err;
}
