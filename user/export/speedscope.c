// SPDX-License-Identifier: BSD-2-Clause
/*
 * speedscope's JSON (https://www.speedscope.app/file-format-schema.json): one "sampled" profile for each thread, or
 * process, name or CPU. Samples are in the order of time, if that is known; a weight is what a sample stands for.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/progress_line.h"
#include "base/util.h"
#include "model/shown_name.h"

struct writing {
	FILE *out;
	struct xp_model *model;
	const struct xp_export_options *options;
	uint32_t *order;  /* of the samples: by group, then by time */
	uint64_t *groups; /* of each sample */
	uint32_t *path;	  /* frames of a stack, the innermost first */
	size_t path_room;
	struct xp_progress_line line;
};

/* Clean texts have no control characters. */
static void put_text(FILE *out, const char *text)
{
	putc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putc('\\', out);
		putc(*text, out);
	}
	putc('"', out);
}

static void put_frames(struct writing *writing)
{
	const struct xp_model *model = writing->model;
	char shown[XP_DEMANGLED_BYTES_MAX + 1];

	fputs("\"shared\":{\"frames\":[", writing->out);
	for (size_t i = 0; i < model->function_count; i++) {
		const struct xp_model_function *function = &model->functions[i];

		fputs(i ? ",\n{\"name\":" : "\n{\"name\":", writing->out);
		put_text(writing->out, xp_shown_name(shown, sizeof(shown), function, writing->options->full_names));
		if (function->file) {
			fputs(",\"file\":", writing->out);
			put_text(writing->out, function->file);
		}
		putc('}', writing->out);
	}
	fputs("]},\n", writing->out);
}

/* ---- groups ---- */

static uint64_t group_of(const struct writing *writing, const struct xp_model_sample *sample)
{
	uint32_t process = writing->model->threads[sample->thread].process;

	switch (writing->options->by) {
	case XP_MODEL_BY_THREAD:
		return sample->thread;
	case XP_MODEL_BY_PROCESS:
		return process;
	case XP_MODEL_BY_COMM:
		return (uintptr_t)writing->model->processes[process].name;
	case XP_MODEL_BY_CGROUP:
		return (uintptr_t)writing->model->processes[process].cgroup;
	case XP_MODEL_BY_CPU:
		return sample->cpu;
	case XP_MODEL_BY_NONE:
	case XP_MODEL_GROUPS:
		break;
	}
	return 0;
}

static const char *group_name(const struct writing *writing, const struct xp_model_sample *sample, char *to,
			      size_t size)
{
	const struct xp_model_thread *thread = &writing->model->threads[sample->thread];
	const struct xp_model_process *process = &writing->model->processes[thread->process];
	char of_process[XP_MODEL_LABEL_BYTES], of_thread[XP_MODEL_LABEL_BYTES];

	xp_model_label(of_process, sizeof(of_process), process->name, process->pid);
	switch (writing->options->by) {
	case XP_MODEL_BY_THREAD:
		xp_model_label(of_thread, sizeof(of_thread), thread->name, thread->tid);
		snprintf(to, size, "%s %s", of_process, of_thread);
		return thread->tid ? to : strcpy(to, of_process);
	case XP_MODEL_BY_PROCESS:
		return strcpy(to, of_process);
	case XP_MODEL_BY_COMM:
		return process->name;
	case XP_MODEL_BY_CGROUP:
		return process->cgroup ? process->cgroup : XP_MODEL_NO_CGROUP;
	case XP_MODEL_BY_CPU:
		return xp_model_cpu_label(to, size, sample->cpu);
	case XP_MODEL_BY_NONE:
	case XP_MODEL_GROUPS:
		break;
	}
	return "all";
}

static int compare_samples(const void *a, const void *b, void *arg)
{
	const struct writing *writing = arg;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct xp_model_sample *x = &writing->model->samples[i], *y = &writing->model->samples[j];

	return xp_compare(writing->groups[i], writing->groups[j]) ?: xp_compare(x->time_ns, y->time_ns) ?:
	       xp_compare(i, j);
}

