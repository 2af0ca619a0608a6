// SPDX-License-Identifier: BSD-2-Clause
#include "model/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "unit.h"

#include "base/util.h"
#include "model/depth.h"
#include "model/location_names.h"
#include "model/recorder.h"
#include "model/select.h"
#include "model/sum.h"
#include "model/tree.h"

/* Two threads of a process, an object without a file, and JIT functions at its addresses. */
struct recording {
	struct xp_model model;
	uint32_t process, threads[2], object;
};

static int set_up(void **state)
{
	static struct recording recording;
	struct xp_model *model = &recording.model;
	struct xp_model_process process = { .pid = 7, .image = 1 };
	struct xp_model_object object = { .kind = XP_CODE_JIT, .file = XP_MODEL_NONE };

	assert_int_equal(xp_model_init(model, XP_MODEL_SAMPLES, XP_NAMES_LINES), 0);
	process.name = xp_model_text(model, "app");
	object.name = xp_model_text(model, "jit");
	object.path = xp_model_text(model, "[jit]");
	assert_int_equal(xp_model_process(model, &process, &recording.process), 0);
	assert_int_equal(xp_model_object(model, &object, &recording.object), 0);
	for (uint32_t i = 0; i < 2; i++) {
		const struct xp_model_thread thread = {
			.process = recording.process,
			.tid = 7 + i,
			.name = xp_model_text(model, i ? "helper" : "app"),
		};

		assert_int_equal(xp_model_thread(model, &thread, &recording.threads[i]), 0);
	}
	*state = &recording;
	return 0;
}

static int tear_down(void **state)
{
	struct recording *recording = *state;

	xp_model_free(&recording->model);
	return 0;
}

/* functions: letters, the outermost function first; '?' has no name. */
static void add(struct recording *recording, const char *functions, uint32_t thread, uint64_t count)
{
	struct xp_model_sample sample = {
		.thread = recording->threads[thread],
		.cpu = thread,
		.values = { count, 10 * count },
	};

	for (const char *function = functions; *function; function++) {
		uint32_t location, jit = *function == '?' ? XP_MODEL_NONE : (uint32_t)*function;

		assert_int_equal(
		    xp_model_location(&recording->model, recording->object, (uint64_t)*function, jit, &location), 0);
		assert_int_equal(xp_model_stack(&recording->model, sample.stack, location, &sample.stack), 0);
	}
	assert_int_equal(xp_model_sample(&recording->model, &sample), 0);
}

static int letter(void *arg, struct xp_model *model, const struct xp_model_location *location,
		  struct xp_source_frame *frame)
{
	const char name[] = { (char)location->jit, 0 };

	(void)arg;
	frame->function = xp_model_text(model, name);
	return 0;
}

static void name(struct recording *recording)
{
	const struct xp_model_jit_names names = { letter, NULL };

	assert_int_equal(xp_model_name(&recording->model, &names), 0);
}

/* Equal items are stored once. */
TEST_WITH(test_samples_are_added_up, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	uint64_t totals[2];

	add(recording, "ab", 0, 1);
	add(recording, "ac", 0, 2);
	add(recording, "ab", 0, 3);
	add(recording, "ab", 1, 5);
	assert_int_equal(model->location_count, 3);
	assert_int_equal(model->stack_count, 4);
	assert_int_equal(model->sample_count, 3);
	assert_int_equal(model->samples[0].values[0], 4);
	assert_int_equal(model->samples[0].values[1], 40);
	xp_model_totals(model, totals);
	assert_int_equal(totals[0], 11);
	assert_int_equal(totals[1], 110);
}

/*
 * A part of a recording: two samples and a wait. shift: of the numbers that a part gives to its functions. program:
 * what PID 7 runs.
 */
