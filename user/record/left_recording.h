/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recording that a killed xprof has left, found by one of its processes: the call rings tell its directory. The
 * process can write any path there. xprof opens it in a child with a deadline, and believes it only if nobody else can
 * have made what is there: the directory belongs to xprof's user, who alone may write to it, its file system is not
 * served by a process, and a spool in it names the process and the number of the recording.
 */
#ifndef XPROF_RECORD_LEFT_RECORDING_H
#define XPROF_RECORD_LEFT_RECORDING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

struct xp_left_recording {
	int dir_fd;
	dev_t dev;
	ino_t inode;
	char path[PATH_MAX]; /* without symbolic links */
};

/*
 * Returns 0 or -errno with a sentence in why: errors of xp_left_rings_open(), -ENODATA if no spool can tell what the
 * rings hold, -ENOENT if the directory is not there any more, or is not believed. The caller closes dir_fd.
 */
int xp_left_recording_find(struct xp_left_recording *recording, pid_t pid, char *why, size_t why_size);
/* Whether a directory belongs to xprof's user, and nobody else may write to it. */
bool xp_left_recording_is_ours(const struct stat *dir);

#endif
