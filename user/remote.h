/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process whose threads all stand still, by ptrace: its memory can be written and one of its threads be made to
 * execute system calls. Nothing of it is noticed by the process but the time: registers, signal masks and pending
 * signals are those from before, system calls that the stop has interrupted are restarted, those included for which
 * the kernel itself would answer EINTR (signal(7), "Interruption of system calls and library functions by stop
 * signals").
 *
 * Calls that stop a process belong into a task of their own (xp_shielded()), which a kill of xprof does not reach and
 * whose end lets go of every thread, also of those that could not be stopped in time.
 */
#ifndef XPROF_REMOTE_H
#define XPROF_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_remote;

/*
 * Stops all threads of pid, new ones included. Errors, with a sentence in why: -ESRCH it is gone; -EBUSY a thread does
 * not stop within the time (it waits in the kernel for a disk, or for a child of vfork()): try again; -EPERM it is
 * traced already, or may not be; -ENOMEM. On error everything is let go, at the latest with the end of the calling
 * task.
 */
int xp_remote_stop(struct xp_remote **remote, pid_t pid, uint64_t timeout_ns, char *why, size_t why_size);
/*
 * The same of a process that the caller traces and holds (launch.h), and that has one thread. It stands still after the
 * release too. While it is worked on, it dies with the caller.
 */
int xp_remote_hold(struct xp_remote **remote, pid_t pid, char *why, size_t why_size);
/* Lets them run. NULL is fine. How long the process stood still, in ns. */
uint64_t xp_remote_release(struct xp_remote *remote);

/* Memory, write-protected too: private pages are copied first, files never change. 0 or -errno, -EIO when short. */
int xp_remote_read(struct xp_remote *remote, uint64_t address, void *to, size_t size);
int xp_remote_write(struct xp_remote *remote, uint64_t address, const void *from, size_t size);

/*
 * Has a thread execute a system call. at: the address of a `syscall` instruction in executable memory. *result: what
 * the call returns. -EAGAIN: no thread is in a state for it now, try again later; -ESRCH, -EBUSY (it takes too long:
 * nothing more can be done with this process), -EOPNOTSUPP (the process redirects its system calls).
 */
int xp_remote_syscall(struct xp_remote *remote, uint64_t at, long number, const uint64_t args[6], int64_t *result);
/* The thread that has executed the last one: its files are those that the call worked on. */
pid_t xp_remote_caller(const struct xp_remote *remote);

#endif
