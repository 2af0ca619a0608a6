// SPDX-License-Identifier: BSD-2-Clause
#include "target/untrusted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/small_file.h"
#include "target/status.h"

#ifndef FUSE_SUPER_MAGIC /* in linux/magic.h since Linux 5.11 */
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* O_PATH has no side effects: opening a FIFO or a device could have some. */
int xp_target_path_find(pid_t pid, const char *path)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	int root = xp_open_format(O_PATH | O_DIRECTORY, "/proc/%d/root", pid), fd;

	if (root < 0)
		return root == -ENOENT ? -ESRCH : root;
	fd = (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
	if (fd < 0)
		fd = -errno;
	close(root);
	return fd;
}

static int judge(int fd, const struct xp_target_status *status, uint64_t bytes_max)
{
	struct statfs fs;
	struct stat st;

	if (fstat(fd, &st) || fstatfs(fd, &fs))
		return -errno;
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	if (!S_ISREG(st.st_mode) || fs.f_type == FUSE_SUPER_MAGIC)
		return -EINVAL;
	/*
	 * Accept root's files only if the target could read them, because it may have bind-mounted any file of root
	 * there.
	 */
	if (st.st_nlink != 1 || (st.st_uid != status->euid && (st.st_uid != 0 || !(st.st_mode & S_IROTH))))
		return -EPERM;
	/*
	 * Check access without capabilities, because the recording, which xprof's user can read, will contain the
	 * contents.
	 */
	if (faccessat(fd, "", R_OK, AT_EMPTY_PATH))
		return -EACCES;
	return (uint64_t)st.st_size > bytes_max ? -EFBIG : 0;
}

int xp_target_file_open(pid_t pid, uint64_t start_time, const char *path, uint64_t bytes_max)
{
	int place = xp_target_path_find(pid, path), err;
	struct xp_target_status status;

	if (place < 0)
		return place;
	/* Check the process after the lookup: this confirms that the path was looked up in the root of this process. */
	err = xp_target_status(&status, pid, start_time);
	if (!err)
		err = judge(place, &status, bytes_max);
	if (!err)
		err = xp_open_format(O_RDONLY | O_NONBLOCK | O_NOCTTY, "/proc/self/fd/%d", place);
	close(place);
	return err;
}
