// SPDX-License-Identifier: BSD-2-Clause
#include "log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Under sudo, the log belongs to whom the directory belongs. Where that cannot be, it stays root's: no reason to fail.
 */
static void give_to_owner(int fd, int dir_fd)
{
	struct stat dir;

	if (!geteuid() && !fstat(dir_fd, &dir) && fchown(fd, dir.st_uid, dir.st_gid))
		return;
}

int xp_log_file_make(int dir_fd, const char *name, int (*write)(void *arg, int fd), void *arg)
{
	char temporary[XP_LOG_NAME_MAX + sizeof(XP_LOG_PART)];
	int err, fd;

	if ((size_t)snprintf(temporary, sizeof(temporary), "%s" XP_LOG_PART, name) >= sizeof(temporary))
		return -ENAMETOOLONG;
	if (unlinkat(dir_fd, temporary, 0) && errno != ENOENT) /* left by a crash */
		return -errno;
	fd = openat(dir_fd, temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	give_to_owner(fd, dir_fd);
	err = write(arg, fd);
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir_fd, temporary, dir_fd, name))
		err = -errno;
	if (err)
		unlinkat(dir_fd, temporary, 0);
	return err;
}
