// SPDX-License-Identifier: BSD-2-Clause
#include "explain/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "report/print_text.h"

#define FRAMES_SHOWN 12
#define FUNCTIONS_SHOWN 5
#define CALLEES_SHOWN 4
#define WAITS_SHOWN 3
#define SPANS_SHOWN 4
#define STACKS_SHOWN 3
#define LOCKS_SHOWN 5
#define COMMON_COLUMNS 33 /* before the description of a part */

struct page {
	FILE *out;
	int columns;
	const struct xp_explanation *explanation;
};

/* ---- texts ---- */

#define TIME_BYTES 32

static const char *time_text(char to[TIME_BYTES], double ns)
{
	xp_format_brief(to, TIME_BYTES, ns / 1e9);
	return to;
}

/* A list that is wrapped at the end of a line. */
struct wrapped {
	const struct page *page;
	int indent;
	int column;
	const char *separator; /* "": the list is empty */
};

static void put_piece(struct wrapped *list, const char *separator, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_piece(struct wrapped *list, const char *separator, const char *format, ...)
{
	struct xp_short_text shown;
	char piece[XP_PLACE_BYTES];
	int length;
	va_list args;

	va_start(args, format);
	vsnprintf(piece, sizeof(piece), format, args);
	va_end(args);
	xp_short_text(&shown, piece);
	length = (int)strlen(shown.text);
	if (!list->column) {
		xp_put(list->page->out, "%*s", list->indent, "");
		list->column = list->indent;
	} else {
		int separator_columns = (int)strlen(list->separator);

		/* Leaves space for the next separator, without the blank at its end. */
		if (list->column + separator_columns + length + 2 > list->page->columns) {
			xp_put_line(list->page->out, "%.*s", XP_MAX(separator_columns - 1, 0), list->separator);
			xp_put(list->page->out, "%*s", list->indent + 2, "");
			list->column = list->indent + 2;
		} else {
			xp_put(list->page->out, "%s", list->separator);
			list->column += separator_columns;
		}
	}
	xp_put(list->page->out, "%s", shown.text);
	list->column += length;
	list->separator = separator;
}

static void end_list(struct wrapped *list)
{
	if (list->column)
		xp_put_line(list->page->out, "%s", "");
}

/* Prints the stack up to this function, whose callers are known; NULL: all functions. */
static void print_stack(const struct page *page, int indent, uint32_t stack, const char *function)
{
	const struct xp_model *model = &page->explanation->times.model;
	struct wrapped list = { .page = page, .indent = indent };
	const char *names[FRAMES_SHOWN];
	size_t count = xp_stack_frames(model, stack, names, FRAMES_SHOWN);
	bool ends = false;

	for (size_t i = 0; i < XP_MIN(count, (size_t)FRAMES_SHOWN) && !ends; i++) {
		put_piece(&list, " < ", "%s", names[i]);
		ends = function && strcmp(names[i], function) == 0;
	}
	if (count > FRAMES_SHOWN && !ends)
		put_piece(&list, "", "%zu more", count - FRAMES_SHOWN);
	if (!count)
		put_piece(&list, "", "(no stack)");
	end_list(&list);
}

/* ---- waits ---- */

#define WAKER_BYTES (XP_THREAD_TEXT_BYTES + 64)

static const char *waker_text(char to[WAKER_BYTES], const struct xp_model_wait *wait)
{
	to[0] = 0;
	if (wait->flags & XP_WAIT_LAST)
		snprintf(to, WAKER_BYTES, ", not over at the end");
	else if (wait->flags & XP_WAIT_HARDIRQ)
		snprintf(to, WAKER_BYTES, ", woken by an interrupt or a timer");
	else if (wait->waker_tid)
		snprintf(to, WAKER_BYTES, ", woken %s %s (%" PRIu32 ")%s",
			 wait->flags & XP_WAIT_SOFTIRQ ? "by the kernel while" : "by", wait->waker_name,
			 wait->waker_tid, wait->flags & XP_WAIT_SOFTIRQ ? " ran" : "");
	return to;
}

/*
 * Prints what the thread that ended the wait did during the wait: its own wait is why it held a lock. It may itself
 * have waited for another thread, and so on.
 */
static void print_meanwhile(const struct page *page, const struct xp_model_wait *wait)
{
	const struct xp_explanation *explanation = page->explanation;
	char name[XP_THREAD_TEXT_BYTES], time[TIME_BYTES], waker_of[WAKER_BYTES];
	struct wrapped line = { .page = page, .indent = 7 };
	struct xp_story_waker waker;

	for (int i = 0; i < XP_STORY_WAKERS_MAX && wait; i++, wait = waker.wait) {
		if (!xp_story_look_at_waker(&waker, &explanation->times, wait))
			return;
		xp_story_thread(name, &explanation->times.model, waker.thread);
		if (!waker.wait) {
			xp_put_line(page->out, "       meanwhile %s ran, %" PRIu64 " sample%s, most in:", name,
				    waker.samples, xp_plural_s(waker.samples));
			print_stack(page, 9, waker.stack, NULL);
			return;
		}
		line.column = 0;
		waker_text(waker_of, waker.wait);
		put_piece(&line, ", ", "meanwhile %s waited %s (%s)%s", name, time_text(time, (double)waker.wait_ns),
			  xp_wait_state_text(waker.wait->state), waker_of[0] ? "" : ":");
		if (waker_of[0])
			put_piece(&line, "", "%s:", waker_of + strlen(", "));
		end_list(&line);
		print_stack(page, 9, waker.wait->stack, NULL);
	}
}

static void print_waits(const struct page *page, const struct xp_story *story, const char *function)
{
	char time[TIME_BYTES], waker[WAKER_BYTES], count[48];
	uint64_t ns = story->range.end_ns - story->range.begin_ns;
	size_t shown = 0;

	for (; shown < XP_MIN(story->wait_count, (size_t)WAITS_SHOWN); shown++) {
		const struct xp_story_wait *wait = &story->waits[shown];

		/* A part of less than a hundredth explains nothing. */
		if ((wait->blocked_ns + wait->runnable_ns) * 100 < ns)
			break;
		snprintf(count, sizeof(count), " in %" PRIu64 " waits", wait->count);
		xp_put_line(page->out, "   %s %s%s%s:", time_text(time, (double)(wait->blocked_ns + wait->runnable_ns)),
			    xp_wait_state_text(wait->longest->state), wait->count > 1 ? count : "",
			    waker_text(waker, wait->longest));
		print_stack(page, 7, wait->longest->stack, function);
		if (wait->blocked_ns)
			print_meanwhile(page, wait->longest);
	}
}

/* Prints the competing thread, if it explains the wait. */
static void print_neighbour(const struct page *page, const struct xp_story *story)
{
	char name[XP_THREAD_TEXT_BYTES], time[TIME_BYTES], had[TIME_BYTES];
	uint64_t runnable = story->runnable_ns;

	if (runnable * 20 < story->range.end_ns - story->range.begin_ns)
		return;
	time_text(time, (double)runnable);
	/* A competing thread that used only a little of the CPU is not the reason. */
	if (story->neighbour == XP_MODEL_NONE || story->neighbour_ns * 10 < runnable)
		xp_put_line(page->out,
			    "   %s without a CPU; no recorded thread had CPU %" PRIu32 " for a tenth of that", time,
			    story->starved_cpu);
	else
		xp_put_line(page->out, "   %s without a CPU; %s had CPU %" PRIu32 " for %s of that", time,
			    xp_story_thread(name, &page->explanation->times.model, story->neighbour),
			    story->starved_cpu, time_text(had, (double)story->neighbour_ns));
}

/* ---- calls ---- */

static void print_split(const struct page *page, int indent, const struct xp_story *story)
{
	char on[TIME_BYTES], runnable[TIME_BYTES], blocked[TIME_BYTES];

	if (page->explanation->times.model.wait_count && story->thread != XP_MODEL_NONE)
		xp_put_line(page->out, "%*son CPU %s, runnable %s, blocked %s", indent, "",
			    time_text(on, (double)story->on_cpu_ns), time_text(runnable, (double)story->runnable_ns),
			    time_text(blocked, (double)story->blocked_ns));
}

/* Puts functions that a thread called, with their time, into parts of a line. */
static void put_callees(struct wrapped *list, const struct xp_call_callee *callees, size_t count)
{
	const struct xp_call_function *functions = list->page->explanation->calls.functions;
	char time[TIME_BYTES], calls[48];

	for (size_t i = 0; i < count; i++) {
		snprintf(calls, sizeof(calls), " in %" PRIu64 " calls", callees[i].calls);
		put_piece(list, ", ", "%s%s %s%s", i ? "" : "callees: ", functions[callees[i].function].name,
			  time_text(time, (double)callees[i].ns), callees[i].calls > 1 ? calls : "");
	}
}

static void print_callees(const struct page *page, const struct xp_slow_call *call)
{
	struct wrapped list = { .page = page, .indent = 3 };
	uint64_t in_callees = call->further.ns, ns = xp_slow_call_ns(call);
	struct xp_call_callee further = call->further;
	char time[TIME_BYTES];

	put_callees(&list, call->callees, XP_MIN(call->callee_count, (size_t)CALLEES_SHOWN));
	for (size_t i = 0; i < call->callee_count; i++) {
		in_callees += call->callees[i].ns;
		if (i >= CALLEES_SHOWN) {
			further.ns += call->callees[i].ns;
			further.calls += call->callees[i].calls;
		}
	}
	if (further.calls)
		put_piece(&list, ", ", "others %s", time_text(time, (double)further.ns));
	if (call->callee_count)
		put_piece(&list, "", "itself %s", time_text(time, (double)(ns - XP_MIN(ns, in_callees))));
	end_list(&list);
}

static void print_callers(const struct page *page, const struct xp_slow_call *call)
{
	const struct xp_call_function *functions = page->explanation->calls.functions;
	struct wrapped list = { .page = page, .indent = 3 };
	size_t known = XP_MIN(call->caller_count, (size_t)XP_CALL_CALLERS_MAX);

	for (size_t i = 0; i < known; i++)
		put_piece(&list, " < ", "%s%s", i ? "" : "called by ", functions[call->callers[i]].name);
	if (call->caller_count > known)
		put_piece(&list, "", "%zu more", call->caller_count - known);
	end_list(&list);
}

static void print_arguments(const struct page *page, const struct xp_slow_call *call)
{
	struct wrapped list = { .page = page, .indent = 3 };

	for (unsigned int i = 0; i < call->arg_count; i++)
		put_piece(&list, ", ", "%s0x%" PRIx64, i ? "" : "arguments ", call->args[i]);
	end_list(&list);
}

static void print_samples(const struct page *page, const struct xp_story *story, const char *function)
{
	for (size_t i = 0; i < XP_MIN(story->stack_count, (size_t)STACKS_SHOWN); i++) {
		const struct xp_story_stack *stack = &story->stacks[i];

		xp_put_line(page->out, "   %" PRIu64 " of %" PRIu64 " sample%s on a CPU:", stack->samples,
			    story->samples, xp_plural_s(story->samples));
		print_stack(page, 7, stack->stack, function);
	}
}

/* The work of other threads for a request. */
static void print_spans(const struct page *page, const struct xp_request_spans *spans)
{
	const struct xp_thread_times *times = &page->explanation->times;
	char thread[XP_THREAD_TEXT_BYTES], waker[XP_THREAD_TEXT_BYTES], time[TIME_BYTES];
	struct xp_story story;

	for (size_t i = 0; i < XP_MIN(spans->count, (size_t)SPANS_SHOWN); i++) {
		const struct xp_request_span *span = &spans->list[i];
		struct wrapped list = { .page = page, .indent = 7 };

		xp_story_make(&story, times, span->thread, span->range);
		xp_put_line(page->out, "   %s in %s, woken by %s:",
			    time_text(time, (double)(span->range.end_ns - span->range.begin_ns)),
			    xp_story_thread(thread, &times->model, span->thread),
			    xp_story_thread(waker, &times->model, span->waker));
		print_split(page, 7, &story);
		put_callees(&list, span->callees, span->callee_count);
		end_list(&list);
		if (story.stack_count)
			print_stack(page, 7, story.stacks[0].stack, NULL);
	}
	if (spans->count > SPANS_SHOWN)
		xp_put_line(page->out, "   and %zu more times in threads that were woken", spans->count - SPANS_SHOWN);
}

/* Puts a summary in a line: what took most of the call, and which thread caused it. */
static void put_cause(struct wrapped *line, const struct xp_explanation *explanation, const struct xp_story *story)
{
	const struct xp_model_wait *wait = story->wait_count ? story->waits[0].longest : NULL;
	char name[XP_THREAD_TEXT_BYTES], waker[WAKER_BYTES];

	switch (story->cause) {
	case XP_STORY_ON_CPU:
		put_piece(line, "", "mostly on a CPU");
		break;
	case XP_STORY_RUNNABLE:
		put_piece(line, ": ", "mostly without a CPU");
		if (story->neighbour != XP_MODEL_NONE && story->neighbour_ns * 2 >= story->runnable_ns)
			put_piece(line, "", "%s had CPU %" PRIu32,
				  xp_story_thread(name, &explanation->times.model, story->neighbour),
				  story->starved_cpu);
		break;
	case XP_STORY_BLOCKED:
		put_piece(line, ": ", "mostly blocked");
		if (wait)
			put_piece(line, "", "%s%s", xp_wait_state_text(wait->state), waker_text(waker, wait));
		break;
	case XP_STORY_UNKNOWN:
		break;
	}
}

static void print_call(const struct page *page, size_t number, const struct xp_explained_call *shown)
{
	const struct xp_explanation *explanation = page->explanation;
	const struct xp_slow_call *call = shown->call;
	const char *function = explanation->calls.functions[call->function].name;
	char time[TIME_BYTES], thread[XP_EXPLAINED_NAME_BYTES];
	struct wrapped line = { .page = page, .indent = 0 };

	xp_put_line(page->out, "%s", "");
	put_piece(&line, ": ", "%zu. %s %s", number, function, time_text(time, (double)xp_slow_call_ns(call)));
	put_cause(&line, explanation, &shown->story);
	end_list(&line);
	xp_explained_thread_name(thread, explanation, shown);
	xp_put_line(page->out, "   at %.6f s in %s (%" PRIu64 "), on CPU %u", (double)call->begin_ns / 1e9,
		    thread[0] ? thread : "thread", call->tid, call->cpu);
	print_arguments(page, call);
	print_callers(page, call);
	print_split(page, 3, &shown->story);
	print_callees(page, call);
	print_neighbour(page, &shown->story);
	print_waits(page, &shown->story, function);
	print_samples(page, &shown->story, function);
	print_spans(page, &shown->spans);
}

static void print_functions(const struct page *page)
{
	const struct xp_slow_calls *calls = &page->explanation->calls;
	char median[TIME_BYTES], high[TIME_BYTES], most[TIME_BYTES];
	size_t shown = 0, count = 0;

	for (size_t i = 0; i < calls->function_count; i++) {
		const struct xp_durations *durations = &calls->functions[i].durations;

		if (!calls->functions[i].is_wanted || !durations->count || ++count > FUNCTIONS_SHOWN)
			continue;
		shown++;
		xp_put_line(page->out, "%s: %" PRIu64 " call%s, p50 %s, p99 %s, slowest %s", calls->functions[i].name,
			    durations->count, xp_plural_s(durations->count),
			    time_text(median, (double)xp_durations_percentile(durations, 500)),
			    time_text(high, (double)xp_durations_percentile(durations, 990)),
			    time_text(most, (double)durations->max));
	}
	if (count > shown)
		xp_put_line(page->out, "and %zu other function%s", count - shown, xp_plural_s(count - shown));
	if (page->explanation->options.above_ns)
		xp_put_line(page->out, "%" PRIu64 " of %" PRIu64 " call%s took longer than %s", calls->above,
			    calls->all.count, xp_plural_s(calls->all.count),
			    time_text(most, (double)page->explanation->options.above_ns));
}

/* ---- causes ---- */

static void print_sentence(const struct page *page, int indent, const char *sentence)
{
	struct wrapped line = { .page = page, .indent = indent };

	for (size_t length; *sentence; sentence += length + (sentence[length] == ' ')) {
		length = strcspn(sentence, " ");
		put_piece(&line, " ", "%.*s", (int)length, sentence);
	}
	end_list(&line);
}

/* Prints which functions are assumed to handle requests, and why. */
static void print_requests(const struct page *page)
{
	char sentence[XP_CAUSE_TEXT_BYTES];

	for (int is_background = 0; is_background <= 1; is_background++)
		print_sentence(page, 0, xp_requests_sentence(sentence, page->explanation, is_background));
}

static void print_causes(const struct page *page)
{
	const struct xp_explanation *explanation = page->explanation;
	size_t shown = XP_MIN(explanation->causes.count, (size_t)XP_CAUSES_SHOWN);
	char sentence[XP_CAUSE_TEXT_BYTES];

	if (!shown)
		return;
	xp_put_line(page->out, "%s", "");
	xp_put_line(page->out, "Causes:");
	for (size_t i = 0; i < shown; i++)
		print_sentence(page, 2, xp_cause_sentence(sentence, explanation, &explanation->causes.list[i]));
	if (shown < explanation->causes.count)
		xp_put_line(page->out, "  and %zu more", explanation->causes.count - shown);
}

/* Prints where threads waited for locks, and which threads held the locks. */
static void print_locks(const struct page *page)
{
	const struct xp_wait_table *locks = &page->explanation->locks;
	char time[TIME_BYTES], most[TIME_BYTES];
	struct xp_lock_text text;

	if (!locks->row_count)
		return;
	xp_put_line(page->out, "%s", "");
	xp_put_line(page->out, "Contended locks:");
	xp_put_line(page->out, "%6s %10s %10s  %-14s %-20s %s", "waits", "time", "longest", "lock", "held by", "where");
	for (size_t i = 0; i < XP_MIN(locks->row_count, (size_t)LOCKS_SHOWN); i++) {
		const struct xp_wait_row *row = &locks->rows[i];

		xp_lock_text(&text, page->explanation, row);
		xp_put_line(page->out, "%6.0f %10s %10s  %-14s %s%*s %s", row->count,
			    time_text(time, (double)row->total_ns),
			    time_text(most, (double)xp_wait_row_longest_ns(row)), text.name, text.holder,
			    XP_MAX(20 - xp_text_columns(text.holder), 0), "", text.place);
	}
}

/* ---- what slow calls have in common ---- */

static const char *common_text(const struct xp_common *common)
{
	static const char *const texts[XP_COMMON_KINDS] = {
		[XP_COMMON_CALLEE] = "in calls of ",
		[XP_COMMON_SELF] = "in itself, without what it called",
		[XP_COMMON_ON_CPU] = "on a CPU",
		[XP_COMMON_RUNNABLE] = "runnable, without a CPU",
		[XP_COMMON_BLOCKED] = "blocked: ",
		[XP_COMMON_WAKER] = "until woken by ",
		[XP_COMMON_NEIGHBOUR] = "without a CPU beside ",
		[XP_COMMON_THREADS] = "after waking threads ",
		[XP_COMMON_CPU] = "began on ",
	};

	return texts[common->kind];
}

/* Prints words and then a string that may contain several function names. */
static void put_text(struct wrapped *list, const char *words, const char *text)
{
	const char *end;

	for (bool first = true; text; text = end ? end + 3 : NULL, first = false) {
		end = strstr(text, " < ");
		put_piece(list, " < ", "%s%.*s", first ? words : "", end ? (int)(end - text) : (int)strlen(text), text);
	}
}

static void print_commons(const struct page *page)
{
	const struct xp_commons *commons = &page->explanation->commons;
	char slow[TIME_BYTES], typical[TIME_BYTES];

	if (!commons->calls[0] || !commons->calls[1] || !commons->count)
		return;
	xp_put_line(page->out, "%s", "");
	xp_put_line(
	    page->out, "What %" PRIu64 " slow call%s had that %" PRIu64 " typical one%s had not (time per call):",
	    commons->calls[1], xp_plural_s(commons->calls[1]), commons->calls[0], xp_plural_s(commons->calls[0]));
	xp_put_line(page->out, "%10s %10s %9s", "slow", "typical", "in slow");
	for (size_t i = 0; i < commons->count; i++) {
		const struct xp_common *common = &commons->list[i];
		bool has_time = common->kind != XP_COMMON_CPU;
		struct wrapped list = {
			.page = page, .indent = COMMON_COLUMNS, .column = COMMON_COLUMNS, .separator = ""
		};

		xp_put(page->out, "%10s %10s %8.0f%%  ",
		       has_time ? time_text(slow, xp_common_mean_ns(commons, common, 1)) : "",
		       has_time ? time_text(typical, xp_common_mean_ns(commons, common, 0)) : "",
		       100.0 * (double)common->calls[1] / (double)commons->calls[1]);
		put_text(&list, common_text(common), common->text);
		end_list(&list);
	}
}

/* ---- waits alone ---- */

static void print_wait_group(const struct page *page, size_t number, const struct xp_wait_row *row)
{
	const struct xp_explanation *explanation = page->explanation;
	const struct xp_model_wait *wait = row->longest;
	char time[TIME_BYTES], sum[TIME_BYTES], thread[XP_THREAD_TEXT_BYTES], waker[WAKER_BYTES];
	struct xp_story story;

	xp_put_line(page->out, "%s", "");
	xp_put_line(page->out, "%zu. %s %s; %.0f such wait%s, %s in all", number,
		    time_text(time, (double)(wait->end_ns - wait->begin_ns)), xp_wait_state_text(wait->state),
		    row->count, xp_plural_s((uint64_t)(row->count + 0.5)), time_text(sum, (double)row->total_ns));
	xp_put_line(page->out, "   at %.6f s in %s%s", (double)wait->begin_ns / 1e9,
		    xp_story_thread(thread, &explanation->times.model, wait->thread), waker_text(waker, wait));
	print_stack(page, 5, wait->stack, NULL);
	print_meanwhile(page, wait);
	xp_story_make(&story, &explanation->times, wait->thread,
		      (struct xp_time_range){ wait->begin_ns, wait->end_ns });
	print_neighbour(page, &story);
}

/* Prints how many of the waits are recorded. */
static void print_wait_counts(const struct page *page)
{
	const struct xp_explanation *explanation = page->explanation;
	uint64_t seen = 0, written = 0;
	struct xp_facts_waits waits;

	for (size_t i = 0; i < explanation->recorded.directory_count; i++)
		if (xp_facts_waits(explanation->recorded.directories[i].facts, &waits)) {
			seen += waits.seen;
			written += waits.written;
		}
	if (seen)
		xp_put_line(page->out, "%" PRIu64 " wait%s seen, %" PRIu64 " written%s", seen, xp_plural_s(seen),
			    written,
			    seen > written && explanation->shown_count ? ": the others count as time on a CPU" : "");
	else if (explanation->times.is_partial && explanation->shown_count)
		xp_put_line(page->out, "not all waits were written: the others count as time on a CPU");
}

/* Prints how many user stacks of samples are incomplete, and why. */
static void print_stack_ends(const struct page *page)
{
	struct wrapped list = { .page = page };
	const struct xp_recorded *recorded = &page->explanation->recorded;
	char text[XP_UNWIND_ENDS_TEXT_BYTES], *rest = text, *piece;
	uint64_t ends[XP_UNWIND_ENDS] = { 0 };

	for (size_t i = 0; i < recorded->directory_count; i++)
		for (size_t end = 0; end < XP_UNWIND_ENDS; end++)
			ends[end] += xp_facts_summary(recorded->directories[i].facts)->stack_ends[end];
	if (!xp_unwind_ends_text(text, ends))
		return;
	while ((piece = strsep(&rest, ";")))
		put_piece(&list, "; ", "%s", piece + (*piece == ' '));
	end_list(&list);
}

void xp_explanation_print(FILE *out, const struct xp_explanation *explanation, int columns)
{
	const struct page page = { out, columns, explanation };
	const struct xp_wait_table *waits = &explanation->waits;

	if (!explanation->shown_count) {
		xp_put_line(out, "no calls in the recording, only waits of %zu stack%s and %zu sample%s",
			    waits->row_count, xp_plural_s(waits->row_count), explanation->times.model.sample_count,
			    xp_plural_s(explanation->times.model.sample_count));
		print_wait_counts(&page);
		print_stack_ends(&page);
		print_causes(&page);
		print_locks(&page);
	}
	for (size_t i = 0; i < XP_MIN(waits->row_count, explanation->slowest); i++)
		print_wait_group(&page, i + 1, &waits->rows[i]);
	if (!explanation->shown_count)
		return;
	print_functions(&page);
	print_requests(&page);
	if (!explanation->times.model.wait_count)
		xp_put_line(out, "no waits in the recording; `xprof record --off-cpu` records where calls wait");
	else
		print_wait_counts(&page);
	print_stack_ends(&page);
	print_causes(&page);
	print_locks(&page);
	for (size_t i = 0; i < explanation->shown_count; i++)
		print_call(&page, i + 1, &explanation->shown[i]);
	if (explanation->options.tail > 0)
		xp_call_tree_print(out, &explanation->tree, columns);
	else
		print_commons(&page);
}
