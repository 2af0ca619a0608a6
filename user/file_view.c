// SPDX-License-Identifier: BSD-2-Clause
#include "file_view.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map(struct xp_file_view *view, int fd)
{
	static const uint8_t nothing[1];
	struct stat st;
	void *bytes;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	view->bytes = nothing;
	view->size = st.st_size;
	if (!view->size)
		return 0;
	bytes = mmap(NULL, view->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	madvise(bytes, view->size, MADV_SEQUENTIAL); /* advice only */
	view->bytes = bytes;
	return 0;
}

int xp_file_view_open(struct xp_file_view *view, int dir_fd, const char *name)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = openat(dir_fd, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int err;

	if (fd < 0)
		return -errno;
	err = map(view, fd);
	close(fd);
	return err;
}

void xp_file_view_close(struct xp_file_view *view)
{
	if (view->size)
		munmap((void *)view->bytes, view->size);
	view->size = 0;
}
