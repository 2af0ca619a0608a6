/* SPDX-License-Identifier: BSD-2-Clause */
#include "sled/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/util.h"
#include "elf/demangle.h"
#include "elf/function_patterns.h"
#include "target/chosen_file.h"
#include "xprof/event.h"

/*
 * The names of this many functions are demangled and matched against each --functions pattern between two interrupt
 * checks. Each name takes some microseconds.
 */
#define FUNCTIONS_PER_LOOK 4096

bool xp_function_wanted(const char *const *patterns, size_t count, struct xp_pattern_uses *uses, const char *name)
{
	bool wanted = !count || patterns[0][0] == '!';
	char *demangled;

	if (!count || !name)
		return wanted;
	demangled = xp_demangle(name);
	for (size_t i = 0; i < count; i++)
		if (xp_pattern_uses_match(uses, patterns, i, name, demangled))
			wanted = patterns[i][0] != '!';
	free(demangled);
	return wanted;
}

static int by_offset(const void *a, const void *b, void *table)
{
	const struct xp_sled *sleds = ((const struct xp_sled_table *)table)->sleds;
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return xp_compare(sleds[left].file_offset, sleds[right].file_offset) ?: xp_compare(left, right);
}

/*
 * Sorts by file offset, and keeps each offset once: a million probes of one offset would keep the kernel and the target
 * busy forever.
 */
static void sort_selected(struct xp_object *object)
{
	const struct xp_sled *sleds = object->table->sleds;
	uint32_t *selected = object->selected;
	size_t kept = 0, sorted = 1;

	while (sorted < object->selected_count &&
	       sleds[selected[sorted - 1]].file_offset <= sleds[selected[sorted]].file_offset)
		sorted++;
	if (sorted < object->selected_count)
		qsort_r(selected, object->selected_count, sizeof(*selected), by_offset, object->table);
	for (size_t i = 0; i < object->selected_count; i++)
		if (!kept || sleds[selected[i]].file_offset != sleds[selected[kept - 1]].file_offset)
			selected[kept++] = selected[i];
	object->selected_count = kept;
}

size_t xp_object_selected_from(const struct xp_object *object, uint64_t file_offset)
{
	return XP_FIND_FIRST(object->selected_count, i,
			     object->table->sleds[object->selected[i]].file_offset < file_offset);
}

/* Of which glob the function is; 0: of none. */
static uint8_t watched_by(const struct xp_objects *objects, const char *name)
{
	char *demangled = name && objects->watched_count ? xp_demangle(name) : NULL;
	uint8_t found = 0;

	for (size_t i = 0; name && i < objects->watched_count; i++)
		if (xp_pattern_uses_match(objects->watched_uses, objects->watched, i, name, demangled) && !found)
			found = (uint8_t)(i + 1);
	free(demangled);
	return found;
}

/* The function has a selected sled. */
static int watch(const struct xp_objects *objects, struct xp_object *object, uint32_t id)
{
	uint8_t watched = watched_by(objects, object->table->functions[id - 1].name);

	if (!watched)
		return 0;
	if (!object->watched)
		object->watched = calloc(object->table->function_count + 1, sizeof(*object->watched));
	if (!object->watched)
		return -ENOMEM;
	object->watched[id] = watched;
	return 0;
}

/* Whether all sleds of the function to which this one, its first, belongs can be patched. */
static bool is_patchable(const struct xp_sled_table *table, size_t first)
{
	for (size_t i = first; i < table->sled_count && table->sleds[i].function_id == table->sleds[first].function_id;
	     i++)
		if (!xp_patch_possible(&table->sleds[i]))
			return false;
	return true;
}

