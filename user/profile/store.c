/* SPDX-License-Identifier: BSD-2-Clause */
#include "profile/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/util.h"
#include "profile/data.h"

#define NAME ".profiles.part" /* for file systems without unnamed files; exists only for a moment */

struct xp_profile_store {
	int fd;
	uint64_t end;
};

/* The three tables of a profile, stored one after the other. */
struct part {
	void **rows;
	size_t row_bytes;
	size_t count;
	size_t *room;
};

#define PARTS 3
#define ROOM_MIN 1024u

static void list_parts(struct xp_profile *profile, struct part parts[PARTS])
{
	struct xp_call_tree *tree = &profile->tree;

	parts[0] = (struct part){ (void **)&profile->regions, sizeof(*profile->regions), profile->region_count,
				  &profile->region_room };
	parts[1] = (struct part){ (void **)&profile->addresses, sizeof(*profile->addresses), profile->address_count,
				  &profile->address_room };
	parts[2] = (struct part){ (void **)&tree->nodes, sizeof(*tree->nodes), tree->count, &tree->room };
}

int xp_profile_store_new(struct xp_profile_store **result, int dir_fd)
{
	struct xp_profile_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (store->fd < 0) {
		store->fd = xp_own_file_create(dir_fd, NAME, O_RDWR);
		if (store->fd >= 0)
			unlinkat(dir_fd, NAME, 0);
	}
	if (store->fd < 0) {
		int err = store->fd;

		free(store);
		return err;
	}
	*result = store;
	return 0;
}

void xp_profile_store_free(struct xp_profile_store *store)
{
	if (!store)
		return;
	close(store->fd);
	free(store);
}

static size_t bytes_of(const struct part parts[PARTS])
{
	size_t bytes = 0;

	for (int i = 0; i < PARTS; i++)
		bytes += parts[i].count * parts[i].row_bytes;
	return bytes;
}

/* Writes them in one call: there may be thousands of profiles, and samples wait in the ring buffers meanwhile. */
static int write_parts(const struct xp_profile_store *store, const struct part parts[PARTS], uint64_t offset)
{
	struct iovec pieces[PARTS];
	ssize_t written;

	for (int i = 0; i < PARTS; i++)
		pieces[i] = (struct iovec){ *parts[i].rows, parts[i].count * parts[i].row_bytes };
	written = pwritev(store->fd, pieces, PARTS, (off_t)offset);
	if (written < 0)
		return -errno;
	return (size_t)written < bytes_of(parts) ? -ENOSPC : 0; /* what follows in the file is not needed */
}

/*
 * Overwrites the old copy if the profile fits there, so that the file does not grow each time. Rooms double in size, so
 * all the rooms that a profile has outgrown are together smaller than its current one.
 */
static int write_in_place(struct xp_profile_store *store, struct xp_profile *profile, const struct part parts[PARTS])
{
	bool fits = profile->store && bytes_of(parts) <= profile->stored_room;
	uint64_t offset = fits ? profile->stored_at : store->end, room = fits ? profile->stored_room : ROOM_MIN;
	int err = write_parts(store, parts, offset);

	if (err)
		return err;
	while (room < bytes_of(parts))
		room *= 2;
	store->end = XP_MAX(store->end, offset + room);
	profile->stored_at = offset;
	profile->stored_room = room;
	return 0;
}

int xp_profile_store_write(struct xp_profile_store *store, struct xp_profile *profile)
{
	struct part parts[PARTS];
	int err;

	if (profile->is_away)
		return 0;
	list_parts(profile, parts);
	if (!profile->store || profile->stored_samples != profile->samples) {
		err = write_in_place(store, profile, parts);
		if (err)
			return err;
		profile->store = store;
		profile->stored_samples = profile->samples;
	}
	xp_profile_free_tables(profile);
	profile->is_away = true;
	return 0;
}

static int read_all(int fd, void *to, size_t bytes, uint64_t offset)
{
	for (char *at = to; bytes;) {
		ssize_t got = pread(fd, at, bytes, offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got ? -errno : -EIO;
		at += got;
		bytes -= got;
		offset += got;
	}
	return 0;
}

int xp_profile_recall(struct xp_profile *profile)
{
	uint64_t offset = profile->stored_at;
	struct part parts[PARTS];
	int err = 0;

	if (!profile->is_away)
		return 0;
	list_parts(profile, parts);
	for (int i = 0; i < PARTS && !err; i++) {
		size_t bytes = parts[i].count * parts[i].row_bytes;

		*parts[i].rows = malloc(XP_MAX(bytes, (size_t)1));
		*parts[i].room = parts[i].count;
		err = *parts[i].rows ? read_all(profile->store->fd, *parts[i].rows, bytes, offset) : -ENOMEM;
		offset += bytes;
	}
	if (err)
		xp_profile_free_tables(profile);
	else
		profile->is_away = false;
	return err;
}
