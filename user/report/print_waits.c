// SPDX-License-Identifier: BSD-2-Clause
#include "report/print_waits.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "model/read_waits.h"
#include "report/print_text.h"

#define PLACES_SHARE 3 /* the table of waits has a third of the rows of a table of functions */
#define FRAMES_SHOWN 6
#define FRAMES_MAX 256
#define WAKER_COLUMNS_MAX 32
#define TAKEN_COLUMNS 61 /* columns before the waker, and the space after it */
#define WIDE_COLUMNS 150 /* a narrower terminal shows the stack on a separate line */
#define PLACE_INDENT 9
#define PLACE_COLUMNS_MIN 20

struct page {
	FILE *out;
	const struct xp_model *model;
	const struct xp_wait_table *waits;
	uint64_t seen; /* number of waits, recorded or not; 0: unknown */
	const struct xp_report_style *style;
	size_t rows;
	int count_columns;
	int waker_columns;
	bool is_wide;
};

static const char *time_text(char to[32], uint64_t ns)
{
	xp_format_short(to, 32, (double)ns / 1e9);
	return to;
}

/* ---- accounts ---- */

void xp_report_print_account(FILE *out, const struct xp_report_table *table)
{
	const struct xp_report_account *account = &table->account;
	char running[32], runnable[32], blocked[32];

	if (account->threads)
		xp_put_line(out, "%" PRIu64 " thread%s: %s on a CPU, %s runnable, %s blocked", account->threads,
			    xp_plural_s(account->threads), time_text(running, account->running_ns),
			    time_text(runnable, account->runnable_ns), time_text(blocked, account->blocked_ns));
	else if (table->waits.recorded)
		xp_put_line(out, "waits: %s runnable, %s blocked", time_text(runnable, table->waits.runnable_ns),
			    time_text(blocked, table->waits.total_ns - table->waits.runnable_ns));
}

void xp_report_print_waits_left_out(FILE *out, const struct xp_report_tables *tables)
{
	const struct xp_facts_waits *facts = &tables->wait_facts;

	if (!facts->shorter && !facts->lost && !facts->missed)
		return;
	xp_put(out, "not in the tables of waits:");
	if (facts->shorter)
		xp_put(out, " %" PRIu64 " shorter than the minimum", facts->shorter);
	if (facts->lost)
		xp_put(out, "%s %" PRIu64 " lost", facts->shorter ? "," : "", facts->lost);
	if (facts->missed)
		xp_put(out, "%s %" PRIu64 " that the kernel did not report", facts->shorter || facts->lost ? "," : "",
		       facts->missed);
	fputc('\n', out);
}

/* ---- places ---- */

#define WAKER_BYTES (XP_WAKER_BYTES + 32)

/* Formats the waker, and the number of other wakers: "refresher (17903) +2". */
static const char *waker_text(char to[WAKER_BYTES], const struct xp_wait_row *row)
{
	size_t used = strlen(xp_waits_waker(to, row->waker->flags, row->waker->waker_name, row->waker->waker_tid));

	if (row->wakers > 1)
		snprintf(to + used, WAKER_BYTES - used, " +%" PRIu64, row->wakers - 1);
	return to;
}

/* Returns how many functions of a stack fit into the columns, at least 1. */
static size_t frames_that_fit(const char **names, size_t count, int columns)
{
	int used = xp_text_columns(names[0]);
	size_t shown = 1;

	while (shown < count && used + 3 + xp_text_columns(names[shown]) <= columns)
		used += 3 + xp_text_columns(names[shown++]);
	return shown;
}

static void put_place(const struct page *page, const struct xp_wait_row *row)
{
	const struct xp_report_style *style = page->style;
	int taken = page->is_wide ? TAKEN_COLUMNS + page->waker_columns : PLACE_INDENT;
	int columns = style->columns ? XP_MAX((int)style->columns - taken, PLACE_COLUMNS_MIN) : INT32_MAX;
	const char *names[FRAMES_MAX];
	size_t known = xp_stack_frames(page->model, row->longest->stack, names, FRAMES_MAX),
	       count = XP_MIN(known, FRAMES_MAX);

	if (!count) {
		xp_put_line(page->out, "(no stack)");
		return;
	}
	if (style->limit != UINT64_MAX)
		count = frames_that_fit(names, XP_MIN(count, (size_t)FRAMES_SHOWN), columns - 4);
	for (size_t i = 0; i < count; i++) {
		xp_put(page->out, "%s", i ? " < " : "");
		xp_put_cut(page->out, names[i], style->limit == UINT64_MAX ? INT32_MAX : columns);
	}
	xp_put_line(page->out, "%s", count < known ? " <.." : "");
}

