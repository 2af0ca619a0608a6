// SPDX-License-Identifier: BSD-2-Clause
#include "model/thread_times.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/util.h"
#include "model/stack_shapes.h"
#include "model/sum.h"

/* ---- orders ---- */

static int by_thread_and_end(const void *a, const void *b)
{
	const struct xp_model_wait *left = a, *right = b;

	return xp_compare(left->thread, right->thread) ?: xp_compare(left->end_ns, right->end_ns);
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct xp_model_sample *left = a, *right = b;

	return xp_compare(left->thread, right->thread) ?: xp_compare(left->time_ns, right->time_ns);
}

static int by_cpu_and_begin(const void *a, const void *b)
{
	const struct xp_timed_run *left = a, *right = b;

	return xp_compare(left->cpu, right->cpu) ?: xp_compare(left->begin_ns, right->begin_ns);
}

static int by_cpu_and_time(const void *a, const void *b, void *arg)
{
	const struct xp_model_sample *samples = arg;
	const struct xp_model_sample *left = &samples[*(const uint32_t *)a], *right = &samples[*(const uint32_t *)b];

	return xp_compare(left->cpu, right->cpu) ?: xp_compare(left->time_ns, right->time_ns);
}

/* Waits in a file may overlap, but a thread waits once at a time. Separated waits also bound the work per call. */
static void separate_waits(struct xp_thread_times *times)
{
	struct xp_model_wait *waits = times->model.waits;

	for (size_t i = 1; i < times->model.wait_count; i++) {
		if (waits[i].thread != waits[i - 1].thread)
			continue;
		waits[i].begin_ns = XP_MAX(waits[i].begin_ns, waits[i - 1].end_ns);
		waits[i].runnable_ns = XP_MIN(waits[i].runnable_ns, waits[i].end_ns - waits[i].begin_ns);
	}
}

/* A CPU runs only one thread at a time. */
static void separate_runs(struct xp_thread_times *times)
{
	size_t count = 0;

	for (size_t i = 0; i < times->run_count; i++) {
		struct xp_timed_run run = times->runs[i];

		if (count && times->runs[count - 1].cpu == run.cpu)
			run.begin_ns = XP_MAX(run.begin_ns, times->runs[count - 1].end_ns);
		if (run.begin_ns < run.end_ns)
			times->runs[count++] = run;
	}
	times->run_count = count;
}

static int find_runs(struct xp_thread_times *times)
{
	const struct xp_model_wait *waits = times->model.waits;

	times->runs = malloc((times->model.wait_count + 1) * sizeof(*times->runs));
	if (!times->runs)
		return -ENOMEM;
	for (size_t i = 1; i < times->model.wait_count; i++)
		if (waits[i].thread == waits[i - 1].thread && waits[i].begin_ns > waits[i - 1].end_ns &&
		    waits[i].chance == XP_WAIT_CHANCE_ONE && waits[i - 1].chance == XP_WAIT_CHANCE_ONE)
			times->runs[times->run_count++] = (struct xp_timed_run){
				waits[i].thread,
				waits[i - 1].cpu,
				waits[i - 1].end_ns,
				waits[i].begin_ns,
			};
	qsort(times->runs, times->run_count, sizeof(*times->runs), by_cpu_and_begin);
	separate_runs(times);
	return 0;
}

static int find_threads(struct xp_thread_times *times)
{
	const struct xp_model *model = &times->model;

	for (size_t i = 0; i < model->thread_count; i++) {
		const struct xp_model_thread *thread = &model->threads[i];
		uint64_t pid = model->processes[thread->process].pid;

		/* If a thread ran several programs, the last one counts. */
		uint32_t *exact = xp_u64_map_add(&times->by_tid, pid << 32 | thread->tid, 0);

		if (!exact)
			return -ENOMEM;
		*exact = (uint32_t)i + 1;
		exact = xp_u64_map_add(&times->by_tid, thread->tid, 0);
		if (!exact)
			return -ENOMEM;
		*exact = (uint32_t)i + 1;
	}
	return 0;
}

static int sort(struct xp_thread_times *times)
{
	struct xp_model *model = &times->model;

	if (!model->has_threads)
		model->sample_count = 0;
	times->by_cpu = malloc((model->sample_count + 1) * sizeof(*times->by_cpu));
	if (!times->by_cpu)
		return -ENOMEM;
	if (model->sample_count)
		qsort(model->samples, model->sample_count, sizeof(*model->samples), by_thread_and_time);
	if (times->model.wait_count)
		qsort(times->model.waits, times->model.wait_count, sizeof(*times->model.waits), by_thread_and_end);
	for (size_t i = 0; i < model->sample_count; i++)
		times->by_cpu[i] = (uint32_t)i;
	for (size_t i = 0; i < model->wait_count; i++)
		times->is_partial |= model->waits[i].chance < XP_WAIT_CHANCE_ONE;
	qsort_r(times->by_cpu, model->sample_count, sizeof(*times->by_cpu), by_cpu_and_time, model->samples);
	separate_waits(times);
	return find_runs(times) ?: find_threads(times);
}

