/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work that SIGKILL must not interrupt.
 *
 * The kernel cannot remove a breakpoint from a target's memory while the requesting task has a fatal signal pending. It
 * gives up with "failed to unregister, leaking uprobe" (uprobe_unregister_nosync(), kernel/events/uprobes.c;
 * get_user_pages() returns -EINTR), and the target pays for the breakpoint until it ends. So a kill in the middle of
 * attaching must hit a task other than the one at work. A kill at any other time does no harm: an exiting task has no
 * pending signal when its files are closed. Probes are detached in that way (release.h).
 */
#ifndef XPROF_BASE_SHIELD_H
#define XPROF_BASE_SHIELD_H

/*
 * Calls work(arg) in a separate task that shares memory and files with the caller, and waits for it. If the caller is
 * killed meanwhile, the work continues to its end, and only then are the shared files closed. Other signals stay
 * pending until the work is done. Returns the result of work; -errno if the task cannot be created: then nothing was
 * done; or -ECHILD if the task was killed.
 */
int xp_shielded(int (*work)(void *arg), void *arg);

#endif
