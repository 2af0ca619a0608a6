/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Work that SIGKILL must not interrupt.
 *
 * The kernel cannot take a breakpoint out of a target's memory while the task that asks for it has a fatal signal
 * pending: it gives up with "failed to unregister, leaking uprobe" (uprobe_unregister_nosync(),
 * kernel/events/uprobes.c; get_user_pages() returns -EINTR), and the target pays for the breakpoint until it ends. So a
 * kill in the middle of attaching or detaching must hit another task than the one at work. A kill at any other time
 * does no harm: an exiting task has no pending signal when its files are closed.
 */
#ifndef XPROF_SHIELD_H
#define XPROF_SHIELD_H

/*
 * Calls work(arg) in a task of its own that shares memory and files with the caller, who waits for it. When the caller
 * is killed meanwhile, the work goes on to its end, and only then are the shared files closed. Other signals wait until
 * it is done. Returns what work returns, or -errno when there can be no such task: then nothing was done.
 */
int xp_shielded(int (*work)(void *arg), void *arg);

#endif
