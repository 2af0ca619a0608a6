// SPDX-License-Identifier: BSD-2-Clause
#include "base/own_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MODE 0600
#define DIR_MODE 0700

/* The mode at its making keeps others out from the start, this makes it whole where the umask takes of the owner's. */
static int set_mode(int fd, mode_t mode)
{
	int err;

	if (!fchmod(fd, mode))
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int xp_own_file_create(int dir_fd, const char *name, int access)
{
	int fd = openat(dir_fd, name, access | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);

	return fd < 0 ? -errno : set_mode(fd, FILE_MODE);
}

int xp_own_dir_create(int dir_fd, const char *name)
{
	struct stat st;
	int fd, err = 0;

	if (mkdirat(dir_fd, name, DIR_MODE))
		return -errno;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		err = -errno;
		unlinkat(dir_fd, name, AT_REMOVEDIR);
		return err;
	}
	/* Who may write to the directory above may have put another one there meanwhile. */
	if (fstat(fd, &st))
		err = -errno;
	else if (st.st_uid != geteuid())
		err = -EEXIST;
	if (!err)
		return set_mode(fd, DIR_MODE);
	close(fd);
	return err;
}
