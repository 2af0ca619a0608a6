// SPDX-License-Identifier: BSD-2-Clause
#include "model/log_functions.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file_name.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "elf/instr_map.h"
#include "model/objects.h"

#define SIDE_ELF_SUFFIX ".xray.so"

/* The IDs of a binary in the current log. */
struct xp_log_ids {
	uint32_t first, count;
	uint32_t file;
	const char *object;			  /* clean */
	const struct xp_elf_functions *functions; /* NULL: not those that were recorded */
	const char *selection; /* name of the set of functions without sleds, in all logs; NULL: they have sleds */
};

/* ---- the sleds of files ---- */

/* *list: NULL if the file has no sleds or cannot be read. */
static int list_functions(struct xp_log_functions *functions, uint32_t file, const struct xp_elf_functions **list)
{
	struct xp_elf_functions *new;
	int err;

	*list = xp_u64_map_get(&functions->lists, file);
	if (*list)
		return 0;
	new = calloc(1, sizeof(*new));
	if (!new || xp_u64_map_put(&functions->lists, file, new)) {
		free(new);
		return -ENOMEM;
	}
	err = xp_symbolizer_functions(functions->symbolizer, file, XP_PLACES_MAX - functions->listed, new);
	if (err)
		*new = (struct xp_elf_functions){ 0 };
	functions->listed += new->listed;
	*list = new;
	return err == -ENOMEM ? err : 0;
}

static bool is_side_elf(const char *path)
{
	return xp_file_ends_with(path, SIDE_ELF_SUFFIX);
}

/* Compares inodes: a link may have another name. */
static int find_given(struct xp_log_functions *functions, uint32_t *file, bool *is_side,
		      const struct xp_elf_functions **list)
{
	char real[PATH_MAX];
	int err;

	*list = NULL;
	if (!realpath(functions->instr_map, real))
		return -ENOENT;
	*is_side = is_side_elf(real);
	err = xp_symbolizer_file(functions->symbolizer, &(struct xp_symbolizer_file){ .path = real }, file);
	return err || *is_side ? err : list_functions(functions, *file, list);
}

/* ---- the IDs of a log ---- */

static int set_given(struct xp_log_functions *functions)
{
	struct xp_log_ids *range = functions->ranges;
	uint32_t file;
	bool is_side;
	int err = find_given(functions, &file, &is_side, &range->functions);

	if (err)
		return err == -ENOENT ? 0 : err;
	if (is_side) {
		functions->side_file = file;
		return 0;
	}
	range->first = 1;
	range->count = (uint32_t)range->functions->listed;
	range->file = file;
	range->object = xp_object_display_name(functions->symbolizer, file);
	functions->range_count = 1;
	return range->object ? 0 : -ENOMEM;
}

static bool is_recorded(const struct xp_recorded_object *recorded, const struct xp_elf_functions *list)
{
	return list->count == recorded->functions &&
	       (!recorded->build_id_bytes || (recorded->build_id_bytes == list->build_id_bytes &&
					      memcmp(recorded->build_id, list->build_id, list->build_id_bytes) == 0));
}

static int add_recorded(struct xp_log_functions *functions, const struct xp_recorded_object *recorded)
{
	const struct xp_symbolizer_file file = { recorded->path, recorded->build_id, recorded->build_id_bytes,
						 XP_FILE_RECORDED };
	struct xp_log_ids *range = &functions->ranges[functions->range_count];
	struct xp_symbolizer *symbolizer = functions->symbolizer;
	char room[PATH_MAX];
	int err = recorded->binary ? xp_symbolizer_binary(symbolizer, recorded->binary, &range->file)
				   : xp_symbolizer_file(symbolizer, &file, &range->file);

	err = err ?: list_functions(functions, range->file, &range->functions);
	if (err)
		return err;
	if (!is_recorded(recorded, range->functions))
		range->functions = NULL;
	range->first = recorded->first_id;
	range->count = recorded->functions;
	range->object = xp_object_display_name(symbolizer, range->file);
	if (range->object && recorded->selection) {
		snprintf(room, sizeof(room), "%" PRIx32 " %s", recorded->selection, range->object);
		range->selection = xp_symbolizer_text(symbolizer, room);
	}
	functions->range_count++;
	return range->object && (range->selection || !recorded->selection) ? 0 : -ENOMEM;
}

static int compare_ranges(const void *a, const void *b)
{
	return xp_compare(((const struct xp_log_ids *)a)->first, ((const struct xp_log_ids *)b)->first);
}