static void make_part(struct xp_model *model, uint32_t shift, const char *program)
{
	const struct xp_model_jit_names names = { letter, NULL };
	struct xp_model_process process = { .pid = 7, .image = 1 };
	struct xp_model_thread thread = { .tid = 7 };
	struct xp_model_sample sample = { .values = { 2, 20 } };
	struct xp_model_wait wait = { .recorded = 1, .count = 1, .total_ns = 5, .end_ns = 5 };
	uint32_t object, location;

	assert_int_equal(xp_model_init(model, XP_MODEL_SAMPLES, XP_NAMES_LINES), 0);
	process.name = xp_model_text(model, program);
	thread.name = wait.waker_name = xp_model_text(model, "thread");
	assert_int_equal(xp_model_process(model, &process, &thread.process), 0);
	assert_int_equal(xp_model_thread(model, &thread, &sample.thread), 0);
	assert_int_equal(xp_model_object_named(model, "jit", "[jit]", XP_CODE_JIT, &object), 0);
	assert_int_equal(xp_model_location(model, object, 100, 'a' + shift, &location), 0);
	assert_int_equal(xp_model_stack(model, 0, location, &sample.stack), 0);
	assert_int_equal(xp_model_sample(model, &sample), 0);
	assert_int_equal(xp_model_location(model, object, 200, 'b', &location), 0);
	assert_int_equal(xp_model_stack(model, sample.stack, location, &sample.stack), 0);
	assert_int_equal(xp_model_sample(model, &sample), 0);
	wait.stack = sample.stack;
	assert_int_equal(xp_model_wait(model, &wait), 0);
	assert_int_equal(xp_model_name(model, &names), 0);
	model->length_ns = 10;
}

TEST(test_sum)
{
	static const struct {
		uint32_t shift;
		const char *program;
	} parts[] = { { 0, "app" }, { 0, "app" }, { 1, "app" }, { 0, "other" } };
	struct xp_model sum;
	uint64_t totals[2];

	assert_int_equal(xp_model_init(&sum, XP_MODEL_SAMPLES, XP_NAMES_LINES), 0);
	for (size_t i = 0; i < XP_ARRAY_SIZE(parts); i++) {
		struct xp_model part;

		make_part(&part, parts[i].shift, parts[i].program);
		assert_int_equal(xp_model_add(&sum, &part), 0);
		xp_model_free(&part); /* the sum has copies of all texts */
	}
	xp_model_totals(&sum, totals);
	assert_int_equal(totals[0], 16);
	assert_int_equal(totals[1], 160);
	assert_int_equal(sum.length_ns, 40);
	/* The address is the same, the function is not. */
	assert_int_equal(sum.location_count, 3);
	assert_int_equal(sum.function_count, 2);
	assert_int_equal(sum.stack_count, 1 + 4);
	assert_int_equal(sum.process_count, 2);
	assert_string_equal(sum.processes[0].name, "app");
	assert_string_equal(sum.processes[1].name, "other");
	assert_string_equal(sum.functions[sum.frames[sum.locations[0].first_frame].function].name, "a");
	assert_int_equal(sum.samples[0].values[0], 4);
	assert_int_equal(sum.wait_count, 3);
	assert_int_equal(sum.waits[0].total_ns, 10);
	assert_string_equal(sum.waits[0].waker_name, "thread");
	xp_model_free(&sum);
}

TEST_WITH(test_times_keep_samples_apart, set_up, tear_down)
{
	struct recording *recording = *state;

	recording->model.keep_times = true;
	add(recording, "ab", 0, 1);
	add(recording, "ab", 0, 1);
	assert_int_equal(recording->model.sample_count, 2);
}

TEST_WITH(test_times_in_slots, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const struct xp_model_sample sample = { .thread = recording->threads[0], .values = { 1, 100 } };
	static const uint64_t expected[][2] = { { 0, 25 }, { 0, 50 }, { 1, 25 } };

	model->slot_ns = 10;
	assert_int_equal(xp_model_sample_over(model, &sample, 5, 25), 0);
	assert_int_equal(model->sample_count, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(model->samples[i].time_ns, 10 * i);
		assert_memory_equal(model->samples[i].values, expected[i], sizeof(expected[i]));
	}
	/* Reads times from known slots. */
	assert_int_equal(xp_model_sample_over(model, &sample, 12, 12), 0);
	assert_int_equal(xp_model_sample_over(model, &sample, 0, 20), 0);
	assert_int_equal(model->sample_count, 3);
	assert_int_equal(model->samples[1].values[0], 1);
	assert_int_equal(model->samples[1].values[1], 50 + 100 + 50);
}

