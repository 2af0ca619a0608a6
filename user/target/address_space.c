/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/address_space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "arch/x86_64/stub.h"
#include "base/array.h"
#include "base/code_places.h"
#include "base/util.h"

/* ---- files ---- */

static uint64_t hash_file(const struct xp_file *file)
{
	return xp_hash_mix(xp_hash_mix(xp_hash_mix(file->kind, file->dev), file->inode), xp_hash_text(file->path));
}

static bool same_place(const struct xp_file *a, const struct xp_file *b)
{
	return a->kind == b->kind && a->dev == b->dev && a->inode == b->inode && !strcmp(a->path, b->path);
}

/* Returns true unless the build IDs of a and b, which have the same path and inode, differ. */
static bool same_file(const struct xp_file *a, const struct xp_file *b)
{
	return !a->build_id_bytes || !b->build_id_bytes ||
	       (a->build_id_bytes == b->build_id_bytes && !memcmp(a->build_id, b->build_id, a->build_id_bytes));
}

static void learn(struct xp_file *file, const struct xp_file *from)
{
	if (!from->build_id_bytes)
		return;
	memcpy(file->build_id, from->build_id, sizeof(file->build_id));
	file->build_id_bytes = from->build_id_bytes;
}

static uint64_t key_of(const void *files, uint32_t index)
{
	return ((struct xp_file *const *)files)[index]->place_key;
}

/* Returns the last file with this kind, device, inode and path, or NULL. */
static struct xp_file *find_file(const struct xp_files *files, const struct xp_file *file, uint64_t key)
{
	const struct xp_hash *hash = &files->by_place;

	for (const uint32_t *slot = xp_hash_first(hash, key); *slot; slot = xp_hash_next(hash, slot))
		if (same_place(files->all[*slot - 1], file))
			return files->all[*slot - 1];
	return NULL;
}

static int reserve_file(struct xp_files *files)
{
	return XP_ARRAY_RESERVE(files->all, files->room, files->count + 1);
}

static bool is_full(const struct xp_files *files, const struct xp_file *file)
{
	return files->count >= XP_FILES_MAX || files->paths_bytes + strlen(file->path) + 1 > XP_FILES_PATHS_BYTES_MAX;
}

static struct xp_file *copy_file(const struct xp_file *from, size_t index)
{
	struct xp_file *file = malloc(sizeof(*file));

	if (!file)
		return NULL;
	*file = *from;
	file->index = index;
	file->path = strdup(from->path);
	if (file->path)
		return file;
	free(file);
	return NULL;
}

enum xp_file_kind xp_file_kind_of(const char *path)
{
	if (!strcmp(path, "[vdso]"))
		return XP_FILE_VDSO;
	return xp_path_is_of_file(path) ? XP_FILE_DISK : XP_FILE_ANON;
}

bool xp_file_is_trampoline(const struct xp_file *file)
{
	/* Side-band records truncate "[uprobes-trampoline]" (perf_event_mmap_event(), kernel/events/core.c). */
	return file->kind == XP_FILE_ANON && !strncmp(file->path, "[uprobes-trampo", 15);
}

bool xp_file_may_be_jit(const struct xp_file *file)
{
	if (file->kind == XP_FILE_DISK)
		return !strncmp(file->path, "/memfd:", 7) && !xp_stub_is_named(file->path);
	return file->kind == XP_FILE_ANON && !xp_file_is_trampoline(file) && strcmp(file->path, "[uprobes]") != 0;
}

static struct xp_file *add_file(struct xp_files *files, const struct xp_file *from)
{
	struct xp_file *file;

	if (reserve_file(files))
		return NULL;
	file = copy_file(from, files->count);
	if (!file)
		return NULL;
	files->paths_bytes += strlen(file->path) + 1;
	files->all[files->count++] = file;
	return file;
}

