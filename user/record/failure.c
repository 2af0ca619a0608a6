/* SPDX-License-Identifier: BSD-2-Clause */
/* What is said when something fails: the reason, the remedy, and the exit code. */
#include <errno.h>
#include <string.h>

#include "record/recording.h"
#include "base/util.h"

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

int xp_failure_report(struct xp_recording *rec, int err, const char *doing)
{
	if (rec->why[0])
		xp_error("%s", rec->why);
	else
		xp_error("%s: %s%s", doing, strerror(-err), xp_failure_remedy(err));
	return xp_failure_exit_code(err);
}
