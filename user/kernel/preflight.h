/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine can do, found by trying where that is possible, before a target is touched: `xprof record` refuses
 * with the remedy, `xprof doctor` prints it all.
 */
#ifndef XPROF_PREFLIGHT_H
#define XPROF_PREFLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

enum xp_check_state {
	XP_CHECK_OK,
	XP_CHECK_DEGRADED, /* recording works, but slower or less exact */
	XP_CHECK_MISSING,  /* recording does not work */
	XP_CHECK_UNTESTED, /* cannot be tried without privilege */
};

struct xp_check_result {
	const char *name;
	const char *need;   /* what it is needed for */
	const char *remedy; /* a sentence; NULL when there is nothing to do or nothing that helps */
	enum xp_check_state state;
	char detail[160]; /* what was found */
};

#define XP_CHECKS_MAX 24

struct xp_preflight {
	struct xp_check_result results[XP_CHECKS_MAX];
	size_t count;
	bool privileged;
	bool has_uprobe_multi; /* BPF_TRACE_UPROBE_MULTI links, Linux 6.6 */
	bool has_uprobe;       /* perf events of the uprobe PMU, one per probe */
	bool has_tsc;	       /* the msr PMU's tsc event, see clock.h */
};

/* Runs all checks: some milliseconds. Cannot fail; leaves nothing open. */
void xp_preflight_run(struct xp_preflight *preflight);

/* Prints what is missing, each once with its remedy. XP_EXIT_OK or XP_EXIT_ENVIRONMENT. */
enum xp_exit xp_preflight_require(const struct xp_preflight *preflight);

/* "ok", "degraded", "missing", "untested". */
const char *xp_check_state_name(enum xp_check_state state);

/* For tests. */

/* "6.18.44-foo" -> 6, 18. False: no version. */
bool xp_kernel_version_parse(const char *release, unsigned int *major, unsigned int *minor);
/* The chosen word of /sys/kernel/security/lockdown, "none [integrity] confidentiality"; "" when there is none. */
void xp_lockdown_parse(const char *text, char *mode, size_t mode_size);

#endif
