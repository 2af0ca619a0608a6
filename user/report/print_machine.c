// SPDX-License-Identifier: BSD-2-Clause
#include "report/print_machine.h"

#include <inttypes.h>

#include "base/util.h"
#include "report/print_text.h"

#define MANY_PROCESSES 10
#define NAME_COLUMNS_MIN 20
#define TAKEN_COLUMNS 40 /* by what precedes a name */
/* Rows as a share of those of a table of functions: the first page has room for all parts. */
#define PROGRAMS_SHARE 3
#define CGROUPS_SHARE 5

bool xp_report_is_machine(const struct xp_report_tables *tables)
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

static void print_share(FILE *out, const struct xp_report_share *share, const struct xp_report_machine *machine,
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
		print_share(out, &shares->all[i], machine, style);
	for (size_t i = rows; i < shares->count; i++) {
		rest.processes += shares->all[i].processes;
		rest.samples += shares->all[i].samples;
		rest.kernel_samples += shares->all[i].kernel_samples;
		rest.sampled_ns += shares->all[i].sampled_ns;
	}
	snprintf(name, sizeof(name), "... and %zu more", shares->count - rows);
	rest.name = name;
	if (rows < shares->count)
		print_share(out, &rest, machine, style);
}

static void print_few(FILE *out, const struct xp_report_machine *machine)
{
	char time[32];

	xp_format_short(time, sizeof(time), seconds(machine->few.sampled_ns));
	if (machine->few.processes)
		xp_put_line(out,
			    "%" PRIu64 " process%s too short to say much of: fewer than %d samples each, together %s "
			    "(%.1f%%)",
			    machine->few.processes, xp_plural_es(machine->few.processes), XP_MACHINE_SHORT_SAMPLES,
			    time, xp_percent(machine->few.samples, machine->total.samples));
}

static void print_stacks(FILE *out, const struct xp_report_machine *machine)
{
	char text[XP_UNWIND_ENDS_TEXT_BYTES];

	if (xp_unwind_ends_text(text, machine->stack_ends))
		xp_put_line(out, "%s", text);
}

void xp_report_print_machine(FILE *out, const struct xp_report_tables *tables, const struct xp_report_style *style)
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
