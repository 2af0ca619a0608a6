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
 *
 * The process may do its worst meanwhile: another process of the same user can write to its memory, exchange its files
 * and mappings, freeze it, and kill the task that has stopped it. Each wait has a deadline. What a system call answers
 * there is the process's word. And whoever dies at whatever moment, the process goes on: the code that executes a
 * system call there leads to rt_sigreturn(2), with a frame on the thread's stack that has its registers and its signal
 * mask from before. Usually it is not needed: the registers are set by ptrace again, and the code and the frame are
 * overwritten with what was there.
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
 * release too.
 */
int xp_remote_hold(struct xp_remote **remote, pid_t pid, char *why, size_t why_size);
/* Lets them run. NULL is fine. How long the process stood still, in ns. */
uint64_t xp_remote_release(struct xp_remote *remote);

/* Memory, write-protected too: target_memory.h, which has the errors. -EIO also when it is short. */
int xp_remote_read(struct xp_remote *remote, uint64_t address, void *to, size_t size);
int xp_remote_write(struct xp_remote *remote, uint64_t address, const void *from, size_t size);

/*
 * Readies a thread to execute system calls. scratch: the address of XP_REMOTE_SCRATCH_BYTES of its text that no thread
 * executes, for code. text: up to XP_REMOTE_TEXT_BYTES, terminating 0 included, that the calls are to find at
 * *text_address. Errors, with a sentence in why: -EAGAIN: no thread is in a state for it now, try again later;
 * -EOPNOTSUPP the process redirects its system calls, or has a shadow stack; those of memory.
 */
#define XP_REMOTE_SCRATCH_BYTES 9
#define XP_REMOTE_TEXT_BYTES 16
int xp_remote_begin_calls(struct xp_remote *remote, uint64_t scratch, const char *text, uint64_t *text_address,
			  char *why, size_t why_size);
/*
 * Has the thread execute one. *result: what the call returned, which is the process's word. Any error ends it: nothing
 * more can be called. -ETIMEDOUT it takes too long; -ECANCELED xprof is to end (interrupt.h); -EPROTO something else
 * happened than a system call; -ESRCH.
 */
int xp_remote_syscall(struct xp_remote *remote, long number, const uint64_t args[6], int64_t *result);
/* The thread that executes them: its files are those that the calls work on. */
pid_t xp_remote_caller(const struct xp_remote *remote);
/* Puts all back, as xp_remote_release() does. */
void xp_remote_end_calls(struct xp_remote *remote);

#endif