static int select_sleds(const struct xp_objects *objects, struct xp_object *object)
{
	const struct xp_sled_table *table = object->table;
	uint32_t decided = 0; /* function id of the previous sled */
	bool wanted = false;

	object->selected = malloc(table->sled_count * sizeof(*object->selected));
	if (!object->selected)
		return -ENOMEM;
	for (size_t i = 0; i < table->sled_count; i++) {
		const struct xp_sled *sled = &table->sleds[i];

		if (sled->function_id != decided) {
			decided = sled->function_id;
			if (decided % FUNCTIONS_PER_LOOK == 0 && xp_interrupted())
				return -ECANCELED;
			wanted = xp_function_wanted(objects->patterns, objects->pattern_count, objects->pattern_uses,
						    table->functions[decided - 1].name);
			if (wanted && objects->only_patchable && !is_patchable(table, i)) {
				wanted = false;
				object->unpatchable++;
			}
			if (wanted && watch(objects, object, decided))
				return -ENOMEM;
		}
		if (!wanted)
			continue;
		if (sled->intact)
			object->selected[object->selected_count++] = i;
		else
			object->patched_in_file++;
	}
	sort_selected(object);
	return 0;
}

static struct xp_object *find(const struct xp_objects *objects, const struct stat *st)
{
	for (struct xp_object *object = objects->first; object; object = object->next)
		if (object->inode == st->st_ino && object->dev == st->st_dev && object->size == st->st_size &&
		    object->changed.tv_sec == st->st_ctim.tv_sec && object->changed.tv_nsec == st->st_ctim.tv_nsec)
			return object;
	return NULL;
}

static void object_free(struct xp_object *object)
{
	if (!object)
		return;
	if (object->fd >= 0)
		close(object->fd);
	xp_sled_table_free(object->table);
	free(object->selected);
	free(object->watched);
	free(object->path);
	free(object);
}

static int read_table(struct xp_objects *objects, struct xp_object *object, int fd, int *refused)
{
	int err = xp_sled_table_open(&object->table, fd);

	if (err == -ENOMEM || err == -ECANCELED)
		return err;
	if (err) {
		object->table = NULL;
		*refused = err;
		return 0;
	}
	if (!xp_chosen_user_may_read(fd))
		xp_sled_table_forget_names(object->table);
	if (object->table->function_count > XP_FN_MAX - objects->fn_end)
		return -ENOSPC;
	object->fn_base = objects->fn_end;
	objects->fn_end += object->table->function_count;
	object->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (object->fd < 0)
		return -errno;
	return select_sleds(objects, object);
}

int xp_objects_add(struct xp_objects *objects, struct xp_object **result, const struct xp_object_file *file,
		   int *refused)
{
	struct xp_object *object;
	struct stat st;
	const char *original;
	int err = -ENOMEM;

	*refused = 0;
	if (fstat(file->fd, &st))
		return -errno;
	original = xp_chosen_original(&st);
	*result = find(objects, &st);
	if (*result)
		return 0;
	object = calloc(1, sizeof(*object));
	if (!object)
		return -ENOMEM;
	object->fd = -1;
	object->original = original;
	object->dev = st.st_dev;
	object->inode = st.st_ino;
	object->size = st.st_size;
	object->changed = st.st_ctim;
	object->path = strdup(file->path);
	if (!object->path)
		goto fail;
	err = read_table(objects, object, file->fd, refused);
	if (err)
		goto fail;
	object->next = objects->first;
	objects->first = object;
	*result = object;
	return 0;

fail:
	object_free(object);
	return err;
}

struct xp_object *xp_objects_find(const struct xp_objects *objects, uint32_t fn)
{
	for (struct xp_object *object = objects->first; object; object = object->next)
		if (object->table && xp_object_has(object, fn))
			return object;
	return NULL;
}

void xp_objects_free(struct xp_objects *objects)
{
	struct xp_object *object, *next;

	for (object = objects->first; object; object = next) {
		next = object->next;
		object_free(object);
	}
	objects->first = NULL;
	xp_pattern_uses_free(objects->pattern_uses);
	xp_pattern_uses_free(objects->watched_uses);
}
