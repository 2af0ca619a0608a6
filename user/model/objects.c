// SPDX-License-Identifier: BSD-2-Clause
#include "model/objects.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_name.h"
#include "base/util.h"
#include "elf/instr_map.h"

#define SIDE_ELF_SUFFIX ".xray.so"

/* ---- names of files ---- */

const char *xp_object_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

bool xp_report_is_sym_file(const char *path)
{
	const char *name = xp_object_base_name(path);
	size_t before = (size_t)(name - path);

	return (before == 4 || (before > 4 && name[-5] == '/')) && memcmp(name - 4, "sym/", 4) == 0;
}

/* Names in sym/ are LABEL.<number>.<token>.so. The label describes the file. */
static void cut_to_label(char *name)
{
	char *parts[3] = { NULL };

	for (int i = 0; i < 3; i++) {
		parts[i] = strrchr(name, '.');
		if (!parts[i])
			break;
		*parts[i] = 0;
	}
	if (parts[0] && strcmp(parts[0] + 1, "so") == 0 && parts[1] && parts[2] && parts[2] > name &&
	    strspn(parts[2] + 1, "0123456789") == strlen(parts[2] + 1))
		return;
	for (int i = 2; i >= 0; i--)
		if (parts[i])
			*parts[i] = '.';
}

