// SPDX-License-Identifier: BSD-2-Clause
#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/own_file.h"

int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg)
{
	char temporary[XP_LOG_NAME_MAX + sizeof(XP_LOG_PART)];
	int err, fd;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s" XP_LOG_PART, name) >= sizeof(temporary))
		return -ENAMETOOLONG;
	if (unlinkat(dir_fd, temporary, 0) && errno != ENOENT) /* left by a crash */
		return -errno;
	fd = xp_own_file_create(dir_fd, temporary, O_RDWR);
	if (fd < 0)
		return fd;
	err = write(arg, fd);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, temporary, dir_fd, name))
		err = -errno;
	if (err)
		unlinkat(dir_fd, temporary, 0);
	return err;
}
