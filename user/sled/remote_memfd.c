// SPDX-License-Identifier: BSD-2-Clause
#include "sled/remote_memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/code_places.h"
#include "base/small_file.h"
#include "base/util.h"
#include "target/status.h"

/* Linux 6.3, commit 105ff5339f49: required if vm.memfd_noexec is set. Debian 12's headers lack it. */
#define MEMFD_EXEC 0x10u

int64_t xp_remote_call(struct xp_remote *remote, long number, const uint64_t args[6])
{
	int64_t result;
	int err = xp_remote_syscall(remote, number, args, &result);

	return err ? err : result;
}

int xp_remote_map(struct xp_remote *remote, const uint64_t args[6])
{
	int64_t mapped = xp_remote_call(remote, SYS_mmap, args);

	return mapped < 0 ? (int)mapped : (uint64_t)mapped == args[0] ? 0 : -EEXIST;
}

/* Whether the file looks like a fresh result of memfd_create(2): unnamed, empty, and owned by this user. */
static bool is_new_memfd(int fd, uid_t uid)
{
	struct stat st, own;
	int memfd = memfd_create(XP_STUB_NAME, MFD_CLOEXEC);
	bool same = memfd >= 0 && !fstat(memfd, &own) && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
		    st.st_dev == own.st_dev && st.st_nlink == 0 && st.st_size == 0 && st.st_uid == uid;

	if (memfd >= 0)
		close(memfd);
	return same;
}

int xp_memfd_reopen(int place)
{
	return xp_open_format(O_RDWR | O_NONBLOCK | O_NOCTTY, "/proc/self/fd/%d", place);
}

/*
 * Opens the file of a descriptor that the process claims to have just created; -EPERM if it is another file. O_PATH has
 * no effect on devices, and xprof writes only if the file passes all checks.
 */
static int open_new(pid_t tid, int remote_fd)
{
	int place = xp_open_format(O_PATH, "/proc/%d/fd/%d", tid, remote_fd), fd;
	struct xp_target_status status;

	if (place < 0)
		return place;
	fd =
	    !xp_thread_status(&status, tid, tid) && is_new_memfd(place, status.fsuid) ? xp_memfd_reopen(place) : -EPERM;
	close(place);
	/* Other shared memory files on the same device cannot be sealed. */
	if (fd >= 0 && fcntl(fd, F_GET_SEALS) != 0) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

int xp_remote_memfd(struct xp_remote *remote, uint64_t name, int *remote_fd)
{
	const uint64_t with_exec[6] = { name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_EXEC };
	const uint64_t without[6] = { name, MFD_CLOEXEC | MFD_ALLOW_SEALING };
	int64_t created = xp_remote_call(remote, SYS_memfd_create, with_exec);
	int fd;

	if (created == -EINVAL)
		created = xp_remote_call(remote, SYS_memfd_create, without);
	if (created < 0)
		return (int)created;
	*remote_fd = (int)created;
	fd = open_new(xp_remote_caller(remote), *remote_fd);
	if (fd < 0)
		xp_remote_close(remote, *remote_fd);
	return fd;
}

int xp_remote_close(struct xp_remote *remote, int remote_fd)
{
	return XP_MIN((int)xp_remote_call(remote, SYS_close, (uint64_t[6]){ (uint64_t)remote_fd }), 0);
}
