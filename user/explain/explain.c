// SPDX-License-Identifier: BSD-2-Clause
#include "explain/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/function_patterns.h"
#include "model/part_list.h"

/* Makes the story of only the call: the thread may have waited before and after it. */
void xp_explanation_story(struct xp_story *story, const struct xp_explanation *explanation,
			  const struct xp_slow_call *call)
{
	const struct xp_thread_times *times = &explanation->times;
	/* Without the manifest, times of calls and samples cannot be compared. */
	bool has_start = xp_facts_summary(explanation->facts)->start_tsc;
	uint32_t thread = has_start ? xp_thread_times_find(times, call->pid, call->tid) : XP_MODEL_NONE;

	xp_story_make(story, times, thread, (struct xp_time_range){ call->begin_ns, call->end_ns });
}

void xp_explanation_spans(struct xp_request_spans *spans, const struct xp_explanation *explanation,
			  const struct xp_story *story)
{
	spans->count = 0;
	if (explanation->follows)
		xp_request_spans_find(spans, &explanation->wakeups, &explanation->times, story->thread, story->range);
}

const struct xp_cause *xp_explanation_cause(const struct xp_explanation *explanation, const struct xp_slow_call *call)
{
	const struct xp_causes *causes = &explanation->causes;

	for (size_t i = 0; i < causes->count; i++)
		if (causes->list[i].key == call->cause)
			return &causes->list[i];
	return NULL;
}

static int compare_spans(struct xp_explanation *explanation, const struct xp_story *story, bool is_slow)
{
	struct xp_request_spans spans;
	int err = 0;

	xp_explanation_spans(&spans, explanation, story);
	for (size_t i = 0; !err && i < spans.count; i++)
		err = xp_commons_add_thread(&explanation->commons, &explanation->times, spans.list[i].thread,
					    spans.list[i].range, is_slow);
	return err;
}

static int compare(struct xp_explanation *explanation, struct xp_slow_call *call, bool is_slow)
{
	struct xp_slow_calls *calls = &explanation->calls;
	const struct xp_call_function *function = &calls->functions[call->function];
	struct xp_story story;
	int err = 0;

	xp_explanation_story(&story, explanation, call);
	if (is_slow)
		err = xp_causes_add(&explanation->causes, &explanation->times, calls, call, &story);
	if (err || function->is_background)
		return err;
	return xp_commons_add(&explanation->commons, &explanation->times, calls->functions, call, &story, is_slow)
		   ?: compare_spans(explanation, &story, is_slow)
		   ?: xp_call_tree_add(&explanation->tree, &explanation->times, calls, call, &story, is_slow);
}

static int compare_calls(struct xp_explanation *explanation)
{
	const struct xp_slow_calls *calls = &explanation->calls;
	const struct xp_call_heap *const heaps[] = { &calls->slow, &calls->background };
	int err = xp_causes_init(&explanation->causes, &explanation->times, calls);

	for (size_t i = 0; !err && i < calls->usual_count; i++)
		if (!xp_slow_call_is_slow(calls, &calls->usual[i]))
			err = compare(explanation, &calls->usual[i], false);
	for (size_t h = 0; h < XP_ARRAY_SIZE(heaps); h++)
		for (size_t i = 0; !err && i < heaps[h]->count; i++)
			if (xp_slow_call_is_slow(calls, &heaps[h]->list[i]))
				err = compare(explanation, &heaps[h]->list[i], true);
	err = err ?: xp_call_tree_finish(&explanation->tree);
	xp_commons_finish(&explanation->commons);
	xp_causes_sort(&explanation->causes, calls);
	for (size_t i = 0; i < explanation->causes.count; i++) {
		const struct xp_cause *cause = &explanation->causes.list[i];

		*(calls->functions[cause->function].is_background ? &explanation->background_ns
								  : &explanation->slow_ns) += cause->extra_ns;
	}
	return err;
}

