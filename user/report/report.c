// SPDX-License-Identifier: BSD-2-Clause
#include "report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/file_view.h"
#include "base/util.h"
#include "format/gperf_reader.h"
#include "model/read_samples.h"
#include "model/stack_shapes.h"
#include "model/sum.h"
#include "report/groups.h"
#include "report/hits.h"
#include "report/log_rows.h"
#include "report/rows.h"

/* The share of a process of the model in the machine's CPU time. */
struct usage {
	struct xp_report_share share;
	const char *cgroup;
};

struct making {
	struct xp_report_tables *tables;
	const struct xp_recorded *recorded;
	const struct xp_report_options *options;
	struct xp_report_groups groups;
	struct xp_facts *nothing; /* empty facts: each profile is then a separate process in the model */
	struct xp_report_logs logs;
	bool *wants_log;      /* for each process of the recording */
	struct usage *usages; /* for each process of the model */
	bool broken;
};

/* Returns whether the samples come from perf.data. Profiles contain the same samples. */
static bool has_perf(const struct making *making)
{
	return making->options->times || (making->options->directory && making->recorded->has_perf_data);
}

/* ---- step 1: read everything ---- */

/* Reads the header of a profile, because the report also shows a profile without samples. Returns whether it can be
 * opened. */
static bool look_at_profile(struct making *making, size_t process)
{
	const char *path = making->recorded->processes[process].profile;
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_file_view view;

	if (!path || making->options->times || xp_file_view_open(&view, AT_FDCWD, path))
		return false; /* the error is printed later, when the samples are read */
	if (!xp_gperf_reader_init(&reader, view.bytes, view.size, &violation) &&
	    making->options->by == XP_MODEL_BY_PROCESS) {
		making->tables->tables[process].has_samples = true;
		making->tables->tables[process].period_us = reader.period_us;
		making->tables->tables[process].is_of_waits = xp_file_ends_with(path, XP_WAIT_PROFILE_SUFFIX);
	}
	xp_file_view_close(&view);
	return true;
}

/* Reads the logs. A report by CPU has no calls, because the CPU of a call is unknown. */
static int read_logs(struct making *making)
{
	const struct xp_report_options *options = making->options;
	const struct xp_select all = { 0 };
	const struct xp_model_source source = {
		.recorded = making->recorded,
		.facts = making->nothing,
		.select = &all,
		.instr_map = options->instr_map,
		.full_names = true,
	};

	for (size_t i = 0; i < making->recorded->process_count; i++)
		making->wants_log[i] = !(look_at_profile(making, i) && options->by_line) &&
				       making->recorded->processes[i].log && options->by != XP_MODEL_BY_CPU;
	return xp_report_logs_read(&making->logs, &making->groups, &source, options->times, making->wants_log,
				   &making->broken);
}

/* Only perf.data has the threads and CPUs of samples, so reports by thread or CPU require it. */
static int check_perf(const struct making *making)
{
	enum xp_model_group by = making->options->by;

	if ((by != XP_MODEL_BY_THREAD && by != XP_MODEL_BY_CPU) || making->tables->model.has_threads ||
	    !making->tables->model.sample_count)
		return 0;
	xp_error(XP_REPORT_NEEDS_PERF);
	return -ENODATA;
}

static const struct xp_facts *facts_of(const struct making *making)
{
	const struct xp_recorded *recorded = making->recorded;

	return recorded->directory_count ? recorded->directories[0].facts : making->nothing;
}

/* Determines whether the recording has waits, before the model is read. */
static void look_for_waits(struct xp_report_tables *tables, const struct xp_facts *facts, bool has_perf)
{
	tables->has_waits = xp_facts_waits(facts, &tables->wait_facts);
	/* If the manifest lists no waits, the recording has none. */
	tables->model.keep_waits = has_perf && (tables->has_waits || !xp_facts_summary(facts)->started_ns);
	if (tables->has_waits && !has_perf)
		xp_warn("only perf.data has the places where threads waited, and there is none");
}

