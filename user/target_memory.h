/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a running process, read without stopping it. It may change or vanish at any moment, and to read it may
 * wait for somebody who never answers: the process itself, where it handles the faults of its pages (userfaultfd), or
 * the server of a file that it has mapped (FUSE). So a child process reads, which is killed when it takes too long; of
 * a process to which that happened nothing is read for a while, which is longer each time.
 */
#ifndef XPROF_TARGET_MEMORY_H
#define XPROF_TARGET_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct xp_target_memory;

/* The child is started with the first read. -ENOMEM. */
int xp_target_memory_new(struct xp_target_memory **memory);
void xp_target_memory_free(struct xp_target_memory *memory);

/*
 * 0 when all of it could be read; -EFAULT part of it is not mapped, -ESRCH gone, -EPERM; -ETIMEDOUT reading took too
 * long, now or before; those of making a process. memory NULL: without the child, however long it takes.
 */
int xp_target_memory_read(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);
/* How much there is of it from there on, at most size bytes; -EFAULT: nothing. */
ssize_t xp_target_memory_read_some(struct xp_target_memory *memory, pid_t pid, uint64_t address, void *to, size_t size);

#endif
