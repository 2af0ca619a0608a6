/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses of a process in its profile, and the records and objects made from them. */
#include <errno.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "base/util.h"
#include "elf/symbol_file.h"
#include "format/gperf_quirks.h"
#include "profile/data.h"

/* Distance of numbered addresses, so that the byte before one belongs to the same number. */
#define SLOT_BYTES 16u
/* Distance of moved regions, so that a line may begin before the first sampled mapping of its file. */
#define MOVED_GAP (4ull << 30)

/* What becomes of a region. */
struct place {
	const struct xp_profile_region *region;
	struct xp_profile_code code;
	uint64_t start; /* in the profile */
	uint64_t bytes;
	bool is_numbered; /* it has no separate place, but is part of the code without a file */
};

struct layout {
	const struct xp_profile *profile;
	const struct xp_profile_files *files;
	struct place *places; /* by region, and one for all numbered code */
	size_t place_count;
	struct place **by_start;
	uint64_t *pcs; /* by address */
	struct xp_gperf_object *objects;
	size_t object_count;
	uint32_t *ends; /* nodes that end chains */
	size_t end_count;
	uint64_t chain[XP_GPERF_CHAIN_MAX];
};

static const struct xp_file anon_file = { .kind = XP_FILE_ANON, .path = "[anon]" };
static const struct xp_profile_region anon_region = { .file = &anon_file };

static void free_layout(struct layout *layout)
{
	if (!layout)
		return;
	free(layout->places);
	free(layout->by_start);
	free(layout->pcs);
	free(layout->objects);
	free(layout->ends);
	free(layout);
}

static struct layout *new_layout(const struct xp_profile *profile, const struct xp_profile_files *files)
{
	struct layout *layout = calloc(1, sizeof(*layout));
	size_t room = profile->region_count + 1;

	if (!layout)
		return NULL;
	layout->profile = profile;
	layout->files = files;
	layout->places = calloc(room, sizeof(*layout->places));
	layout->by_start = calloc(room, sizeof(struct place *));
	layout->objects = calloc(room, sizeof(*layout->objects));
	layout->pcs = calloc(profile->address_count + 1, sizeof(*layout->pcs));
	if (layout->places && layout->by_start && layout->objects && layout->pcs)
		return layout;
	free_layout(layout);
	return NULL;
}

/* ---- places ---- */

static bool has_address_of_its_own(const struct place *place)
{
	enum xp_file_kind kind = place->region->file->kind;

	return !place->is_numbered && (kind == XP_FILE_DISK || kind == XP_FILE_VDSO);
}

/* Sorts by the start of the range in the process; regions with the same start, by the order in which they were seen. */
static int by_start(const void *a, const void *b)
{
	const struct place *left = *(struct place *const *)a, *right = *(struct place *const *)b;

	return xp_compare(left->start, right->start) ?: xp_compare((uintptr_t)left, (uintptr_t)right);
}

static uint64_t move(struct place *place, uint64_t next)
{
	place->start = next;
	return next + ((place->bytes + MOVED_GAP - 1) & -MOVED_GAP) + MOVED_GAP;
}

/* If two regions overlap, the one that was seen first stays, unless it has already been moved for another. */
static void move_apart(struct layout *layout, size_t count)
{
	uint64_t next = XP_PROFILE_MOVED_BASE;
	struct place *last = NULL;

	qsort(layout->by_start, count, sizeof(struct place *), by_start);
	for (size_t i = 0; i < count; i++) {
		struct place *place = layout->by_start[i];

		if (place->start + place->bytes > XP_GPERF_UNKNOWN_BASE) { /* five-level paging */
			next = move(place, next);
		} else if (!last || last->start + last->bytes <= place->start) {
			last = place;
		} else if (place > last) {
			next = move(place, next);
		} else {
			next = move(last, next);
			last = place;
		}
	}
}

static int find_code(struct layout *layout, struct place *place, uint64_t start, uint64_t end)
{
	const struct xp_profile_files *files = layout->files;

	return files->find(files->arg, place->region->file, start, end, &place->code);
}

static void put_at(struct place *place, uint64_t start, uint64_t bytes)
{
	place->start = start;
	place->bytes = bytes;
}

static int find_place(struct layout *layout, struct place *place, const struct xp_profile_region *region)
{
	uint64_t end = region->end;
	int err;

	place->region = region;
	switch (region->file->kind) {
	case XP_FILE_KERNEL:
		end = region->start + XP_PROFILE_WINDOW_BYTES; /* wraps to 0 for the last one */
		put_at(place, xp_gperf_kernel_pc(region->start), XP_PROFILE_WINDOW_BYTES);
		break;
	case XP_FILE_UNKNOWN:
		put_at(place, XP_GPERF_UNKNOWN_BASE, XP_PROFILE_UNKNOWN_BYTES);
		break;
	case XP_FILE_ANON:
		place->is_numbered = true;
		return 0;
	default:
		put_at(place, region->start, region->end - region->start);
		break;
	}
	err = find_code(layout, place, region->start, end);
	place->is_numbered = has_address_of_its_own(place) && !place->code.path;
	return err;
}

