// SPDX-License-Identifier: BSD-2-Clause
/*
 * Slow requests in a Perfetto trace: each has a track with the call, and a track below it for each thread that worked
 * for it. Arrows connect wake-ups to this work.
 */
#include "export/perfetto_requests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "report/print_text.h"

#define GROUP_TRACK 1 /* the track above all requests */
/* First ID of these arrows: the IDs of waits' arrows are lower. */
#define FIRST_FLOW (UINT64_C(1) << 40)
/* IDs of names. IDs of requests and threads are their indexes plus the last of these IDs. */
enum { WAKES_ID = 1, CAUSE_ID, THREAD_ID, OF_FUNCTIONS_ID, OF_THREADS_ID = 1 << 30 };

/* An event on the track of a thread, or of the call. */
struct item {
	uint64_t ns;
	enum xp_perfetto_event_type type;
	size_t span; /* the span that begins, ends, or is woken; spans.count: the call */
};

struct writing {
	struct xp_perfetto *perfetto;
	const struct xp_explanation *why;
	uint64_t start_ns;
	uint64_t next_track, next_flow;
	/* The call of the request: */
	const struct xp_slow_call *call;
	struct xp_story story;
	struct xp_request_spans spans;
	struct item items[3 * XP_REQUEST_SPANS_MAX + 2];
	size_t item_count;
};

/* At the same time, ends precede starts. */
static int by_time(const void *a, const void *b)
{
	static const int order[] = { [XP_PERFETTO_END] = 0, [XP_PERFETTO_BEGIN] = 1, [XP_PERFETTO_INSTANT] = 2 };
	const struct item *x = a, *y = b;

	return xp_compare(x->ns, y->ns) ?: xp_compare(order[x->type], order[y->type]);
}

static void add_item(struct writing *writing, uint64_t ns, enum xp_perfetto_event_type type, size_t span)
{
	writing->items[writing->item_count++] = (struct item){ ns, type, span };
}

/* Finds what a thread did for the request: its work, and its wake-ups of others. */
static void find_items(struct writing *writing, uint32_t thread)
{
	const struct xp_request_spans *spans = &writing->spans;
	bool is_of_call = thread == writing->story.thread;

	writing->item_count = 0;
	if (is_of_call) {
		add_item(writing, writing->call->begin_ns, XP_PERFETTO_BEGIN, spans->count);
		add_item(writing, writing->call->end_ns, XP_PERFETTO_END, spans->count);
	}
	for (size_t i = 0; i < spans->count; i++) {
		const struct xp_request_span *span = &spans->list[i];

		if (span->range.begin_ns >= span->range.end_ns)
			continue;
		if (span->thread == thread) {
			add_item(writing, span->range.begin_ns, XP_PERFETTO_BEGIN, i);
			add_item(writing, span->range.end_ns, XP_PERFETTO_END, i);
		}
		if (span->waker == thread)
			add_item(writing, span->range.begin_ns, XP_PERFETTO_INSTANT, i);
	}
	qsort(writing->items, writing->item_count, sizeof(writing->items[0]), by_time);
}

static void add_argument(struct xp_perfetto_event *event, uint64_t id, const char *name, const char *text)
{
	event->arguments[event->argument_count++] = (struct xp_perfetto_argument){ .name = { id, name }, .text = text };
}