TEST_WITH(test_slots_are_bounded, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const struct xp_model_sample centuries = { .thread = recording->threads[0], .values = { 1, 1ull << 62 } };
	uint64_t totals[2];

	model->slot_ns = 10;
	assert_int_equal(xp_model_sample_over(model, &centuries, 0, UINT64_MAX), 0);
	assert_in_range(model->sample_count, XP_MODEL_SLOTTED_MAX, XP_MODEL_SLOTTED_MAX + 2);
	assert_int_equal(model->slot_ns, 0);
	xp_model_totals(model, totals);
	assert_int_equal(totals[0], 1);
	assert_int_equal(totals[1], 1ull << 62);
}

TEST_WITH(test_names, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;

	add(recording, "a?", 0, 1);
	name(recording);
	assert_int_equal(model->function_count, 2);
	assert_string_equal(model->functions[0].name, "a");
	assert_true(model->functions[0].has_name);
	assert_int_equal(model->functions[0].kind, XP_CODE_JIT);
	assert_string_equal(model->functions[1].name, "[jit]");
	assert_false(model->functions[1].has_name);
}

static const struct xp_model_node *find(const struct xp_model *model, const struct xp_model_tree *tree, uint32_t parent,
					const char *text)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct xp_model_node *node = &tree->nodes[i];
		const char *its = node->group			    ? node->group
				  : node->function == XP_MODEL_NONE ? NULL
								    : model->functions[node->function].name;

		if (node->parent == parent && its && strcmp(its, text) == 0)
			return node;
	}
	fail_msg("no %s", text);
	return NULL;
}

TEST_WITH(test_tree, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const struct xp_model_node *process, *helper, *a;
	struct xp_model_tree tree;

	add(recording, "ab", 0, 1);
	add(recording, "a", 0, 2);
	add(recording, "ab", 1, 4);
	name(recording);
	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_THREAD), 0);
	assert_int_equal(tree.nodes[0].total[0], 7);
	process = find(model, &tree, 0, "app (7)");
	assert_int_equal(process->total[1], 70);
	assert_int_equal(process->self[0], 0);
	helper = find(model, &tree, (uint32_t)(process - tree.nodes), "helper (8)");
	assert_int_equal(helper->total[0], 4);
	a = find(model, &tree, (uint32_t)(find(model, &tree, (uint32_t)(process - tree.nodes), "app (7)") - tree.nodes),
		 "a");
	assert_int_equal(a->total[0], 3);
	assert_int_equal(a->self[0], 2);
	xp_model_tree_free(&tree);

	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_NONE), 0);
	assert_int_equal(tree.count, 3);
	a = find(model, &tree, 0, "a");
	assert_int_equal(a->total[0], 7);
	xp_model_tree_free(&tree);

	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_CPU), 0);
	assert_int_equal(find(model, &tree, 0, "cpu 1")->total[0], 4);
	xp_model_tree_free(&tree);
}

