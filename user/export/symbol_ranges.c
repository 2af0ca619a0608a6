// SPDX-License-Identifier: BSD-2-Clause
#include "export/symbol_ranges.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "elf/symbol_file.h"
#include "model/objects.h"

#define FOUR_GIB (1ull << 32)
/* The ranges of files: not where readers correct what they take for the program's own mapping. */
#define FIRST_RANGE FOUR_GIB
#define RANGE_BYTES_MAX (1ull << 40) /* a file's addresses may claim anything */
/* Distance of numbered addresses, so that the byte before one belongs to the same number. */
#define SLOT_BYTES 16u

/* An object while its range is found. */
struct range {
	uint64_t first, last; /* its locations, as linked */
	uint32_t locations;
};

struct making {
	struct xp_symbol_ranges *ranges;
	const struct xp_model *model;
	struct range *of;    /* each object */
	uint32_t *by_object; /* locations by object; within code without a file, by name */
	uint64_t next;	     /* start of the next range */
	bool has_warned;
};

/* ---- locations by object ---- */

/* The number of a location's function plus one, if it has a name. */
static uint32_t function_of(const struct xp_model *model, uint32_t location)
{
	const struct xp_model_location *at = &model->locations[location];
	uint32_t function;

	if (at->jit == XP_MODEL_NONE || !at->frame_count)
		return 0;
	function = model->frames[at->first_frame].function;
	return model->functions[function].has_name ? function + 1 : 0;
}

static int by_object(const void *a, const void *b, void *arg)
{
	const struct xp_model *model = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return xp_compare(model->locations[x].object, model->locations[y].object) ?:
	       xp_compare(function_of(model, x), function_of(model, y)) ?: xp_compare(x, y);
}

static void sort_locations(struct making *making)
{
	const struct xp_model *model = making->model;

	for (size_t i = 0; i < model->location_count; i++) {
		const struct xp_model_location *location = &model->locations[i];
		struct range *range = &making->of[location->object];

		making->by_object[i] = (uint32_t)i;
		range->first = range->locations ? XP_MIN(range->first, location->address) : location->address;
		range->last = XP_MAX(range->last, location->address);
		range->locations++;
	}
	qsort_r(making->by_object, model->location_count, sizeof(*making->by_object), by_object, (void *)model);
}

/* ---- code of a file in sym/ ---- */

/* The file in sym/ with the names of an object; NULL: there is none. *exec_vaddr, *exec_offset: as in gperf.h.
 */
static const char *names_of(const struct xp_model *model, const struct xp_model_object *object,
			    struct xp_gperf_object *made)
{
	const struct xp_recorded_binary *binary = object->binary;
	const char *path;

	if (binary) {
		made->is_elf = binary->has_code;
		made->exec_vaddr = binary->exec_vaddr;
		made->exec_offset = binary->exec_offset;
		return binary->names ? xp_object_base_name(binary->names) : NULL;
	}
	path = object->file == XP_MODEL_NONE ? "" : xp_symbolizer_real_path(model->symbolizer, object->file);
	if (*object->path != '[' || !xp_report_is_sym_file(path))
		return NULL;
	made->is_elf = true;
	made->exec_vaddr = made->exec_offset = XP_SYM_ELF_OFFSET;
	return xp_object_base_name(path);
}

/* Returns false if there is no such file, or its addresses are impossible. */
static bool place_file(struct making *making, uint32_t object)
{
	struct xp_gperf_object *made = &making->ranges->objects[object];
	const char *name = names_of(making->model, &making->model->objects[object], made);
	const struct range *range = &making->of[object];
	uint64_t first = range->first, base, bytes;

	if (!name)
		return false;
	if (made->is_elf)
		first = XP_MIN(first, made->exec_vaddr);
	base = first & -FOUR_GIB;
	bytes = range->last - base + 1;
	if (bytes > RANGE_BYTES_MAX || making->next + bytes + FOUR_GIB > XP_GPERF_UNKNOWN_BASE)
		return false;
	making->ranges->paths[object] = xp_sym_dir_path(&making->ranges->dir, name);
	made->bias = making->next - base;
	made->start = made->bias + first;
	made->end = made->bias + range->last + 1;
	made->offset = made->is_elf && made->exec_offset >= made->exec_vaddr - first
			   ? made->exec_offset - (made->exec_vaddr - first)
			   : first - base;
	making->next += ((bytes + FOUR_GIB - 1) & -FOUR_GIB) + FOUR_GIB;
	return true;
}

