/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes files whose last close is work that SIGKILL must not interrupt: BPF links with uprobes (shield.h).
 *
 * A task that is killed while it closes a link leaves breakpoints in the target. An exiting task does not: it has no
 * pending signal when the kernel closes its files. So for each file a task is created that has its own table of
 * descriptors, drops all other descriptors, waits until the caller has closed the file, and exits. So the exit of a
 * task closes the file, even if the caller or that task is killed.
 */
#ifndef XPROF_BASE_RELEASE_H
#define XPROF_BASE_RELEASE_H

#include <stddef.h>

/* Number of files that are closed at the same time. */
#define XP_RELEASED_TOGETHER 16

/*
 * Closes the files and returns when they are closed. Signals stay pending meanwhile. Closes a file itself if no task
 * can be created. Only one thread may call this at a time, because each task holds all files of the process for a
 * moment.
 */
void xp_release_files(const int *fds, size_t count);

#endif
