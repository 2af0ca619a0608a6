// SPDX-License-Identifier: BSD-2-Clause
#include "export/html_why.h"

#include <inttypes.h>

#include "base/util.h"
#include "model/json_data.h"
#include "model/tree.h"

#define LOCKS_MAX 100

static void put_sentences(FILE *out, const struct xp_explanation *why)
{
	size_t count = XP_MIN(why->causes.count, (size_t)XP_CAUSES_SHOWN);
	char sentence[XP_CAUSE_TEXT_BYTES];

	fputs("\"requests\":[", out);
	xp_json_text(out, xp_requests_sentence(sentence, why, false));
	putc(',', out);
	xp_json_text(out, xp_requests_sentence(sentence, why, true));
	fprintf(out, "],\n\"more\":%zu,\"causes\":[", why->causes.count - count);
	for (size_t i = 0; i < count; i++) {
		fputs(i ? ",\n" : "", out);
		xp_json_text(out, xp_cause_sentence(sentence, why, &why->causes.list[i]));
	}
	putc(']', out);
}

static void put_locks(FILE *out, const struct xp_explanation *why)
{
	struct xp_lock_text text;

	fputs(",\n\"locks\":[", out);
	for (size_t i = 0; i < XP_MIN(why->locks.row_count, (size_t)LOCKS_MAX); i++) {
		const struct xp_wait_row *row = &why->locks.rows[i];

		xp_lock_text(&text, why, row);
		fprintf(out, "%s[%.0f,%" PRIu64 ",%" PRIu64 ",", i ? ",\n" : "", row->count, row->total_ns,
			xp_wait_row_longest_ns(row));
		xp_json_text(out, text.name);
		putc(',', out);
		xp_json_text(out, text.holder);
		putc(',', out);
		xp_json_text(out, text.place);
		putc(']', out);
	}
	putc(']', out);
}

static void put_thread(FILE *out, const struct xp_thread_times *times, uint32_t thread)
{
	const struct xp_model *model = &times->model;
	char label[XP_MODEL_LABEL_BYTES];

	xp_json_text(out, thread == XP_MODEL_NONE ? ""
						  : xp_model_label(label, sizeof(label), model->threads[thread].name,
								   model->threads[thread].tid));
}

/* Writes the thread that ended the longest wait of a call, and when. */
static void put_waker(FILE *out, const struct xp_explanation *why, const struct xp_story *story)
{
	const struct xp_model_wait *wait =
	    story->cause == XP_STORY_BLOCKED && story->wait_count ? story->waits[0].longest : NULL;
	uint32_t waker = XP_MODEL_NONE;

	if (wait && wait->waker_tid && !(wait->flags & (XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ)))
		waker = xp_thread_times_find(&why->times, 0, wait->waker_tid);
	put_thread(out, &why->times, waker);
	fprintf(out, ",%" PRIu64, waker == XP_MODEL_NONE ? 0 : xp_model_wait_blocked_until(wait));
}

/* Writes when other threads worked for a call. */
static void put_spans(FILE *out, const struct xp_explanation *why, const struct xp_story *story)
{
	struct xp_request_spans spans;

	xp_explanation_spans(&spans, why, story);
	fputs(",[", out);
	for (size_t i = 0; i < spans.count; i++) {
		const struct xp_request_span *span = &spans.list[i];

		fputs(i ? ",[" : "[", out);
		put_thread(out, &why->times, span->thread);
		putc(',', out);
		put_thread(out, &why->times, span->waker);
		fprintf(out, ",%" PRIu64 ",%" PRIu64 "]", span->range.begin_ns, span->range.end_ns);
	}
	putc(']', out);
}

/* Writes slow calls with a printed cause. Threads without samples and waits have no lane in the timeline. */
static void put_calls(FILE *out, const struct xp_explanation *why, const struct xp_call_heap *heap, bool *follows)
{
	struct xp_story story;

	for (size_t i = 0; i < heap->count; i++) {
		const struct xp_slow_call *call = &heap->list[i];
		const struct xp_cause *cause = xp_explanation_cause(why, call);
		size_t number = cause ? (size_t)(cause - why->causes.list) : XP_CAUSES_SHOWN;

		if (!xp_slow_call_is_slow(&why->calls, call) || number >= XP_CAUSES_SHOWN)
			continue;
		xp_explanation_story(&story, why, call);
		fprintf(out, "%s[%zu,%" PRIu64 ",%" PRIu64 ",", *follows ? ",\n" : "", number, call->begin_ns,
			call->end_ns);
		*follows = true;
		put_thread(out, &why->times, story.thread);
		putc(',', out);
		put_waker(out, why, &story);
		put_spans(out, why, &story);
		putc(']', out);
	}
}

void xp_html_put_why(FILE *out, const struct xp_explanation *why)
{
	bool follows = false;

	fputs(",\n\"why\":{", out);
	put_sentences(out, why);
	put_locks(out, why);
	fputs(",\n\"slow\":[", out);
	put_calls(out, why, &why->calls.slow, &follows);
	put_calls(out, why, &why->calls.background, &follows);
	fputs("]}", out);
}
