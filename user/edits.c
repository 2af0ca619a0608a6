// SPDX-License-Identifier: BSD-2-Clause
#include "edits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sled_bytes.h"
#include "util.h"

/* One look and one write. A sled may begin at its last byte. */
#define STRETCH_BYTES 4096u
#define WINDOW_BYTES (STRETCH_BYTES + XP_SLED_BYTES_MAX)

int xp_edits_add(struct xp_edits *edits, const struct xp_edit *edit)
{
	if (edits->count == edits->room) {
		size_t room = edits->room ? 2 * edits->room : 256;
		struct xp_edit *list = realloc(edits->list, room * sizeof(*list));

		if (!list)
			return -ENOMEM;
		edits->list = list;
		edits->room = room;
	}
	edits->list[edits->count++] = *edit;
	return 0;
}

static int by_address(const void *a, const void *b)
{
	const struct xp_edit *left = a, *right = b;

	return (left->address > right->address) - (left->address < right->address);
}

int xp_edits_sort(struct xp_edits *edits)
{
	if (edits->count)
		qsort(edits->list, edits->count, sizeof(*edits->list), by_address);
	for (size_t i = 1; i < edits->count; i++)
		if (edits->list[i].address - edits->list[i - 1].address <
		    xp_sled_bytes((enum xp_sled_kind)edits->list[i - 1].kind))
			return -EINVAL;
	return 0;
}

void xp_edits_free(struct xp_edits *edits)
{
	free(edits->list);
	edits->list = NULL;
	edits->count = edits->room = 0;
}

/* Edits that lie together in one stretch of text. */
struct stretch {
	struct xp_edit *edits;
	size_t count;
	uint64_t start;
	size_t bytes; /* to the end of the last sled */
};

static struct stretch next_stretch(struct xp_edits *edits, size_t first)
{
	struct stretch stretch = { .edits = &edits->list[first], .start = edits->list[first].address };

	while (first + stretch.count < edits->count) {
		const struct xp_edit *edit = &stretch.edits[stretch.count];

		if (edit->address - stretch.start >= STRETCH_BYTES)
			break;
		stretch.bytes = edit->address - stretch.start + xp_sled_bytes((enum xp_sled_kind)edit->kind);
		stretch.count++;
	}
	return stretch;
}

/* Whether the text is that of the file, sleds apart. */
static bool is_as_in_file(const struct xp_edits *edits, const struct stretch *stretch, const uint8_t *now)
{
	uint8_t file[WINDOW_BYTES], text[WINDOW_BYTES];

	if (pread(edits->file_fd, file, stretch->bytes, (off_t)(stretch->start - edits->file_start)) !=
	    (ssize_t)stretch->bytes)
		return false;
	memcpy(text, now, stretch->bytes);
	for (size_t i = 0; i < stretch->count; i++) {
		const struct xp_edit *edit = &stretch->edits[i];
		size_t size = xp_sled_bytes((enum xp_sled_kind)edit->kind);

		memset(file + (edit->address - stretch->start), 0, size);
		memset(text + (edit->address - stretch->start), 0, size);
	}
	return !memcmp(file, text, stretch->bytes);
}

static int write_each(const struct stretch *stretch, struct xp_remote *remote)
{
	int err = 0;

	for (size_t i = 0; i < stretch->count && !err; i++)
		if (stretch->edits[i].size)
			err = xp_remote_write(remote, stretch->edits[i].address, stretch->edits[i].bytes,
					      stretch->edits[i].size);
	return err;
}

int xp_edits_write(struct xp_edits *edits, struct xp_remote *remote,
		   bool (*fits)(const void *arg, const struct xp_edit *edit, const uint8_t *now), const void *arg,
		   size_t *written)
{
	struct stretch stretch;
	int err = 0;

	for (size_t first = 0; first < edits->count && !err; first += stretch.count) {
		uint8_t now[WINDOW_BYTES], then[WINDOW_BYTES];
		size_t changed = 0;

		stretch = next_stretch(edits, first);
		err = xp_remote_read(remote, stretch.start, now, stretch.bytes);
		if (err)
			break;
		memcpy(then, now, stretch.bytes);
		for (size_t i = 0; i < stretch.count; i++) {
			struct xp_edit *edit = &stretch.edits[i];
			size_t into = edit->address - stretch.start;

			if (!edit->size)
				continue;
			if (!fits(arg, edit, now + into)) {
				edit->size = 0;
				continue;
			}
			memcpy(then + into, edit->bytes, edit->size);
			changed++;
		}
		if (!changed)
			continue;
		err = is_as_in_file(edits, &stretch, now) ? xp_remote_write(remote, stretch.start, then, stretch.bytes)
							  : write_each(&stretch, remote);
		if (!err)
			*written += changed;
	}
	return err;
}
