// SPDX-License-Identifier: BSD-2-Clause
#include "export/profiles.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/own_file.h"
#include "base/owner_rights.h"
#include "base/trusted_dir.h"
#include "base/util.h"
#include "export/output.h"
#include "export/symbol_ranges.h"
#include "format/gperf.h"
#include "model/input.h"
#include "model/read_waits.h"

#define PERIOD_OF_WAITS_US 1

/* The profiles of one model. */
struct making {
	struct xp_model_input *input;
	const char *directory;
	struct xp_model model;
	struct xp_symbol_ranges ranges;
	uint32_t *samples; /* indexes, sorted by process and stack */
	bool is_waits;
	uint64_t period_us;
};

/* One profile. */
struct profile {
	struct making *making;
	size_t first, end; /* range in making->samples */
	struct xp_gperf_object *objects;
	size_t object_count;
	uint64_t *counts; /* counts of the stacks; their indexes are in the next member */
	uint32_t *stacks;
	size_t stack_count;
	uint64_t chain[XP_GPERF_CHAIN_MAX];
};

/* ---- samples ---- */

static const struct xp_model_sample *sample_at(const struct making *making, size_t i)
{
	return &making->model.samples[making->samples[i]];
}

static uint32_t process_at(const struct making *making, size_t i)
{
	return making->model.threads[sample_at(making, i)->thread].process;
}

static int by_process(const void *a, const void *b, void *arg)
{
	const struct xp_model *model = arg;
	const struct xp_model_sample *x = &model->samples[*(const uint32_t *)a];
	const struct xp_model_sample *y = &model->samples[*(const uint32_t *)b];

	return xp_compare(model->threads[x->thread].process, model->threads[y->thread].process)
		   ?: xp_compare(x->stack, y->stack);
}

static int sort_samples(struct making *making)
{
	size_t count = making->model.sample_count;

	free(making->samples);
	making->samples = malloc(XP_MAX(count, (size_t)1) * sizeof(*making->samples));
	if (!making->samples)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		making->samples[i] = (uint32_t)i;
	qsort_r(making->samples, count, sizeof(*making->samples), by_process, &making->model);
	return 0;
}

/*
 * Sums up the samples of each stack. Waits count in whole us; the remainder is added to the next stack, so that the
 * total is correct.
 */
static int sum_up(struct profile *profile)
{
	const struct making *making = profile->making;
	size_t room = profile->end - profile->first + 1;
	uint64_t rest_ns = 0;

	profile->counts = calloc(room, sizeof(*profile->counts));
	profile->stacks = calloc(room, sizeof(*profile->stacks));
	if (!profile->counts || !profile->stacks)
		return -ENOMEM;
	for (size_t i = profile->first; i < profile->end;) {
		uint32_t stack = sample_at(making, i)->stack;
		uint64_t count = 0;

		for (; i < profile->end && sample_at(making, i)->stack == stack; i++)
			count += sample_at(making, i)->values[making->is_waits];
		if (making->is_waits) {
			rest_ns += count;
			count = rest_ns / 1000;
			rest_ns %= 1000;
		}
		if (!stack || !count)
			continue;
		profile->counts[profile->stack_count] = count;
		profile->stacks[profile->stack_count++] = stack;
	}
	return 0;
}

/* The model has addresses in call instructions; readers expect return addresses. */
static void get_record(void *arg, size_t index, struct xp_gperf_record *record)
{
	struct profile *profile = arg;
	const struct xp_model *model = &profile->making->model;

	*record = (struct xp_gperf_record){ .count = profile->counts[index], .pcs = profile->chain };
	for (uint32_t at = profile->stacks[index]; at && record->pc_count < XP_GPERF_CHAIN_MAX;
	     at = model->stacks[at].callers) {
		uint64_t pc = profile->making->ranges.pcs[model->stacks[at].location];

		profile->chain[record->pc_count] = pc + (record->pc_count > 0);
		record->pc_count++;
	}
}

/* ---- a profile ---- */

/* Finds the files of the profile's stacks, sorted by their ranges. */
static int find_objects(struct profile *profile)
{
	const struct xp_model *model = &profile->making->model;
	const struct xp_symbol_ranges *ranges = &profile->making->ranges;
	bool *is_used = calloc(XP_MAX(model->object_count, (size_t)1), sizeof(*is_used));

	profile->objects = calloc(XP_MAX(model->object_count, (size_t)1), sizeof(*profile->objects));
	if (!is_used || !profile->objects) {
		free(is_used);
		return -ENOMEM;
	}
	for (size_t i = 0; i < profile->stack_count; i++)
		for (uint32_t at = profile->stacks[i]; at; at = model->stacks[at].callers)
			is_used[model->locations[model->stacks[at].location].object] = true;
	for (size_t i = 0; i < ranges->count; i++)
		if (is_used[ranges->order[i]])
			profile->objects[profile->object_count++] = ranges->objects[ranges->order[i]];
	free(is_used);
	return 0;
}

static int write_profile(void *arg, FILE *out)
{
	struct profile *profile = arg;
	const struct xp_gperf_records records = { get_record, profile, profile->stack_count };

	return xp_gperf_write(fileno(out), profile->making->period_us, &records, profile->objects,
			      profile->object_count);
}

