/* SPDX-License-Identifier: BSD-2-Clause */
#include "record/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file_name.h"
#include "base/util.h"
#include "base/why.h"
#include "record/outdir.h"
#include "store/sym_shared.h"

static int is_part(const struct dirent *entry)
{
	uint64_t start_s;

	return xp_file_is_part(entry->d_name, &start_s);
}

static uint64_t bytes_of(int parts_fd, const char *name)
{
	int fd = openat(parts_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	uint64_t bytes = fd < 0 ? 0 : xp_outdir_bytes(fd);

	if (fd >= 0)
		close(fd);
	return bytes;
}

bool xp_parts_have_room(int parts_fd)
{
	struct statvfs fs;

	return fstatvfs(parts_fd, &fs) || (uint64_t)fs.f_bavail * fs.f_frsize >= XP_PARTS_FREE_BYTES;
}

/* Returns whether to delete the oldest part. next: name of the part after it. bytes: size of all parts. */
static bool is_due(int parts_fd, const char *next, uint64_t bytes, const struct xp_parts_limits *limits)
{
	uint64_t end_s = UINT64_MAX;

	if (limits->is_full && !xp_parts_have_room(parts_fd))
		return true;
	if (limits->max_bytes && bytes > limits->max_bytes)
		return true;
	return limits->keep_ns && xp_file_is_part(next, &end_s) &&
	       end_s < (limits->now_ns - XP_MIN(limits->now_ns, limits->keep_ns)) / XP_NS_PER_S;
}

static int clean(int parts_fd, struct dirent *const *parts, size_t count, const struct xp_parts_limits *limits)
{
	uint64_t shared = limits->max_bytes ? xp_sym_shared_bytes(limits->shared_fd) : 0;
	uint64_t bytes = 0, *sizes = calloc(count + 1, sizeof(*sizes));
	int deleted = 0, refused = 0;

	if (!sizes)
		return -ENOMEM;
	for (size_t i = 0; limits->max_bytes && i < count; i++)
		bytes += sizes[i] = bytes_of(parts_fd, parts[i]->d_name);
	for (size_t i = 0; i + XP_PARTS_KEPT < count; i++) {
		int err;

		if (!is_due(parts_fd, parts[i + 1]->d_name, bytes + shared, limits))
			break;
		err = xp_outdir_remove(parts_fd, parts[i]->d_name);
		if (err && err != -EBUSY && !refused++)
			xp_warn("cannot delete the old part %s: %s", parts[i]->d_name, xp_why(err));
		xp_why_clear();
		if (err)
			continue;
		xp_debug("deleted the old part %s", parts[i]->d_name);
		bytes -= sizes[i];
		if (limits->max_bytes) {
			xp_sym_shared_clean(limits->shared_fd);
			shared = xp_sym_shared_bytes(limits->shared_fd);
		}
		deleted++;
	}
	free(sizes);
	return deleted;
}

int xp_parts_clean(int parts_fd, const struct xp_parts_limits *limits)
{
	struct dirent **parts;
	int count = scandirat(parts_fd, ".", &parts, is_part, alphasort), deleted;

	if (count < 0)
		return -errno;
	deleted = clean(parts_fd, parts, (size_t)count, limits);
	for (int i = 0; i < count; i++)
		free(parts[i]);
	free(parts);
	return deleted;
}
