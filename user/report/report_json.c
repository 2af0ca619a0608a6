// SPDX-License-Identifier: BSD-2-Clause
#include "report/report_json.h"

#include <inttypes.h>

#include "base/util.h"
#include "model/json_data.h"
#include "model/stack_shapes.h"

#define WAIT_FRAMES_MAX 1024

/* ---- members; each function also writes a comma after the member ---- */

static void put_number(FILE *out, const char *key, uint64_t number)
{
	fprintf(out, "\"%s\":%" PRIu64 ",", key, number);
}

static void put_or_null(FILE *out, const char *text)
{
	if (text)
		xp_json_text(out, text);
	else
		fputs("null", out);
}

static void put_text(FILE *out, const char *key, const char *text)
{
	fprintf(out, "\"%s\":", key);
	put_or_null(out, text);
	fputc(',', out);
}

/* ---- the machine ---- */

/* Writes an object without its closing brace. */
static void begin_share(FILE *out, const struct xp_report_share *share)
{
	fputc('{', out);
	put_number(out, "processes", share->processes);
	put_number(out, "samples", share->samples);
	put_number(out, "kernel_samples", share->kernel_samples);
	fprintf(out, "\"cpu_ns\":%" PRIu64, share->sampled_ns);
}

static void put_shares(FILE *out, const char *key, const struct xp_report_shares *shares)
{
	fprintf(out, ",\n  \"%s\":[", key);
	for (size_t i = 0; i < shares->count; i++) {
		fputs(i ? ",\n    " : "\n    ", out);
		begin_share(out, &shares->all[i]);
		fputs(",\"name\":", out);
		put_or_null(out, shares->all[i].name);
		fputc('}', out);
	}
	fputc(']', out);
}

/* Writes the counts that are not 0. */
static void put_stack_ends(FILE *out, const uint64_t ends[XP_UNWIND_ENDS])
{
	fputs(",\n  \"stacks\":{", out);
	for (int end = 0, count = 0; end < XP_UNWIND_ENDS; end++)
		if (ends[end])
			fprintf(out, "%s\"%s\":%" PRIu64, count++ ? "," : "",
				xp_unwind_end_key((enum xp_unwind_end)end), ends[end]);
	fputc('}', out);
}

static void put_machine(FILE *out, const struct xp_report_machine *machine)
{
	fputs("\"machine\":", out);
	begin_share(out, &machine->total);
	if (machine->length_ns)
		fprintf(out, ",\"length_ns\":%" PRIu64, machine->length_ns);
	if (machine->cpus)
		fprintf(out, ",\"cpus\":%" PRIu64 ",\"idle_ns\":%" PRIu64, machine->cpus, machine->idle_ns);
	put_stack_ends(out, machine->stack_ends);
	fprintf(out, ",\n  \"short\":");
	begin_share(out, &machine->few);
	fprintf(out, ",\"below_samples\":%d}", XP_MACHINE_SHORT_SAMPLES);
	put_shares(out, "programs", &machine->programs);
	put_shares(out, "cgroups", &machine->cgroups);
	fputs("},\n", out);
}

/* ---- tables ---- */

static void put_durations(FILE *out, const struct xp_durations *durations)
{
	if (!durations->count)
		return;
	fputs(",\"durations\":{", out);
	if (!durations->lost) {
		put_number(out, "p50_ns", xp_durations_percentile(durations, 500));
		put_number(out, "p90_ns", xp_durations_percentile(durations, 900));
		put_number(out, "p99_ns", xp_durations_percentile(durations, 990));
		fprintf(out, "\"max_error\":%g,", xp_durations_is_exact(durations) ? 0.0 : XP_DURATIONS_ERROR);
	}
	put_number(out, "max_ns", durations->max);
	put_number(out, "slowest_start_ns", durations->max_at);
	fprintf(out, "\"slowest_tid\":%" PRIu32 "}", durations->max_where);
}

/* Converts seconds from a manifest, which can be any number. */
static uint64_t ns_of(double seconds)
{
	return (uint64_t)(XP_MIN(XP_MAX(seconds, 0.0), 1e9) * 1e9);
}