TEST_WITH(test_rare_stacks, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const struct xp_model_node *a, *rare;
	struct xp_model_tree tree;
	uint32_t *moved;
	size_t count;

	add(recording, "abc", 0, 10);
	add(recording, "ab", 0, 20);
	add(recording, "ac", 0, 3);
	add(recording, "acb", 0, 2);
	add(recording, "b", 0, 1);
	name(recording);
	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_NONE), 0);
	count = tree.count;
	moved = xp_model_tree_bound(&tree, model, count);
	assert_int_equal(tree.count, count);
	assert_int_equal(tree.rare_count, 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(moved[i], i);
	free(moved);
	/* The root, a, and b below it. */
	moved = xp_model_tree_bound(&tree, model, 6);
	assert_int_equal(tree.rare_count, 4);
	assert_int_equal(tree.count, 6);
	a = find(model, &tree, 0, "a");
	assert_int_equal(a->total[0], 35);
	rare = find(model, &tree, (uint32_t)(a - tree.nodes), XP_MODEL_RARE);
	assert_int_equal(rare->self[0], 5);
	assert_int_equal(rare->total[1], 50);
	assert_int_equal(find(model, &tree, 0, XP_MODEL_RARE)->self[0], 1);
	assert_int_equal(find(model, &tree, (uint32_t)(a - tree.nodes), "b")->total[0], 30);
	for (size_t i = 1; i < tree.count; i++)
		assert_true(tree.nodes[i].parent < i);
	free(moved);
	xp_model_tree_free(&tree);
}

/* A sample with a stack of named kernel functions, the outermost first. */
static void add_named(struct recording *recording, uint64_t count, const char *const *names)
{
	struct xp_model_sample sample = { .thread = recording->threads[0], .values = { count, count * 10 } };
	uint32_t location;

	for (; *names; names++) {
		assert_int_equal(xp_model_location_named(&recording->model, *names, XP_CODE_KERNEL, &location), 0);
		assert_int_equal(xp_model_stack(&recording->model, sample.stack, location, &sample.stack), 0);
	}
	assert_int_equal(xp_model_sample(&recording->model, &sample), 0);
}

static const char *function_of(const struct xp_model *model, uint32_t stack)
{
	const struct xp_model_location *location = &model->locations[model->stacks[stack].location];

	return model->functions[model->frames[location->first_frame].function].shown;
}

/*
 * All frames above the trap of a uprobe, or above one of xprof's BPF programs, are one frame. Programs of other tools
 * are not.
 */
TEST_WITH(test_recorder_is_one_frame, set_up, tear_down)
{
	struct recording *recording = *state;
	const struct xp_model *model = &recording->model;
	uint64_t totals[2];

	add_named(recording, 1, (const char *[]){ "work", "asm_exc_int3", "uprobe_notify_resume", "deep", NULL });
	add_named(recording, 2, (const char *[]){ "work", "asm_exc_int3", NULL });
	add_named(recording, 4, (const char *[]){ "switch", "bpf_prog_0123456789abcdef_wait_switch", "deep", NULL });
	add_named(recording, 8, (const char *[]){ "switch", "bpf_prog_0123456789abcdef_other", NULL });
	add_named(recording, 16, (const char *[]){ "work", NULL });
	assert_int_equal(xp_model_join_recorder(&recording->model), 0);
	assert_int_equal(model->sample_count, 4);
	for (size_t i = 0; i < 2; i++) {
		const struct xp_model_sample *sample = &model->samples[i];
		uint32_t callers = model->stacks[sample->stack].callers;

		assert_int_equal(sample->values[0], i ? 4 : 3);
		assert_string_equal(function_of(model, sample->stack), XP_RECORDER_NAME);
		assert_string_equal(function_of(model, callers), i ? "switch" : "work");
		assert_int_equal(model->stacks[callers].callers, 0);
	}
	assert_string_equal(function_of(model, model->samples[2].stack), "bpf_prog_0123456789abcdef_other");
	xp_model_totals(model, totals);
	assert_int_equal(totals[0], 31);
	assert_int_equal(totals[1], 310);
}

TEST_WITH(test_labels_have_whole_characters, set_up, tear_down)
{
	char name[3 * 34 + 2] = "a", label[XP_MODEL_LABEL_BYTES];

	for (size_t i = 0; i < 34; i++)
		strcat(name, "\xe9\xbe\x8d");
	xp_model_label(label, sizeof(label), name, 0);
	assert_int_equal(strlen(label), 64);
	xp_model_label(label, sizeof(label), name + 1, 7);
	assert_int_equal(strlen(label), 63 + strlen(" (7)"));
	assert_memory_equal(label, name + 1, 63);
}

