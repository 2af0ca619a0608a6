// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_samples.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_view.h"
#include "base/interval_map.h"
#include "base/u64_map.h"
#include "base/util.h"
#include "format/gperf_reader.h"
#include "model/objects.h"

/* Further lines of a profile are ignored. */
#define MAPPED_MAX (1u << 20)

/* A mapped file, from a line of a profile. */
struct mapped {
	uint32_t file;	  /* number in the symbolizer */
	const char *name; /* clean, for display */
	uint64_t start;	  /* address of the mapping */
	uint64_t offset;  /* file offset of the mapped bytes */
};

/* A profile whose samples are being added. */
struct adding {
	struct xp_model *model;
	const struct xp_recorded_process *process;
	uint32_t thread;
	uint64_t period_ns;
	struct xp_u64_map locations; /* by address */
	struct mapped *mapped;
	size_t mapped_count, mapped_room;
	struct xp_interval_map intervals; /* address ranges of the mapped files */
};

/* ---- the list of mapped files ---- */

/* xprof's files are in sym/ next to the profile. An old directory name may belong to another recording now. */
static bool moved_path(char *to, const char *directory, const char *path)
{
	char beside[PATH_MAX];

	if (!xp_report_is_sym_file(path) || (size_t)snprintf(beside, sizeof(beside), "%s/sym/%s", directory,
							     xp_object_base_name(path)) >= sizeof(beside))
		return false;
	return realpath(beside, to) != NULL;
}

/* Returns the manifest's entry of the file, with its build ID. */
static const struct xp_recorded_object *recorded_object(const struct xp_recorded_process *process, const char *path)
{
	for (size_t i = 0; i < process->object_count; i++)
		if (strcmp(process->objects[i].path, path) == 0)
			return &process->objects[i];
	return NULL;
}

static int set_file(struct mapped *mapped, const char *path, const struct xp_recorded_process *process,
		    struct xp_symbolizer *symbolizer)
{
	const struct xp_recorded_object *known = recorded_object(process, path);
	const struct xp_recorded_binary *binary = NULL;
	struct xp_symbolizer_file file = { .path = path };
	char moved[PATH_MAX];
	int err;

	if (xp_report_is_sym_file(path))
		binary = xp_recorded_binaries_named(process->binaries, xp_object_base_name(path));
	if (moved_path(moved, process->directory, path))
		file.path = moved;
	else if (process->binaries->is_listed)
		file.want = XP_FILE_RECORDED;
	if (known) {
		file.build_id = known->build_id;
		file.build_id_bytes = known->build_id_bytes;
	}
	err = binary ? xp_symbolizer_binary(symbolizer, binary, &mapped->file)
		     : xp_symbolizer_file(symbolizer, &file, &mapped->file);
	if (err)
		return err;
	mapped->name = xp_object_display_name(symbolizer, mapped->file);
	return mapped->name ? 0 : -ENOMEM;
}

static int add_mapped(struct adding *adding, const struct xp_gperf_line *line)
{
	struct xp_interval interval = {
		.start = line->start,
		.end = line->end,
		.index = (uint32_t)adding->mapped_count,
	};
	struct mapped *mapped;
	char path[PATH_MAX];
	int err;

	if (XP_ARRAY_RESERVE(adding->mapped, adding->mapped_room, adding->mapped_count + 1))
		return -ENOMEM;
	snprintf(path, sizeof(path), "%.*s", (int)XP_MIN(line->path_bytes, (uint64_t)PATH_MAX), line->path);
	mapped = &adding->mapped[adding->mapped_count];
	*mapped = (struct mapped){ .start = line->start, .offset = line->map_offset };
	err = set_file(mapped, *path ? path : "[anon]", adding->process, adding->model->symbolizer);
	if (!err)
		err = xp_interval_map_add(&adding->intervals, interval);
	adding->mapped_count += !err;
	return err;
}