static int sort_samples(struct writing *writing)
{
	size_t count = writing->model->sample_count;

	writing->groups = calloc(XP_MAX(count, (size_t)1), sizeof(*writing->groups));
	writing->order = calloc(XP_MAX(count, (size_t)1), sizeof(*writing->order));
	if (!writing->groups || !writing->order)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		writing->groups[i] = group_of(writing, &writing->model->samples[i]);
		writing->order[i] = (uint32_t)i;
	}
	qsort_r(writing->order, count, sizeof(*writing->order), compare_samples, writing);
	return 0;
}

/* ---- profiles ---- */

static int put_stack(struct writing *writing, uint32_t stack)
{
	const struct xp_model *model = writing->model;
	size_t depth = 0;

	for (; stack; stack = model->stacks[stack].callers) {
		const struct xp_model_location *location = &model->locations[model->stacks[stack].location];

		if (XP_ARRAY_RESERVE(writing->path, writing->path_room, depth + location->frame_count))
			return -ENOMEM;
		for (uint32_t i = 0; i < location->frame_count; i++)
			writing->path[depth++] = model->frames[location->first_frame + i].function;
	}
	putc('[', writing->out);
	for (; depth; depth--)
		fprintf(writing->out, depth > 1 ? "%" PRIu32 "," : "%" PRIu32, writing->path[depth - 1]);
	putc(']', writing->out);
	return 0;
}

/* Writes the profile of order[from] to order[to - 1]. */
static int put_profile(struct writing *writing, size_t from, size_t to)
{
	const struct xp_model_sample *samples = writing->model->samples;
	char name[2 * XP_MODEL_LABEL_BYTES];
	uint64_t total = 0;
	int err = 0;

	fputs(from ? ",\n{\"type\":\"sampled\",\"name\":" : "\n{\"type\":\"sampled\",\"name\":", writing->out);
	put_text(writing->out, group_name(writing, &samples[writing->order[from]], name, sizeof(name)));
	for (size_t i = from; i < to; i++)
		total += samples[writing->order[i]].values[1];
	fprintf(writing->out, ",\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":%" PRIu64 ",\"samples\":[",
		total);
	for (size_t i = from; !err && i < to; i++) {
		xp_progress_line_step(&writing->line, i);
		if (i > from)
			putc(',', writing->out);
		err = put_stack(writing, samples[writing->order[i]].stack);
	}
	fputs("],\n\"weights\":[", writing->out);
	for (size_t i = from; i < to; i++)
		fprintf(writing->out, i > from ? ",%" PRIu64 : "%" PRIu64, samples[writing->order[i]].values[1]);
	fputs("]}", writing->out);
	return err;
}

static int put_profiles(struct writing *writing)
{
	size_t count = writing->model->sample_count, to;
	int err = sort_samples(writing);

	xp_progress_line_begin_writing(&writing->line, writing->out, count);
	fputs("\"profiles\":[", writing->out);
	for (size_t from = 0; !err && from < count && !ferror(writing->out); from = to) {
		uint64_t group = writing->groups[writing->order[from]];

		for (to = from + 1; to < count && writing->groups[writing->order[to]] == group;)
			to++;
		err = put_profile(writing, from, to);
	}
	xp_progress_line_end(&writing->line);
	fputs("]}\n", writing->out);
	return err;
}

int xp_export_speedscope(FILE *out, struct xp_model *model, const struct xp_export_options *options)
{
	struct writing writing = { .out = out, .model = model, .options = options };
	int err;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
	      "\"exporter\":\"xprof " XPROF_VERSION "\",\n",
	      out);
	if (model->comment) {
		fputs("\"name\":", out);
		put_text(out, model->comment);
		fputs(",\n", out);
	}
	put_frames(&writing);
	err = put_profiles(&writing);
	free(writing.order);
	free(writing.groups);
	free(writing.path);
	return err;
}