static uint64_t selected(struct recording *recording, const char *const *globs, size_t count)
{
	const struct xp_select select = { .functions = globs, .function_count = count };
	uint64_t totals[2];

	add(recording, "ab", 0, 1);
	add(recording, "ac", 0, 2);
	add(recording, "d", 0, 4);
	name(recording);
	assert_int_equal(xp_select_stacks(&select, &recording->model), 0);
	xp_model_totals(&recording->model, totals);
	return totals[0];
}

TEST_WITH(test_wanted_functions, set_up, tear_down)
{
	const char *const globs[] = { "[bd]" };

	assert_int_equal(selected(*state, globs, 1), 5);
}

TEST_WITH(test_unwanted_functions, set_up, tear_down)
{
	const char *const globs[] = { "!b" };

	assert_int_equal(selected(*state, globs, 1), 6);
}

TEST_WITH(test_wanted_and_unwanted_functions, set_up, tear_down)
{
	const char *const globs[] = { "a", "!b" };

	assert_int_equal(selected(*state, globs, 2), 2);
}

TEST_WITH(test_select_threads_and_times, set_up, tear_down)
{
	const int pids[] = { 7, 9 };
	const char *const comms[] = { "app*" };
	const struct xp_select select = {
		.pids = pids,
		.pid_count = 2,
		.comms = comms,
		.comm_count = 1,
		.from_ns = 10,
		.to_ns = 20,
	};

	assert_true(xp_select_thread(&select, 9, 1, "x", "app-io"));
	assert_true(xp_select_thread(&select, 9, 1, "app", NULL));
	assert_false(xp_select_thread(&select, 8, 1, "app", "app"));
	assert_false(xp_select_thread(&select, 9, 1, "x", NULL));
	assert_false(xp_select_time(&select, 9));
	assert_true(xp_select_time(&select, 10));
	assert_true(xp_select_time(&select, 19));
	assert_false(xp_select_time(&select, 20));
	assert_true(xp_select_needs_threads(&select));
}

TEST_WITH(test_any_criterion_is_a_selection, set_up, tear_down)
{
	const struct xp_select given[] = { { .pid_count = 1 }, { .tid = 1 },   { .comm_count = 1 },
					   { .from_ns = 1 },   { .to_ns = 1 }, { .function_count = 1 } };

	assert_false(xp_select_is_given(&(struct xp_select){ 0 }));
	for (size_t i = 0; i < XP_ARRAY_SIZE(given); i++)
		assert_true(xp_select_is_given(&given[i]));
}

/* Returns the names of a stack's functions, the innermost first; equal names in a row once, with their number. */
static void put_stack(const struct xp_model *model, uint32_t stack, char *to, size_t size)
{
	size_t length = 0, count = 0;

	*to = 0;
	for (; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[stack].location];
		uint32_t callers = model->stacks[stack].callers;

		count++;
		if (callers && model->stacks[callers].location == model->stacks[stack].location)
			continue;
		length += (size_t)snprintf(to + length, size - length, "%s%s*%zu", *to ? " " : "",
					   model->functions[model->frames[location->first_frame].function].name, count);
		count = 0;
	}
}

static uint64_t frames_of(const struct xp_model *model)
{
	uint64_t frames = 0;

	for (size_t i = 0; i < model->sample_count; i++)
		for (uint32_t stack = model->samples[i].stack; stack; stack = model->stacks[stack].callers)
			frames++;
	return frames;
}

/* A recursion with a sample at every depth, and another function at the end. */
static void add_recursion(struct recording *recording, size_t depth)
{
	char *functions = malloc(depth + 2);

	assert_non_null(functions);
	for (size_t i = 0; i < depth; i++) {
		functions[i] = i ? 'r' : 'm';
		functions[i + 1] = 0;
		add(recording, functions, 0, 1);
	}
	functions[depth] = 'x';
	functions[depth + 1] = 0;
	add(recording, functions, 0, 1);
	free(functions);
}