/* Reads what other threads called for the printed calls. */
static int read_calls_of_spans(struct xp_explanation *explanation, const struct xp_model_source *source)
{
	struct xp_request_span **spans;
	size_t count = 0;
	int err;

	for (size_t i = 0; i < explanation->shown_count; i++)
		count += explanation->shown[i].spans.count;
	spans = calloc(count + 1, sizeof(*spans));
	if (!spans)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < explanation->shown_count; i++)
		for (size_t s = 0; s < explanation->shown[i].spans.count; s++)
			spans[count++] = &explanation->shown[i].spans.list[s];
	err = xp_request_spans_read_calls(spans, count, &explanation->times, &explanation->calls, source);
	free(spans);
	return err;
}

/* Selects the calls to print: the slowest calls, or one for each cause. */
static int show_calls(struct xp_explanation *explanation, const struct xp_model_source *source)
{
	const struct xp_call_heap *slow = &explanation->calls.slow;
	size_t by_cause = explanation->options.slowest ? 0 : XP_MIN(explanation->causes.count, (size_t)XP_CAUSES_SHOWN);
	size_t count = by_cause ? by_cause : XP_MIN(slow->count, explanation->slowest);

	explanation->shown = calloc(count + 1, sizeof(*explanation->shown));
	if (!explanation->shown)
		return -ENOMEM;
	for (; explanation->shown_count < count; explanation->shown_count++) {
		struct xp_explained_call *shown = &explanation->shown[explanation->shown_count];

		shown->call = by_cause ? explanation->causes.list[explanation->shown_count].example
				       : &slow->list[explanation->shown_count];
		xp_explanation_story(&shown->story, explanation, shown->call);
		xp_explanation_spans(&shown->spans, explanation, &shown->story);
	}
	return read_calls_of_spans(explanation, source);
}

static bool has_logs(const struct xp_recorded *recorded)
{
	for (size_t i = 0; i < recorded->process_count; i++)
		if (recorded->processes[i].log)
			return true;
	return false;
}

static int check_patterns(const struct xp_explanation *explanation)
{
	const char *option = explanation->options.are_requests ? "--request" : "--function";
	int err = xp_pattern_uses_check(explanation->select.uses, option);

	return err ? xp_fail(-EINVAL, "%s", xp_why(err)) : 0;
}

static int by_longest(const void *a, const void *b)
{
	return xp_compare(xp_wait_row_longest_ns(b), xp_wait_row_longest_ns(a));
}

/* Sums up the waits longer than --above, with a selected function in their stack. */
static int sum_up_waits(struct xp_explanation *explanation, const uint8_t *marks)
{
	const struct xp_model *model = &explanation->times.model;
	uint32_t *some = malloc((model->wait_count + 1) * sizeof(*some));
	struct xp_wait_table *waits = &explanation->waits;
	size_t count = 0;
	int err = some ? 0 : -ENOMEM;

	for (size_t i = 0; !err && i < model->wait_count; i++) {
		const struct xp_model_wait *wait = &model->waits[i];

		if (wait->end_ns - wait->begin_ns > explanation->options.above_ns &&
		    xp_select_time(&explanation->select, wait->end_ns) &&
		    xp_select_marked(&explanation->select, marks[wait->stack]))
			some[count++] = (uint32_t)i;
	}
	err = err ?: xp_wait_table_make(waits, model, explanation->times.shapes, some, count, false);
	for (size_t i = 0; !err && i < waits->row_count; i++)
		err = xp_causes_add_waits(&explanation->causes, &explanation->times, &waits->rows[i]);
	if (!err && waits->row_count)
		qsort(waits->rows, waits->row_count, sizeof(*waits->rows), by_longest);
	free(some);
	return err;
}

/* A sample has no duration to compare with --above. */
static int sum_up_samples(struct xp_explanation *explanation, const uint8_t *marks)
{
	const struct xp_model *model = &explanation->times.model;
	int err = 0;

	for (size_t i = 0; !err && i < model->sample_count && !explanation->options.above_ns; i++)
		if (xp_select_marked(&explanation->select, marks[model->samples[i].stack]) &&
		    xp_select_time(&explanation->select, model->samples[i].time_ns))
			err = xp_causes_add_sample(&explanation->causes, &explanation->times, &model->samples[i]);
	return err;
}

