// SPDX-License-Identifier: BSD-2-Clause
#include "explain/explain.h"

#include <errno.h>

#include <jansson.h>

#include "base/util.h"
#include "model/stack_shapes.h"

#define FRAMES_MAX 256
#define LOCKS_MAX 100

/* NULL means out of memory: then the object and its parents become NULL, too. */

static json_t *number(uint64_t value)
{
	return json_integer((json_int_t)XP_MIN(value, (uint64_t)INT64_MAX));
}

/* Takes ownership of the value. */
static json_t *append(json_t *list, json_t *value)
{
	if (list && json_array_append_new(list, value)) {
		json_decref(list);
		return NULL;
	}
	return list;
}

static json_t *stack_value(const struct xp_model *model, uint32_t stack)
{
	const char *names[FRAMES_MAX];
	size_t count = XP_MIN(xp_stack_frames(model, stack, names, FRAMES_MAX), (size_t)FRAMES_MAX);
	json_t *list = json_array();

	for (size_t i = 0; i < count && list; i++)
		list = append(list, json_string(names[i]));
	return list;
}

static json_t *thread_value(const struct xp_model *model, uint32_t thread)
{
	if (thread == XP_MODEL_NONE)
		return json_null();
	return json_pack("{s:o, s:s}", "tid", number(model->threads[thread].tid), "name", model->threads[thread].name);
}

/* ---- waits ---- */

static json_t *waker_value(const struct xp_explanation *explanation, const struct xp_model_wait *wait, int depth);

/* depth: position in the chain of wakers. */
static json_t *meanwhile_value(const struct xp_explanation *explanation, const struct xp_model_wait *wait, int depth)
{
	const struct xp_model *model = &explanation->times.model;
	struct xp_story_waker waker;

	if (depth == XP_STORY_WAKERS_MAX || !xp_story_look_at_waker(&waker, &explanation->times, wait))
		return json_null();
	if (waker.wait)
		return json_pack("{s:o, s:s, s:o, s:o}", "wait_ns", number(waker.wait_ns), "state",
				 xp_wait_state_text(waker.wait->state), "stack", stack_value(model, waker.wait->stack),
				 "waker", waker_value(explanation, waker.wait, depth + 1));
	return json_pack("{s:o, s:o}", "samples", number(waker.samples), "stack", stack_value(model, waker.stack));
}

static json_t *waker_value(const struct xp_explanation *explanation, const struct xp_model_wait *wait, int depth)
{
	if (wait->flags & XP_WAIT_HARDIRQ)
		return json_pack("{s:b}", "interrupt", 1);
	if (!wait->waker_tid)
		return json_null();
	return json_pack("{s:o, s:s, s:b, s:o}", "tid", number(wait->waker_tid), "name", wait->waker_name, "softirq",
			 (wait->flags & XP_WAIT_SOFTIRQ) != 0, "meanwhile", meanwhile_value(explanation, wait, depth));
}

static json_t *neighbour_value(const struct xp_explanation *explanation, const struct xp_story *story)
{
	if (!story->starved_ns)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "cpu", number(story->starved_cpu), "thread",
			 thread_value(&explanation->times.model, story->neighbour), "ns", number(story->neighbour_ns));
}

static json_t *waits_value(const struct xp_explanation *explanation, const struct xp_story *story)
{
	json_t *list = json_array();

	for (size_t i = 0; i < story->wait_count && list; i++) {
		const struct xp_story_wait *wait = &story->waits[i];

		list = append(list, json_pack("{s:s, s:o, s:o, s:o, s:i, s:o, s:o}", "state",
					      xp_wait_state_text(wait->longest->state), "count", number(wait->count),
					      "blocked_ns", number(wait->blocked_ns), "runnable_ns",
					      number(wait->runnable_ns), "syscall", (int)wait->longest->syscall,
					      "waker", waker_value(explanation, wait->longest, 0), "stack",
					      stack_value(&explanation->times.model, wait->longest->stack)));
	}
	return list;
}

