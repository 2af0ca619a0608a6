// SPDX-License-Identifier: BSD-2-Clause
/* Writes single calls for the timeline of the page. */
#include "export/html_why.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "model/json_data.h"
#include "model/log_walk.h"
#include "model/tree.h"

struct slice {
	uint32_t thread; /* index in the model */
	uint32_t function;
	uint64_t begin_ns, ns;
};

struct slicing {
	const struct xp_explanation *why;
	struct slice *list; /* at most twice XP_HTML_SLICES_MAX */
	size_t count, room;
	uint64_t all;	   /* number of completed calls of these threads */
	uint64_t least_ns; /* shorter calls are omitted */
	uint64_t start_tsc;
	struct xp_log_visitor visitor;
};

static int by_length(const void *a, const void *b)
{
	return xp_compare(((const struct slice *)b)->ns, ((const struct slice *)a)->ns);
}

/* Callers precede their callees. */
static int by_thread_and_begin(const void *a, const void *b)
{
	const struct slice *x = a, *y = b;

	return xp_compare(x->thread, y->thread) ?: xp_compare(x->begin_ns, y->begin_ns) ?: xp_compare(y->ns, x->ns);
}

/* Keeps the longest calls; some calls of the shortest kept length may be omitted. */
static void leave_longest(struct slicing *slicing)
{
	if (slicing->count <= XP_HTML_SLICES_MAX)
		return;
	qsort(slicing->list, slicing->count, sizeof(*slicing->list), by_length);
	slicing->count = XP_HTML_SLICES_MAX;
	slicing->least_ns = slicing->list[slicing->count - 1].ns + 1;
}

/* Threads without samples and waits have no lane in the timeline. */
static int add_thread(void *arg, struct xp_walked_thread *thread)
{
	const struct slicing *slicing = arg;

	thread->number = xp_thread_times_find(&slicing->why->times, thread->pid, thread->tid);
	thread->is_left_out = thread->number == XP_MODEL_NONE;
	return 0;
}

static int leave(void *arg, struct xp_walked_thread *thread, const struct xp_fdr_record *record)
{
	struct slicing *slicing = arg;
	const struct xp_walked_call *call = &thread->calls[thread->depth - 1];
	uint64_t hz = slicing->visitor.hz, begin = call->tsc - XP_MIN(call->tsc, slicing->start_tsc);
	uint64_t ns = xp_scale(record->tsc - XP_MIN(record->tsc, call->tsc), XP_NS_PER_S, hz);

	slicing->all++;
	/* The file may have changed since its functions were read. */
	if (ns < slicing->least_ns || call->function >= slicing->why->calls.function_count)
		return 0;
	if (XP_ARRAY_ADD(slicing->list, slicing->count, slicing->room,
			 (struct slice){ thread->number, call->function, xp_scale(begin, XP_NS_PER_S, hz), ns }))
		return -ENOMEM;
	if (slicing->count == (size_t)2 * XP_HTML_SLICES_MAX)
		leave_longest(slicing);
	return 0;
}

static void put_thread_names(FILE *out, const struct slicing *slicing)
{
	const struct xp_model *model = &slicing->why->times.model;
	char label[XP_MODEL_LABEL_BYTES];

	fputs("\"threads\":[", out);
	for (size_t i = 0; i < slicing->count; i++) {
		const struct xp_model_thread *thread = &model->threads[slicing->list[i].thread];

		if (i && slicing->list[i - 1].thread == slicing->list[i].thread)
			continue;
		fputs(i ? "," : "", out);
		xp_json_text(out, xp_model_label(label, sizeof(label), thread->name, thread->tid));
	}
	putc(']', out);
}

/* Numbers the functions from 1 in the order of their first call. */
static void put_function_names(FILE *out, const struct slicing *slicing, uint32_t *numbers)
{
	uint32_t count = 0;

	fputs(",\"names\":[", out);
	for (size_t i = 0; i < slicing->count; i++) {
		uint32_t function = slicing->list[i].function;

		if (numbers[function])
			continue;
		fputs(count ? "," : "", out);
		xp_json_text(out, slicing->why->calls.functions[function].name);
		numbers[function] = ++count;
	}
	putc(']', out);
}

static void put_slices(FILE *out, const struct slicing *slicing, const uint32_t *numbers)
{
	struct xp_json_numbers packed = { .out = out };
	uint64_t begin_ns = 0;

	fprintf(out, ",\"all\":%" PRIu64 ",\"count\":%zu,\"data\":\"", slicing->all, slicing->count);
	for (size_t i = 0; i < slicing->count; i++) {
		const struct slice *slice = &slicing->list[i];

		xp_json_number(&packed, i && slicing->list[i - 1].thread != slice->thread);
		xp_json_signed(&packed, (int64_t)(slice->begin_ns - begin_ns));
		xp_json_number(&packed, slice->ns);
		xp_json_number(&packed, numbers[slice->function] - 1);
		begin_ns = slice->begin_ns;
	}
	xp_json_numbers_end(&packed);
	putc('"', out);
}

int xp_html_put_slices(FILE *out, struct xp_explanation *why, const struct xp_model_source *source)
{
	struct slicing slicing = {
		.why = why,
		.start_tsc = xp_facts_summary(source->facts)->start_tsc,
		.visitor = { .add_thread = add_thread,
			     .leave = leave,
			     .arg = &slicing,
			     .functions = &why->calls.logged },
	};
	uint32_t *numbers = calloc(why->calls.function_count + 1, sizeof(*numbers));
	int err = numbers ? 0 : -ENOMEM;

	if (!err && why->calls.function_count && slicing.start_tsc)
		err = xp_log_walk(&slicing.visitor, source, NULL);
	leave_longest(&slicing);
	if (!err && slicing.count) {
		qsort(slicing.list, slicing.count, sizeof(*slicing.list), by_thread_and_begin);
		fputs(",\n\"slices\":{", out);
		put_thread_names(out, &slicing);
		put_function_names(out, &slicing, numbers);
		put_slices(out, &slicing, numbers);
		putc('}', out);
	}
	free(slicing.list);
	free(numbers);
	return err;
}
