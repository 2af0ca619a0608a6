/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs work that SIGKILL must not interrupt.
 *
 * The kernel cannot remove a breakpoint from a target's memory while the requesting task has a fatal signal pending. It
 * gives up with "failed to unregister, leaking uprobe" (uprobe_unregister_nosync(), kernel/events/uprobes.c;
 * get_user_pages() returns -EINTR), and the breakpoint slows the target until it ends. So xprof attaches in a separate
 * task, which a kill of xprof does not hit. At other times a kill is harmless: an exiting task has no pending signal
 * when its files are closed. release.h detaches probes in that way.
 */
#ifndef XPROF_BASE_SHIELD_H
#define XPROF_BASE_SHIELD_H

/*
 * Calls work(arg) in a separate task that shares memory and files with the caller, and waits for the task. If the
 * caller is killed meanwhile, the task first completes the work, and then the shared files are closed. Other signals
 * stay pending until the work is done. Returns the result of work, or -errno if the task cannot be created and nothing
 * was done, or -ECHILD if the task was killed.
 */
int xp_shielded(int (*work)(void *arg), void *arg);

#endif
