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

#ifndef FUSE_SUPER_MAGIC /* linux/magic.h has it since 5.11 */
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
	/* Accept only those files of root that the target could read: it may have bind-mounted any of them there. */
	if (st.st_nlink != 1 || (st.st_uid != status->euid && (st.st_uid != 0 || !(st.st_mode & S_IROTH))))
		return -EPERM;
	/* The recording, which belongs to xprof's user, gets the contents. This checks without capabilities. */
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
	/* After the lookup: confirms that the path was found in this process's root. */
	err = xp_target_status(&status, pid, start_time);
	if (!err)
		err = judge(place, &status, bytes_max);
	if (!err)
		err = xp_open_format(O_RDONLY | O_NONBLOCK | O_NOCTTY, "/proc/self/fd/%d", place);
	close(place);
	return err;
}