static int set_recorded(struct xp_log_functions *functions, const struct xp_recorded_process *process)
{
	char path[PATH_MAX], real[PATH_MAX];
	int err = 0;

	for (size_t i = 0; !err && i < process->object_count; i++)
		if (process->objects[i].first_id)
			err = add_recorded(functions, &process->objects[i]);
	qsort(functions->ranges, functions->range_count, sizeof(*functions->ranges), compare_ranges);
	/* xprof writes a side ELF if llvm-xray cannot read the program itself. */
	if (err ||
	    (size_t)snprintf(path, sizeof(path), "%s/%s" SIDE_ELF_SUFFIX, process->directory, process->stem) >=
		sizeof(path) ||
	    !realpath(path, real))
		return err;
	return xp_symbolizer_file(functions->symbolizer, &(struct xp_symbolizer_file){ .path = real },
				  &functions->side_file);
}

static int begin_log(struct xp_log_functions *functions, size_t index)
{
	const struct xp_recorded_process *process = &functions->source->recorded->processes[index];

	functions->process = index;
	functions->side_file = XP_MODEL_NONE;
	functions->range_count = 0;
	if (functions->by_id)
		memset(functions->by_id, 0, functions->id_room * sizeof(*functions->by_id));
	free(functions->ranges);
	functions->ranges = calloc(process->object_count + 1, sizeof(*functions->ranges));
	if (!functions->ranges)
		return -ENOMEM;
	return functions->instr_map ? set_given(functions) : set_recorded(functions, process);
}

/* ---- functions ---- */

/* Sets the place of a function in the symbolizer. Functions beyond the symbolizer's limit have no place. */
static int set_place(const struct xp_log_functions *functions, uint32_t file, uint64_t vaddr,
		     struct xp_log_function *function)
{
	int err = xp_symbolizer_want(functions->symbolizer, file, vaddr, &function->place);

	function->file = file;
	if (err)
		function->place = XP_MODEL_NONE;
	return err == -E2BIG ? 0 : err;
}

/* The IDs of the binary that this ID belongs to; NULL: unknown. */
static const struct xp_log_ids *range_of(const struct xp_log_functions *functions, uint32_t id)
{
	size_t after = XP_FIND_FIRST(functions->range_count, i, functions->ranges[i].first <= id);
	const struct xp_log_ids *range = after ? &functions->ranges[after - 1] : NULL;

	return range && id && id <= XP_LOG_FUNCTION_IDS_MAX && id - range->first < range->count ? range : NULL;
}

static int resolve(const struct xp_log_functions *functions, const struct xp_log_ids *range, uint32_t id,
		   struct xp_log_function *function)
{
	int err = 0;

	*function = (struct xp_log_function){ .id = id, .place = XP_MODEL_NONE, .name = "", .shown = "" };
	if (!id || id > XP_LOG_FUNCTION_IDS_MAX)
		return 0;
	if (range) {
		function->object = range->object;
		if (range->functions && id - range->first < range->functions->listed)
			err = set_place(functions, range->file, range->functions->vaddrs[id - range->first], function);
	}
	if (!err && function->place == XP_MODEL_NONE && functions->side_file != XP_MODEL_NONE &&
	    xp_symbolizer_is_readable(functions->symbolizer, functions->side_file))
		err = set_place(functions, functions->side_file, xp_instr_map_vaddr(id), function);
	return err;
}

/*
 * The place of a function without sleds is in a side ELF, and each process has its own: such a function is known by its
 * number in the selection. The number of an object's name is below 2^30: each takes more than 2 bytes of a manifest.
 */
static int key_of(struct xp_log_functions *functions, const struct xp_log_ids *range,
		  const struct xp_log_function *function, uint64_t *key)
{
	bool selected = range && range->selection;
	const char *name = selected ? range->selection : function->object;
	const uint32_t *object;

	*key = 1ull << 63 | function->place;
	if (function->place != XP_MODEL_NONE && !selected)
		return 0;
	object = xp_u64_map_add(&functions->objects, (uintptr_t)name, (uint32_t)functions->objects.count);
	if (object)
		*key = (uint64_t)*object << 32 | (selected ? function->id - range->first : function->id);
	return object ? 0 : -ENOMEM;
}

static int add(struct xp_log_functions *functions, uint32_t id, uint32_t *index)
{
	const struct xp_log_ids *range = range_of(functions, id);
	struct xp_log_function new;
	const uint32_t *known;
	uint64_t key;
	int err = resolve(functions, range, id, &new) ?: key_of(functions, range, &new, &key);

	if (err)
		return err;
	known = xp_u64_map_find(&functions->known, key);
	*index = known ? *known : (uint32_t)functions->count;
	if (known)
		return 0;
	if (functions->count == XP_LOG_FUNCTIONS_MAX)
		return -E2BIG;
	if (XP_ARRAY_RESERVE(functions->all, functions->room, functions->count + 1) ||
	    !xp_u64_map_add(&functions->known, key, *index))
		return -ENOMEM;
	functions->all[functions->count++] = new;
	return 0;
}

