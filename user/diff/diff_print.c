// SPDX-License-Identifier: BSD-2-Clause
#include "diff/out.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "report/print_text.h"

#define RED "31"
#define BLUE "34"

#define NAME_COLUMNS_MIN 20
#define NAME_COLUMNS_MAX 60

struct page {
	FILE *out;
	const struct xp_diff_style *style;
	const struct xp_diff *diff;
	int name_columns;
};

static void put_coloured(const struct page *page, const char *colour, const char *text)
{
	xp_colour_start(page->out, page->style->colour, colour);
	xp_put(page->out, "%s", text);
	xp_colour_end(page->out, page->style->colour, colour);
}

static void put_heading(const struct page *page, const char *text)
{
	putc('\n', page->out);
	put_coloured(page, XP_COLOUR_BOLD, text);
	putc('\n', page->out);
}

/* Prints the name and the object. before: number of columns before the name. */
static void put_name(const struct page *page, const struct xp_diff_row *row, unsigned int before)
{
	unsigned int columns = page->style->columns;
	int room = (int)strlen(row->function);

	if (columns)
		room = XP_MAX(NAME_COLUMNS_MIN,
			      (int)columns - (int)before - 2 - (int)XP_MIN(strlen(row->object), (size_t)24));
	if ((int)strlen(row->function) > room)
		xp_put(page->out, "%.*s..", (int)xp_text_fit(row->function, (size_t)room - 2), row->function);
	else
		xp_put(page->out, "%-*s", page->name_columns, row->function);
	xp_put(page->out, "  %s", row->object);
	putc('\n', page->out);
}

static void find_name_columns(struct page *page, size_t rows)
{
	int room = page->style->columns ? (int)page->style->columns / 2 : NAME_COLUMNS_MAX;

	page->name_columns = (int)strlen("Function");
	for (size_t i = 0; i < rows; i++)
		page->name_columns = XP_MAX(page->name_columns, (int)XP_MIN(strlen(page->diff->rows[i].function),
									    (size_t)XP_MIN(room, NAME_COLUMNS_MAX)));
}

/* ---- samples ---- */

/* Formats a change: "+12.3 %", "x 12.3", "new" or "gone". */
static void format_ratio(char *to, size_t size, double before, double after)
{
	if (!(before > 0))
		snprintf(to, size, "%s", after > 0 ? "new" : "");
	else if (!(after > 0))
		snprintf(to, size, "gone");
	else if (after / before < 10)
		snprintf(to, size, "%+.1f %%", 100 * (after / before - 1));
	else
		snprintf(to, size, "x %.*f", after / before < 100 ? 1 : 0, after / before);
}

static const char *colour_of(const struct xp_diff_row *row)
{
	switch (row->verdict) {
	case XP_DIFF_GREW:
		return RED;
	case XP_DIFF_SHRANK:
		return BLUE;
	default:
		return NULL;
	}
}

static void put_row(const struct page *page, const struct xp_diff_row *row)
{
	double before = xp_diff_value(page->diff, row, 0), after = xp_diff_value(page->diff, row, 1);
	char change[64], ratio[32], line[160];

	format_ratio(ratio, sizeof(ratio), before, after);
	fprintf(page->out, "%9.2f %9.2f ", before, after);
	snprintf(change, sizeof(change), "%+9.2f", after - before);
	put_coloured(page, colour_of(row), change);
	snprintf(line, sizeof(line), " %8.2f %9s  ", xp_diff_margin(page->diff, row), ratio);
	fputs(line, page->out);
	put_name(page, row, 50);
}

static const char *const headings[] = {
	[XP_DIFF_NOISE] = "Within the noise of sampling",
	[XP_DIFF_WITH_TOTAL] = "Changed as all CPU time has",
	[XP_DIFF_GREW] = "Changed",
};

static enum xp_diff_verdict kind_of(const struct xp_diff_row *row)
{
	return row->verdict == XP_DIFF_SHRANK ? XP_DIFF_GREW : row->verdict;
}

/* Returns the number of rows of a kind. */
static size_t count_rows(const struct xp_diff *diff, enum xp_diff_verdict kind)
{
	size_t count = 0;

	for (size_t i = 0; i < diff->row_count; i++)
		count += kind_of(&diff->rows[i]) == kind;
	return count;
}