/* Reads the lines after the records. Returns 0, -EBADMSG with *violation set, or -ENOMEM. */
static int read_lines(struct adding *adding, struct xp_gperf_reader *reader, struct xp_violation *violation)
{
	struct xp_gperf_line line;
	int more, err = 0;

	while (!err && (more = xp_gperf_reader_line(reader, &line, violation)) > 0)
		if (strchr(line.perms, 'x') && adding->mapped_count < MAPPED_MAX)
			err = add_mapped(adding, &line);
	xp_interval_map_sort(&adding->intervals);
	return err ? err : more;
}

/* Reads the list of mapped files after the records. *broken: it is malformed after the lines that were used. */
static int read_mapped(struct adding *adding, const struct xp_file_view *view, bool *broken)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err = xp_gperf_reader_init(&reader, view->bytes, view->size, &violation);

	while (!err && (err = xp_gperf_reader_next(&reader, &sample, &violation)) > 0)
		err = 0;
	if (!err)
		err = read_lines(adding, &reader, &violation);
	if (err != -EBADMSG)
		return err;
	xp_error("%s: 0x%" PRIx64 ": %s", adding->process->profile, violation.offset, violation.text);
	*broken = true;
	return 0;
}

/* sym/ contains these names only for code without a file, and no binary has them. */
static enum xp_code_kind kind_of(const struct mapped *mapped, bool is_sym)
{
	const char *name = mapped->name;

	if (strcmp(name, "[unknown]") == 0 || (is_sym && strcmp(name, "unknown") == 0))
		return XP_CODE_UNKNOWN;
	if (!is_sym)
		return XP_CODE_USER;
	if (strcmp(name, "kernel") == 0)
		return XP_CODE_KERNEL;
	return strcmp(name, "jit") == 0 ? XP_CODE_JIT : XP_CODE_USER;
}

static int mapped_object(struct xp_model *model, const struct mapped *mapped, uint32_t *object)
{
	const char *path = xp_symbolizer_real_path(model->symbolizer, mapped->file);
	bool is_sym = xp_report_is_sym_file(path);
	struct xp_model_object new = { .name = mapped->name, .file = mapped->file, .kind = kind_of(mapped, is_sym) };
	char name[256];

	snprintf(name, sizeof(name), *mapped->name == '[' ? "%.250s" : "[%.250s]", mapped->name);
	new.path = xp_model_text(model, is_sym ? name : path);
	new.build_id_bytes = xp_symbolizer_build_id(model->symbolizer, mapped->file, new.build_id);
	return new.path ? xp_model_object(model, &new, object) : -ENOMEM;
}

/* ---- samples ---- */

static int find_location(struct adding *adding, uint64_t address, uint32_t *location)
{
	const uint32_t *known = xp_u64_map_find(&adding->locations, address);
	const struct xp_interval *interval = known ? NULL : xp_interval_map_find(&adding->intervals, address);
	const struct mapped *mapped = interval ? &adding->mapped[interval->index] : NULL;
	struct xp_model *model = adding->model;
	uint64_t vaddr = address;
	uint32_t object;
	int err;

	if (known) {
		*location = *known;
		return 0;
	}
	if (mapped) {
		vaddr = xp_symbolizer_vaddr(model->symbolizer, mapped->file, mapped->offset, address - mapped->start);
		err = mapped_object(model, mapped, &object);
	} else {
		err = xp_model_object_named(model, "[unknown]", "[unknown]", XP_CODE_UNKNOWN, &object);
	}
	if (!err)
		err = xp_model_location(model, object, vaddr, XP_MODEL_NONE, location);
	if (!err && !xp_u64_map_add(&adding->locations, address, *location))
		err = -ENOMEM;
	return err;
}

/*
 * Returns the address of a frame's code. All PCs except the sampled one are return addresses. If the second PC would
 * equal the sampled PC, xprof has stored it minus 1 (format/gperf.h).
 */