static void put_row(const struct page *page, const struct xp_wait_row *row)
{
	char total[32], runnable[32], most[32], waker[WAKER_BYTES];

	xp_put(page->out, "%*.0f  %8s  ", page->count_columns, row->count, time_text(total, row->total_ns));
	xp_put_share(page->out, page->style->colour, xp_percent(row->total_ns, page->waits->total_ns));
	waker_text(waker, row);
	xp_put(page->out, "  %8s  %8s  %-9s  ", time_text(runnable, row->runnable_ns),
	       time_text(most, xp_wait_row_longest_ns(row)), xp_wait_state_text(row->longest->state));
	xp_put_cut(page->out, waker, page->waker_columns);
	if (page->is_wide) {
		xp_put(page->out, "%*s  ", XP_MAX(page->waker_columns - xp_text_columns(waker), 0), "");
	} else {
		fputc('\n', page->out);
		xp_put(page->out, "%*s", PLACE_INDENT, "");
	}
	put_place(page, row);
}

static void put_title(const struct page *page)
{
	const struct xp_wait_table *waits = page->waits;
	char time[32];

	if (page->seen >= waits->recorded)
		xp_put(page->out, "%" PRIu64 " wait%s seen, %" PRIu64 " written", page->seen, xp_plural_s(page->seen),
		       waits->recorded);
	else
		xp_put(page->out, "%" PRIu64 " wait%s written", waits->recorded, xp_plural_s(waits->recorded));
	if (waits->count > (double)waits->recorded + 0.5)
		xp_put(page->out, ", which represent about %.0f", waits->count);
	xp_put_line(page->out, ": %s", time_text(time, waits->total_ns));
}

static void put_header(const struct page *page)
{
	xp_colour_start(page->out, page->style->colour, XP_COLOUR_BOLD);
	xp_put(page->out, "%*s  %8s  %7s  %8s  %8s  %-9s  %-*s%s", page->count_columns, "Waits", "Time", "Time%",
	       "Runnable", "Max", "State", page->is_wide ? page->waker_columns : 0, "Woken by",
	       page->is_wide ? "  Where" : "");
	xp_colour_end(page->out, page->style->colour, XP_COLOUR_BOLD);
	fputc('\n', page->out);
}

void xp_report_print_waits(FILE *out, const struct xp_report_tables *tables, const struct xp_report_table *table,
			   const struct xp_report_style *style)
{
	bool is_alone = !table->has_samples && !table->has_calls;
	uint64_t limit =
	    is_alone || style->limit == UINT64_MAX ? style->limit : XP_MAX(style->limit / PLACES_SHARE, (uint64_t)1);
	char waker[WAKER_BYTES];
	struct page page = {
		.out = out,
		.model = &tables->model,
		.waits = &table->waits,
		.seen = table->account.seen,
		.style = style,
		.rows = (size_t)XP_MIN((uint64_t)table->waits.row_count, limit),
		.count_columns = XP_MAX(xp_digits((uint64_t)table->waits.count), 7),
		.waker_columns = 8,
		.is_wide = !style->columns || style->columns >= WIDE_COLUMNS,
	};

	if (!page.rows)
		return;
	if (!is_alone)
		fputc('\n', out);
	for (size_t i = 0; i < page.rows; i++)
		page.waker_columns =
		    XP_MAX(page.waker_columns, xp_text_columns(waker_text(waker, &table->waits.rows[i])));
	page.waker_columns = XP_MIN(page.waker_columns, WAKER_COLUMNS_MAX);
	put_title(&page);
	put_header(&page);
	for (size_t i = 0; i < page.rows; i++)
		put_row(&page, &table->waits.rows[i]);
	if (page.rows < table->waits.row_count)
		xp_put_line(out, "... and %zu more", table->waits.row_count - page.rows);
}