static void put_rows(const struct page *page, enum xp_diff_verdict kind)
{
	size_t count = count_rows(page->diff, kind), shown = 0;
	char heading[160];

	if (!count)
		return;
	if (count > page->style->limit)
		snprintf(heading, sizeof(heading), "%s (%" PRIu64 " of %zu function%s)", headings[kind],
			 page->style->limit, count, xp_plural_s(count));
	else
		snprintf(heading, sizeof(heading), "%s (%zu function%s)", headings[kind], count, xp_plural_s(count));
	put_heading(page, heading);
	for (size_t i = 0; i < page->diff->row_count && shown < page->style->limit; i++) {
		if (kind_of(&page->diff->rows[i]) != kind)
			continue;
		put_row(page, &page->diff->rows[i]);
		shown++;
	}
}

static void put_sides(const struct page *page)
{
	for (size_t i = 0; i < 2; i++) {
		const struct xp_diff_side *side = &page->diff->sides[i];

		xp_put(page->out, "%c: %s", (int)('A' + i), side->path);
		if (page->diff->kind == XP_MODEL_CALLS)
			xp_put(page->out, ", %" PRIu64 " call%s", side->calls, xp_plural_s(side->calls));
		else if (page->diff->kind == XP_MODEL_WAITS)
			xp_put(page->out, ", %.2f s of waits", (double)side->total / 1e9);
		else
			xp_put(page->out, ", %" PRIu64 " sample%s", side->total, xp_plural_s(side->total));
		if (side->length_ns)
			xp_put(page->out, " in %.2f s", (double)side->length_ns / 1e9);
		if (side->length_ns && page->diff->kind == XP_MODEL_SAMPLES)
			xp_put(page->out, ", %.1f ms of CPU time in each second",
			       (double)side->total * side->period_ns / 1e6 / ((double)side->length_ns / 1e9));
		putc('\n', page->out);
	}
}

static void put_verdict(const struct page *page)
{
	const struct xp_diff *diff = page->diff;
	size_t changed = count_rows(diff, XP_DIFF_GREW), with_total = count_rows(diff, XP_DIFF_WITH_TOTAL);

	putc('\n', page->out);
	if (changed)
		xp_put(page->out, "%zu of %zu function%s changed by more than the noise of sampling.", changed,
		       diff->row_count, xp_plural_s(diff->row_count));
	else
		xp_put(page->out, "No function changed by more than the noise of sampling%s.",
		       with_total ? ", but with all CPU time" : "");
	if (diff->tested)
		xp_put_line(page->out, " (%s, level %g %% for all %zu function%s that have samples enough together)",
			    diff->basis == XP_DIFF_PER_SECOND ? "exact conditional test of Poisson rates"
							      : "Fisher's exact test",
			    100 * XP_DIFF_LEVEL, diff->tested, xp_plural_s(diff->tested));
	else
		xp_put_line(page->out, " No function has enough samples for the test.");
	if (with_total)
		xp_put_line(page->out, "The sum of all CPU time has changed by more than the noise, too: without "
				       "--wall, shares are compared.");
}

static void put_samples(struct page *page)
{
	static const char *const titles[] = {
		[XP_DIFF_PER_CPU_SECOND] = "ms in each second of CPU time",
		[XP_DIFF_PER_SECOND] = "ms of CPU time in each second",
		[XP_DIFF_SHARES] = "Share of all CPU time, %",
	};
	const struct xp_diff *diff = page->diff;

	find_name_columns(page, XP_MIN(diff->row_count, page->style->limit));
	putc('\n', page->out);
	xp_put_line(page->out, "%s; +-: margin of 95 %% confidence", titles[diff->basis]);
	fprintf(page->out, "%9s %9s %9s %8s %9s  ", "A", "B", "Change", "+-", "");
	fprintf(page->out, "%-*s  Object\n", page->name_columns,
		diff->by_total ? "Function and its callees" : "Function");
	if (diff->basis == XP_DIFF_PER_SECOND)
		put_row(page, &diff->total);
	put_rows(page, XP_DIFF_GREW);
	put_rows(page, XP_DIFF_WITH_TOTAL);
	put_rows(page, XP_DIFF_NOISE);
	put_verdict(page);
}

/* ---- waits ---- */

static void put_waits(struct page *page)
{
	const struct xp_diff *diff = page->diff;
	size_t shown = XP_MIN(diff->row_count, page->style->limit);
	char heading[160], ratio[32];

	find_name_columns(page, shown);
	snprintf(heading, sizeof(heading), "%s (%zu of %zu function%s), by the change of their time",
		 diff->basis == XP_DIFF_SHARES ? "Share of all waits, %" : "ms of waits in each second", shown,
		 diff->row_count, xp_plural_s(diff->row_count));
	put_heading(page, heading);
	fprintf(page->out, "%9s %9s %9s %9s  %-*s  Object\n", "A", "B", "Change", "", page->name_columns,
		diff->by_total ? "Function and its callees" : "Function");
	for (size_t i = 0; i <= shown; i++) {
		const struct xp_diff_row *row = i ? &diff->rows[i - 1] : &diff->total;
		double before = xp_diff_value(diff, row, 0), after = xp_diff_value(diff, row, 1);

		if (!i && diff->basis == XP_DIFF_SHARES)
			continue;
		format_ratio(ratio, sizeof(ratio), before, after);
		fprintf(page->out, "%9.2f %9.2f %+9.2f %9s  ", before, after, after - before, ratio);
		put_name(page, row, 41);
	}
}