/* ---- code without a file ---- */

static const char *name_of(const struct making *making, uint32_t location, char room[XP_SYM_LABEL_BYTES + 2])
{
	const struct xp_model *model = making->model;
	const struct xp_model_object *object = &model->objects[model->locations[location].object];
	uint32_t function = function_of(model, location);
	char label[XP_SYM_LABEL_BYTES];

	if (function)
		return model->functions[function - 1].symbol;
	if (*object->path == '[')
		return object->path;
	xp_sym_dir_label(label, object->path);
	snprintf(room, XP_SYM_LABEL_BYTES + 2, "[%s]", label);
	return room;
}

/* Numbers the locations, and lists the functions: locations are sorted by these. Returns the number of functions. */
static size_t number_locations(struct making *making, const uint32_t *locations, size_t count, struct xp_sym *syms,
			       char room[XP_SYM_LABEL_BYTES + 2])
{
	uint32_t last = 0;
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t function = function_of(making->model, locations[i]);

		if (!i || function != last)
			syms[found++] = (struct xp_sym){ i * SLOT_BYTES, 0, name_of(making, locations[i], room) };
		last = function;
		making->ranges->pcs[locations[i]] = making->next + i * SLOT_BYTES + SLOT_BYTES / 2;
	}
	return found;
}

/* FNV-1a: xp_hash_text() differs from process to process. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
	return hash;
}

/* Makes a key of the names in a file: if `recover` makes the file again, it replaces the first one. */
static void key_of(char key[XP_SYM_KEY_BYTES], uint64_t bytes, const struct xp_sym *syms, size_t count)
{
	uint64_t hash = hash_bytes(0xcbf29ce484222325u, &bytes, sizeof(bytes));

	for (size_t i = 0; i < count; i++) {
		hash = hash_bytes(hash, &syms[i].address, sizeof(syms[i].address));
		hash = hash_bytes(hash, syms[i].name, strlen(syms[i].name) + 1);
	}
	snprintf(key, XP_SYM_KEY_BYTES, "%016" PRIx64, hash);
}

static int write_symbols(struct making *making, uint32_t object, uint64_t bytes, const struct xp_sym *syms,
			 size_t count)
{
	struct xp_symbol_ranges *ranges = making->ranges;
	const struct xp_model_object *from = &making->model->objects[object];
	char label[XP_SYM_LABEL_BYTES], key[XP_SYM_KEY_BYTES];
	char **path = &ranges->paths[object];
	int fd, err;

	if (*from->path == '[')
		snprintf(label, sizeof(label), "%.*s", (int)strcspn(from->path + 1, "]"), from->path + 1);
	else
		xp_sym_dir_label(label, from->path);
	fd = xp_sym_dir_create(&ranges->dir, label, object, path);
	if (fd < 0)
		return fd;
	key_of(key, bytes, syms, count);
	err = xp_symbol_file_write(fd, 0, bytes, syms, count)
		  ?: xp_sym_dir_rename(&ranges->dir, label, object, key, path);
	return xp_sym_dir_finish(&ranges->dir, fd, path, err);
}

