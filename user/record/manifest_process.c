/* SPDX-License-Identifier: BSD-2-Clause */
/* The traced processes, in manifest.json. */
#include <string.h>
#include <zlib.h>

#include "record/manifest_parts.h"

/* A function that the budget throttled. */
static json_t *taken_out_value(const struct xp_recording *recording, const struct xp_throttled *function)
{
	const char *name = function->object->table->functions[function->function_id - 1].name;
	/* Functions may be throttled before the recording begins, and are restored after its end. */
	uint64_t length_ns = xp_summary_duration_ns(recording);
	uint64_t counted_ns = XP_MIN(xp_clock_ns(recording->clock, function->counted_ticks), length_ns);
	struct section section = begin();

	put_number(&section, "id", function->function_id);
	if (name)
		put_text(&section, "name", name);
	put_number(&section, "times", function->times);
	put_seconds(&section, "out_s", XP_MIN(xp_clock_ns(recording->clock, function->out_ticks), length_ns));
	put_seconds(&section, "counted_s", counted_ns);
	if (counted_ns)
		put_number(&section, "calls_counted", function->counted);
	return done(&section);
}

/* Lists the throttled functions of a binary. Without any, omits the member. */
static void put_taken_out(struct section *section, const struct xp_recording *recording, const struct xp_object *object)
{
	const struct xp_throttled *all = xp_throttle_functions(recording->targets.probes.throttle, object);
	json_t *functions = json_array();

	for (size_t i = 0; all && i < object->table->function_count; i++)
		if (all[i].times)
			append(&functions, taken_out_value(recording, &all[i]));
	if (functions && !json_array_size(functions))
		json_decref(functions);
	else
		put(section, "taken_out", functions);
}

/* The same number for the same functions of the same file: readers take their calls in all processes together. */
static uint64_t selection_of(const struct xp_sled_table *table)
{
	uLong sum = crc32(0, table->build_id, table->build_id_bytes);

	for (size_t i = 0; i < table->function_count; i++)
		sum = crc32(sum, (const Bytef *)&table->functions[i].vaddr, sizeof(table->functions[i].vaddr));
	return sum;
}

static json_t *object_value(const struct xp_recording *recording, const struct xp_range *range)
{
	const struct xp_sled_table *table = range->object->table;
	const struct xp_sym_files *sym = recording->sampling.samples.sym_files;
	const char *names = sym ? xp_sym_binary_name(xp_sym_files_stored(sym, range->object->fd)) : NULL;
	struct section section = begin(), refused = begin();

	put_number(&refused, "patched", range->sleds.patched);
	put_number(&refused, "unreadable", range->sleds.unreadable);
	if (range->object->plan)
		put_number(&refused, "faulting", range->sleds.faulting);

	put_text(&section, "path", range->object->path);
	if (table->build_id_bytes)
		put(&section, "build_id", hex_value(table->build_id, table->build_id_bytes));
	if (names)
		put_text(&section, "names", names);
	put_number(&section, "functions", table->function_count);
	put_number(&section, "first_id", range->fdr_base + 1);
	if (range->object->plan)
		put_number(&section, "selection", selection_of(table));
	put_text(&section, "call_mode", xp_call_mode_name(&range->sleds));
	put_number(&section, "sleds_attached", range->sleds.attached);
	put(&section, "sleds_refused", done(&refused));
	put_number(&section, "sleds_overwritten", range->overwritten);
	put_taken_out(&section, recording, range->object);
	return done(&section);
}

static json_t *objects_value(const struct xp_recording *recording, const struct xp_functions *functions)
{
	json_t *objects = json_array();

	for (size_t i = 0; i < functions->range_count; i++)
		append(&objects, object_value(recording, &functions->ranges[i]));
	return objects;
}

static json_t *thread_value(const void *arg, size_t index)
{
	const struct xp_thread_summary *thread = (const struct xp_thread_summary *)arg + index;
	struct section section = begin();

	put_number(&section, "tid", thread->tid);
	if (thread->stack_of)
		put_number(&section, "stack_of", thread->stack_of);
	put_text(&section, "name", thread->name);
	xp_manifest_put_counts(&section, &thread->counts);
	return done(&section);
}

/* Exits without a record, by function ID. */
static json_t *synthesized_value(const struct xp_thread_sums *sums)
{
	json_t *functions = json_array();

	for (size_t id = 0; sums->synthesized && id < sums->synthesized_room; id++) {
		struct section section;

		if (!sums->synthesized[id])
			continue;
		section = begin();
		put_number(&section, "id", id);
		put_number(&section, "exits", sums->synthesized[id]);
		append(&functions, done(&section));
	}
	return functions;
}

static json_t *process_value(const struct xp_recording *recording, const struct xp_process *process)
{
	const struct xp_thread_sums *sums = &process->sums;
	size_t threads = XP_MIN(sums->summary_count, (size_t)XP_MANIFEST_THREADS_MAX);
	struct section section = begin();

	put_number(&section, "pid", process->pid);
	put_number(&section, "image", process->image);
	put_text(&section, "comm", process->comm);
	put_text(&section, "exe", process->exe);
	put_seconds(&section, "start_s", since_start_ns(recording, process->begin_tsc));
	if (process->log.name[0])
		put_text(&section, "log", process->log.name);
	if (process->flights.count)
		put(&section, "flights", xp_manifest_flights_value(recording, process));
	/* Calls through the kernel, by threads without a call ring or with a full ring. */
	put_number(&section, "without_ring", process->fallen.no_ring);
	put_number(&section, "full_ring", process->fallen.full);
	if (process->attaching.probed_why)
		put_text(&section, "probed_because", process->attaching.probed_why);
	if (process->attaching.patched_why)
		put_text(&section, "patched_because", process->attaching.patched_why);
	if (process->log.error)
		put_text(&section, "error", strerror(-process->log.error));
	xp_manifest_put_counts(&section, &sums->counts);
	put(&section, "synthesized_by_function", synthesized_value(sums));
	put(&section, "objects", objects_value(recording, &process->functions));
	put_number(&section, "thread_count", sums->thread_count);
	put(&section, "threads", list(threads, thread_value, sums->summaries));
	put_number(&section, "threads_omitted", sums->thread_count + sums->stack_count - threads);
	return done(&section);
}

json_t *xp_manifest_processes_value(const struct xp_recording *recording)
{
	json_t *processes = json_array();

	for (const struct xp_process *process = recording->targets.processes.first; process; process = process->next)
		append(&processes, process_value(recording, process));
	return processes;
}
