/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The capabilities that xprof has and those that it lacks. What root may do needs no look at these; a user who was
 * given some of them is told which one is missing.
 */
#ifndef XPROF_PRIVILEGE_H
#define XPROF_PRIVILEGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct xp_privilege {
	unsigned int capability;
	const char *name; /* "CAP_BPF" */
	const char *use;  /* what it enables */
	bool required;	  /* nothing is recorded without it */
};

extern const struct xp_privilege xp_privileges[];
extern const size_t xp_privilege_count;

/* Whether it is in effect. CAP_SYS_ADMIN stands for those that were once a part of it. */
bool xp_privilege_has(unsigned int capability);

/*
 * Whether the sleds of process pid can be looked at, for probes, or written, which patching does.
 * 0, -ESRCH, or -EACCES with a sentence in why that names the capability.
 */
int xp_privilege_probe(pid_t pid, char *why, size_t why_size);
int xp_privilege_patch(pid_t pid, char *why, size_t why_size);
/* Probes on each process that runs a file: that those of other users can be looked at. */
int xp_privilege_probe_all(char *why, size_t why_size);

/*
 * Gives up all capabilities for good, which its children then lack too: for commands that need none. Root, who has
 * them from its id and needs them to read its files, keeps them.
 */
void xp_privilege_drop(void);

#endif
