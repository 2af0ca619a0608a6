/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/file_copy.h"

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

/* sendfile(2) copies between any two file systems, on all kernels, which copy_file_range(2) does not. */
static int copy_range(int from_fd, int to_fd, off_t at, off_t end)
{
	ssize_t moved;

	if (lseek(to_fd, at, SEEK_SET) < 0)
		return -errno;
	while (at < end) {
		moved = sendfile(to_fd, from_fd, &at, (size_t)(end - at));
		if (moved <= 0)
			return moved ? -errno : 0; /* 0: the file was truncated meanwhile */
	}
	return 0;
}

/* Copies the data of [at, end) and preserves holes. */
static int copy_data(int from_fd, int to_fd, off_t at, off_t end, uint64_t *bytes)
{
	int err = 0;

	while (at < end && !err) {
		off_t start = lseek(from_fd, at, SEEK_DATA), hole;

		if (start < 0 && errno == ENXIO)
			break;
		start = XP_MAX(start, at); /* for a file system without holes */
		if (start >= end)
			break;
		hole = lseek(from_fd, start, SEEK_HOLE);
		if (hole <= start || hole > end)
			hole = end;
		if ((uint64_t)(hole - start) > *bytes)
			return -EFBIG;
		*bytes -= hole - start;
		err = copy_range(from_fd, to_fd, start, hole);
		at = hole;
	}
	return err;
}

int xp_file_copy(int from_fd, int to_fd, const struct xp_interval_map *omitted, uint64_t *bytes)
{
	struct stat st;
	off_t at = 0;
	int err = 0;

	if (fstat(from_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	for (size_t i = 0; i < omitted->count && !err; i++) {
		const struct xp_interval *interval = &omitted->all[i];

		err = copy_data(from_fd, to_fd, at, XP_MIN((off_t)interval->start, st.st_size), bytes);
		at = XP_MAX(at, (off_t)interval->end);
	}
	if (!err)
		err = copy_data(from_fd, to_fd, at, st.st_size, bytes);
	if (!err && ftruncate(to_fd, st.st_size))
		err = -errno;
	return err;
}