const char *xp_object_display_name(struct xp_symbolizer *symbolizer, uint32_t file)
{
	const char *path = xp_symbolizer_real_path(symbolizer, file);
	char name[NAME_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", NAME_MAX, xp_object_base_name(path));
	if (xp_report_is_sym_file(path))
		cut_to_label(name);
	return xp_symbolizer_text(symbolizer, name);
}

/* ---- functions of a log ---- */

struct object {
	uint32_t file;	  /* number in the symbolizer */
	const char *name; /* clean, for display */
};

/* A file with functions of a log. */
static int set_recorded(struct object *object, const struct xp_recorded_object *recorded,
			struct xp_symbolizer *symbolizer)
{
	const struct xp_symbolizer_file file = { recorded->path, recorded->build_id, recorded->build_id_bytes,
						 XP_FILE_RECORDED };
	int err = recorded->binary ? xp_symbolizer_binary(symbolizer, recorded->binary, &object->file)
				   : xp_symbolizer_file(symbolizer, &file, &object->file);

	if (err)
		return err;
	object->name = xp_object_display_name(symbolizer, object->file);
	return object->name ? 0 : -ENOMEM;
}

/* Enters the functions of this file at functions[first_id...]. */
static int place_functions(struct xp_report_functions *functions, uint32_t first_id,
			   const struct xp_elf_functions *sleds, uint32_t file, const char *object,
			   struct xp_symbolizer *symbolizer)
{
	for (size_t i = 0; i < sleds->listed && first_id + i < functions->count; i++) {
		struct xp_report_function *function = &functions->all[first_id + i];
		int err = xp_symbolizer_want(symbolizer, file, sleds->vaddrs[i], &function->place);

		if (err && err != -E2BIG)
			return err;
		function->has_place = !err;
		function->file = file;
		function->object = object;
	}
	return 0;
}

static int add_recorded_object(struct xp_report_functions *functions, const struct xp_recorded_object *recorded,
			       struct xp_symbolizer *symbolizer)
{
	struct xp_elf_functions sleds;
	struct object object;
	int err = set_recorded(&object, recorded, symbolizer);

	for (size_t i = 0; !err && i < recorded->functions && recorded->first_id + i < functions->count; i++)
		functions->all[recorded->first_id + i].object = object.name;
	if (err)
		return err;
	err = xp_symbolizer_functions(symbolizer, object.file, functions->count, &sleds);
	if (err)
		return err == -ENOMEM ? err : 0;
	if (sleds.count == recorded->functions &&
	    (!recorded->build_id_bytes || (recorded->build_id_bytes == sleds.build_id_bytes &&
					   memcmp(recorded->build_id, sleds.build_id, sleds.build_id_bytes) == 0)))
		err = place_functions(functions, recorded->first_id, &sleds, object.file, object.name, symbolizer);
	free(sleds.vaddrs);
	return err;
}

/*
 * Takes the names from a side ELF, xprof's file of names for llvm-xray. Its functions have no code, and so no object.
 */
static int add_side_elf(struct xp_report_functions *functions, const char *path, struct xp_symbolizer *symbolizer)
{
	uint32_t file;
	int err = xp_symbolizer_file(symbolizer, &(struct xp_symbolizer_file){ .path = path }, &file);

	for (size_t i = 1; !err && xp_symbolizer_is_readable(symbolizer, file) && i < functions->count; i++) {
		struct xp_report_function *function = &functions->all[i];

		if (function->has_place)
			continue;
		err = xp_symbolizer_want(symbolizer, file, xp_instr_map_vaddr((uint32_t)i), &function->place);
		function->has_place = !err;
		function->file = file;
		err = err == -E2BIG ? 0 : err;
	}
	return err;
}

/* The side ELF of the log, which is there if llvm-xray cannot read the program itself. */
static int add_own_side_elf(struct xp_report_functions *functions, const struct xp_recorded_process *process,
			    struct xp_symbolizer *symbolizer)
{
	char path[PATH_MAX], real[PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s" SIDE_ELF_SUFFIX, process->directory, process->stem) >=
		sizeof(path) ||
	    !realpath(path, real))
		return 0;
	return add_side_elf(functions, real, symbolizer);
}

bool xp_report_instr_map_is_good(const char *path, struct xp_symbolizer *symbolizer)
{
	struct xp_elf_functions sleds;
	char real[PATH_MAX];
	uint32_t file;

	if (!realpath(path, real) ||
	    xp_symbolizer_file(symbolizer, &(struct xp_symbolizer_file){ .path = real }, &file))
		return false;
	if (xp_file_ends_with(real, SIDE_ELF_SUFFIX))
		return xp_symbolizer_is_readable(symbolizer, file);
	if (xp_symbolizer_functions(symbolizer, file, 1, &sleds))
		return false;
	free(sleds.vaddrs);
	return sleds.count > 0;
}

/* Takes the functions from the file that the user names. */
static int add_given(struct xp_report_functions *functions, const char *path, struct xp_symbolizer *symbolizer)
{
	struct xp_elf_functions sleds;
	const char *object;
	char real[PATH_MAX];
	uint32_t file;
	int err;

	if (!realpath(path, real))
		return 0; /* it was there when it was looked at first */
	if (xp_file_ends_with(real, SIDE_ELF_SUFFIX))
		return add_side_elf(functions, real, symbolizer);
	err = xp_symbolizer_file(symbolizer, &(struct xp_symbolizer_file){ .path = real }, &file);
	if (err)
		return err;
	err = xp_symbolizer_functions(symbolizer, file, functions->count, &sleds);
	if (err)
		return err == -ENOMEM ? err : 0;
	object = xp_object_display_name(symbolizer, file);
	err = object ? place_functions(functions, 1, &sleds, file, object, symbolizer) : -ENOMEM;
	free(sleds.vaddrs);
	return err;
}

static int find_recorded(struct xp_report_functions *functions, const struct xp_recorded_process *process,
			 struct xp_symbolizer *symbolizer)
{
	int err = 0;

	for (size_t i = 0; !err && i < process->object_count; i++)
		if (process->objects[i].first_id)
			err = add_recorded_object(functions, &process->objects[i], symbolizer);
	return err ?: add_own_side_elf(functions, process, symbolizer);
}

int xp_report_functions_find(struct xp_report_functions *functions, size_t count,
			     const struct xp_recorded_process *process, const char *instr_map, struct xp_symbolizer *symbolizer)
{
	functions->all = calloc(count + 1, sizeof(*functions->all));
	if (!functions->all)
		return -ENOMEM;
	functions->count = count + 1;
	return instr_map ? add_given(functions, instr_map, symbolizer)
			 : find_recorded(functions, process, symbolizer);
}

void xp_report_functions_free(struct xp_report_functions *functions)
{
	free(functions->all);
	memset(functions, 0, sizeof(*functions));
}