/* Divides the waits into waits for locks and other waits. */
static int find_locks(struct xp_explanation *explanation)
{
	const struct xp_model *model = &explanation->times.model;
	uint32_t *some = malloc((model->wait_count + 1) * sizeof(*some));
	size_t count = 0;
	int err = xp_wakeups_init(&explanation->wakeups, &explanation->times);

	if (!some || err) {
		free(some);
		return -ENOMEM;
	}
	for (size_t i = 0; i < model->wait_count; i++)
		if (model->waits[i].state != XP_WAIT_LOCK)
			xp_wakeups_add(&explanation->wakeups, &explanation->times, i);
		else if (xp_select_time(&explanation->select, model->waits[i].end_ns))
			some[count++] = (uint32_t)i;
	xp_wakeups_sort(&explanation->wakeups, &explanation->times);
	err = xp_wait_table_make(&explanation->locks, model, explanation->times.shapes, some, count, true);
	free(some);
	return err;
}

static int explain_threads(struct xp_explanation *explanation)
{
	const struct xp_model *model = &explanation->times.model;
	uint8_t *marks = NULL;
	int err = xp_select_mark_stacks(&explanation->select, model, &marks) ?: sum_up_waits(explanation, marks);

	err = err ?: sum_up_samples(explanation, marks) ?: check_patterns(explanation);
	free(marks);
	xp_causes_sort_threads(&explanation->causes);
	if (err || explanation->causes.count)
		return err;
	if (!model->wait_count && !model->sample_count)
		return xp_why_set(-ENODATA, "there are no calls, waits or samples in the recording");
	return xp_why_set(-ENODATA,
			  "no wait is longer than --above, or no wait or sample has such a --function in its stack");
}

static int explain_nothing(const struct xp_explanation *explanation)
{
	if (explanation->calls.all.count)
		return xp_why_set(-ENODATA, "no call took longer than --above; the slowest took %.3f ms",
				  explanation->calls.all.max / 1e6);
	if (explanation->requests.pair_count)
		return xp_why_set(-ENODATA,
				  "no request has begun and ended between the probes of --request; record them "
				  "with --usdt and --off-cpu");
	if (explanation->options.function_count)
		return xp_why_set(
		    -ENODATA,
		    "no call of such a --function has ended in the recording; `xprof report` shows their names");
	return xp_why_set(-ENODATA, "no call has ended in the recording");
}

static int explain_all(struct xp_explanation *explanation)
{
	const struct xp_explain_options *options = &explanation->options;
	const struct xp_model_source source = {
		.recorded = &explanation->recorded,
		.directory = explanation->recorded.directories[0].binaries->directory,
		.facts = explanation->facts,
		.select = &explanation->select,
		.instr_map = options->instr_map,
		.full_names = options->full_names,
	};
	struct xp_usdt_requests *requests = &explanation->requests;
	const struct xp_slow_calls_options slow = {
		.slowest = options->slowest,
		.above_ns = options->above_ns,
		.tail = options->tail,
		.against = options->against,
		.requests = requests,
		.model = &explanation->times.model,
	};
	int err = xp_thread_times_read(&explanation->times, &source, options->full_names, requests->pair_count > 0,
				       &explanation->broken);

	err = err ?: find_locks(explanation) ?: xp_usdt_requests_find(requests, &explanation->times.model);
	if (err || (!has_logs(&explanation->recorded) && !requests->pair_count))
		return err ? err : explain_threads(explanation);
	err = xp_slow_calls_read(&explanation->calls, &source, &slow, &explanation->broken)
		  ?: check_patterns(explanation);
	if (!err && requests->count)
		err = xp_request_spans_read_callees(&explanation->calls, requests->pair_count, &explanation->times,
						    &source);
	if (err)
		return err;
	explanation->follows = options->are_requests || explanation->calls.is_found ||
			       (explanation->calls.is_selected && !options->function_count);
	if (explanation->calls.slow.count)
		return compare_calls(explanation) ?: show_calls(explanation, &source);
	return explain_nothing(explanation);
}