TEST_WITH(test_depth_is_bounded, set_up, tear_down)
{
	const size_t depth = 6 * XP_MODEL_DEPTH_MAX;
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	struct xp_model_cut cut;
	uint64_t totals[2];
	char text[256];

	add_recursion(recording, depth);
	name(recording);
	assert_int_equal(xp_model_cut_depth(model, &cut), 0);
	assert_int_equal(cut.depth, XP_MODEL_DEPTH_MAX);
	assert_int_equal(cut.samples, depth + 1 - (XP_MODEL_DEPTH_MAX + 1));
	/*
	 * Complete stacks: one with an additional function, one that ends in the recursion, and one in the other
	 * function.
	 */
	assert_int_equal(model->sample_count, XP_MODEL_DEPTH_MAX + 3);
	assert_true(frames_of(model) < (XP_MODEL_DEPTH_MAX + 3) * (XP_MODEL_DEPTH_MAX + 3));
	xp_model_totals(model, totals);
	assert_int_equal(totals[0], depth + 1);
	assert_int_equal(totals[1], 10 * (depth + 1));
	assert_int_equal(model->dropped, 0);
	put_stack(model, model->samples[XP_MODEL_DEPTH_MAX].stack, text, sizeof(text));
	assert_string_equal(text, "r*1024 m*1");
	put_stack(model, model->samples[XP_MODEL_DEPTH_MAX + 1].stack, text, sizeof(text));
	assert_string_equal(text, "r*1 [deeper]*1 r*1023 m*1");
	assert_int_equal(model->samples[XP_MODEL_DEPTH_MAX + 1].values[0], depth - (XP_MODEL_DEPTH_MAX + 1));
	put_stack(model, model->samples[XP_MODEL_DEPTH_MAX + 2].stack, text, sizeof(text));
	assert_string_equal(text, "x*1 [deeper]*1 r*1023 m*1");
}

TEST_WITH(test_shallow_stacks_are_whole, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	struct xp_model_cut cut;
	size_t functions;

	add_recursion(recording, XP_MODEL_DEPTH_MAX);
	name(recording);
	functions = model->function_count;
	assert_int_equal(xp_model_cut_depth(model, &cut), 0);
	assert_int_equal(cut.samples, 0);
	assert_int_equal(model->sample_count, XP_MODEL_DEPTH_MAX + 1);
	assert_int_equal(model->function_count, functions);
}

/* Many different stacks: the depth is reduced, so that all frames stay within their limit. */
TEST_WITH(test_many_deep_stacks, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const size_t count = XP_MODEL_WRITTEN_MAX / XP_MODEL_DEPTH_MAX + 1;
	struct xp_model_sample sample = { .cpu = XP_MODEL_CPU_UNKNOWN, .values = { 1, 1 } };
	struct xp_model_cut cut;
	uint64_t totals[2];

	model->kind = XP_MODEL_CALLS;
	add_recursion(recording, XP_MODEL_DEPTH_MAX);
	sample.stack = model->samples[XP_MODEL_DEPTH_MAX - 1].stack;
	for (size_t i = 0; i < count; i++) {
		struct xp_model_sample one = sample;
		uint32_t location;

		assert_int_equal(xp_model_location(model, recording->object, 1000 + i, 'y', &location), 0);
		assert_int_equal(xp_model_stack(model, sample.stack, location, &one.stack), 0);
		assert_int_equal(xp_model_sample(model, &one), 0);
	}
	name(recording);
	model->stack_max = model->stack_count;
	assert_int_equal(xp_model_cut_depth(model, &cut), 0);
	assert_int_equal(cut.depth, XP_MODEL_DEPTH_MAX / 2);
	assert_true(frames_of(model) < XP_MODEL_WRITTEN_MAX);
	xp_model_totals(model, totals);
	assert_int_equal(totals[0], XP_MODEL_DEPTH_MAX + 1 + count);
}

