/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes whose calls are counted before a recording: the listed processes; with --follow also their descendants,
 * because future children will do the same work; with --exec the processes that run the file.
 */
#ifndef XPROF_RECORD_FAMILY_H
#define XPROF_RECORD_FAMILY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_targets;

struct xp_family_member {
	pid_t pid;
	uint64_t cpu_ns; /* CPU time when it was found; 0: it was gone */
};

struct xp_family {
	struct xp_family_member *list;
	size_t count, room;
};

/* Finds the processes. The family must be empty. Returns 0 or -errno: -ENOMEM, or the error of reading /proc. */
int xp_family_find(struct xp_family *family, const struct xp_targets *targets);
/* The CPU time that the processes of `now` have used since `before`; those that have ended since do not count. */
uint64_t xp_family_cpu_ns(const struct xp_family *before, const struct xp_family *now);
/* How many threads they have. */
unsigned int xp_family_threads(const struct xp_family *family);
void xp_family_free(struct xp_family *family);

#endif
