/* SPDX-License-Identifier: BSD-2-Clause */
/* Reports a failure: the reason, the remedy, and the exit code. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "record/recording.h"

const char *xp_failure_remedy(int err)
{
	switch (err) {
	case -ENOSPC:
	case -EDQUOT:
		return "; make room there or give another -o";
	case -EFBIG:
		return "; raise `ulimit -f` or give another -o";
	default:
		return "";
	}
}

int xp_failure_exit_code(int err)
{
	switch (err) {
	case -EPERM:
	case -EACCES:
	case -EOPNOTSUPP:
	case -EMFILE:
		return XP_EXIT_ENVIRONMENT;
	default:
		return XP_EXIT_FAILED;
	}
}

int xp_failure_report(struct xp_recording *recording, int err, const char *doing)
{
	if (recording->why[0])
		xp_error("%s", recording->why);
	else
		xp_error("%s: %s%s", doing, strerror(-err), xp_failure_remedy(err));
	return xp_failure_exit_code(err);
}
