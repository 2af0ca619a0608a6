// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "commands.h"

enum xp_exit xp_cmd_version(const struct xp_options *options)
{
	(void)options;
	xp_put_line(stdout, "xprof %s (libbpf %u.%u)", XPROF_VERSION, libbpf_major_version(), libbpf_minor_version());
	if (fflush(stdout) || ferror(stdout))
		return xp_fail(XP_EXIT_FAILED, "cannot write to standard output: %s", strerror(errno));
	return XP_EXIT_OK;
}
