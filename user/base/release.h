/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Closes files whose last close is work that SIGKILL must not interrupt: BPF links with uprobes (shield.h).
 *
 * A task that is killed while it closes a link leaves breakpoints in the target. An exiting task does not: it has no
 * pending signal when the kernel closes its files. So for each file a task is created that has its own table of
 * descriptors, drops all other descriptors, waits until the caller has closed the file, and exits. Whoever is killed
 * meanwhile, the file is closed by the exit of a task.
 */
#ifndef XPROF_BASE_RELEASE_H
#define XPROF_BASE_RELEASE_H

#include <stddef.h>

/* So many files are closed at the same time. */
#define XP_RELEASED_TOGETHER 16

/*
 * Closes the files and returns when they are closed. Signals stay pending meanwhile. The caller closes a file itself if
 * no task can be created. Not for several threads at the same time: each task has all of their files for a moment.
 */
void xp_release_files(const int *fds, size_t count);

#endif