static json_t *samples_value(const struct xp_model *model, const struct xp_story *story)
{
	json_t *list = json_array();

	for (size_t i = 0; i < story->stack_count && list; i++)
		list = append(list, json_pack("{s:o, s:o}", "samples", number(story->stacks[i].samples), "stack",
					      stack_value(model, story->stacks[i].stack)));
	return list;
}

/* ---- calls ---- */

static json_t *functions_value(const struct xp_slow_calls *calls)
{
	json_t *list = json_array();

	for (size_t i = 0; i < calls->function_count && list; i++) {
		const struct xp_durations *durations = &calls->functions[i].durations;

		if (!calls->functions[i].is_wanted || !durations->count)
			continue;
		list = append(
		    list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "name", calls->functions[i].name, "calls",
				    number(durations->count), "p50_ns", number(xp_durations_percentile(durations, 500)),
				    "p90_ns", number(xp_durations_percentile(durations, 900)), "p99_ns",
				    number(xp_durations_percentile(durations, 990)), "max_ns", number(durations->max)));
	}
	return list;
}

static json_t *callers_value(const struct xp_slow_calls *calls, const struct xp_slow_call *call)
{
	json_t *list = json_array();

	for (size_t i = 0; i < XP_MIN(call->caller_count, (size_t)XP_CALL_CALLERS_MAX) && list; i++)
		list = append(list, json_string(calls->functions[call->callers[i]].name));
	return list;
}

static json_t *callees_value(const struct xp_slow_calls *calls, const struct xp_call_callee *callees, size_t count)
{
	json_t *list = json_array();

	for (size_t i = 0; i < count && list; i++) {
		const struct xp_call_callee *callee = &callees[i];

		list = append(list, json_pack("{s:s, s:o, s:o}", "function", calls->functions[callee->function].name,
					      "calls", number(callee->calls), "ns", number(callee->ns)));
	}
	return list;
}

static json_t *arguments_value(const struct xp_slow_call *call)
{
	json_t *list = json_array();

	/* Hexadecimal: JSON's numbers have fewer bits. */
	for (unsigned int i = 0; i < call->arg_count && list; i++)
		list = append(list, json_sprintf("0x%llx", (unsigned long long)call->args[i]));
	return list;
}

static json_t *split_value(const struct xp_explanation *explanation, const struct xp_story *story)
{
	if (!explanation->times.model.wait_count || story->thread == XP_MODEL_NONE)
		return json_null();
	return json_pack("{s:o, s:o, s:o}", "on_cpu_ns", number(story->on_cpu_ns), "runnable_ns",
			 number(story->runnable_ns), "blocked_ns", number(story->blocked_ns));
}

/* The work of other threads for a request. */
static json_t *spans_value(const struct xp_explanation *explanation, const struct xp_request_spans *spans)
{
	const struct xp_model *model = &explanation->times.model;
	json_t *list = json_array();
	struct xp_story story;

	for (size_t i = 0; i < spans->count && list; i++) {
		const struct xp_request_span *span = &spans->list[i];

		xp_story_make(&story, &explanation->times, span->thread, span->range);
		list = append(list,
			      json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "thread",
					thread_value(model, span->thread), "woken_by", thread_value(model, span->waker),
					"start_ns", number(span->range.begin_ns), "duration_ns",
					number(span->range.end_ns - span->range.begin_ns), "time",
					split_value(explanation, &story), "callees",
					callees_value(&explanation->calls, span->callees, span->callee_count), "waits",
					waits_value(explanation, &story), "samples", samples_value(model, &story)));
	}
	return list;
}

