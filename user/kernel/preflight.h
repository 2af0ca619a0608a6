/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks what this machine supports, by an attempt where possible, before xprof touches a target. `xprof record`
 * refuses to run if a required feature is missing, and prints the remedy. `xprof doctor` prints all checks.
 */
#ifndef XPROF_KERNEL_PREFLIGHT_H
#define XPROF_KERNEL_PREFLIGHT_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

enum xp_check_state {
	XP_CHECK_OK,
	XP_CHECK_DEGRADED, /* recording works, but slower or less accurate */
	XP_CHECK_MISSING,  /* recording does not work */
	XP_CHECK_UNTESTED, /* cannot be tried without privilege */
};

struct xp_check_result {
	const char *name;
	const char *need;   /* feature that requires it */
	const char *remedy; /* a sentence; NULL if there is nothing to do or no remedy */
	enum xp_check_state state;
	char detail[160]; /* result of the check */
};

#define XP_CHECKS_MAX 24

struct xp_preflight {
	struct xp_check_result results[XP_CHECKS_MAX];
	size_t count;
	bool privileged;
	bool has_uprobe_multi; /* BPF_TRACE_UPROBE_MULTI links, Linux 6.6 */
	bool has_uprobe;       /* perf events of the uprobe PMU, one per probe */
};

/* Runs all checks, which takes a few milliseconds. Always succeeds, and leaves no file open. */
void xp_preflight_run(struct xp_preflight *preflight);

/* Prints each missing feature once, with its remedy. Returns XP_EXIT_OK or XP_EXIT_ENVIRONMENT. */
enum xp_exit xp_preflight_require(const struct xp_preflight *preflight);

/* Loads a program that only returns 0. Returns a descriptor or -errno. */
int xp_load_nothing(enum bpf_prog_type type, unsigned int attach_type);

/* "ok", "degraded", "missing", "untested". */
const char *xp_check_state_name(enum xp_check_state state);

/* For tests. */

/* "6.18.44-foo" -> 6, 18. Returns false if this is not a version. */
bool xp_kernel_version_parse(const char *release, unsigned int *major, unsigned int *minor);
/* The selected word of /sys/kernel/security/lockdown, "none [integrity] confidentiality"; "" if no word is selected. */
void xp_lockdown_parse(const char *text, char *mode, size_t mode_size);

#endif
