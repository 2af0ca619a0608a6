/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes files whose last close must not be interrupted by SIGKILL: BPF links with uprobes (shield.h).
 *
 * A task that is killed while it closes a link leaves breakpoints in the target. An exiting task does not: it has no
 * pending signal when the kernel closes its files. So xprof creates a task for each file. The task has its own
 * descriptor table, drops all other descriptors, waits until the caller has closed the file, and exits. The exit of the
 * task closes the file, even if the caller or the task is killed.
 */
#ifndef XPROF_BASE_RELEASE_H
#define XPROF_BASE_RELEASE_H

#include <stddef.h>

/* Number of files that are closed at the same time. */
#define XP_RELEASED_TOGETHER 16

/*
 * Closes the files and returns when they are closed. Signals stay pending meanwhile. If a task cannot be created, the
 * caller closes the file. Only one thread may call this at a time, because each task briefly holds all files of the
 * process.
 */
void xp_release_files(const int *fds, size_t count);

#endif