/* The length of the recording in the selected time. */
static uint64_t selected_ns(const struct xp_facts_summary *facts, const struct xp_select *times)
{
	uint64_t end_ns = facts->from_ns + facts->length_ns;
	uint64_t to_ns = times->to_ns ? XP_MIN(times->to_ns, end_ns) : end_ns;

	return to_ns - XP_MIN(to_ns, XP_MAX(times->from_ns, facts->from_ns));
}

/* Adds the samples and waits of the selected time of a directory. */
static int add_times(struct making *making, size_t index)
{
	const struct xp_recorded_directory *directory = &making->recorded->directories[index];
	const struct xp_select *times = &making->options->times[index];
	struct xp_model *sum = &making->tables->model, part;
	struct xp_report_machine *machine = &making->tables->machine;
	const struct xp_model_source source = {
		.recorded = making->recorded,
		.directory = directory->binaries->directory,
		.facts = directory->facts,
		.select = times,
	};
	struct xp_facts_waits waits;
	char path[PATH_MAX];
	int err;

	snprintf(path, sizeof(path), "%s/" XP_PERF_DATA_NAME, source.directory);
	if (access(path, F_OK))
		return 0; /* only calls */
	err = xp_model_init(&part, sum->kind, making->options->by_line ? XP_NAMES_LINES : XP_NAMES_FUNCTIONS);
	making->tables->has_waits |= xp_facts_waits(directory->facts, &waits);
	sum->keep_waits = part.keep_waits = true;
	part.keep_hits = sum->keep_hits;
	part.full_names = making->options->full_names;
	err = err ?: xp_model_read_samples(&part, &source, &making->broken);
	if (!err && making->options->by != XP_MODEL_BY_THREAD)
		err = xp_model_join_kernel_threads(&part, directory->facts);
	err = err ?: xp_model_add(sum, &part);
	machine->length_ns += selected_ns(xp_facts_summary(directory->facts), times);
	machine->cpus = xp_facts_summary(directory->facts)->cpus;
	xp_model_free(&part);
	return err;
}

/* Reads the samples and waits. Reads waits of only one recording: several recordings have no common time. */
static int read_samples(struct making *making)
{
	const struct xp_select all = { 0 };
	const struct xp_model_source source = {
		.recorded = making->recorded,
		.directory = has_perf(making) ? making->options->directory : NULL,
		.facts = has_perf(making) ? facts_of(making) : making->nothing,
		.select = &all,
	};
	int err = 0;

	for (size_t i = 0; !err && making->options->times && i < making->recorded->directory_count; i++)
		err = add_times(making, i);
	if (making->options->times)
		return err ?: check_perf(making);
	if (making->options->directory)
		look_for_waits(making->tables, facts_of(making), has_perf(making));
	if (making->options->only_waits && !has_perf(making))
		return 0;
	err = xp_model_read_samples(&making->tables->model, &source, &making->broken);
	if (!err && making->tables->model.dropped)
		xp_warn("%" PRIu64 " sample%s missing: the recording has too many different stacks",
			making->tables->model.dropped, xp_plural_s_are(making->tables->model.dropped));
	if (!err && making->tables->model.dropped_hits)
		xp_warn("%" PRIu64 " hit%s of USDT probes missing: the recording has too many different ones",
			making->tables->model.dropped_hits, xp_plural_s_are(making->tables->model.dropped_hits));
	if (!err && has_perf(making) && making->options->by != XP_MODEL_BY_THREAD)
		err = xp_model_join_kernel_threads(&making->tables->model, source.facts);
	return err ? err : check_perf(making);
}

/* ---- step 2: samples to rows ---- */

static bool is_kernel(const struct xp_model *model, uint32_t stack)
{
	const struct xp_model_location *location = stack ? &model->locations[model->stacks[stack].location] : NULL;

	return location && model->objects[location->object].kind == XP_CODE_KERNEL;
}

/* Without perf.data, each profile is a process of the model, and its image is the number of the profile, from 1. */
static int find_table(struct making *making, const struct xp_model_sample *sample, size_t *table)
{
	const struct xp_model_thread *thread = &making->tables->model.threads[sample->thread];
	const struct xp_model_process *process = &making->tables->model.processes[thread->process];

	if (making->options->by == XP_MODEL_BY_CPU)
		return xp_report_groups_cpu(&making->groups, sample->cpu, table);
	if (has_perf(making))
		return xp_report_groups_model(&making->groups, process, thread->tid, thread->name, table);
	return xp_report_groups_process(&making->groups, process->image - 1, table);
}

