// SPDX-License-Identifier: BSD-2-Clause
#include "report/report_print.h"

#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "elf/demangle.h"
#include "report/hits.h"
#include "report/print_text.h"
#include "report/print_waits.h"

#define NAME_COLUMNS_MIN 20
#define NAME_COLUMNS_MAX 60 /* without a terminal; the object of a longer name is not aligned */
#define NARROW_COLUMNS                                                                                                 \
	110 /* on a narrower terminal, a table with calls has no counts of samples, so that names fit                  \
	     */
#define TIME_COLUMNS 12
#define SHORT_COLUMNS 8 /* width of a time with three digits */
#define MANY_PROCESSES 10
#define TAKEN_COLUMNS 40 /* columns before a name */
/* These tables have a third and a fifth of the rows of a table of functions, so that all parts fit on one screen. */
#define PROGRAMS_SHARE 3
#define CGROUPS_SHARE 5

/* The columns about durations after the mean, as on the HTML page. */
enum quantile { P50, P90, P99, MAX, WHEN, QUANTILES };
static const char *const quantile_titles[QUANTILES] = { "P50", "P90", "P99", "Max", "When" };

struct page {
	FILE *out;
	const struct xp_report_style *style;
	const struct xp_report_table *table;
	bool has_counts;   /* numbers of samples are shown, next to shares */
	int count_columns; /* width of numbers of samples */
	int call_columns;
	int time_columns;
	bool quantiles[QUANTILES]; /* columns that fit */
	int name_columns;
};

/* ---- names ---- */

/* Formats "function", or "function file:line". */
static void format_name(char *to, size_t size, const struct xp_report_row *row, bool full)
{
	size_t used;

	if (full)
		snprintf(to, size, "%s", row->function);
	else
		xp_short_name(to, size, row->function);
	used = strlen(to);
	if (row->file)
		snprintf(to + used, size - used, " %s:%" PRIu32, row->file, row->line);
}

/* Prints how long the function was throttled. */
static void print_taken_out(const struct page *page, const struct xp_report_row *row)
{
	const struct xp_recorded_taken_out *out = row->taken_out;

	if (!out)
		return;
	xp_colour_start(page->out, page->style->colour, XP_COLOUR_WARM);
	xp_put(page->out, "  throttled %.1f s of %.1f s", out->out_s, row->recorded_s);
	if (out->counted_s > 0)
		xp_put(page->out, ", %" PRIu64 " call%s counted in %.1f s of them", out->calls, xp_plural_s(out->calls),
		       out->counted_s);
	else
		xp_put(page->out, ", not counted");
	xp_colour_end(page->out, page->style->colour, XP_COLOUR_WARM);
}

static void print_name(const struct page *page, const struct xp_report_row *row)
{
	char name[16384];
	int columns;

	format_name(name, sizeof(name), row, page->style->full_names);
	columns = xp_text_columns(name);
	xp_put_cut(page->out, name, page->style->columns ? page->name_columns : columns);
	if (row->object)
		xp_put(page->out, "%*s  %s", XP_MAX(page->name_columns - columns, 0), "", row->object);
	print_taken_out(page, row);
	fputc('\n', page->out);
}

/* ---- a table ---- */

static void print_share(const struct page *page, uint64_t samples)
{
	if (page->has_counts)
		xp_put(page->out, "%*" PRIu64 "  ", page->count_columns, samples);
	xp_put_share(page->out, page->style->colour, xp_percent(samples, page->table->samples));
	xp_put(page->out, "  ");
}

static void format_quantile(char *to, size_t size, const struct xp_durations *durations, enum quantile which)
{
	static const unsigned int thousandths[] = { [P50] = 500, [P90] = 900, [P99] = 990 };
	double ns = (double)durations->max;

	if (which == WHEN)
		ns = (double)durations->max_at;
	else if (which != MAX)
		ns = (double)xp_durations_percentile(durations, thousandths[which]);
	if (!durations->count || (durations->lost && which < MAX))
		*to = 0;
	else
		xp_format_short(to, size, ns / 1e9);
}