int xp_thread_times_read(struct xp_thread_times *times, const struct xp_model_source *source, bool full_names,
			 bool keep_hits, bool *broken)
{
	/* The selected functions apply to calls, not to samples. */
	const struct xp_select everything = { 0 };
	struct xp_model_source all = *source;
	int err;

	memset(times, 0, sizeof(*times));
	all.select = &everything;
	err = xp_model_init(&times->model, XP_MODEL_SAMPLES, XP_NAMES_FUNCTIONS);
	times->model.keep_times = times->model.keep_waits = times->model.name_locks = true;
	times->model.full_names = full_names;
	times->model.keep_hits = keep_hits;
	err = err ?: xp_model_read_parts(&times->model, XP_NAMES_FUNCTIONS, &all, broken);
	return err ?: xp_stack_shapes(&times->model, &times->shapes) ?: sort(times);
}

void xp_thread_times_free(struct xp_thread_times *times)
{
	xp_model_free(&times->model);
	xp_u64_map_free(&times->by_tid);
	free(times->runs);
	free(times->by_cpu);
	free(times->shapes);
}

/* ---- questions ---- */

uint32_t xp_thread_times_find(const struct xp_thread_times *times, uint64_t pid, uint64_t tid)
{
	const uint32_t *thread = xp_u64_map_find(&times->by_tid, pid << 32 | (uint32_t)tid);

	return thread ? *thread - 1 : XP_MODEL_NONE;
}

/* Compares by thread or CPU, then by time. */
static bool is_before(uint32_t a, uint64_t a_ns, uint32_t b, uint64_t b_ns)
{
	return a != b ? a < b : a_ns < b_ns;
}

const struct xp_model_wait *xp_thread_times_waits(const struct xp_thread_times *times, uint32_t thread,
						  struct xp_time_range range, size_t *count)
{
	const struct xp_model_wait *waits = times->model.waits;
	size_t first = XP_FIND_FIRST(times->model.wait_count, i,
				     !is_before(thread, range.begin_ns, waits[i].thread, waits[i].end_ns));
	size_t end = first;

	while (end < times->model.wait_count && waits[end].thread == thread && waits[end].begin_ns < range.end_ns)
		end++;
	*count = end - first;
	return *count ? &waits[first] : NULL;
}

const struct xp_model_sample *xp_thread_times_samples(const struct xp_thread_times *times, uint32_t thread,
						      struct xp_time_range range, size_t *count)
{
	const struct xp_model_sample *samples = times->model.samples;
	size_t first = XP_FIND_FIRST(times->model.sample_count, i,
				     is_before(samples[i].thread, samples[i].time_ns, thread, range.begin_ns));
	size_t end = XP_FIND_FIRST(times->model.sample_count, i,
				   is_before(samples[i].thread, samples[i].time_ns, thread, range.end_ns));

	*count = end - first;
	return *count ? &samples[first] : NULL;
}

static void add_neighbour(struct xp_neighbours *neighbours, uint32_t thread, uint64_t ns)
{
	size_t i = 0;

	while (i < neighbours->count && neighbours->threads[i] != thread)
		i++;
	if (i == XP_NEIGHBOURS_MAX)
		return;
	if (i == neighbours->count) {
		neighbours->count++;
		neighbours->threads[i] = thread;
		neighbours->ns[i] = 0;
	}
	neighbours->ns[i] += ns;
}

void xp_thread_times_neighbours(const struct xp_thread_times *times, struct xp_neighbours *neighbours, uint32_t thread,
				uint32_t cpu, struct xp_time_range range)
{
	const struct xp_model_sample *samples = times->model.samples;
	const struct xp_timed_run *runs = times->runs;
	const uint32_t *by_cpu = times->by_cpu;
	bool is_known = false;
	size_t first = XP_FIND_FIRST(times->run_count, i, !is_before(cpu, range.begin_ns, runs[i].cpu, runs[i].end_ns));

	for (size_t i = first; i < times->run_count; i++) {
		const struct xp_timed_run *run = &runs[i];

		if (run->cpu != cpu || run->begin_ns >= range.end_ns)
			break;
		if (run->thread == thread || run->end_ns <= range.begin_ns)
			continue;
		add_neighbour(neighbours, run->thread,
			      XP_MIN(run->end_ns, range.end_ns) - XP_MAX(run->begin_ns, range.begin_ns));
		is_known = true;
	}
	first = XP_FIND_FIRST(times->model.sample_count, i,
			      is_before(samples[by_cpu[i]].cpu, samples[by_cpu[i]].time_ns, cpu, range.begin_ns));
	for (size_t i = first; !is_known && i < times->model.sample_count; i++) {
		const struct xp_model_sample *sample = &samples[by_cpu[i]];

		if (sample->cpu != cpu || sample->time_ns >= range.end_ns)
			break;
		if (sample->thread != thread)
			add_neighbour(neighbours, sample->thread, sample->values[1]);
	}
}
