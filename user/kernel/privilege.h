/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capabilities that xprof has. Root has all of them. For other users, error messages name the missing capability.
 */
#ifndef XPROF_KERNEL_PRIVILEGE_H
#define XPROF_KERNEL_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xp_privilege {
	unsigned int capability;
	const char *name; /* "CAP_BPF" */
	const char *use;  /* feature that it enables */
	bool required;	  /* true: without this capability, nothing can be recorded */
};

extern const struct xp_privilege xp_privileges[];
extern const size_t xp_privilege_count;

/* Returns whether the capability is effective. CAP_SYS_ADMIN implies the capabilities that were split off from it. */
bool xp_privilege_has(unsigned int capability);

/*
 * Return whether xprof may read the sleds of process pid (for probes) or write them (for patching): 0 or -errno. -ESRCH
 * if the process has ended, -EACCES with a sentence (why.h) that names the missing capability.
 */
int xp_privilege_probe(pid_t pid);
int xp_privilege_patch(pid_t pid);
/* Like xp_privilege_probe(), for probes on all processes that run a file, including other users' processes. */
int xp_privilege_probe_all(void);

/*
 * Permanently drops all capabilities, also for children. Commands that need no capability call this. Root keeps its
 * capabilities, because it needs them to read its files.
 */
void xp_privilege_drop(void);

/*
 * Like xp_privilege_drop(). Root also becomes the user who ran sudo, if there is one, without supplementary groups.
 * Returns 0 or -errno.
 */
int xp_privilege_to_user(void);

#endif