/* A file may claim any times: no sum overflows, and the parts add up to the total. */
TEST_WITH(test_values_are_bounded, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	struct xp_model_tree tree;
	uint64_t totals[2];

	for (int keep_times = 0; keep_times < 2; keep_times++) {
		model->keep_times = keep_times;
		add(recording, "ab", 0, UINT64_MAX / 10);
		add(recording, "ab", 0, UINT64_MAX / 10);
		add(recording, "ac", 1, UINT64_MAX / 10);
	}
	xp_model_totals(model, totals);
	assert_true(totals[0] > 0 && totals[0] <= INT64_MAX);
	assert_int_equal(totals[1], INT64_MAX);
	name(recording);
	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_THREAD), 0);
	assert_int_equal(tree.nodes[0].total[1], INT64_MAX);
	xp_model_tree_free(&tree);
}

/* About 2000 threads with 1024 functions each, as in a small compressed file. */
TEST_WITH(test_nodes_are_bounded, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	const uint32_t more = XP_MODEL_NODES_MAX / XP_MODEL_DEPTH_MAX + 2;
	struct xp_model_sample sample = { .values = { 1, 10 } };
	struct xp_model_tree tree;
	uint32_t node;

	add_recursion(recording, XP_MODEL_DEPTH_MAX);
	sample.stack = model->samples[model->sample_count - 1].stack;
	for (uint32_t i = 0; i < more; i++) {
		const struct xp_model_thread thread = { .process = recording->process, .tid = 1000 + i, .name = "" };

		assert_int_equal(xp_model_thread(model, &thread, &sample.thread), 0);
		assert_int_equal(xp_model_sample(model, &sample), 0);
	}
	name(recording);
	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_THREAD), 0);
	assert_int_equal(tree.count, XP_MODEL_NODES_MAX + 1);
	assert_in_range(tree.in_others, 1, 8);
	assert_int_equal(find(model, &tree, 0, XP_MODEL_OTHERS)->total[0], tree.in_others);
	assert_int_equal(tree.nodes[0].total[1], 10 * model->sample_count);
	/* A later search finds the item at the same place. */
	assert_int_equal(xp_model_tree_node(&tree, model, XP_MODEL_BY_THREAD, &sample, &node), 0);
	assert_string_equal(tree.nodes[node].group, XP_MODEL_OTHERS);
	assert_int_equal(tree.count, XP_MODEL_NODES_MAX + 1);
	xp_model_tree_free(&tree);
	assert_int_equal(xp_model_tree_make(&tree, model, XP_MODEL_BY_NONE), 0);
	assert_int_equal(tree.in_others, 0);
	xp_model_tree_free(&tree);
}

#define MANY 100000u

/* Many locations have only their own address as name. Files choose numbers so that threads and stacks collide. */
TEST_WITH(test_no_keys_are_alike, set_up, tear_down)
{
	struct recording *recording = *state;
	struct xp_model *model = &recording->model;
	clock_t begun = clock();
	char name[32];

	for (uint32_t i = 0; i < MANY; i++) {
		struct xp_model_function function = { .object = recording->object, .kind = XP_CODE_USER };
		const struct xp_model_thread thread = { .process = recording->process, .tid = 1000 + i, .name = "" };
		struct xp_model_sample sample = { .values = { 1, 1 } };
		uint32_t index;

		snprintf(name, sizeof(name), "app+0x%x", i);
		function.name = function.symbol = xp_model_text(model, name);
		assert_int_equal(xp_model_function(model, &function, &index), 0);
		assert_int_equal(xp_model_thread(model, &thread, &sample.thread), 0);
		assert_int_equal(xp_model_stack(model, 0, i, &sample.stack), 0);
		sample.thread = sample.stack;
		assert_int_equal(xp_model_sample(model, &sample), 0);
	}
	assert_true((clock() - begun) / CLOCKS_PER_SEC < 5);
}