/* name: name of the process. */
static int make_profile(struct making *making, const struct xp_model_process *process, size_t first, size_t end)
{
	struct profile *profile = calloc(1, sizeof(*profile));
	char base[XP_FILE_BASE_BYTES], name[XP_FILE_PROFILE_BYTES];
	int err;

	if (!profile)
		return -ENOMEM;
	*profile = (struct profile){ .making = making, .first = first, .end = end };
	xp_file_base_name(base, sizeof(base), process->name, (pid_t)process->pid, process->image);
	snprintf(name, sizeof(name), "%s%s", base, making->is_waits ? XP_WAIT_PROFILE_SUFFIX : XP_PROFILE_SUFFIX);
	err = sum_up(profile) ?: find_objects(profile);
	if (!err)
		err = xp_export_file_made(making->directory, name, write_profile, profile);
	if (err && err != -ENOMEM) {
		xp_error("%s/%s: cannot write it: %s; `xprof recover` makes it", making->directory, name,
			 xp_export_file_reason(err));
		err = -EIO;
	}
	free(profile->objects);
	free(profile->counts);
	free(profile->stacks);
	free(profile);
	return err;
}

/* A program that was to be sampled gets a profile even without samples. */
static int make_empty_profiles(struct making *making)
{
	const struct xp_facts *facts = making->input->facts;
	struct xp_model_process process = { 0 };
	uint64_t samples, pid, image;
	int err = 0;

	for (size_t i = 0; !err && xp_facts_sampled(facts, i, &pid, &image, &samples); i++) {
		process.pid = pid;
		process.image = (uint32_t)image;
		process.name = xp_facts_comm(facts, pid, image);
		if (process.name && !samples)
			err = make_profile(making, &process, 0, 0);
	}
	return err;
}

static int make_profiles(struct making *making)
{
	size_t count = making->model.sample_count;
	int err = making->is_waits ? 0 : make_empty_profiles(making);

	for (size_t first = 0, end = 0; !err && first < count; first = end) {
		while (end < count && process_at(making, end) == process_at(making, first))
			end++;
		err = make_profile(making, &making->model.processes[process_at(making, first)], first, end);
	}
	return err;
}

/* ---- a model ---- */

/* Returns the object at which a stack left the kernel, or hit user code. */
static const struct xp_model_object *user_object(const struct xp_model *model, uint32_t stack)
{
	for (; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[stack].location];

		if (model->objects[location->object].kind != XP_CODE_KERNEL)
			return &model->objects[location->object];
	}
	return NULL;
}

static void tell_jit(const struct xp_model *model)
{
	uint64_t named = 0, unnamed = 0;

	for (size_t i = 0; i < model->sample_count; i++) {
		const struct xp_model_object *object = user_object(model, model->samples[i].stack);

		if (object && object->kind == XP_CODE_JIT)
			named += model->samples[i].values[0];
		else if (object && strcmp(object->path, "[anon]") == 0)
			unnamed += model->samples[i].values[0];
	}
	if (named + unnamed)
		xp_info("%" PRIu64 " sample%s in JIT code = %" PRIu64 " in a known function + %" PRIu64
			" without a name",
			named + unnamed, xp_plural_s(named + unnamed), named, unnamed);
}

static int read_model(struct making *making)
{
	const struct xp_select all = { 0 };
	struct xp_model_source source = xp_model_input_source(making->input);
	int err = xp_model_init(&making->model, XP_MODEL_SAMPLES, XP_NAMES_LINES);

	source.select = &all;
	making->model.only_jit_names = making->model.keep_waits = true;
	err = err ?: xp_model_read_samples(&making->model, &source, &making->input->broken);
	return err ?: xp_model_join_kernel_threads(&making->model, making->input->facts);
}

static int make_of_samples(struct making *making)
{
	int err;

	making->period_us = XP_MAX((making->model.period_ns + 500) / 1000, (uint64_t)1);
	err = sort_samples(making) ?: make_profiles(making);
	if (!err)
		tell_jit(&making->model);
	return err;
}

static int make_of_waits(struct making *making)
{
	making->is_waits = true;
	making->period_us = PERIOD_OF_WAITS_US;
	return xp_waits_as_samples(&making->model) ?: sort_samples(making) ?: make_profiles(making);
}

static int make_of_model(struct xp_model_input *input, int dir_fd)
{
	struct making *making = calloc(1, sizeof(*making));
	int err;

	if (!making)
		return -ENOMEM;
	making->input = input;
	making->directory = input->directory;
	err = read_model(making) ?: xp_symbol_ranges_make(&making->ranges, &making->model, dir_fd);
	err = err ?: make_of_samples(making);
	if (!err && making->model.wait_count)
		err = make_of_waits(making);
	xp_symbol_ranges_free(&making->ranges);
	xp_model_free(&making->model);
	free(making->samples);
	free(making);
	return err;
}

static int make_all(const char *directory, int dir_fd)
{
	struct xp_model_input input = { 0 };
	int err = xp_model_input_open(&input, directory);
	bool broken;

	if (!err && input.recorded.has_perf_data)
		err = make_of_model(&input, dir_fd);
	broken = input.broken;
	xp_model_input_close(&input);
	return err ? err : broken ? -EBADMSG : 0;
}

/*
 * Root reads with the rights of the directory's owner: the directory may contain a link to another user's recording,
 * and the owner will get the profile.
 */
int xp_export_profiles(const char *directory)
{
	int dir_fd = xp_own_links_dir_open(directory), err, own_err;
	struct stat dir;

	if (dir_fd < 0)
		return dir_fd;
	if (faccessat(dir_fd, XP_PERF_DATA_NAME, F_OK, 0)) {
		close(dir_fd);
		return 0;
	}
	err = fstat(dir_fd, &dir) ? -errno : xp_owner_rights_take(&dir);
	if (!err)
		err = make_all(directory, dir_fd);
	own_err = xp_owner_rights_return();
	close(dir_fd);
	return err ? err : own_err;
}