/* Prints the columns about calls. They are empty for a function whose calls are not recorded. */
static void print_calls(const struct page *page, const struct xp_report_row *row)
{
	void (*const format)(char *, size_t, double) =
	    page->time_columns == TIME_COLUMNS ? xp_format_time : xp_format_short;
	char total[32] = "", mean[32] = "", calls[32] = "", quantile[32];

	if (row->calls || row->ended)
		snprintf(calls, sizeof(calls), "%" PRIu64, row->calls);
	if (row->ended) {
		format(total, sizeof(total), row->total_s);
		format(mean, sizeof(mean), row->total_s / (double)row->ended);
	}
	xp_put(page->out, "%*s  %*s  %*s  ", page->call_columns, calls, page->time_columns, total, page->time_columns,
	       mean);
	for (int i = 0; i < QUANTILES; i++) {
		format_quantile(quantile, sizeof(quantile), &row->durations, (enum quantile)i);
		if (page->quantiles[i])
			xp_put(page->out, "%*s  ", SHORT_COLUMNS, quantile);
	}
}

static void print_header(const struct page *page)
{
	static const char *const shares[] = { "Flat", "Cum" };

	xp_colour_start(page->out, page->style->colour, XP_COLOUR_BOLD);
	for (size_t i = 0; page->table->has_samples && i < XP_ARRAY_SIZE(shares); i++) {
		if (page->has_counts)
			xp_put(page->out, "%*s  ", page->count_columns, shares[i]);
		xp_put(page->out, "%6s%%  ", shares[i]);
	}
	if (page->table->has_calls) {
		xp_put(page->out, "%*s  %*s  %*s  ", page->call_columns, "Calls", page->time_columns, "Total",
		       page->time_columns, "Mean");
		for (int i = 0; i < QUANTILES; i++)
			if (page->quantiles[i])
				xp_put(page->out, "%*s  ", SHORT_COLUMNS, quantile_titles[i]);
	}
	xp_put(page->out, "%-*s  Object", page->name_columns, "Function");
	xp_colour_end(page->out, page->style->colour, XP_COLOUR_BOLD);
	fputc('\n', page->out);
}

static void print_row(const struct page *page, const struct xp_report_row *row)
{
	if (page->table->has_samples) {
		print_share(page, row->flat);
		print_share(page, row->cum);
	}
	if (page->table->has_calls)
		print_calls(page, row);
	print_name(page, row);
}

static void print_title(const struct page *page)
{
	const struct xp_report_table *table = page->table;

	xp_colour_start(page->out, page->style->colour, XP_COLOUR_BOLD);
	xp_put(page->out, "%s:", table->name);
	xp_colour_end(page->out, page->style->colour, XP_COLOUR_BOLD);
	if (table->has_samples) {
		char time[32];

		xp_format_time(time, sizeof(time), (double)table->sampled_ns / 1e9);
		if (table->is_of_waits)
			xp_put(page->out, " %s of waits, in us", time);
		else
			xp_put(page->out, " %" PRIu64 " sample%s, one every %g ms, %s", table->samples,
			       xp_plural_s(table->samples), (double)table->period_us / 1e3, time);
	}
	if (table->has_calls) {
		xp_put(page->out, "%s %" PRIu64 " call%s", table->has_samples ? ";" : "", table->calls,
		       xp_plural_s(table->calls));
		if (table->open)
			xp_put(page->out, ", %" PRIu64 " of them without an end", table->open);
	}
	fputc('\n', page->out);
	if (table->has_samples && table->stacks)
		xp_put_line(page->out, "%s", table->stacks);
	xp_report_print_account(page->out, table);
}

/* Chooses the most informative quantiles that fit into `columns`. Returns the columns that they need. */
static int choose_quantiles(struct page *page, size_t rows, int columns)
{
	static const enum quantile most_telling[] = { MAX, P99, P50, P90, WHEN };
	const struct xp_report_table *table = page->table;
	bool is_known = false;
	int taken = 0;

	for (size_t i = 0; i < rows; i++)
		is_known |= table->rows[i].durations.count > 0;
	for (size_t i = 0; i < XP_ARRAY_SIZE(most_telling); i++) {
		if (!is_known || (page->style->columns && taken + SHORT_COLUMNS + 2 > columns))
			break;
		page->quantiles[most_telling[i]] = true;
		taken += SHORT_COLUMNS + 2;
	}
	return taken;
}