struct xp_file *xp_files_intern(struct xp_files *files, const struct xp_file *from)
{
	static const struct xp_file unknown = { .kind = XP_FILE_UNKNOWN, .path = (char *)"[unknown]" };
	uint64_t key = hash_file(from);
	struct xp_file *before = find_file(files, from, key), *file;

	if (before && same_file(before, from)) {
		learn(before, from);
		return before;
	}
	if (is_full(files, from)) {
		if (!files->unknown)
			files->unknown = add_file(files, &unknown);
		return files->unknown;
	}
	file = add_file(files, from);
	if (!file)
		return NULL;
	file->place_key = key;
	if (before)
		xp_hash_move(&files->by_place, key, before->index, file->index);
	else if (xp_hash_add(&files->by_place, key, file->index, key_of, files->all))
		return NULL;
	return file;
}

void xp_files_free(struct xp_files *files)
{
	for (size_t i = 0; i < files->count; i++) {
		free(files->all[i]->path);
		free(files->all[i]);
	}
	free(files->all);
	xp_hash_free(&files->by_place);
	*files = (struct xp_files){ 0 };
}

/* ---- mappings ---- */

/* Returns the index of the first mapping that ends above address, or count if there is none. */
static size_t first_above(const struct xp_address_space *space, uint64_t address)
{
	return XP_FIND_FIRST(space->count, i, space->vmas[i].end <= address);
}

const struct xp_vma *xp_address_space_find(const struct xp_address_space *space, uint64_t address)
{
	size_t i = first_above(space, address);

	return i < space->count && space->vmas[i].start <= address ? &space->vmas[i] : NULL;
}

static bool continues(const struct xp_vma *a, const struct xp_vma *b)
{
	return a->end == b->start && a->file == b->file && a->file->kind != XP_FILE_VDSO &&
	       (a->file->kind == XP_FILE_ANON || a->file_offset + (a->end - a->start) == b->file_offset);
}

static int reserve_vmas(struct xp_address_space *space, size_t count)
{
	return count > XP_SPACE_VMAS_MAX ? -E2BIG : XP_ARRAY_RESERVE(space->vmas, space->room, count);
}

/* Replaces the mappings [first, last) with pieces. */
static int replace(struct xp_address_space *space, size_t first, size_t last, const struct xp_vma *pieces,
		   size_t piece_count)
{
	size_t count = space->count - (last - first) + piece_count;
	/* A change that shrinks the list needs no memory, so it must not fail when the list is full. */
	int err = count > space->count ? reserve_vmas(space, count) : 0;

	if (err)
		return err;
	memmove(&space->vmas[first + piece_count], &space->vmas[last], (space->count - last) * sizeof(*space->vmas));
	memcpy(&space->vmas[first], pieces, piece_count * sizeof(*pieces));
	space->count = count;
	space->changed = __rdtsc();
	return 0;
}

/* Appends vma to the pieces, or extends the last piece by it. */
static size_t add_piece(struct xp_vma *pieces, size_t count, const struct xp_vma *vma)
{
	if (count && continues(&pieces[count - 1], vma)) {
		pieces[count - 1].end = vma->end;
		return count;
	}
	pieces[count] = *vma;
	return count + 1;
}

int xp_address_space_map(struct xp_address_space *space, const struct xp_vma *vma)
{
	size_t first, last, count = 0;
	struct xp_vma pieces[3];

	if (vma->start >= vma->end)
		return -EINVAL;
	first = first_above(space, vma->start);
	for (last = first; last < space->count && space->vmas[last].start < vma->end; last++)
		;
	/* Adds the part of the first mapping before vma, or the mapping directly before vma, which vma may extend. */
	if (first < last && space->vmas[first].start < vma->start) {
		pieces[count] = space->vmas[first];
		pieces[count++].end = vma->start;
	} else if (first && space->vmas[first - 1].end == vma->start) {
		pieces[count++] = space->vmas[--first];
	}
	count = add_piece(pieces, count, vma);
	if (first < last && space->vmas[last - 1].end > vma->end) {
		struct xp_vma rest = space->vmas[last - 1];

		rest.file_offset += vma->end - rest.start;
		rest.start = vma->end;
		count = add_piece(pieces, count, &rest);
	} else if (last < space->count && space->vmas[last].start == vma->end) {
		count = add_piece(pieces, count, &space->vmas[last++]);
	}
	return replace(space, first, last, pieces, count);
}