static void count_share(struct xp_report_share *share, const struct xp_model_sample *sample, bool in_kernel)
{
	share->samples += sample->values[0];
	share->kernel_samples += in_kernel ? sample->values[0] : 0;
	share->sampled_ns += sample->values[1];
}

static int count_sample(struct making *making, size_t index)
{
	const struct xp_model_sample *sample = &making->tables->model.samples[index];
	bool in_kernel = is_kernel(&making->tables->model, sample->stack);
	struct xp_report_place places[2];
	size_t table, count;
	int err = find_table(making, sample, &table);

	if (err)
		return err;
	count_share(&making->usages[making->tables->model.threads[sample->thread].process].share, sample, in_kernel);
	count = xp_report_groups_places(&making->groups, table, places);
	for (size_t i = 0; !err && i < count; i++) {
		struct xp_report_table *to = places[i].table;

		to->has_samples = true;
		to->samples += sample->values[0];
		to->kernel_samples += in_kernel ? sample->values[0] : 0;
		to->sampled_ns += sample->values[1];
		if (!to->period_us && sample->values[0])
			to->period_us = sample->values[1] / sample->values[0] / 1000;
		err = xp_report_count_stack(making->tables, &places[i], &making->tables->model, sample, index + 1,
					    making->options);
	}
	return err;
}

static int name_usage(struct making *making, size_t index)
{
	const struct xp_model_process *process = &making->tables->model.processes[index];
	struct usage *usage = &making->usages[index];

	usage->share.name = process->name;
	usage->cgroup = process->cgroup;
	if (has_perf(making))
		return 0;
	return xp_report_groups_names(&making->groups, process->image - 1, &usage->share.name, &usage->cgroup);
}

/* Sums up the machine. The length and the CPUs are known only for a single recording. */
static int make_machine(struct making *making)
{
	const struct xp_facts_summary none = { 0 }, *facts = &none;
	struct xp_report_machine *machine = &making->tables->machine;
	int err = 0;

	if (making->recorded->directory_count == 1 && making->options->directory && !making->options->times)
		facts = xp_facts_summary(facts_of(making));
	for (size_t i = 0; !err && i < making->tables->model.process_count; i++) {
		const struct usage *usage = &making->usages[i];

		err = name_usage(making, i);
		if (!err && usage->share.samples)
			err = xp_report_machine_add(machine, &usage->share, usage->cgroup);
	}
	memcpy(machine->stack_ends, facts->stack_ends, sizeof(machine->stack_ends));
	if (making->options->times)
		xp_report_machine_finish(machine, machine->length_ns, machine->cpus);
	else
		xp_report_machine_finish(machine, facts->length_ns, facts->cpus);
	return err;
}

static int count_all(struct making *making)
{
	int err = 0;

	making->usages = calloc(XP_MAX(making->tables->model.process_count, (size_t)1), sizeof(*making->usages));
	if (!making->usages)
		return -ENOMEM;
	for (size_t i = 0; !err && i < making->tables->model.sample_count; i++)
		err = count_sample(making, i);
	return err ?: xp_report_logs_count(&making->logs) ?: make_machine(making);
}

/* ---- step 3: waits to tables. Adds tables for threads that only waited. ---- */

static void count_account(struct xp_report_account *to, const struct xp_facts_account *account)
{
	to->threads++;
	xp_add_capped(&to->seen, account->seen);
	xp_add_capped(&to->running_ns, account->running_ns);
	xp_add_capped(&to->runnable_ns, account->runnable_ns);
	xp_add_capped(&to->blocked_ns, account->blocked_ns);
}