int xp_log_functions_add_named(struct xp_log_functions *functions, const char *name)
{
	if (XP_ARRAY_RESERVE(functions->all, functions->room, functions->count + 1))
		return -ENOMEM;
	functions->all[functions->count++] =
	    (struct xp_log_function){ .place = XP_MODEL_NONE, .name = name, .shown = name };
	functions->named = functions->count;
	return 0;
}

int xp_log_functions_find(struct xp_log_functions *functions, size_t process, uint32_t id, uint32_t *index)
{
	size_t before = functions->id_room;
	int err = functions->process == process ? 0 : begin_log(functions, process);

	if (err || id > XP_LOG_FUNCTION_IDS_MAX)
		return err ?: add(functions, id, index);
	if (id >= before) {
		if (XP_ARRAY_RESERVE(functions->by_id, functions->id_room, (size_t)id + 1))
			return -ENOMEM;
		memset(functions->by_id + before, 0, (functions->id_room - before) * sizeof(*functions->by_id));
	}
	if (!functions->by_id[id]) {
		err = add(functions, id, index);
		if (err)
			return err;
		functions->by_id[id] = *index + 1;
	}
	*index = functions->by_id[id] - 1;
	return 0;
}

/* ---- names ---- */

/* The function of a sled is the outermost frame: inlined functions have no sleds. */
static int name_function(struct xp_log_functions *functions, struct xp_log_function *function)
{
	const struct xp_place *place =
	    function->place == XP_MODEL_NONE ? NULL : xp_symbolizer_place(functions->symbolizer, function->place);
	const struct xp_source_frame *frame =
	    place && place->frame_count ? &place->frames[place->frame_count - 1] : NULL;
	char room[XP_DEMANGLED_BYTES_MAX + 1];

	function->name = frame ? frame->function : NULL;
	if (!function->name) {
		snprintf(room, sizeof(room), "fn_%" PRIu32, function->id);
		function->name = xp_symbolizer_text(functions->symbolizer, room);
		frame = NULL;
	}
	if (!function->name)
		return -ENOMEM;
	function->shown = function->name;
	function->marks = xp_select_marks(functions->source->select, function->name,
					  frame && frame->symbol ? frame->symbol : function->name);
	if (frame && frame->symbol && !functions->source->full_names) {
		xp_short_name(room, sizeof(room), function->name);
		function->shown = xp_symbolizer_text(functions->symbolizer, room);
	}
	return function->shown ? 0 : -ENOMEM;
}

int xp_log_functions_name(struct xp_log_functions *functions)
{
	int err = xp_symbolizer_run(functions->symbolizer);

	for (; !err && functions->named < functions->count; functions->named++)
		err = name_function(functions, &functions->all[functions->named]);
	return err;
}

/* ---- the table ---- */

static bool is_usable(struct xp_log_functions *functions)
{
	const struct xp_elf_functions *list;
	uint32_t file;
	bool is_side;

	if (find_given(functions, &file, &is_side, &list))
		return false;
	return is_side ? xp_symbolizer_is_readable(functions->symbolizer, file) : list->listed > 0;
}

int xp_log_functions_init(struct xp_log_functions *functions, const struct xp_model_source *source,
			  struct xp_symbolizer *symbolizer, bool *broken)
{
	int err = 0;

	*functions = (struct xp_log_functions){
		.symbolizer = symbolizer,
		.source = source,
		.instr_map = source->instr_map,
		.owns_symbolizer = !symbolizer,
		.process = SIZE_MAX,
	};
	if (!symbolizer)
		err = xp_symbolizer_new(&functions->symbolizer, XP_NAMES_FUNCTIONS);
	if (err || !functions->instr_map || is_usable(functions))
		return err;
	xp_error("%s: not a program or library with sleds, nor a NAME.xray.so of a recording", functions->instr_map);
	functions->instr_map = NULL;
	*broken = true;
	return 0;
}

void xp_log_functions_free(struct xp_log_functions *functions)
{
	for (size_t i = 0; i < functions->lists.count; i++) {
		struct xp_elf_functions *list = functions->lists.entries[i].pointer;

		free(list->vaddrs);
		free(list);
	}
	if (functions->owns_symbolizer)
		xp_symbolizer_free(functions->symbolizer);
	xp_u64_map_free(&functions->known);
	xp_u64_map_free(&functions->objects);
	xp_u64_map_free(&functions->lists);
	free(functions->all);
	free(functions->ranges);
	free(functions->by_id);
	memset(functions, 0, sizeof(*functions));
}
