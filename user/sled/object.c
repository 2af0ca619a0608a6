/* SPDX-License-Identifier: BSD-2-Clause */
#include "sled/object.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/x86_64/patch_bytes.h"
#include "base/array.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "base/util.h"
#include "base/why.h"
#include "elf/demangle.h"
#include "elf/function_patterns.h"
#include "sled/plan_table.h"
#include "target/chosen_file.h"
#include "target/link_map.h"
#include "target/target.h"
#include "xprof/event.h"

/*
 * Number of functions whose names are demangled and matched with each --functions pattern between two interrupt checks.
 * Each name takes some microseconds.
 */
#define FUNCTIONS_PER_LOOK 4096

/* Allocates both together: the glob of the object, and the pattern without it. */
static int split_pattern(struct xp_objects *objects, size_t index, const char *text)
{
	bool excludes = *text == '!';
	const char *colon = xp_text_object_end(text + excludes);
	size_t length = colon ? (size_t)(colon - (text + excludes)) : 0;
	char *copy;

	objects->patterns[index] = text;
	if (!colon)
		return 0;
	copy = malloc(strlen(text) + 2);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, text + excludes, length);
	copy[length] = 0;
	sprintf(copy + length + 1, "%s%s", excludes ? "!" : "", colon + 1);
	objects->pattern_objects[index] = copy;
	objects->patterns[index] = copy + length + 1;
	return 0;
}

int xp_objects_select(struct xp_objects *objects, const char *const *texts, size_t count)
{
	int err = 0;

	objects->patterns = calloc(count + 1, sizeof(*objects->patterns));
	objects->pattern_objects = calloc(count + 1, sizeof(*objects->pattern_objects));
	if (!objects->patterns || !objects->pattern_objects)
		return -ENOMEM;
	for (size_t i = 0; i < count && !err; i++)
		err = split_pattern(objects, objects->pattern_count++, texts[i]);
	objects->pattern_uses = xp_pattern_uses_new(objects->patterns, objects->pattern_count);
	return err;
}

static bool applies(const struct xp_objects *objects, size_t index, const struct xp_object *object)
{
	const char *glob = objects->pattern_objects[index];

	if (!glob)
		return object->is_main || (object->table && !object->plan);
	return xp_pattern_object_matches(glob, object->path);
}

/* Returns the last pattern that matches the name, or this index if it is higher. index 0: none; n: pattern n - 1. */
static size_t last_match(const struct xp_objects *objects, const struct xp_object *object, const char *name,
			 size_t index)
{
	char *demangled = xp_demangle(name);

	for (size_t i = 0; i < objects->pattern_count; i++)
		if (applies(objects, i, object) &&
		    xp_pattern_uses_match(objects->pattern_uses, objects->patterns, i, name, demangled))
			index = XP_MAX(index, i + 1);
	free(demangled);
	return index;
}

bool xp_function_wanted(const struct xp_objects *objects, const struct xp_object *object, const char *const *names,
			size_t count)
{
	size_t match = 0;

	for (size_t i = 0; i < count && objects->pattern_count; i++)
		match = last_match(objects, object, names[i], match);
	if (match)
		return objects->patterns[match - 1][0] != '!';
	return !objects->pattern_count || (objects->patterns[0][0] == '!' && object->table);
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

uint64_t xp_object_page_bytes(const struct xp_object *object)
{
	const uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t pages = 0, last = UINT64_MAX;

	for (size_t i = 0; i < object->selected_count; i++) {
		uint64_t page = object->table->sleds[object->selected[i]].file_offset / page_bytes;

		pages += page != last;
		last = page;
	}
	return pages * page_bytes;
}

/* Returns which watched glob the function matches; 0: none. */
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

/* Watches the function, which has a selected sled. */
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

/* Returns whether all sleds of the function can be patched. The sled is its first. */
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
	const char *name;
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
			name = table->functions[decided - 1].name;
			wanted = object->plan || xp_function_wanted(objects, object, &name, name != NULL);
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
	if (object->plan)
		qsort_r(object->selected, object->selected_count, sizeof(*object->selected), by_offset, object->table);
	else
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
	xp_plan_table_free(object->plan);
	free(object->selected);
	free(object->watched);
	free(object->path);
	free(object);
}

/* What to record in an object without sleds. */
struct wanting {
	const struct xp_objects *objects;
	const struct xp_object *object;
};

static bool is_wanted(const void *arg, const char *const *names, size_t count)
{
	const struct wanting *wanting = arg;

	return xp_function_wanted(wanting->objects, wanting->object, names, count);
}

/* Returns whether functions without sleds in the object may be selected. */
static bool may_plan(const struct xp_objects *objects, const struct xp_object *object)
{
	for (size_t i = 0; i < objects->pattern_count && objects->plans; i++)
		if (objects->patterns[i][0] != '!' && applies(objects, i, object))
			return true;
	return false;
}

/* Makes the table of an object without sleds. */
static int plan_table(const struct xp_objects *objects, struct xp_object *object, int fd)
{
	const struct wanting wanting = { objects, object };
	int err;

	if (xp_link_map_is_linker(object->path))
		return xp_why_set(-EINVAL, "the calls of the dynamic linker cannot be recorded");
	err = xp_plan_table_make(&object->plan, &object->table, fd, object->path, is_wanted, &wanting);
	return err == -EOPNOTSUPP || err == -ENOENT || err == -ETIMEDOUT || err == -ENOEXEC
		   ? xp_why_set(-EINVAL, "its functions have no sleds and cannot be patched: %s", xp_why(err))
		   : err;
}

static int read_table(struct xp_objects *objects, struct xp_object *object, int fd, int *refused)
{
	int err = xp_sled_table_open(&object->table, fd);

	if (err == -ENOENT && may_plan(objects, object))
		err = plan_table(objects, object, fd);
	if (err == -ENOMEM || err == -ECANCELED)
		return err;
	if (err) {
		object->table = NULL;
		*refused = err;
		return 0;
	}
	if (!object->plan && !xp_chosen_user_may_read(fd))
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

static bool is_executable(const struct stat *st, pid_t pid)
{
	struct stat exe;

	return pid && !xp_target_stat_exe(pid, &exe) && st->st_ino == exe.st_ino && st->st_dev == exe.st_dev;
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
	object->is_main = objects->plans && is_executable(&st, file->pid);
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
	for (size_t i = 0; i < objects->pattern_count; i++)
		free(objects->pattern_objects[i]);
	free(objects->pattern_objects);
	free(objects->patterns);
	xp_pattern_uses_free(objects->pattern_uses);
	xp_pattern_uses_free(objects->watched_uses);
}
