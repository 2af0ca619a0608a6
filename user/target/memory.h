/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of another process: every read and write of it goes through here. It may change or vanish at any moment,
 * and to touch it may wait for somebody who never answers: the process itself, where it handles the faults of its pages
 * (userfaultfd), or the server of a file that it has mapped (FUSE); such a wait in the kernel may survive even SIGKILL.
 * So a child process reads and writes, which is killed when it takes too long and left to itself when that does not
 * reach it. Nothing is read of a process to which that happened for a while, which is longer each time.
 *
 * One child serves one thread, and the tasks that it waits for (shield.h), also when xprof itself is killed meanwhile.
 */
#ifndef XPROF_TARGET_MEMORY_H
#define XPROF_TARGET_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_target_memory;

/* The child is started with the first read. -ENOMEM. */
int xp_target_memory_new(struct xp_target_memory **memory);
void xp_target_memory_free(struct xp_target_memory *memory);
/* That of the calling thread, which goes with it; NULL: no memory. */
struct xp_target_memory *xp_target_memory_own(void);
/* Starts the child now, so that what follows takes no more time than it must. Errors: of making a process. */
int xp_target_memory_start(struct xp_target_memory *memory);

/*
 * 0 when all of it could be read; -EFAULT part of it is not mapped, -ESRCH gone, -EPERM; -ETIMEDOUT reading took too
 * long, now or before; those of making a process. memory NULL: only of this process, without a child.
 */
int xp_target_memory_read(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);
/* How much there is of it from there on, at most size bytes; -EFAULT: nothing. */
ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);

/* The memory of one program: it stays that program's, whatever becomes of the process's number. */
struct xp_program_memory {
	pid_t pid;
	int fd;		 /* /proc/PID/mem */
	uint64_t serial; /* no other has it */
};

/* By one of the process's threads, to be read or written too. Touches nothing. -ESRCH gone, -EACCES not allowed. */
int xp_program_memory_open(struct xp_program_memory *program, pid_t pid, pid_t tid, bool writable);
void xp_program_memory_close(struct xp_program_memory *program);

/*
 * Up to size bytes, protected or not; fewer at the end of a mapping. -EIO: nothing is mapped there; 0: the program is
 * gone, by exec or by its end. Others as above.
 */
ssize_t xp_program_memory_read(struct xp_target_memory *memory, const struct xp_program_memory *program,
			       uint64_t address, void *to, size_t size);
/*
 * Writes, protected or not: private pages are copied first, files never change. At most XP_PROGRAM_WRITE_MAX bytes. A
 * kill in the middle leaves each page whole, old or new; of two pages the later one is written first. 0, -EIO, -ESRCH,
 * or as above.
 */
#define XP_PROGRAM_WRITE_MAX (64u << 10)
int xp_program_memory_write(struct xp_target_memory *memory, const struct xp_program_memory *program, uint64_t address,
			    const void *from, size_t size);

#endif
