// SPDX-License-Identifier: BSD-2-Clause
#include "kernel/privilege.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/own_file.h"
#include "base/small_file.h"
#include "base/util.h"
#include "base/why.h"
#include "target/memory_window.h"

#define INIT_PID 1

const struct xp_privilege xp_privileges[] = {
	{ CAP_BPF, "CAP_BPF", "BPF programs, in every recording", true },
	{ CAP_PERFMON, "CAP_PERFMON", "samples, probes, whatever perf_event_paranoid is", true },
	{ CAP_SYS_PTRACE, "CAP_SYS_PTRACE", "names, mappings, memory and JIT code of processes", true },
	{ CAP_CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", "patched sleds; deleted files and those of containers",
	  false },
	{ CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH",
	  "sleds of other users' processes, --exec, --follow; stacks through unreadable files", false },
	{ CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "patched sleds of other users' processes", false },
	{ CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "sleds before Linux 6.6, and --uprobes single", false },
	{ CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", "more open files than the hard limit, for --uprobes single", false },
};
const size_t xp_privilege_count = XP_ARRAY_SIZE(xp_privileges);

/* ---- our capabilities ---- */

static bool is_effective(const struct __user_cap_data_struct *data, unsigned int capability)
{
	return data[capability / 32].effective & 1u << capability % 32;
}

/* Linux 5.8 (commits a17b53c4a4b5, 980737282232) and 5.9 split these off from CAP_SYS_ADMIN. */
static bool is_part_of_admin(unsigned int capability)
{
	return capability == CAP_BPF || capability == CAP_PERFMON || capability == CAP_CHECKPOINT_RESTORE;
}

bool xp_privilege_has(unsigned int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return false;
	return is_effective(data, capability) || (is_part_of_admin(capability) && is_effective(data, CAP_SYS_ADMIN));
}

void xp_privilege_drop(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = { 0 };

	/* The kernel also removes the capabilities that are no longer permitted from the ambient set. */
	if (geteuid() != 0)
		syscall(SYS_capset, &header, none);
}

/* ---- what a process requires ---- */

int xp_privilege_to_user(void)
{
	uid_t uid;
	gid_t gid;

	if (xp_own_file_user(&uid, &gid) && (setgroups(0, NULL) || setgid(gid) || setuid(uid)))
		return -errno;
	xp_privilege_drop();
	return 0;
}

/*
 * Sets the error message if a missing capability is the reason why the memory of a process cannot be opened. Files of
 * other users require CAP_DAC_READ_SEARCH for reading, CAP_DAC_OVERRIDE for writing. Other obstacles, such as
 * kernel.yama.ptrace_scope, are reported when the access fails.
 */
static int say_missing(pid_t pid, bool write)
{
	const char *name = xp_privilege_has(CAP_SYS_PTRACE) ? NULL : "CAP_SYS_PTRACE";
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	if (faccessat(AT_FDCWD, path, write ? R_OK | W_OK : R_OK, AT_EACCESS))
		name = write ? "CAP_DAC_OVERRIDE" : "CAP_DAC_READ_SEARCH";
	if (!name)
		return 0;
	return xp_why_set(-EACCES, "its memory cannot be %s without %s: it belongs to another user or is not dumpable",
			  write ? "written" : "read", name);
}

int xp_privilege_probe(pid_t pid)
{
	struct xp_memory_window *window;
	int err;

	/* Returns early for root: a target may end before its memory could be opened. */
	if (xp_privilege_has(CAP_DAC_READ_SEARCH) || xp_privilege_has(CAP_DAC_OVERRIDE))
		return 0;
	err = xp_memory_window_open(&window, pid);
	if (err == -EACCES || err == -EPERM)
		return say_missing(pid, false);
	if (!err)
		xp_memory_window_free(window);
	return err;
}

int xp_privilege_probe_all(void)
{
	int err = xp_privilege_probe(INIT_PID);

	if (err == -EACCES)
		xp_why_set(err,
			   "probes on all processes that run a file require CAP_DAC_READ_SEARCH, to check first that "
			   "no other user's process has patched its sleds");
	return err == -EACCES ? err : 0;
}

int xp_privilege_patch(pid_t pid)
{
	int fd = xp_open_format(O_RDWR, "/proc/%d/mem", pid);

	if (fd == -ENOENT)
		return -ESRCH;
	if (fd < 0 && say_missing(pid, true))
		return -EACCES;
	if (fd >= 0)
		close(fd);
	/*
	 * The stub has no path: a later recording could find it only through map_files/ (proc_map_files_get_link(),
	 * fs/proc/base.c).
	 */
	if (xp_privilege_has(CAP_CHECKPOINT_RESTORE))
		return 0;
	return xp_why_set(-EACCES, "xprof lacks CAP_CHECKPOINT_RESTORE, which it needs to restore them");
}
