// SPDX-License-Identifier: BSD-2-Clause
#include "sled/patch_check.h"

#include <dirent.h>
#include <errno.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/interrupt.h"
#include "base/util.h"
#include "base/why.h"
#include "kernel/privilege.h"
#include "target/frozen.h"
#include "target/status.h"
#include "target/target.h"

static int check_thread(pid_t pid, pid_t tid, pid_t tracer)
{
	struct xp_target_status status;

	if (xp_thread_status(&status, pid, tid))
		return 0; /* the thread has ended */
	if (status.tracer && status.tracer != tracer)
		return xp_why_set(-EOPNOTSUPP, "process %d is attached to it (a debugger or strace)", status.tracer);
	if (status.seccomp)
		return xp_why_set(-EOPNOTSUPP,
				  "it is under seccomp, which may reject the system calls that patching needs");
	return 0;
}

static int check_threads(pid_t pid, pid_t tracer)
{
	DIR *list = xp_target_list(pid);
	int err = 0;
	pid_t tid;

	if (!list)
		return xp_why_set(-ESRCH, "process %d has ended", pid);
	while (!err && (tid = xp_target_next(list)))
		err = xp_interrupted() ? -ECANCELED : check_thread(pid, tid, tracer);
	closedir(list);
	return err;
}

int xp_patch_check_sharing(pid_t pid)
{
	DIR *list = xp_target_list(0);
	int err = 0;
	pid_t other;

	if (!list)
		return -errno;
	while (!err && (other = xp_target_next(list)))
		if (other != pid && syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0) == 0)
			err = xp_why_set(-EBUSY, "process %d shares its memory (vfork)", other);
	closedir(list);
	return err;
}

int xp_patch_check(pid_t pid, pid_t tracer)
{
	int err = xp_privilege_patch(pid);

	if (err == -EACCES)
		return err;
	err = check_threads(pid, tracer);
	if (!err && xp_target_frozen(pid))
		err =
		    xp_why_set(-EOPNOTSUPP, "its control group is frozen (cgroup.freeze, docker pause): thaw it first");
	return err ? err : xp_patch_check_sharing(pid);
}
