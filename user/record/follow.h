/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared by the files that follow processes: follow.c keeps processes and their images, follow_scan.c finds mapped
 * binaries, follow_attach.c attaches them, follow_launch.c follows the started command. targets.h is the interface for
 * other files.
 */
#ifndef XPROF_RECORD_FOLLOW_H
#define XPROF_RECORD_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "record/messages.h"
#include "record/targets.h"

/* After this many execs in a row, each before its sleds were patched or shortly after, a process is probed. */
#define XP_FOLLOW_PATCH_TRIES 5

/* follow_attach.c */

/* Returns the PID for probes: pid, or 0 for probes in all processes. */
pid_t xp_follow_probe_pid(const struct xp_targets *targets, pid_t pid);
/* Returns whether to continue without probes that the kernel was too busy to attach (-EBUSY). */
bool xp_follow_may_skip_busy(const struct xp_targets *targets);
/* Attaches all sleds. process: NULL with --exec, for all. Returns 0 or -errno with a message (why.h). */
int xp_follow_attach_object(struct xp_targets *targets, struct xp_object *object, struct xp_process *process,
			    struct xp_sled_result *sleds);
void xp_follow_warn_refused(struct xp_object *object, pid_t pid, const struct xp_sled_result *sleds);
/* Adds the object to the process's image and attaches it, unless that was done. Errors as above. */
int xp_follow_add_object(struct xp_targets *targets, struct xp_process *process, struct xp_object *object,
			 const struct xp_mapping *mapping, bool main);

/* follow_scan.c */

static inline bool xp_follow_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev;
}

/* follow.c */

/* Replaces the image of the process by the program that it runs now. Returns 0 or -errno; -ESRCH: it has exited. */
int xp_follow_begin_image(struct xp_targets *targets, pid_t pid, uint64_t tsc);

#endif