static json_t *call_value(const struct xp_explanation *explanation, const struct xp_explained_call *shown)
{
	static const char *const causes[] = { "unknown", "on_cpu", "runnable", "blocked" };
	const struct xp_model *model = &explanation->times.model;
	const struct xp_slow_calls *calls = &explanation->calls;
	const struct xp_slow_call *call = shown->call;
	char name[XP_EXPLAINED_NAME_BYTES];

	return json_pack("{s:s, s:o, s:o, s:s, s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}",
			 "function", calls->functions[call->function].name, "pid", number(call->pid), "tid",
			 number(call->tid), "thread", xp_explained_thread_name(name, explanation, shown), "start_ns",
			 number(call->begin_ns), "duration_ns", number(xp_slow_call_ns(call)), "cpu", (int)call->cpu,
			 "arguments", arguments_value(call), "callers", callers_value(calls, call), "caller_count",
			 number(call->caller_count), "callees", callees_value(calls, call->callees, call->callee_count),
			 "further_callees_ns", number(call->further.ns), "cause", causes[shown->story.cause], "time",
			 split_value(explanation, &shown->story), "waits", waits_value(explanation, &shown->story),
			 "neighbour", neighbour_value(explanation, &shown->story), "samples",
			 samples_value(model, &shown->story), "woken_threads", spans_value(explanation, &shown->spans));
}

static json_t *calls_value(const struct xp_explanation *explanation)
{
	json_t *list = json_array();

	for (size_t i = 0; i < explanation->shown_count && list; i++)
		list = append(list, call_value(explanation, &explanation->shown[i]));
	return list;
}

/* ---- causes ---- */

static json_t *requests_value(const struct xp_slow_calls *calls)
{
	json_t *list = json_array();

	for (size_t i = 0; i < calls->function_count && list; i++) {
		const struct xp_call_function *function = &calls->functions[i];

		if (function->is_wanted && function->durations.count)
			list = append(list,
				      json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:b, s:b}", "function", function->name,
						"calls", number(function->durations.count), "outermost_calls",
						number(function->outermost), "slow_calls", number(function->slow),
						"slow_above_ns", number(function->slow_ns - (function->slow_ns > 0)),
						"extra_ns", number(function->extra_ns), "is_found",
						(int)calls->is_found, "is_background", (int)function->is_background));
	}
	return list;
}

/* Adds the members of a cause of calls, of waits or of samples. */
static json_t *cause_value(const struct xp_explanation *explanation, const struct xp_cause *cause)
{
	const struct xp_call_function *function;

	if (!cause->example)
		return json_pack("{s:s, s:o, s:o}", "waiter", cause->waiter,
				 cause->kind == XP_CAUSE_CPU ? "samples" : "waits", number(cause->calls), "total_ns",
				 number(cause->extra_ns));
	function = &explanation->calls.functions[cause->function];
	return json_pack("{s:s, s:o, s:o, s:f, s:o, s:o, s:b}", "function", function->name, "calls",
			 number(cause->calls), "extra_ns", number(cause->extra_ns), "share",
			 xp_explanation_share(explanation, cause), "example_start_ns", number(cause->example->begin_ns),
			 "example_tid", number(cause->example->tid), "is_background", (int)function->is_background);
}

static json_t *causes_value(const struct xp_explanation *explanation)
{
	char text[XP_CAUSE_TEXT_BYTES], sentence[XP_CAUSE_TEXT_BYTES];
	json_t *list = json_array();

	for (size_t i = 0; i < explanation->causes.count && list; i++) {
		const struct xp_cause *cause = &explanation->causes.list[i];
		json_t *value = json_pack(
		    "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:s}", "kind", xp_cause_kind_name(cause->kind),
		    "sentence", xp_cause_sentence(sentence, explanation, cause), "text", xp_cause_text(text, cause),
		    "place", cause->place, "primitive", cause->primitive, "lock", cause->lock, "thread", cause->other,
		    "tid", cause->other_tid ? number(cause->other_tid) : json_null(), "does", cause->does);
		json_t *more = cause_value(explanation, cause);

		if (!value || !more || json_object_update(value, more)) {
			json_decref(value);
			value = NULL;
		}
		json_decref(more);
		list = append(list, value);
	}
	return list;
}