static int put_item(struct writing *writing, uint32_t sequence, const struct item *item)
{
	const struct xp_explanation *why = writing->why;
	const struct xp_model *model = &why->times.model;
	const struct xp_request_span *span =
	    item->span < writing->spans.count ? &writing->spans.list[item->span] : NULL;
	uint32_t thread = span ? span->thread : writing->story.thread;
	struct xp_perfetto_event event = { .type = item->type, .time_ns = writing->start_ns + item->ns };
	char text[XP_CAUSE_TEXT_BYTES], name[XP_THREAD_TEXT_BYTES];
	const struct xp_cause *cause;

	if (item->type == XP_PERFETTO_END)
		return xp_perfetto_event(writing->perfetto, sequence, &event);
	xp_story_thread(name, model, thread);
	if (item->type == XP_PERFETTO_INSTANT) {
		event.name = (struct xp_perfetto_name){ WAKES_ID, "wakes" };
		event.flow_begin = writing->next_flow + item->span;
		add_argument(&event, THREAD_ID, "thread", name);
	} else if (span) {
		event.name = (struct xp_perfetto_name){ OF_THREADS_ID + (uint64_t)thread, name };
		event.flow_end = writing->next_flow + item->span;
	} else {
		event.name = (struct xp_perfetto_name){ OF_FUNCTIONS_ID + (uint64_t)writing->call->function,
							why->calls.functions[writing->call->function].name };
		add_argument(&event, THREAD_ID, "thread", name);
		cause = xp_explanation_cause(why, writing->call);
		if (cause)
			add_argument(&event, CAUSE_ID, "cause", xp_cause_text(text, cause));
	}
	return xp_perfetto_event(writing->perfetto, sequence, &event);
}

static int put_thread(struct writing *writing, uint32_t thread, uint64_t parent, const char *name)
{
	uint32_t sequence;
	int err = xp_perfetto_sequence_below(writing->perfetto, writing->next_track++, parent, name, &sequence);

	find_items(writing, thread);
	for (size_t i = 0; !err && i < writing->item_count; i++)
		err = put_item(writing, sequence, &writing->items[i]);
	return err;
}

/* Returns whether an earlier span belongs to the same thread. */
static bool is_known(const struct xp_request_spans *spans, size_t index)
{
	size_t i = 0;

	while (spans->list[i].thread != spans->list[index].thread)
		i++;
	return i < index;
}

static int put_request(struct writing *writing)
{
	const struct xp_explanation *why = writing->why;
	uint64_t track = writing->next_track;
	char name[XP_CAUSE_NAME_BYTES + 64], took[32], label[XP_THREAD_TEXT_BYTES];
	int err;

	xp_explanation_story(&writing->story, why, writing->call);
	if (writing->story.thread == XP_MODEL_NONE)
		return 0;
	xp_explanation_spans(&writing->spans, why, &writing->story);
	xp_format_brief(took, sizeof(took), (double)xp_slow_call_ns(writing->call) / 1e9);
	snprintf(name, sizeof(name), "%.*s %s", XP_CAUSE_NAME_BYTES, why->calls.functions[writing->call->function].name,
		 took);
	err = put_thread(writing, writing->story.thread, GROUP_TRACK, name);
	for (size_t i = 0; !err && i < writing->spans.count; i++)
		if (!is_known(&writing->spans, i))
			err = put_thread(writing, writing->spans.list[i].thread, track,
					 xp_story_thread(label, &why->times.model, writing->spans.list[i].thread));
	writing->next_flow += writing->spans.count;
	xp_perfetto_end_sequences(writing->perfetto);
	return err;
}

int xp_perfetto_put_requests(struct xp_perfetto *perfetto, const struct xp_explanation *why, uint64_t start_ns)
{
	const struct xp_call_heap *slow = &why->calls.slow;
	struct writing *writing = why->follows && slow->count ? calloc(1, sizeof(*writing)) : NULL;
	uint32_t sequence;
	int err;

	if (!writing)
		return why->follows && slow->count ? -ENOMEM : 0;
	*writing = (struct writing){ .perfetto = perfetto, .why = why, .start_ns = start_ns, .next_flow = FIRST_FLOW };
	writing->next_track = GROUP_TRACK + 1;
	err = xp_perfetto_sequence_below(perfetto, GROUP_TRACK, 0, "Slow requests", &sequence);
	for (size_t i = 0; !err && i < XP_MIN(slow->count, (size_t)XP_PERFETTO_REQUESTS_MAX); i++) {
		writing->call = &slow->list[i];
		if (xp_slow_call_is_slow(&why->calls, writing->call))
			err = put_request(writing);
	}
	free(writing);
	return err;
}