static int place_symbols(struct making *making, uint32_t object, const uint32_t *locations)
{
	size_t count = making->of[object].locations;
	uint64_t bytes = (uint64_t)count * SLOT_BYTES;
	struct xp_sym *syms = calloc(count, sizeof(*syms));
	char room[XP_SYM_LABEL_BYTES + 2];
	int err;

	if (!syms)
		return -ENOMEM;
	making->ranges->objects[object] = (struct xp_gperf_object){
		.start = making->next,
		.end = making->next + bytes,
		.offset = XP_SYM_ELF_OFFSET,
		.is_elf = true,
		.bias = making->next - XP_SYM_ELF_OFFSET,
		.exec_vaddr = XP_SYM_ELF_OFFSET,
		.exec_offset = XP_SYM_ELF_OFFSET,
	};
	err = write_symbols(making, object, bytes, syms, number_locations(making, locations, count, syms, room));
	making->next += ((bytes + FOUR_GIB - 1) & -FOUR_GIB) + FOUR_GIB;
	free(syms);
	if (!err || err == -ENOMEM)
		return err;
	if (!making->has_warned)
		xp_warn("cannot store names for the profiles, so some functions will have none: %s", strerror(-err));
	making->has_warned = true;
	return 0;
}

/* ---- all ---- */

static int place_object(struct making *making, uint32_t object, const uint32_t *locations)
{
	struct xp_symbol_ranges *ranges = making->ranges;
	struct xp_gperf_object *made = &ranges->objects[object];
	int err = 0;

	if (place_file(making, object))
		for (uint32_t i = 0; i < making->of[object].locations; i++)
			ranges->pcs[locations[i]] = making->model->locations[locations[i]].address + made->bias;
	else
		err = place_symbols(making, object, locations);
	made->path = ranges->paths[object] ? ranges->paths[object] : making->model->objects[object].path;
	if (!xp_gperf_path_fits(made->path))
		made->path = "[unknown]";
	ranges->order[ranges->count++] = object;
	return err;
}

/* Readers take the first file of a profile for its program, so programs come before libraries, and all else later. */
enum { PROGRAM, LIBRARY, OTHER, RANKS };

static int rank_of(const struct xp_model_object *object)
{
	if (!object->binary)
		return OTHER;
	return strstr(object->name, ".so") ? LIBRARY : PROGRAM;
}

static int place_all(struct making *making)
{
	const struct xp_model *model = making->model;
	int err = 0;

	sort_locations(making);
	for (int rank = 0; rank < RANKS; rank++)
		for (size_t i = 0; !err && i < model->location_count;) {
			uint32_t object = model->locations[making->by_object[i]].object;

			if (rank_of(&model->objects[object]) == rank)
				err = place_object(making, object, &making->by_object[i]);
			i += making->of[object].locations;
		}
	return err;
}

int xp_symbol_ranges_make(struct xp_symbol_ranges *ranges, const struct xp_model *model, int dir_fd)
{
	struct making making = { .ranges = ranges, .model = model, .next = FIRST_RANGE };
	size_t objects = model->object_count + 1, locations = model->location_count + 1;
	int err = -ENOMEM;

	xp_sym_dir_init(&ranges->dir, dir_fd);
	ranges->pcs = calloc(locations, sizeof(*ranges->pcs));
	ranges->objects = calloc(objects, sizeof(*ranges->objects));
	ranges->order = calloc(objects, sizeof(*ranges->order));
	ranges->paths = calloc(objects, sizeof(*ranges->paths));
	making.of = calloc(objects, sizeof(*making.of));
	making.by_object = calloc(locations, sizeof(*making.by_object));
	if (ranges->pcs && ranges->objects && ranges->order && ranges->paths && making.of && making.by_object)
		err = place_all(&making);
	ranges->path_count = ranges->paths ? model->object_count : 0;
	free(making.of);
	free(making.by_object);
	xp_sym_dir_close(&ranges->dir);
	return err;
}

void xp_symbol_ranges_free(struct xp_symbol_ranges *ranges)
{
	for (size_t i = 0; i < ranges->path_count; i++)
		free(ranges->paths[i]);
	free(ranges->paths);
	free(ranges->order);
	free(ranges->objects);
	free(ranges->pcs);
}
