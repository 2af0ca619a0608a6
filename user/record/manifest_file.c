/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes manifest.json completely or not at all. */
#include "record/manifest.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/file_lock.h"
#include "base/file_name.h"
#include "base/own_file.h"
#include "base/util.h"

#define TEMPORARY XP_MANIFEST_NAME ".part"

void xp_iso_time(char text[XP_ISO_TIME_BYTES], uint64_t wall_ns)
{
	time_t seconds = wall_ns / XP_NS_PER_S;
	struct tm tm;

	gmtime_r(&seconds, &tm);
	snprintf(text, XP_ISO_TIME_BYTES, "%04d-%02d-%02dT%02d:%02d:%02d.%09lluZ", tm.tm_year + 1900, tm.tm_mon + 1,
		 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, wall_ns % XP_NS_PER_S);
}

int xp_manifest_reserve(int dir_fd, uint64_t bytes)
{
	int fd;

	if (unlinkat(dir_fd, TEMPORARY, 0) && errno != ENOENT)
		return -errno;
	fd = xp_own_file_create(dir_fd, TEMPORARY, O_RDWR);
	if (fd < 0)
		return fd;
	if (flock(fd, LOCK_EX | LOCK_NB)) { /* shows xp_manifest_recover() that it is in use */
		int err = -errno;

		close(fd);
		return err;
	}
	/* Reserves less if the disk has less: other files may have been deleted by the time the manifest is written. */
	while (bytes && posix_fallocate(fd, 0, bytes))
		bytes /= 2;
	return fd;
}

void xp_manifest_release(int dir_fd, int reserved_fd)
{
	if (reserved_fd < 0)
		return;
	close(reserved_fd);
	unlinkat(dir_fd, TEMPORARY, 0);
}

int xp_manifest_file_write(int dir_fd, int fd, const json_t *manifest)
{
	/* 15 digits: with 17, the nanoseconds of a duration would show rounding errors of doubles. */
	char *text = manifest ? json_dumps(manifest, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
	size_t size = text ? strlen(text) : 0;
	int err;

	if (!text) {
		xp_manifest_release(dir_fd, fd);
		return -ENOMEM;
	}
	fd = fd < 0 ? xp_manifest_reserve(dir_fd, 1) : fd;
	err = fd < 0 ? fd : xp_write_all(fd, text, size) ?: xp_write_all(fd, "\n", 1);
	free(text);
	if (fd < 0)
		return err;
	if (!err && ftruncate(fd, size + 1))
		err = -errno;
	if (!err && renameat(dir_fd, TEMPORARY, dir_fd, XP_MANIFEST_NAME))
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (err)
		unlinkat(dir_fd, TEMPORARY, 0);
	return err;
}

void xp_manifest_recover(int dir_fd)
{
	int fd = openat(dir_fd, TEMPORARY, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (!xp_file_lock(fd, NULL))
		unlinkat(dir_fd, TEMPORARY, 0);
	close(fd);
}
