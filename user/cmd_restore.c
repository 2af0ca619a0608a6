// SPDX-License-Identifier: BSD-2-Clause
/* `xprof restore -p PID`: restores the code of a process after xprof was killed. */
#include <errno.h>

#include "base/why.h"
#include "commands.h"
#include "kernel/privilege.h"
#include "sled/breakpoints.h"
#include "sled/patch.h"
#include "sled/ring_pages.h"
#include "sled/stub_map.h"
#include "sled/unpatch.h"
#include "target/target.h"

/* Frees the call rings, which the killed xprof could not free. */
static void give_memory_back(pid_t pid)
{
	struct xp_stub_map stubs;
	bool ours = true;
	pid_t holder;

	if (xp_stub_map_read(&stubs, pid))
		return;
	for (size_t i = 0; i < stubs.count; i++)
		ours &= !xp_stub_lock(&stubs.list[i], pid, &holder);
	if (ours)
		xp_patch_clear_process(pid);
	for (size_t i = 0; i < stubs.count && ours; i++)
		if (stubs.list[i].rings >= 0)
			xp_ring_pages_give_back(stubs.list[i].rings);
	xp_stub_map_free(&stubs);
}

static enum xp_exit restore(pid_t pid)
{
	struct xp_unpatched unpatched;
	struct xp_target_info info;
	size_t breakpoints = 0;
	int err = xp_target_check(pid, &info);

	if (!err && xp_privilege_patch(pid) == -EACCES)
		err = xp_why_set(-EACCES, "process %d (%s): %s; run `sudo xprof restore -p %d`", pid, info.comm,
				 xp_why(-EACCES), pid);
	if (!err)
		err = xp_unpatch_process(pid, false, &unpatched) ?: xp_breakpoints_remove(pid, &breakpoints);
	if (err) {
		xp_error("%s", xp_why(err));
		return err == -EACCES ? XP_EXIT_ENVIRONMENT : XP_EXIT_FAILED;
	}
	give_memory_back(pid);
	if (unpatched.sleds) {
		xp_info("process %d (%s): restored %zu sled%s in %zu file%s; the process was stopped for %.1f ms", pid,
			info.comm, unpatched.sleds, xp_plural_s(unpatched.sleds), unpatched.objects,
			xp_plural_s(unpatched.objects), unpatched.ns / 1e6);
		xp_info("  `xprof recover DIR` makes the files of its recording; up to a second of calls before the "
			"kill is missing");
	} else {
		xp_info("process %d (%s): no sleds patched by xprof", pid, info.comm);
	}
	if (breakpoints)
		xp_info("  removed %zu breakpoints that the kernel had left when xprof was killed", breakpoints);
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