/* Chooses the width of the name: the longest name, limited by the space that the other columns leave. */
static void choose_widths(struct page *page, size_t rows)
{
	const struct xp_report_table *table = page->table;
	bool is_narrow = page->style->columns && page->style->columns < NARROW_COLUMNS && table->has_calls;
	int longest = 8, object = 6, taken = 2, limit = NAME_COLUMNS_MAX, columns = (int)page->style->columns;
	uint64_t calls = 0;
	char name[16384];

	for (size_t i = 0; i < rows; i++) {
		format_name(name, sizeof(name), &table->rows[i], page->style->full_names);
		longest = XP_MAX(longest, xp_text_columns(name));
		if (table->rows[i].object)
			object = XP_MAX(object, xp_text_columns(table->rows[i].object));
		calls = XP_MAX(calls, table->rows[i].calls);
	}
	page->has_counts = !is_narrow;
	page->count_columns = XP_MAX(xp_digits(table->samples), 7);
	page->call_columns = XP_MAX(xp_digits(calls), is_narrow ? 6 : 9);
	page->time_columns = is_narrow ? SHORT_COLUMNS : TIME_COLUMNS;
	if (table->has_samples)
		taken += 2 * ((page->has_counts ? page->count_columns + 2 : 0) + 7 + 2);
	if (table->has_calls) {
		taken += page->call_columns + 2 * (2 + page->time_columns) + 2;
		taken += choose_quantiles(page, rows, columns - taken - object - XP_MIN(longest, NAME_COLUMNS_MIN));
	}
	if (columns)
		limit = columns - taken - object;
	page->name_columns = XP_MIN(longest, XP_MAX(limit, NAME_COLUMNS_MIN));
}

static void print_table(FILE *out, const struct xp_report_tables *tables, struct xp_report_table *table,
			const struct xp_report_style *style)
{
	size_t rows = (size_t)XP_MIN((uint64_t)table->row_count, style->limit);
	struct page page = { .out = out, .style = style, .table = table };

	xp_report_sort(table, style->sort);
	choose_widths(&page, rows);
	print_title(&page);
	if (rows)
		print_header(&page);
	for (size_t i = 0; i < rows; i++)
		print_row(&page, &table->rows[i]);
	if (rows < table->row_count)
		xp_put_line(out, "... and %zu more", table->row_count - rows);
	xp_report_print_waits(out, tables, table, style);
}

/* ---- the first part of a report of a whole machine ---- */