static int add_account(struct xp_report_groups *groups, const struct xp_facts *facts,
		       const struct xp_facts_account *account)
{
	struct xp_symbolizer *symbolizer = groups->tables->model.symbolizer;
	struct xp_model_process process = {
		.pid = account->pid,
		.image = (uint32_t)XP_MIN(account->image, (uint64_t)UINT32_MAX),
	};
	const char *comm = xp_facts_comm(facts, process.pid, process.image);
	const char *cgroup = xp_facts_cgroup(facts, process.pid, process.image);
	const char *name = account->name ? account->name : "";
	size_t table;
	int err;

	if (!comm && groups->tables->by != XP_MODEL_BY_NONE)
		return 0;
	process.name = xp_symbolizer_text(symbolizer, comm ? comm : name);
	process.cgroup = cgroup ? xp_symbolizer_text(symbolizer, cgroup) : NULL;
	if (!process.name || (cgroup && !process.cgroup))
		return -ENOMEM;
	err = xp_report_groups_model(groups, &process, account->tid, name, &table);
	if (!err)
		count_account(&groups->tables->tables[table].account, account);
	return err;
}

static int add_accounts(struct xp_report_groups *groups, const struct xp_facts *facts)
{
	const struct xp_facts_waits *waits = &groups->tables->wait_facts;
	struct xp_facts_account account;
	int err = 0;

	groups->tables->all.account = (struct xp_report_account){
		.threads = waits->threads,
		.seen = waits->seen,
		.running_ns = waits->running_ns,
		.runnable_ns = waits->runnable_ns,
		.blocked_ns = waits->blocked_ns,
	};
	if (groups->tables->by == XP_MODEL_BY_CPU)
		return 0;
	for (size_t i = 0; !err && xp_facts_account(facts, i, &account); i++)
		err = add_account(groups, facts, &account);
	return err;
}

static int find_wait_table(struct xp_report_groups *groups, const struct xp_model_wait *wait, uint32_t *found)
{
	const struct xp_model *model = &groups->tables->model;
	const struct xp_model_thread *thread = &model->threads[wait->thread];
	size_t table;
	int err =
	    groups->tables->by == XP_MODEL_BY_CPU
		? xp_report_groups_cpu(groups, wait->cpu, &table)
		: xp_report_groups_model(groups, &model->processes[thread->process], thread->tid, thread->name, &table);

	if (!err)
		*found = (uint32_t)table;
	return err;
}

static int compare_wait_tables(const void *a, const void *b, void *arg)
{
	const uint32_t *tables = arg;

	return xp_compare(tables[*(const uint32_t *)a], tables[*(const uint32_t *)b]);
}

/* Makes the tables of waits. order, table_of: scratch buffers with an entry per wait. order is sorted by table first.
 */
static int make_wait_tables(struct xp_report_groups *groups, const uint64_t *shapes, uint32_t *order,
			    uint32_t *table_of)
{
	struct xp_report_tables *tables = groups->tables;
	const struct xp_model *model = &tables->model;
	int err = 0;

	for (size_t i = 0; !err && i < model->wait_count; i++) {
		order[i] = (uint32_t)i;
		err = find_wait_table(groups, &model->waits[i], &table_of[i]);
	}
	if (!err)
		qsort_r(order, model->wait_count, sizeof(*order), compare_wait_tables, table_of);
	for (size_t i = 0, end; !err && i < model->wait_count; i = end) {
		uint32_t table = table_of[order[i]];

		for (end = i + 1; end < model->wait_count && table_of[order[end]] == table;)
			end++;
		err = xp_wait_table_make(&tables->tables[table].waits, model, shapes, order + i, end - i, false);
	}
	if (!err && groups->has_all)
		err = xp_wait_table_make(&tables->all.waits, model, shapes, order, model->wait_count, false);
	return err;
}

static int add_waits(struct xp_report_groups *groups)
{
	const struct xp_model *model = &groups->tables->model;
	uint32_t *order = NULL, *table_of = NULL;
	uint64_t *shapes = NULL;
	int err;

	if (!model->wait_count)
		return 0;
	if (model->dropped_waits)
		xp_warn("%" PRIu64 " wait%s missing: the recording has too many different ones", model->dropped_waits,
			xp_plural_s_are(model->dropped_waits));
	groups->tables->has_waits = true;
	order = calloc(model->wait_count, sizeof(*order));
	table_of = calloc(model->wait_count, sizeof(*table_of));
	err = order && table_of ? xp_stack_shapes(model, &shapes) : -ENOMEM;
	err = err ?: make_wait_tables(groups, shapes, order, table_of);
	free(order);
	free(table_of);
	free(shapes);
	return err;
}

