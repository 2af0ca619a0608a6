// SPDX-License-Identifier: BSD-2-Clause
/* Formats causes as sentences, the same in the terminal, in JSON and on the page. */
#include "explain/explain.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "report/print_text.h"

static void add(char to[XP_CAUSE_TEXT_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(char to[XP_CAUSE_TEXT_BYTES], const char *format, ...)
{
	size_t used = strlen(to);
	va_list args;

	va_start(args, format);
	vsnprintf(to + used, XP_CAUSE_TEXT_BYTES - used, format, args);
	va_end(args);
}

static void add_other(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause)
{
	if (cause->other_tid)
		add(to, "%s/%" PRIu32, cause->other, cause->other_tid);
	else
		add(to, "threads %s", cause->other);
}

static void add_place(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause)
{
	if (*cause->place)
		add(to, " in %.*s", XP_CAUSE_NAME_BYTES, cause->place);
}

static void add_wait(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause)
{
	const char *lock = cause->kind != XP_CAUSE_LOCK ? "" : *cause->lock ? cause->lock : "the lock";

	add(to, "wait");
	if (*cause->other) {
		add(to, " for ");
		add_other(to, cause);
	} else if (*lock) {
		add(to, " for %.*s", XP_CAUSE_NAME_BYTES, *cause->lock ? cause->lock : "a lock");
	} else if (xp_cause_is_named(cause->primitive)) {
		add(to, " for %.*s", XP_CAUSE_NAME_BYTES, cause->primitive);
	}
	add_place(to, cause);
	if (*cause->other && !*lock && xp_cause_is_named(cause->primitive))
		add(to, " (%.*s)", XP_CAUSE_NAME_BYTES, cause->primitive);
	if (*cause->does)
		add(to, ", %s %s%s%.*s", cause->other_tid ? "which" : "one of which", cause->does,
		    *lock ? " while it holds " : "", XP_CAUSE_NAME_BYTES, lock);
}

const char *xp_cause_text(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause)
{
	to[0] = 0;
	switch (cause->kind) {
	case XP_CAUSE_LOCK:
	case XP_CAUSE_DISK:
	case XP_CAUSE_WAIT:
		add_wait(to, cause);
		break;
	case XP_CAUSE_NO_CPU:
		add(to, "starve while ");
		if (*cause->other)
			add_other(to, cause);
		else
			add(to, "threads that are not recorded");
		add(to, *cause->other && cause->other_tid ? " runs" : " run");
		if (cause->cpu != XP_MODEL_CPU_UNKNOWN)
			add(to, " on CPU %" PRIu32, cause->cpu);
		break;
	case XP_CAUSE_CPU:
		add(to, "run");
		add_place(to, cause);
		break;
	case XP_CAUSE_CALLEE:
		add(to, "spend their time");
		add_place(to, cause);
		break;
	case XP_CAUSE_KINDS:
		break;
	}
	return to;
}

double xp_explanation_share(const struct xp_explanation *explanation, const struct xp_cause *cause)
{
	bool is_background = explanation->calls.functions[cause->function].is_background;
	uint64_t all_ns = is_background ? explanation->background_ns : explanation->slow_ns;

	return all_ns ? (double)cause->extra_ns / (double)all_ns : 0;
}

/* Formats the cause of calls: "20 of 60 slow handle_request (77 % of the extra time) wait for ..." */
static void add_calls(char to[XP_CAUSE_TEXT_BYTES], const struct xp_explanation *explanation,
		      const struct xp_cause *cause)
{
	const struct xp_call_function *function = &explanation->calls.functions[cause->function];
	char text[XP_CAUSE_TEXT_BYTES];

	add(to, "%" PRIu64 " of %" PRIu64 " slow %.*s (%.0f %% of the extra time) %s", cause->calls, function->slow,
	    XP_CAUSE_NAME_BYTES, function->name, 100 * xp_explanation_share(explanation, cause),
	    xp_cause_text(text, cause));
}

/* Formats the cause of threads: "threads worker wait for ... (9 times, 1.2 s in all)" */
static void add_threads(char to[XP_CAUSE_TEXT_BYTES], const struct xp_cause *cause)
{
	const char *one = cause->kind == XP_CAUSE_CPU ? "sample" : "time";
	char text[XP_CAUSE_TEXT_BYTES], time[32];

	xp_format_brief(time, sizeof(time), (double)cause->extra_ns / 1e9);
	add(to, "threads %s %s (%" PRIu64 " %s%s, %s in all)", cause->waiter, xp_cause_text(text, cause), cause->calls,
	    one, xp_plural_s(cause->calls), time);
}

const char *xp_cause_sentence(char to[XP_CAUSE_TEXT_BYTES], const struct xp_explanation *explanation,
			      const struct xp_cause *cause)
{
	to[0] = 0;
	add(to, "%s: ", xp_cause_kind_name(cause->kind));
	if (cause->example)
		add_calls(to, explanation, cause);
	else
		add_threads(to, cause);
	return to;
}

const char *xp_requests_sentence(char to[XP_CAUSE_TEXT_BYTES], const struct xp_explanation *explanation,
				 bool is_background)
{
	const struct xp_slow_calls *calls = &explanation->calls;
	const char *separator = is_background ? "background work: " : "requests: calls of ";

	to[0] = 0;
	for (size_t i = 0; explanation->follows && i < calls->function_count; i++) {
		if (!calls->functions[i].is_wanted || calls->functions[i].is_background != is_background)
			continue;
		add(to, "%s%.*s", separator, XP_CAUSE_NAME_BYTES, calls->functions[i].name);
		separator = ", ";
	}
	if (to[0] && !is_background)
		add(to, "%s",
		    calls->is_found ? " (outermost, and called most often; --request NAME selects another)"
		    : explanation->options.are_requests
			? " (--request)"
			: " (--trigger of the recording; --request NAME selects another)");
	return to;
}

void xp_lock_text(struct xp_lock_text *text, const struct xp_explanation *explanation, const struct xp_wait_row *row)
{
	const char *primitive,
	    *place = xp_cause_place(&explanation->causes, &explanation->times.model, row->longest->stack, &primitive);
	const char *variable = xp_waits_variable(&explanation->times.model, row->longest);
	char waker[XP_WAKER_BYTES], others[24];

	xp_waits_waker(waker, row->waker->flags, row->waker->waker_name, row->waker->waker_tid);
	snprintf(others, sizeof(others), " +%" PRIu64, row->wakers - 1);
	text->name[0] = 0;
	if (variable)
		snprintf(text->name, sizeof(text->name), "%.*s", XP_CAUSE_NAME_BYTES, variable);
	else if (row->longest->lock)
		snprintf(text->name, sizeof(text->name), "0x%" PRIx64, row->longest->lock);
	snprintf(text->holder, sizeof(text->holder), "%s%s", waker, row->wakers > 1 ? others : "");
	text->place = place ?: primitive ?: "(no stack)";
}