/* ---- calls ---- */

static void format_time(char *to, size_t size, double ns)
{
	if (ns < 0)
		snprintf(to, size, "-");
	else
		xp_format_brief(to, size, ns / 1e9);
}

#define TIMES 5
static const unsigned int percentiles[TIMES] = { 0, 500, 900, 990, 1000 }; /* 0: the mean */

static void find_times(const struct page *page, const struct xp_diff_row *row, size_t side, double times[TIMES])
{
	times[0] = xp_diff_mean(row->calls, side);
	for (size_t i = 1; i < TIMES; i++)
		times[i] = xp_diff_percentile(page->diff, row->calls, side, percentiles[i]);
}

static double calls_per_s(const struct page *page, const struct xp_diff_row *row, size_t side)
{
	double calls = (double)row->calls->calls[side];

	return page->diff->sides[side].length_ns ? calls / ((double)page->diff->sides[side].length_ns / 1e9) : calls;
}

/* Prints three lines: A, B, and the change. */
static void put_call_row(const struct page *page, const struct xp_diff_row *row)
{
	double times[2][TIMES];
	char text[64];

	for (size_t side = 0; side < 2; side++) {
		find_times(page, row, side, times[side]);
		fprintf(page->out, "%c %10.2f %12.2f", "AB"[side], xp_diff_value(page->diff, row, side),
			calls_per_s(page, row, side));
		for (size_t i = 0; i < TIMES; i++) {
			format_time(text, sizeof(text), times[side][i]);
			fprintf(page->out, " %10s", text);
		}
		fputs("  ", page->out);
		if (side)
			xp_put(page->out, "  %s", row->object);
		else
			xp_put(page->out, "%s", row->function);
		putc('\n', page->out);
	}
	format_ratio(text, sizeof(text), xp_diff_value(page->diff, row, 0), xp_diff_value(page->diff, row, 1));
	fprintf(page->out, "  %10s", text);
	format_ratio(text, sizeof(text), calls_per_s(page, row, 0), calls_per_s(page, row, 1));
	fprintf(page->out, " %12s", text);
	for (size_t i = 0; i < TIMES; i++) {
		*text = '\0';
		if (times[0][i] > 0 && times[1][i] > 0)
			format_ratio(text, sizeof(text), times[0][i], times[1][i]);
		fprintf(page->out, " %10s", text);
	}
	putc('\n', page->out);
}

static void put_calls(struct page *page)
{
	static const char *const titles[TIMES] = { "Mean", "p50", "p90", "p99", "Max" };
	const struct xp_diff *diff = page->diff;
	size_t shown = XP_MIN(diff->row_count, page->style->limit);
	char heading[160], title[32];

	snprintf(title, sizeof(title), "%s %s", diff->by_total ? "Total" : "Self", xp_diff_unit(diff));
	snprintf(heading, sizeof(heading), "Calls (%zu of %zu function%s), by the change of their time", shown,
		 diff->row_count, xp_plural_s(diff->row_count));
	put_heading(page, heading);
	fprintf(page->out, "  %10s %12s", title,
		diff->sides[0].length_ns && diff->sides[1].length_ns ? "Calls/s" : "Calls");
	for (size_t i = 0; i < TIMES; i++)
		fprintf(page->out, " %10s", titles[i]);
	fputs("  Function\n", page->out);
	for (size_t i = 0; i < shown; i++)
		put_call_row(page, &diff->rows[i]);
}

void xp_diff_print(FILE *out, const struct xp_diff_pair *pair, const struct xp_diff_style *style)
{
	struct page page = { .out = out, .style = style };

	for (size_t i = 0; i < pair->count; i++) {
		page.diff = pair->all[i];
		if (i)
			putc('\n', out);
		put_sides(&page);
		if (page.diff->kind == XP_MODEL_CALLS)
			put_calls(&page);
		else if (page.diff->kind == XP_MODEL_WAITS)
			put_waits(&page);
		else
			put_samples(&page);
	}
}