/* ---- the whole report ---- */

static int compare_tables(const void *a, const void *b)
{
	const struct xp_report_table *x = a, *y = b;

	return xp_compare(y->samples, x->samples) ?: xp_compare(y->calls, x->calls) ?:
	       xp_compare(y->waits.total_ns, x->waits.total_ns) ?: strcmp(x->name, y->name);
}

static int make(struct making *making)
{
	size_t count = XP_MAX(making->recorded->process_count, (size_t)1);
	int err = xp_model_init(&making->tables->model, making->options->only_waits ? XP_MODEL_WAITS : XP_MODEL_SAMPLES,
				making->options->by_line ? XP_NAMES_LINES : XP_NAMES_FUNCTIONS);

	making->tables->model.keep_hits = !making->options->only_waits;
	making->tables->model.full_names = making->options->full_names;
	making->wants_log = calloc(count, sizeof(*making->wants_log));
	if (!err && !making->wants_log)
		err = -ENOMEM;
	if (!err)
		err = xp_facts_new(&making->nothing, NULL);
	if (!err)
		err = xp_report_groups_init(&making->groups, making->tables, making->recorded, making->options->times);
	if (err)
		return err;
	if (!making->options->only_waits)
		err = read_logs(making);
	err = err ?: read_samples(making);
	if (!err && !making->options->only_waits)
		err = count_all(making) ?: xp_report_hits_make(&making->groups);
	/* The times of threads are those of the whole recording. */
	if (err || making->options->times)
		return err ?: add_waits(&making->groups);
	if (!making->options->directory)
		return 0;
	return add_accounts(&making->groups, facts_of(making)) ?: add_waits(&making->groups);
}

static void making_free(struct making *making)
{
	if (making->logs.groups)
		xp_report_logs_free(&making->logs);
	free(making->wants_log);
	free(making->usages);
	xp_report_groups_free(&making->groups);
	xp_facts_free(making->nothing);
}

static void table_free(struct xp_report_table *table, struct xp_durations_memory *memory)
{
	for (size_t i = 0; i < table->row_count; i++)
		xp_durations_free(&table->rows[i].durations, memory);
	free(table->rows);
	xp_wait_table_free(&table->waits);
}

/* Removes the last processes, which have no samples or waits in the selected time, and facts about all times. */
static void keep_selected(struct xp_report_tables *tables)
{
	for (size_t i = 0; i < tables->count; i++)
		tables->tables[i].stacks = NULL;
	while (tables->count) {
		struct xp_report_table *last = &tables->tables[tables->count - 1];

		if (last->samples || last->calls || xp_report_has_waits(last))
			return;
		table_free(last, &tables->memory);
		tables->count--;
	}
}

int xp_report_make(struct xp_report_tables *tables, const struct xp_recorded *recorded,
		   const struct xp_report_options *options, bool *broken)
{
	struct making *making = calloc(1, sizeof(*making));
	int err;

	*tables = (struct xp_report_tables){ .by = options->by, .memory.max = XP_DURATIONS_BYTES_MAX };
	*broken = false;
	if (!making)
		return -ENOMEM;
	making->tables = tables;
	making->recorded = recorded;
	making->options = options;
	err = make(making);
	*broken = making->broken;
	making_free(making);
	free(making);
	xp_report_warn_of_others(tables);
	if (!err && tables->count)
		qsort(tables->tables, tables->count, sizeof(*tables->tables), compare_tables);
	if (options->times)
		keep_selected(tables);
	return err;
}

void xp_report_free(struct xp_report_tables *tables)
{
	for (size_t i = 0; i < tables->count; i++)
		table_free(&tables->tables[i], &tables->memory);
	table_free(&tables->all, &tables->memory);
	free(tables->tables);
	free(tables->hits);
	xp_report_machine_free(&tables->machine);
	xp_model_free(&tables->model);
	memset(tables, 0, sizeof(*tables));
}
