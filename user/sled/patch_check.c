// SPDX-License-Identifier: BSD-2-Clause
#include "sled/patch_check.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/privilege.h"
#include "target/frozen.h"
#include "target/status.h"

static int check_thread(pid_t pid, pid_t tid, pid_t tracer, char *why, size_t why_size)
{
	struct xp_target_status status;

	if (xp_thread_status(&status, pid, tid))
		return 0; /* the thread has ended */
	if (status.tracer && status.tracer != tracer) {
		snprintf(why, why_size, "process %d is attached to it (a debugger or strace)", status.tracer);
		return -EOPNOTSUPP;
	}
	if (status.seccomp) {
		snprintf(why, why_size, "it is under seccomp, which may reject the system calls that patching needs");
		return -EOPNOTSUPP;
	}
	return 0;
}

static int check_threads(pid_t pid, pid_t tracer, char *why, size_t why_size)
{
	struct dirent *entry;
	char path[64];
	int err = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir) {
		snprintf(why, why_size, "process %d has ended", pid);
		return -ESRCH;
	}
	while (!err && (entry = readdir(dir)))
		if (isdigit((unsigned char)entry->d_name[0]))
			err = check_thread(pid, atoi(entry->d_name), tracer, why, why_size);
	closedir(dir);
	return err;
}

int xp_patch_check_sharing(pid_t pid, char *why, size_t why_size)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		pid_t other = atoi(entry->d_name);

		if (!isdigit((unsigned char)entry->d_name[0]) || other == pid)
			continue;
		if (syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0) == 0) {
			snprintf(why, why_size, "process %d shares its memory (vfork)", other);
			err = -EBUSY;
		}
	}
	closedir(dir);
	return err;
}

int xp_patch_check(pid_t pid, pid_t tracer, char *why, size_t why_size)
{
	int err = xp_privilege_patch(pid, why, why_size);

	if (err == -EACCES)
		return err;
	err = check_threads(pid, tracer, why, why_size);
	if (!err && xp_target_frozen(pid)) {
		snprintf(why, why_size, "its control group is frozen (cgroup.freeze, docker pause): thaw it first");
		err = -EOPNOTSUPP;
	}
	return err ? err : xp_patch_check_sharing(pid, why, why_size);
}
