// SPDX-License-Identifier: BSD-2-Clause
#include "unwind/held_files.h"

#include <string.h>
#include <unistd.h>

/* Returns held->count if there is no such file. */
static size_t find(const struct xp_held_files *held, size_t index)
{
	size_t i = 0;

	while (i < held->count && held->all[i].index != index)
		i++;
	return i;
}

static void remove_at(struct xp_held_files *held, size_t i)
{
	held->count--;
	memmove(&held->all[i], &held->all[i + 1], (held->count - i) * sizeof(*held->all));
}

static void close_oldest(struct xp_held_files *held)
{
	close(held->all[0].fd);
	remove_at(held, 0);
}

bool xp_held_files_has(const struct xp_held_files *held, size_t index)
{
	return find(held, index) < held->count;
}

void xp_held_files_add(struct xp_held_files *held, size_t index, int fd, uint64_t now_ns)
{
	if (held->count == XP_HELD_FILES_MAX)
		close_oldest(held);
	held->all[held->count++] = (struct xp_held_file){ .index = index, .fd = fd, .since_ns = now_ns };
}

int xp_held_files_take(struct xp_held_files *held, size_t index)
{
	size_t i = find(held, index);
	int fd;

	if (i == held->count)
		return -1;
	fd = held->all[i].fd;
	remove_at(held, i);
	return fd;
}

void xp_held_files_expire(struct xp_held_files *held, uint64_t now_ns)
{
	while (held->count && now_ns - held->all[0].since_ns >= XP_HELD_FILES_NS)
		close_oldest(held);
}

void xp_held_files_close(struct xp_held_files *held)
{
	while (held->count)
		close_oldest(held);
}
