// SPDX-License-Identifier: BSD-2-Clause
/* `xprof restore -p PID`: restores sleds that a killed xprof has left patched. */
#include <errno.h>

#include "commands.h"
#include "kernel/privilege.h"
#include "sled/unpatch.h"
#include "target/target.h"

static enum xp_exit restore(pid_t pid)
{
	struct xp_unpatched unpatched;
	struct xp_target_info info;
	char why[512], lacks[256];
	int err = xp_target_check(pid, &info, why, sizeof(why));

	if (!err && xp_privilege_patch(pid, lacks, sizeof(lacks)) == -EACCES) {
		snprintf(why, sizeof(why), "process %d (%s): %s; run `sudo xprof restore -p %d`", pid, info.comm, lacks,
			 pid);
		err = -EACCES;
	}
	if (!err)
		err = xp_unpatch_process(pid, false, &unpatched, why, sizeof(why));
	if (err) {
		xp_error("%s", why);
		return err == -EACCES ? XP_EXIT_ENVIRONMENT : XP_EXIT_FAILED;
	}
	if (unpatched.sleds)
		xp_info("process %d (%s): restored %zu sleds in %zu files; the process was stopped for %.1f ms", pid,
			info.comm, unpatched.sleds, unpatched.objects, unpatched.ns / 1e6);
	else
		xp_info("process %d (%s): no sleds patched by xprof", pid, info.comm);
	return XP_EXIT_OK;
}

enum xp_exit xp_cmd_restore(const struct xp_options *options)
{
	enum xp_exit code = XP_EXIT_OK;

	for (size_t i = 0; i < options->pids.count; i++) {
		enum xp_exit its_code = restore(options->pids.pids[i]);

		code = code == XP_EXIT_OK ? its_code : code;
	}
	return code;
}