static void put_taken_out(FILE *out, const struct xp_report_row *row)
{
	const struct xp_recorded_taken_out *taken = row->taken_out;

	if (!taken)
		return;
	fputs(",\"taken_out\":{", out);
	put_number(out, "out_ns", ns_of(taken->out_s));
	put_number(out, "counted_ns", ns_of(taken->counted_s));
	fprintf(out, "\"calls_counted\":%" PRIu64 "}", taken->calls);
}

static void put_row(FILE *out, const struct xp_report_table *table, const struct xp_report_row *row)
{
	fputc('{', out);
	put_text(out, "function", row->function);
	if (row->file) {
		put_text(out, "file", row->file);
		put_number(out, "line", row->line);
	}
	if (table->has_samples) {
		put_number(out, "flat", row->flat);
		put_number(out, "cum", row->cum);
	}
	if (row->calls || row->ended) {
		put_number(out, "calls", row->calls);
		put_number(out, "ended", row->ended);
		fprintf(out, "\"total_ns\":%.0f,", row->total_s * 1e9);
	}
	fputs("\"object\":", out);
	put_or_null(out, row->object);
	put_durations(out, &row->durations);
	put_taken_out(out, row);
	fputc('}', out);
}

static void put_waker(FILE *out, const struct xp_wait_row *row)
{
	const struct xp_model_wait *waker = row->waker;

	fprintf(out, "\"wakers\":%" PRIu64 ",\"waker\":", row->wakers);
	if (waker->waker_tid) {
		fputs("{", out);
		put_number(out, "tid", waker->waker_tid);
		put_text(out, "name", waker->waker_name);
		fprintf(out, "\"in_softirq\":%s,\"ns\":%" PRIu64 "},",
			waker->flags & XP_WAIT_SOFTIRQ ? "true" : "false", row->waker_ns);
	} else {
		fputs("null,", out);
	}
	fprintf(out, "\"by_interrupt\":%s,\"is_over\":%s,", waker->flags & XP_WAIT_HARDIRQ ? "true" : "false",
		waker->flags & XP_WAIT_LAST ? "false" : "true");
}

static void put_wait(FILE *out, const struct xp_model *model, const struct xp_wait_row *row)
{
	const char *names[WAIT_FRAMES_MAX];
	size_t count = xp_stack_frames(model, row->longest->stack, names, WAIT_FRAMES_MAX);

	fputc('{', out);
	put_text(out, "state", xp_wait_state_text(row->longest->state));
	fprintf(out, "\"count\":%.0f,", row->count);
	put_number(out, "total_ns", row->total_ns);
	put_number(out, "runnable_ns", row->runnable_ns);
	put_number(out, "max_ns", xp_wait_row_longest_ns(row));
	put_number(out, "longest_start_ns", row->longest->begin_ns);
	put_waker(out, row);
	fputs("\"stack\":[", out);
	for (size_t i = 0; i < XP_MIN(count, (size_t)WAIT_FRAMES_MAX); i++) {
		fputs(i ? "," : "", out);
		xp_json_text(out, names[i]);
	}
	fputs("]}", out);
}

static void put_waits(FILE *out, const struct xp_model *model, const struct xp_report_table *table)
{
	const struct xp_report_account *account = &table->account;
	const struct xp_wait_table *waits = &table->waits;

	fputs("\"waits\":{", out);
	if (account->threads)
		fprintf(out,
			"\"account\":{\"threads\":%" PRIu64 ",\"seen\":%" PRIu64 ",\"running_ns\":%" PRIu64
			",\"runnable_ns\":%" PRIu64 ",\"blocked_ns\":%" PRIu64 "},",
			account->threads, account->seen, account->running_ns, account->runnable_ns,
			account->blocked_ns);
	put_number(out, "recorded", waits->recorded);
	fprintf(out, "\"count\":%.0f,", waits->count);
	put_number(out, "total_ns", waits->total_ns);
	put_number(out, "runnable_ns", waits->runnable_ns);
	fputs("\"places\":[", out);
	for (size_t i = 0; i < waits->row_count; i++) {
		fputs(i ? ",\n    " : "\n    ", out);
		put_wait(out, model, &waits->rows[i]);
	}
	fputs("]},", out);
}