static uint64_t code_address(const struct xp_gperf_sample *sample, uint64_t i)
{
	uint64_t pc = xp_gperf_reader_pc(sample, i);
	bool is_less = i == 1 && pc + 1 == xp_gperf_reader_pc(sample, 0);

	return i && pc && !is_less ? pc - 1 : pc;
}

static int add_sample(struct adding *adding, const struct xp_gperf_sample *from)
{
	struct xp_model_sample sample = {
		.thread = adding->thread,
		.cpu = XP_MODEL_CPU_UNKNOWN,
		.values = { from->count, from->count * adding->period_ns },
	};
	int err = 0;

	for (uint64_t i = from->pc_count; !err && i; i--) {
		uint32_t location;

		err = find_location(adding, code_address(from, i - 1), &location);
		if (!err)
			err = xp_model_stack(adding->model, sample.stack, location, &sample.stack);
	}
	return err ? err : xp_model_sample(adding->model, &sample);
}

static int add_profile(struct adding *adding, const struct xp_file_view *view)
{
	struct xp_violation violation;
	struct xp_gperf_reader reader;
	struct xp_gperf_sample sample;
	int err = 0;

	if (xp_gperf_reader_init(&reader, view->bytes, view->size, &violation))
		return 0;
	adding->period_ns = adding->model->period_ns ? adding->model->period_ns : reader.period_us * 1000;
	while (!err && xp_gperf_reader_next(&reader, &sample, &violation) > 0) {
		err = add_sample(adding, &sample);
		if (err == -E2BIG) {
			adding->model->dropped += sample.count;
			err = 0;
		}
	}
	return err;
}

static int add_process(struct adding *adding, const struct xp_model_source *source, size_t index, bool *is_selected)
{
	const struct xp_recorded_process *from = adding->process;
	struct xp_model *model = adding->model;
	const char *comm = xp_facts_comm(source->facts, from->pid, from->image);
	struct xp_model_process process = {
		.pid = from->pid,
		.image = (uint32_t)XP_MIN(from->image, (uint64_t)UINT32_MAX),
		/* Profiles of other programs have no manifest: they are distinguished by file name. */
		.name = xp_model_text(model, comm ? comm : from->name),
	};
	struct xp_model_thread thread = { .name = process.name };
	int err;

	if (!process.name)
		return -ENOMEM;
	err = xp_model_cgroup(model, xp_facts_cgroup(source->facts, from->pid, from->image), &process);
	if (err)
		return err;
	if (!comm)
		process.image = (uint32_t)index + 1;
	*is_selected = xp_select_thread(source->select, process.pid, 0, process.name, NULL);
	err = *is_selected ? xp_model_process(model, &process, &thread.process) : 0;
	return err || !*is_selected ? err : xp_model_thread(model, &thread, &adding->thread);
}

static int add_file(struct adding *adding, const struct xp_model_source *source, size_t index, bool *broken)
{
	struct xp_file_view view;
	bool is_selected;
	int err = xp_file_view_open(&view, AT_FDCWD, adding->process->profile);

	if (err) {
		xp_error("%s: cannot read it: %s", adding->process->profile, xp_file_view_error(err));
		*broken = true;
		return 0;
	}
	err = add_process(adding, source, index, &is_selected);
	if (!err && is_selected)
		err = read_mapped(adding, &view, broken) ?: add_profile(adding, &view);
	xp_file_view_close(&view);
	return err;
}

int xp_gperf_samples_add(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	int err = 0;

	for (size_t i = 0; !err && i < source->recorded->process_count; i++) {
		struct adding adding = { .model = model, .process = &source->recorded->processes[i] };

		if (adding.process->profile)
			err = add_file(&adding, source, i, broken);
		xp_u64_map_free(&adding.locations);
		xp_interval_map_free(&adding.intervals);
		free(adding.mapped);
	}
	return err;
}
