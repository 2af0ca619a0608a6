// SPDX-License-Identifier: BSD-2-Clause
#include "base/file_view.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bus_error.h"
#include "base/small_file.h"
#include "base/util.h"

/* Ends xprof: another process has truncated a mapped file, so the data read from it so far is invalid. */
static bool cut_off(const siginfo_t *info)
{
	static const char message[] =
	    "xprof: error: a file became shorter while it was read: try again, or copy it first\n";

	if (info->si_code != BUS_ADRERR)
		return false;
	(void)!write(STDERR_FILENO, message, sizeof(message) - 1);
	_exit(1);
}

static int map(struct xp_file_view *view, int fd)
{
	static const uint8_t nothing[1];
	struct stat st;
	void *bytes;
	int err;

	if (fstat(fd, &st))
		return -errno;
	*view = (struct xp_file_view){ .bytes = nothing, .size = st.st_size };
	if (!view->size)
		return 0;
	err = xp_bus_error_ask(XP_BUS_FILE_VIEWS, cut_off);
	if (err)
		return err;
	bytes = mmap(NULL, view->size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return -errno;
	madvise(bytes, view->size, MADV_SEQUENTIAL); /* a hint: its failure is harmless */
	view->bytes = bytes;
	view->is_mapped = true;
	return 0;
}

const char *xp_file_view_error(int err)
{
	return err == -EINVAL ? "not a regular file" : strerror(-err);
}

/* Checks the type first: opening a device may have side effects, and opening a FIFO blocks until it has a writer. */
int xp_file_open_regular(int dir_fd, const char *name)
{
	int place = openat(dir_fd, name, O_PATH | O_CLOEXEC), fd;
	struct stat st;

	if (place < 0)
		return -errno;
	if (fstat(place, &st))
		fd = -errno;
	else if (!S_ISREG(st.st_mode))
		fd = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	else
		fd = xp_open_format(O_RDONLY | O_NONBLOCK | O_NOCTTY, "/proc/self/fd/%d", place);
	close(place);
	return fd;
}

bool xp_file_is_elf(int fd)
{
	char magic[SELFMAG];

	return pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && !memcmp(magic, ELFMAG, SELFMAG);
}

int xp_file_view_open(struct xp_file_view *view, int dir_fd, const char *name)
{
	int fd = xp_file_open_regular(dir_fd, name), err;

	if (fd < 0)
		return fd;
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

void xp_file_view_release(struct xp_file_view *view, uint64_t offset)
{
	uint64_t end = XP_MIN(offset, view->size) / XP_FILE_VIEW_WINDOW * XP_FILE_VIEW_WINDOW;

	if (end < view->released)
		view->released = 0; /* the caller has started to read the file again */
	if (!view->is_mapped || end == view->released)
		return;
	/* A hint: if it fails, the memory stays mapped. */
	madvise((uint8_t *)view->bytes + view->released, end - view->released, MADV_DONTNEED);
	view->released = end;
}