/* Without an option, selects the calls for which the recording was made. */
static int select_functions(struct xp_explanation *explanation)
{
	const struct xp_explain_options *options = &explanation->options;
	struct xp_usdt_requests *requests = &explanation->requests;
	const struct xp_recorded *recorded = &explanation->recorded;
	struct xp_select *select = &explanation->select;

	if (!options->function_count) {
		select->functions = explanation->triggered;
		for (size_t i = 0; i < recorded->directory_count; i++)
			select->function_count += xp_facts_triggered(recorded->directories[i].facts,
								     explanation->triggered + select->function_count,
								     XP_EXPLAIN_TRIGGERED_MAX - select->function_count);
		return 0;
	}
	explanation->functions = calloc(options->function_count, sizeof(*explanation->functions));
	requests->pairs = calloc(options->function_count, sizeof(*requests->pairs));
	if (!explanation->functions || !requests->pairs)
		return -ENOMEM;
	for (size_t i = 0; i < options->function_count; i++)
		if (options->are_requests &&
		    xp_usdt_pair_parse(&requests->pairs[requests->pair_count], options->functions[i]))
			requests->pair_count++;
		else
			explanation->functions[select->function_count++] = options->functions[i];
	select->functions = explanation->functions;
	select->uses = xp_pattern_uses_new(select->functions, select->function_count);
	return 0;
}

int xp_explain(struct xp_explanation *explanation, struct xp_part_list *parts, const struct xp_explain_options *options)
{
	struct xp_recorded *recorded = &explanation->recorded;
	struct stat st;
	int err;

	*explanation = (struct xp_explanation){
		.options = *options,
		.slowest = options->slowest ? options->slowest : XP_EXPLAIN_SLOWEST,
	};
	if (!stat(parts->paths[0], &st) && !S_ISDIR(st.st_mode))
		return xp_fail(-ENOENT, "%s: not the directory of a recording", parts->paths[0]);
	err = xp_part_list_add(parts, recorded, &explanation->select, &explanation->broken);
	if (err)
		return err;
	explanation->facts = recorded->directories[0].facts;
	err = select_functions(explanation);
	return err ? err : explain_all(explanation);
}

const char *xp_explained_thread_name(char to[XP_EXPLAINED_NAME_BYTES], const struct xp_explanation *explanation,
				     const struct xp_explained_call *shown)
{
	const struct xp_slow_call *call = shown->call;
	const struct xp_recorded *recorded = &explanation->recorded;
	const char *name = "";

	/* The last name of the thread: the log has the name at its first call. */
	if (shown->story.thread != XP_MODEL_NONE)
		name = explanation->times.model.threads[shown->story.thread].name;
	if (!*name && call->process < recorded->process_count)
		name = xp_facts_thread(xp_recorded_facts(recorded, recorded->processes[call->process].directory),
				       call->pid, recorded->processes[call->process].image, call->tid);
	xp_clean_text(to, XP_EXPLAINED_NAME_BYTES, name ? name : "");
	return to;
}

void xp_explanation_free(struct xp_explanation *explanation)
{
	xp_wait_table_free(&explanation->waits);
	xp_wait_table_free(&explanation->locks);
	xp_causes_free(&explanation->causes);
	xp_commons_free(&explanation->commons);
	xp_call_tree_free(&explanation->tree);
	free(explanation->shown);
	free(explanation->wakeups.waits);
	xp_slow_calls_free(&explanation->calls);
	xp_thread_times_free(&explanation->times);
	xp_usdt_requests_free(&explanation->requests);
	free(explanation->functions);
	xp_pattern_uses_free(explanation->select.uses);
	xp_recorded_free(&explanation->recorded);
}
