// SPDX-License-Identifier: BSD-2-Clause
/* `xprof restore -p PID`: sleds that a killed xprof has left patched. */
#include <errno.h>

#include "commands.h"
#include "target.h"
#include "unpatch.h"

static bool restore(pid_t pid)
{
	struct xp_unpatched unpatched;
	struct xp_target_info info;
	char why[512];
	int err = xp_target_check(pid, &info, why, sizeof(why));

	if (!err)
		err = xp_unpatch_process(pid, false, &unpatched, why, sizeof(why));
	if (err) {
		xp_error("%s", why);
		return false;
	}
	if (unpatched.sleds)
		xp_info("process %d (%s): %zu sleds put back in %zu files; it stood still for %.1f ms", pid, info.comm,
			unpatched.sleds, unpatched.objects, unpatched.ns / 1e6);
	else
		xp_info("process %d (%s): no sled of it is patched by xprof", pid, info.comm);
	return true;
}

enum xp_exit xp_cmd_restore(const struct xp_options *options)
{
	bool failed = false;

	for (size_t i = 0; i < options->pids.count; i++)
		failed |= !restore(options->pids.pids[i]);
	return failed ? XP_EXIT_FAILED : XP_EXIT_OK;
}
