// SPDX-License-Identifier: BSD-2-Clause
#include "sled/text_patches.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/x86_64/sled_bytes.h"
#include "base/array.h"
#include "base/util.h"

#define PAGE_BYTES 4096u
/* Size of one read and one write. A sled may begin at the last byte. */
#define STRETCH_BYTES (15 * PAGE_BYTES)
#define WINDOW_BYTES (STRETCH_BYTES + XP_SLED_BYTES_MAX)

size_t xp_text_patch_bytes(const struct xp_text_patch *text_patch)
{
	if (text_patch->kind < XP_JUMP_WINDOW)
		return xp_sled_bytes((enum xp_sled_kind)text_patch->kind);
	return text_patch->kind == XP_JUMP_SHORT ? 2 : XP_JUMP_BYTES;
}

struct xp_text_patches xp_text_patches_in(const struct xp_mapping *mapping, int file_fd)
{
	return (struct xp_text_patches){
		.start = mapping->start,
		.end = mapping->end,
		.file_fd = file_fd,
		.file_start = mapping->start - mapping->file_offset,
	};
}

int xp_text_patches_add(struct xp_text_patches *text_patches, const struct xp_text_patch *text_patch)
{
	return XP_ARRAY_ADD(text_patches->list, text_patches->count, text_patches->room, *text_patch);
}

static int by_address(const void *a, const void *b)
{
	const struct xp_text_patch *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

static bool is_same_jump(const struct xp_text_patch *a, const struct xp_text_patch *b)
{
	return a->kind >= XP_JUMP_WINDOW && a->address == b->address && a->kind == b->kind && a->size == b->size &&
	       !memcmp(a->jump.from, b->jump.from, a->size) && !memcmp(a->jump.to, b->jump.to, a->size);
}

int xp_text_patches_sort(struct xp_text_patches *text_patches)
{
	size_t kept = 0;

	if (text_patches->count)
		qsort(text_patches->list, text_patches->count, sizeof(*text_patches->list), by_address);
	for (size_t i = 0; i < text_patches->count; i++) {
		const struct xp_text_patch *before = kept ? &text_patches->list[kept - 1] : NULL;

		if (before && is_same_jump(before, &text_patches->list[i]))
			continue;
		if (before && text_patches->list[i].address - before->address < xp_text_patch_bytes(before))
			return -EINVAL;
		text_patches->list[kept++] = text_patches->list[i];
	}
	text_patches->count = kept;
	return 0;
}

void xp_text_patches_free(struct xp_text_patches *text_patches)
{
	free(text_patches->list);
	text_patches->list = NULL;
	text_patches->count = text_patches->room = 0;
}

/* Text patches that are written together, with at most a page without patches between them. */
struct stretch {
	struct xp_text_patch *text_patches;
	size_t count;
	uint64_t start;
	size_t bytes; /* up to the end of the last sled */
};

/* Texts of a stretch: of the process; of the process with the patches; of the file; of the process without sleds. */
struct texts {
	uint8_t now[WINDOW_BYTES];
	uint8_t then[WINDOW_BYTES];
	uint8_t file[WINDOW_BYTES];
	uint8_t bare[WINDOW_BYTES];
};

static struct stretch next_stretch(struct xp_text_patches *text_patches, size_t first)
{
	struct stretch stretch = { .text_patches = &text_patches->list[first],
				   .start = text_patches->list[first].address };

	while (first + stretch.count < text_patches->count) {
		const struct xp_text_patch *text_patch = &stretch.text_patches[stretch.count];
		uint64_t last_page = (stretch.start + stretch.bytes) / PAGE_BYTES;

		if (text_patch->address - stretch.start >= STRETCH_BYTES ||
		    text_patch->address / PAGE_BYTES > last_page + 1)
			break;
		stretch.bytes = text_patch->address - stretch.start + xp_text_patch_bytes(text_patch);
		stretch.count++;
	}
	return stretch;
}

/*
 * Reads the file's text, and clears the sleds in it and in the process's text. Any remaining difference means that
 * another tool has changed the text. A file that cannot be read differs everywhere.
 */
static void bare_texts(const struct xp_text_patches *text_patches, const struct stretch *stretch, struct texts *texts)
{
	if (pread(text_patches->file_fd, texts->file, stretch->bytes,
		  (off_t)(stretch->start - text_patches->file_start)) != (ssize_t)stretch->bytes) {
		memset(texts->file, 0, stretch->bytes);
		memset(texts->bare, 0xff, stretch->bytes);
		return;
	}
	memcpy(texts->bare, texts->now, stretch->bytes);
	for (size_t i = 0; i < stretch->count; i++) {
		const struct xp_text_patch *text_patch = &stretch->text_patches[i];
		size_t size = xp_text_patch_bytes(text_patch);

		memset(texts->file + (text_patch->address - stretch->start), 0, size);
		memset(texts->bare + (text_patch->address - stretch->start), 0, size);
	}
}

/*
 * Writes the text patches [first, end) of a stretch with one write, or in halves, until only bytes that another tool
 * has changed are omitted.
 */
static int write_part(const struct stretch *stretch, size_t first, size_t end, const struct texts *texts,
		      struct xp_remote *remote)
{
	const struct xp_text_patch *text_patch = &stretch->text_patches[first], *last = &stretch->text_patches[end - 1];
	size_t from = text_patch->address - stretch->start, middle = first + (end - first) / 2;
	size_t bytes = last->address + xp_text_patch_bytes(last) - text_patch->address;
	int err;

	if (end - first == 1)
		return text_patch->size
			   ? xp_remote_write(remote, text_patch->address, text_patch->bytes, text_patch->size)
			   : 0;
	if (!memcmp(texts->file + from, texts->bare + from, bytes))
		return xp_remote_write(remote, text_patch->address, texts->then + from, bytes);
	err = write_part(stretch, first, middle, texts, remote);
	return err ? err : write_part(stretch, middle, end, texts, remote);
}

/* Computes the text to write for a stretch. Returns the number of text patches. */
static size_t edit_text(const struct stretch *stretch, struct texts *texts,
			bool (*fits)(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now),
			const void *arg)
{
	size_t changed = 0;

	memcpy(texts->then, texts->now, stretch->bytes);
	for (size_t i = 0; i < stretch->count; i++) {
		struct xp_text_patch *text_patch = &stretch->text_patches[i];
		size_t into = text_patch->address - stretch->start;

		if (!text_patch->size)
			continue;
		if (!fits(arg, text_patch, texts->now + into)) {
			text_patch->size = 0;
			continue;
		}
		memcpy(texts->then + into, text_patch->bytes, text_patch->size);
		changed++;
	}
	return changed;
}

int xp_text_patches_write(struct xp_text_patches *text_patches, struct xp_remote *remote,
			  bool (*fits)(const void *arg, const struct xp_text_patch *text_patch, const uint8_t *now),
			  const void *arg, size_t *written)
{
	struct texts *texts = malloc(sizeof(*texts));
	struct stretch stretch;
	int err = texts ? 0 : -ENOMEM;

	for (size_t first = 0; first < text_patches->count && !err; first += stretch.count) {
		size_t changed;

		stretch = next_stretch(text_patches, first);
		err = xp_remote_read(remote, stretch.start, texts->now, stretch.bytes);
		changed = err ? 0 : edit_text(&stretch, texts, fits, arg);
		if (!changed)
			continue;
		bare_texts(text_patches, &stretch, texts);
		err = write_part(&stretch, 0, stretch.count, texts, remote);
		if (!err)
			*written += changed;
	}
	free(texts);
	return err;
}