static void put_table(FILE *out, const struct xp_model *stacks, const struct xp_report_table *table)
{
	fputc('{', out);
	put_text(out, "name", table->name);
	if (table->pid) {
		put_number(out, "pid", table->pid);
		if (table->image)
			put_number(out, "image", table->image);
	}
	if (table->tid)
		put_number(out, "tid", table->tid);
	if (table->has_samples) {
		put_number(out, "samples", table->samples);
		put_number(out, "kernel_samples", table->kernel_samples);
		put_number(out, "cpu_ns", table->sampled_ns);
	}
	if (table->has_calls) {
		put_number(out, "calls", table->calls);
		put_number(out, "open_calls", table->open);
	}
	if (xp_report_has_waits(table))
		put_waits(out, stacks, table);
	fputs("\"functions\":[", out);
	for (size_t i = 0; i < table->row_count; i++) {
		fputs(i ? ",\n    " : "\n    ", out);
		put_row(out, table, &table->rows[i]);
	}
	fputs("]}", out);
}

static void put_hits(FILE *out, const struct xp_report_tables *tables)
{
	fputs("\"usdt\":[", out);
	for (size_t i = 0; i < tables->hit_count; i++) {
		fputs(i ? ",\n  {" : "\n  {", out);
		put_text(out, "probe", tables->hits[i].probe);
		put_text(out, "group", tables->hits[i].group);
		fprintf(out, "\"hits\":%" PRIu64 "}", tables->hits[i].hits);
	}
	fputs("],\n", out);
}

void xp_report_json(FILE *out, const struct xp_report_tables *tables, const struct xp_recorded *recorded)
{
	bool first = true;

	fprintf(out, "{\"xprof_report\":%d,\n\"recordings\":[", XP_REPORT_JSON_VERSION);
	for (size_t i = 0; i < recorded->heading_count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		xp_json_text(out, recorded->headings[i]);
	}
	fprintf(out, "],\n\"by\":\"%s\",\n", xp_model_group_names[tables->by]);
	if (tables->machine.total.samples)
		put_machine(out, &tables->machine);
	if (tables->count > 1) {
		fputs("\"all\":", out);
		put_table(out, &tables->model, &tables->all);
		fputs(",\n", out);
	}
	if (tables->hit_count)
		put_hits(out, tables);
	fputs("\"groups\":[", out);
	for (size_t i = 0; i < tables->count; i++) {
		if (!tables->tables[i].has_samples && !tables->tables[i].has_calls &&
		    !xp_report_has_waits(&tables->tables[i]))
			continue;
		fputs(first ? "\n  " : ",\n  ", out);
		put_table(out, &tables->model, &tables->tables[i]);
		first = false;
	}
	fputs("]}\n", out);
}

/* ---- trees ---- */

/* Writes a node of the array. The array is flat, with parents before their children, because stacks can be deep. */
static void put_node(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree, size_t index)
{
	const struct xp_model_node *node = &tree->nodes[index];

	fputc('{', out);
	if (index)
		put_number(out, "parent", node->parent);
	if (node->group)
		put_text(out, "group", node->group);
	if (node->function != XP_MODEL_NONE) {
		put_text(out, "function", model->functions[node->function].shown);
		put_text(out, "object", model->objects[model->functions[node->function].object].name);
	}
	if (node->is_inlined)
		fputs("\"inlined\":true,", out);
	put_number(out, "self", node->self[0]);
	put_number(out, "self_ns", node->self[1]);
	put_number(out, "total", node->total[0]);
	fprintf(out, "\"total_ns\":%" PRIu64 "}", node->total[1]);
}

void xp_report_json_tree(FILE *out, const struct xp_model *model, const struct xp_model_tree *tree,
			 enum xp_model_group by, const char *callers)
{
	uint64_t totals[2];

	xp_model_totals(model, totals);
	fprintf(out, "{\"xprof_report\":%d,\n\"by\":\"%s\",\n\"of\":\"%s\",\n", XP_REPORT_JSON_VERSION,
		xp_model_group_names[by], xp_model_kind_name(model->kind));
	if (callers)
		put_text(out, "callers", callers);
	put_number(out, "whole", totals[0]);
	put_number(out, "whole_ns", totals[1]);
	fputs("\"nodes\":[", out);
	for (size_t i = 0; i < tree->count; i++) {
		fputs(i ? ",\n  " : "\n  ", out);
		put_node(out, model, tree, i);
	}
	fputs("]}\n", out);
}