/* Returns whether to print this part: all CPUs were sampled, or there are MANY_PROCESSES or more. */
static bool is_machine(const struct xp_report_tables *tables)
{
	return tables->machine.total.samples && (tables->count > 1 || tables->by == XP_MODEL_BY_NONE) &&
	       (tables->machine.cpus || tables->machine.total.processes >= MANY_PROCESSES);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static void print_sum(FILE *out, const struct xp_report_machine *machine, const struct xp_report_style *style)
{
	uint64_t capacity_ns = machine->total.sampled_ns + machine->idle_ns;
	char busy[32], kernel[32], idle[32];
	double in_kernel = xp_percent(machine->total.kernel_samples, machine->total.samples);

	xp_format_short(busy, sizeof(busy), seconds(machine->total.sampled_ns));
	xp_format_short(kernel, sizeof(kernel), in_kernel / 100 * seconds(machine->total.sampled_ns));
	xp_format_short(idle, sizeof(idle), seconds(machine->idle_ns));
	xp_colour_start(out, style->colour, XP_COLOUR_BOLD);
	if (machine->cpus)
		xp_put(out, "%" PRIu64 " CPU%s for %.1f s:", machine->cpus, xp_plural_s(machine->cpus),
		       seconds(machine->length_ns));
	else
		xp_put(out, "%" PRIu64 " process%s:", machine->total.processes, xp_plural_es(machine->total.processes));
	xp_colour_end(out, style->colour, XP_COLOUR_BOLD);
	if (machine->cpus)
		xp_put_line(out,
			    " %.1f%% busy (%s of CPU time), %.1f%% idle (%s); %.1f%% of the busy time in the kernel",
			    xp_percent(machine->total.sampled_ns, capacity_ns), busy,
			    xp_percent(machine->idle_ns, capacity_ns), idle, in_kernel);
	else
		xp_put_line(out, " %s of CPU time, %.1f%% of it in the kernel (%s)", busy, in_kernel, kernel);
}

static void print_machine_share(FILE *out, const struct xp_report_share *share, const struct xp_report_machine *machine,
				const struct xp_report_style *style)
{
	char time[32];

	xp_format_short(time, sizeof(time), seconds(share->sampled_ns));
	xp_put(out, "%8s  ", time);
	xp_put_share(out, style->colour, xp_percent(share->samples, machine->total.samples));
	xp_put(out, "  %6.2f%%  %9" PRIu64 "  ", xp_percent(share->kernel_samples, share->samples), share->processes);
	xp_put_cut(out, share->name ? share->name : XP_MODEL_NO_CGROUP,
		   style->columns ? XP_MAX((int)style->columns - TAKEN_COLUMNS, NAME_COLUMNS_MIN) : INT32_MAX);
	fputc('\n', out);
}

static void print_shares(FILE *out, const struct xp_report_shares *shares, const struct xp_report_machine *machine,
			 const struct xp_report_style *style, const char *title)
{
	uint64_t limit = style->limit == UINT64_MAX ? UINT64_MAX : style->limit / PROGRAMS_SHARE;
	struct xp_report_share rest = { 0 };
	size_t rows;
	char name[64];

	if (shares == &machine->cgroups && limit != UINT64_MAX)
		limit = style->limit / CGROUPS_SHARE;
	rows = (size_t)XP_MIN((uint64_t)shares->count, XP_MAX(limit, 1));
	fputc('\n', out);
	xp_colour_start(out, style->colour, XP_COLOUR_BOLD);
	xp_put(out, "%8s  %7s  %7s  %9s  %s", "CPU time", "Share", "Kernel", "Processes", title);
	xp_colour_end(out, style->colour, XP_COLOUR_BOLD);
	fputc('\n', out);
	for (size_t i = 0; i < rows; i++)
		print_machine_share(out, &shares->all[i], machine, style);
	for (size_t i = rows; i < shares->count; i++) {
		rest.processes += shares->all[i].processes;
		rest.samples += shares->all[i].samples;
		rest.kernel_samples += shares->all[i].kernel_samples;
		rest.sampled_ns += shares->all[i].sampled_ns;
	}
	snprintf(name, sizeof(name), "... and %zu more", shares->count - rows);
	rest.name = name;
	if (rows < shares->count)
		print_machine_share(out, &rest, machine, style);
}

static void print_few(FILE *out, const struct xp_report_machine *machine)
{
	char time[32];

	xp_format_short(time, sizeof(time), seconds(machine->few.sampled_ns));
	if (machine->few.processes)
		xp_put_line(out, "%" PRIu64 " process%s with fewer than %d samples each: together %s (%.1f%%)",
			    machine->few.processes, xp_plural_es(machine->few.processes), XP_MACHINE_SHORT_SAMPLES,
			    time, xp_percent(machine->few.samples, machine->total.samples));
}

static void print_stacks(FILE *out, const struct xp_report_machine *machine)
{
	char text[XP_UNWIND_ENDS_TEXT_BYTES];

	if (xp_unwind_ends_text(text, machine->stack_ends))
		xp_put_line(out, "%s", text);
}

static void print_machine(FILE *out, const struct xp_report_tables *tables, const struct xp_report_style *style)
{
	const struct xp_report_machine *machine = &tables->machine;

	print_sum(out, machine, style);
	print_few(out, machine);
	print_stacks(out, machine);
	if (tables->by != XP_MODEL_BY_COMM)
		print_shares(out, &machine->programs, machine, style, "Program");
	if (machine->cgroups.count && tables->by != XP_MODEL_BY_CGROUP)
		print_shares(out, &machine->cgroups, machine, style, "Control group");
}

/* ---- all groups ---- */

static const char *const group_titles[XP_MODEL_GROUPS] = {
	[XP_MODEL_BY_PROCESS] = "Process", [XP_MODEL_BY_THREAD] = "Thread",  [XP_MODEL_BY_COMM] = "Program",
	[XP_MODEL_BY_CPU] = "CPU",	   [XP_MODEL_BY_NONE] = "Recording", [XP_MODEL_BY_CGROUP] = "Control group",
};

/* Returns whether the report shows only waits. */
static bool is_of_waits(const struct xp_report_tables *tables)
{
	return tables->has_waits && !tables->all.has_samples && !tables->all.has_calls;
}

/* Prints runnable and blocked time: from all context switches if they are known, otherwise from the recorded waits. */
static void print_waiting(FILE *out, const struct xp_report_table *table)
{
	const struct xp_report_account *account = &table->account;
	uint64_t runnable_ns = account->threads ? account->runnable_ns : table->waits.runnable_ns;
	uint64_t blocked_ns = account->threads ? account->blocked_ns : table->waits.total_ns - table->waits.runnable_ns;
	char runnable[32] = "", blocked[32] = "";

	if (xp_report_has_waits(table)) {
		xp_format_short(runnable, sizeof(runnable), (double)runnable_ns / 1e9);
		xp_format_short(blocked, sizeof(blocked), (double)blocked_ns / 1e9);
	}
	xp_put(out, "%*s  %*s  ", SHORT_COLUMNS, runnable, SHORT_COLUMNS, blocked);
}

static void print_overview_row(FILE *out, const struct xp_report_tables *tables, size_t index,
			       const struct xp_report_style *style)
{
	const struct xp_report_table *table = &tables->tables[index];

	if (!is_of_waits(tables)) {
		xp_put(out, "%9" PRIu64 "  ", table->samples);
		xp_put_share(out, style->colour, xp_percent(table->samples, tables->all.samples));
		xp_put(out, "  ");
	}
	if (table->has_calls)
		xp_put(out, "%12" PRIu64 "  ", table->calls);
	else if (tables->all.has_calls)
		xp_put(out, "%12s  ", "");
	if (tables->has_waits)
		print_waiting(out, table);
	xp_put_line(out, "%s", table->name);
}

static void print_overview(FILE *out, const struct xp_report_tables *tables, const struct xp_report_style *style)
{
	size_t rows = (size_t)XP_MIN((uint64_t)tables->count, style->limit);

	xp_colour_start(out, style->colour, XP_COLOUR_BOLD);
	if (!is_of_waits(tables))
		xp_put(out, "%9s  %7s  ", "Samples", "Share");
	if (tables->all.has_calls)
		xp_put(out, "%12s  ", "Calls");
	if (tables->has_waits)
		xp_put(out, "%*s  %*s  ", SHORT_COLUMNS, "Runnable", SHORT_COLUMNS, "Blocked");
	xp_put(out, "%s", group_titles[tables->by]);
	xp_colour_end(out, style->colour, XP_COLOUR_BOLD);
	fputc('\n', out);
	for (size_t i = 0; i < rows; i++)
		print_overview_row(out, tables, i, style);
	if (rows < tables->count)
		xp_put_line(out, "... and %zu more", tables->count - rows);
}

/* Prints an empty line before each part except the first. */
static void begin_part(FILE *out, bool *begun)
{
	if (*begun)
		fputc('\n', out);
	*begun = true;
}

static void print_groups(FILE *out, struct xp_report_tables *tables, const struct xp_report_style *style, bool *begun)
{
	size_t shown = 0;

	for (size_t i = 0; i < tables->count; i++) {
		struct xp_report_table *table = &tables->tables[i];

		if (!table->has_samples && !table->has_calls && !xp_report_has_waits(table))
			continue; /* its files were not readable, which was reported */
		if (shown++ == style->limit)
			break;
		begin_part(out, begun);
		print_table(out, tables, table, style);
	}
}

void xp_report_print(FILE *out, struct xp_report_tables *tables, const struct xp_recorded *recorded,
		     const struct xp_report_style *style)
{
	bool begun = recorded->heading_count > 0;

	for (size_t i = 0; i < recorded->heading_count; i++)
		xp_put_line(out, "%s", recorded->headings[i]);
	xp_report_print_waits_left_out(out, tables);
	if (is_machine(tables)) {
		begin_part(out, &begun);
		print_machine(out, tables, style);
	}
	if (tables->count > 1 && (is_machine(tables) || is_of_waits(tables))) {
		begin_part(out, &begun);
		print_table(out, tables, &tables->all, style);
	}
	if (tables->count > 1) {
		begin_part(out, &begun);
		print_overview(out, tables, style);
	}
	if (tables->hit_count) {
		begin_part(out, &begun);
		xp_report_hits_print(out, tables, group_titles[tables->by], style);
	}
	print_groups(out, tables, style, &begun);
}