/* The place of all numbered code. */
static int find_anon_place(struct layout *layout)
{
	struct place *place = &layout->places[layout->place_count++];

	place->region = &anon_region;
	put_at(place, XP_PROFILE_ANON_BASE, XP_PROFILE_ANON_BYTES);
	return find_code(layout, place, place->start, place->start + place->bytes);
}

static int find_places(struct layout *layout)
{
	const struct xp_profile *profile = layout->profile;
	bool has_numbered = false;
	size_t count = 0;
	int err = 0;

	for (size_t i = 0; i < profile->region_count && !err; i++) {
		struct place *place = &layout->places[i];

		err = find_place(layout, place, &profile->regions[i]);
		has_numbered |= place->is_numbered;
		if (has_address_of_its_own(place))
			layout->by_start[count++] = place;
	}
	layout->place_count = profile->region_count;
	if (has_numbered && !err)
		err = find_anon_place(layout);
	if (!err)
		move_apart(layout, count);
	return err;
}

static void find_pcs(struct layout *layout)
{
	const struct xp_profile *profile = layout->profile;
	uint64_t numbered = 0;

	for (size_t i = 0; i < profile->address_count; i++) {
		const struct xp_profile_address *address = &profile->addresses[i];
		const struct place *place = &layout->places[address->region];

		if (place->is_numbered) /* numbers start over after the last one: none of them has a name anyway */
			layout->pcs[i] =
			    XP_PROFILE_ANON_BASE + SLOT_BYTES / 2 + numbered++ * SLOT_BYTES % XP_PROFILE_ANON_BYTES;
		else if (place->region->file->kind == XP_FILE_UNKNOWN)
			layout->pcs[i] = place->start + SLOT_BYTES / 2;
		else
			layout->pcs[i] = place->start + (address->address - place->region->start);
	}
}

/* ---- objects ---- */

static void add_object(struct layout *layout, const struct place *place)
{
	const struct xp_profile_region *region = place->region;
	const struct xp_profile_code *code = &place->code;
	struct xp_gperf_object *object = &layout->objects[layout->object_count++];

	*object = (struct xp_gperf_object){
		.start = place->start,
		.end = place->start + place->bytes,
		.offset = has_address_of_its_own(place) ? region->start - region->bias : 0,
		.inode = region->file->inode,
		.dev_major = major(region->file->dev),
		.dev_minor = minor(region->file->dev),
		.is_elf = code->is_elf || code->is_made,
		.path = code->path ? code->path : region->file->path,
	};
	if (code->is_made) {
		object->exec_vaddr = object->exec_offset = XP_SYM_ELF_OFFSET;
		object->bias = place->start - XP_SYM_ELF_OFFSET;
	} else if (code->is_elf) {
		object->exec_vaddr = code->exec_vaddr;
		object->exec_offset = code->exec_offset;
		object->bias = place->start - object->offset + code->exec_offset - code->exec_vaddr;
	}
}

static int by_object_start(const void *a, const void *b)
{
	const struct xp_gperf_object *left = a, *right = b;

	return left->start < right->start ? -1 : left->start > right->start;
}

static void make_objects(struct layout *layout)
{
	for (size_t i = 0; i < layout->place_count; i++)
		if (!layout->places[i].is_numbered)
			add_object(layout, &layout->places[i]);
	qsort(layout->objects, layout->object_count, sizeof(*layout->objects), by_object_start);
}

/* ---- records ---- */

static int find_ends(struct layout *layout)
{
	const struct xp_call_tree *tree = &layout->profile->tree;

	for (size_t i = 1; i < tree->count; i++)
		layout->end_count += tree->nodes[i].count > 0;
	layout->ends = calloc(layout->end_count + 1, sizeof(*layout->ends));
	if (!layout->ends)
		return -ENOMEM;
	layout->end_count = 0;
	for (size_t i = 1; i < tree->count; i++)
		if (tree->nodes[i].count)
			layout->ends[layout->end_count++] = i;
	return 0;
}

/* Gets the chain that ends at this node. Its PCs are valid until the next call. */
static void get_record(void *arg, size_t index, struct xp_gperf_record *record)
{
	struct layout *layout = arg;
	const struct xp_call_node *nodes = layout->profile->tree.nodes;
	uint32_t node = layout->ends[index];

	record->count = nodes[node].count;
	record->pcs = layout->chain;
	record->pc_count = 0;
	for (; node != XP_CALL_TREE_ROOT; node = nodes[node].parent)
		layout->chain[record->pc_count++] = layout->pcs[nodes[node].frame];
}

int xp_profile_write(struct xp_profile *profile, int fd, uint64_t period_us, const struct xp_profile_files *files)
{
	struct layout *layout = NULL;
	int err = xp_profile_recall(profile);

	if (!err) {
		layout = new_layout(profile, files);
		err = layout ? find_places(layout) : -ENOMEM;
	}

	if (!err)
		err = find_ends(layout);
	if (!err) {
		struct xp_gperf_records records = { get_record, layout, layout->end_count };

		find_pcs(layout);
		make_objects(layout);
		err = xp_gperf_write(fd, period_us, &records, layout->objects, layout->object_count);
	}
	free_layout(layout);
	return err;
}
