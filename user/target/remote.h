/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stops all threads of a process with ptrace. Then its memory can be written, and one of its threads can execute system
 * calls. The process loses only the time of the stop: registers, signal masks and pending signals are restored. System
 * calls that the stop interrupted are restarted, even those for which the kernel would return EINTR (signal(7),
 * "Interruption of system calls and library functions by stop signals").
 *
 * Stop a process only in a separate task (xp_shielded()). A kill of xprof does not reach that task. The end of the task
 * releases every thread, including threads that could not be stopped in time.
 *
 * The process is untrusted. Another process of the same user can write to its memory, replace its files and mappings,
 * freeze it, and kill the task that has stopped it. So each wait has a deadline, and the result of a system call is
 * untrusted. If any task dies at any moment, the process continues: the code that executes a system call is followed by
 * rt_sigreturn(2), whose frame on the thread's stack contains the thread's registers and signal mask. Normally the
 * frame is not used: ptrace restores the registers, and the previous contents of the code and the frame are written
 * back.
 */
#ifndef XPROF_TARGET_REMOTE_H
#define XPROF_TARGET_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_remote;

/*
 * Stops all threads of pid, including new ones. Returns 0 or -errno with a sentence (why.h): -ESRCH if the process has
 * ended; -EBUSY if a thread does not stop in time, because it waits in the kernel for a disk or for a child of vfork():
 * try again; -EPERM if the process is already traced, or must not be traced; -ENOMEM. On error all threads are
 * released, at the latest when the calling task ends.
 */
int xp_remote_stop(struct xp_remote **remote, pid_t pid, uint64_t timeout_ns);
/*
 * Like xp_remote_stop(), for a process with one thread that the caller traces and holds (launch.h). The process stays
 * stopped after the release.
 */
int xp_remote_hold(struct xp_remote **remote, pid_t pid);
/* Resumes the threads. NULL is allowed. Returns how long the process was stopped, in ns. */
uint64_t xp_remote_release(struct xp_remote *remote);

/* Returns 0 or an error of memory.h; also -EIO if fewer bytes could be read. */
int xp_remote_read(struct xp_remote *remote, uint64_t address, void *to, size_t size);
/*
 * Writes memory, even write-protected memory. Private pages are copied first; files never change. Later words are
 * written first. After a kill in the middle, each aligned word is either old or new. Returns 0 or -errno: -EIO if a
 * page is not mapped, -ESRCH.
 *
 * This is the only function that writes to the text of a process. The calling task must be the tracer of the process:
 * with CONFIG_PROC_MEM_FORCE_PTRACE (6.12, commit 41e8149c8892; Debian's default since 7.1), only the tracer may write
 * /proc/TID/mem of the traced thread TID. With CONFIG_PROC_MEM_NO_FORCE, nobody may, and this uses PTRACE_POKETEXT: 0.3
 * us per 8 bytes.
 *
 * The write can block, although the child of memory.h has just read the same bytes: a process that shares the memory
 * can take its lock in between. SIGALRM then ends the calling task after XP_REMOTE_WRITE_S.
 */
#define XP_REMOTE_WRITE_S 5
/* The sentence for -EIO if neither method works. */
#define XP_REMOTE_NO_WRITES                                                                                            \
	"the kernel refuses writes to code, by ptrace and through /proc/PID/mem: boot with "                           \
	"proc_mem.force_override=ptrace"
int xp_remote_write(struct xp_remote *remote, uint64_t address, const void *from, size_t size);
/* Returns whether a write needed PTRACE_POKETEXT. */
bool xp_remote_pokes(const struct xp_remote *remote);
/*
 * Tests on a child of xprof whether code can be written. Returns 0, and sets *pokes if that needed PTRACE_POKETEXT; or
 * -errno with a sentence (why.h).
 */
int xp_remote_try(bool *pokes);

/*
 * Prepares a thread to execute system calls. scratch: the address of XP_REMOTE_SCRATCH_BYTES of its text for code; no
 * thread may execute them otherwise. text: up to XP_REMOTE_TEXT_BYTES, including the terminator. The system calls find
 * the copy of text at *text_address. Returns 0 or -errno with a sentence (why.h): -EAGAIN if no thread is in a suitable
 * state: try again later; -EOPNOTSUPP if the process redirects its system calls, has a shadow stack, or cannot be
 * written; or an error of memory access.
 */
#define XP_REMOTE_SCRATCH_BYTES 9
#define XP_REMOTE_TEXT_BYTES 16
int xp_remote_begin_calls(struct xp_remote *remote, uint64_t scratch, const char *text, uint64_t *text_address);
/*
 * Makes the thread execute a system call. *result is the untrusted result of the call. Any error is final: no more
 * calls are possible. Returns 0 or -errno: -ETIMEDOUT if the call takes too long, -ECANCELED if xprof is to end
 * (interrupt.h), -EPROTO if an unexpected event happened instead of a system call, -ESRCH.
 */
int xp_remote_syscall(struct xp_remote *remote, long number, const uint64_t args[6], int64_t *result);
/* Returns whether a thread of the stopped process is about to execute an instruction in [start, end). */
bool xp_remote_is_in(const struct xp_remote *remote, uint64_t start, uint64_t end);
/* Returns the thread that executes the calls. The calls use the descriptors of this thread. */
pid_t xp_remote_caller(const struct xp_remote *remote);
/* Restores the thread and the borrowed memory, as xp_remote_release() does. */
void xp_remote_end_calls(struct xp_remote *remote);

#endif