static int add_jit(struct xp_address_space *space, uint64_t start, uint64_t end, uint64_t tsc)
{
	if (!space->jit)
		space->jit = calloc(XP_SPACE_JIT_MAX, sizeof(*space->jit));
	if (!space->jit)
		return -ENOMEM;
	if (space->jit_count == XP_SPACE_JIT_MAX) {
		space->jit_count /= 2;
		memmove(space->jit, space->jit + space->jit_count, space->jit_count * sizeof(*space->jit));
	}
	space->jit[space->jit_count++] = (struct xp_address_space_jit){ start, end, tsc };
	return 0;
}

int xp_address_space_map_jit(struct xp_address_space *space, uint64_t start, uint64_t end, uint64_t tsc)
{
	size_t i = first_above(space, start);
	int err = 0;

	for (; start < end && !err; i++) {
		const struct xp_vma *known = i < space->count && space->vmas[i].start < end ? &space->vmas[i] : NULL;

		if (known && !xp_file_may_be_jit(known->file))
			continue;
		if (!known || known->start > start)
			err = add_jit(space, start, known ? known->start : end, tsc);
		start = known ? known->end : end;
	}
	return err;
}

uint64_t xp_address_space_jit_since(const struct xp_address_space *space, uint64_t address)
{
	for (size_t i = space->jit_count; i; i--)
		if (address >= space->jit[i - 1].start && address < space->jit[i - 1].end)
			return space->jit[i - 1].tsc;
	return 0;
}

bool xp_address_space_is_32_bit(const struct xp_address_space *space)
{
	size_t i = 0;

	if (!space->count || space->vmas[space->count - 1].end > 1ull << 32)
		return false;
	while (i < space->count && space->vmas[i].file->kind != XP_FILE_VDSO)
		i++;
	return i < space->count;
}

void xp_address_space_clear(struct xp_address_space *space)
{
	space->count = 0;
	space->jit_count = 0;
	space->changed = __rdtsc();
}

void xp_address_space_free(struct xp_address_space *space)
{
	free(space->vmas);
	free(space->jit);
	*space = (struct xp_address_space){ 0 };
}

/* ---- shared spaces ---- */

struct xp_address_space *xp_address_space_new(void)
{
	struct xp_address_space *space = calloc(1, sizeof(*space));

	if (space)
		space->changed = __rdtsc();
	return space;
}

struct xp_address_space *xp_address_space_share(struct xp_address_space *space)
{
	space->sharers++;
	return space;
}

void xp_address_space_release(struct xp_address_space *space)
{
	if (!space || space->sharers--)
		return;
	xp_address_space_free(space);
	free(space);
}

int xp_address_space_own(struct xp_address_space **space)
{
	struct xp_address_space *copy;

	if (!(*space)->sharers)
		return 0;
	copy = xp_address_space_new();
	if (copy && (*space)->jit)
		copy->jit = calloc(XP_SPACE_JIT_MAX, sizeof(*copy->jit));
	if (!copy || reserve_vmas(copy, (*space)->count) || ((*space)->jit && !copy->jit)) {
		xp_address_space_release(copy);
		return -ENOMEM;
	}
	if ((*space)->count)
		memcpy(copy->vmas, (*space)->vmas, (*space)->count * sizeof(*copy->vmas));
	copy->count = (*space)->count;
	if (copy->jit)
		memcpy(copy->jit, (*space)->jit, (*space)->jit_count * sizeof(*copy->jit));
	copy->jit_count = (*space)->jit_count;
	xp_address_space_release(*space);
	*space = copy;
	return 0;
}