static json_t *commons_value(const struct xp_commons *commons)
{
	json_t *list = json_array();

	for (size_t i = 0; i < commons->count && list; i++) {
		const struct xp_common *common = &commons->list[i];

		list =
		    append(list, json_pack("{s:s, s:s, s:f, s:f, s:o, s:o}", "kind", xp_common_kind_name(common->kind),
					   "what", common->text, "slow_mean_ns", xp_common_mean_ns(commons, common, 1),
					   "usual_mean_ns", xp_common_mean_ns(commons, common, 0), "slow_calls",
					   number(common->calls[1]), "usual_calls", number(common->calls[0])));
	}
	return list;
}

static json_t *tree_value(const struct xp_call_tree *tree)
{
	json_t *list = json_array();

	for (size_t i = 0; i < tree->count && list; i++) {
		const struct xp_call_node *node = &tree->nodes[i];

		list =
		    append(list, json_pack("{s:o, s:s, s:b, s:f, s:f, s:f, s:b}", "parent",
					   i ? number(node->parent) : json_null(), "name", node->text, "is_state",
					   (int)node->is_state, "slow_mean_ns", xp_call_node_mean_ns(tree, node, true),
					   "usual_mean_ns", xp_call_node_mean_ns(tree, node, false), "p", node->p,
					   "is_beyond_noise", (int)node->is_certain));
	}
	return list;
}

/* Hexadecimal: JSON's numbers have fewer bits. */
static json_t *lock_value(const struct xp_model_wait *wait)
{
	return wait->lock ? json_sprintf("0x%llx", (unsigned long long)wait->lock) : json_null();
}

/* The thread that ended most of the waiting time. */
static json_t *holder_value(const struct xp_wait_row *row)
{
	const struct xp_model_wait *wait = row->waker;

	if (!wait->waker_tid)
		return json_null();
	return json_pack("{s:o, s:s}", "tid", number(wait->waker_tid), "name", wait->waker_name);
}

static json_t *rows_value(const struct xp_explanation *explanation, const struct xp_wait_table *waits, size_t max)
{
	const struct xp_model *model = &explanation->times.model;
	json_t *list = json_array();

	for (size_t i = 0; i < XP_MIN(waits->row_count, max) && list; i++) {
		const struct xp_wait_row *row = &waits->rows[i];
		const struct xp_model_wait *wait = row->longest;

		list = append(
		    list, json_pack("{s:s, s:o, s:s?, s:o, s:o, s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "state",
				    xp_wait_state_text(wait->state), "lock", lock_value(wait), "variable",
				    xp_waits_variable(model, wait), "holder", holder_value(row), "holder_ns",
				    number(row->waker_ns), "count", row->count, "blocked_ns",
				    (double)(row->total_ns - row->runnable_ns), "runnable_ns", (double)row->runnable_ns,
				    "longest_ns", number(wait->end_ns - wait->begin_ns), "longest_start_ns",
				    number(wait->begin_ns), "thread", thread_value(model, wait->thread), "waker",
				    waker_value(explanation, wait, 0), "stack", stack_value(model, wait->stack)));
	}
	return list;
}

int xp_explanation_write_json(FILE *out, const struct xp_explanation *explanation)
{
	const struct xp_commons *commons = &explanation->commons;
	json_t *json = json_pack(
	    "{s:i, s:o, s:o, s:o, s:b, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "explain_version", XP_EXPLAIN_VERSION,
	    "functions", functions_value(&explanation->calls), "requests", requests_value(&explanation->calls),
	    "causes", causes_value(explanation), "has_waits", explanation->times.model.wait_count > 0,
	    "waits_are_sampled", (int)explanation->times.is_partial, "slow_calls", calls_value(explanation),
	    "compared_slow_calls", number(commons->calls[1]), "compared_usual_calls", number(commons->calls[0]),
	    "in_common", commons_value(commons), "tree", tree_value(&explanation->tree), "waits",
	    rows_value(explanation, &explanation->waits, explanation->slowest), "locks",
	    rows_value(explanation, &explanation->locks, LOCKS_MAX));
	bool is_out = json && !json_dumpf(json, out, JSON_INDENT(2) | JSON_REAL_PRECISION(15));

	if (is_out)
		putc('\n', out);
	json_decref(json);
	return is_out || ferror(out) ? 0 : -ENOMEM;
}
