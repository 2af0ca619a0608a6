/* SPDX-License-Identifier: BSD-2-Clause */
/* The memory of a running process, read without stopping it. It may change or vanish at any moment. */
#ifndef XPROF_TARGET_MEMORY_H
#define XPROF_TARGET_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* 0 when all of it could be read; -EFAULT part of it is not mapped, -ESRCH gone, -EPERM. */
int xp_target_memory_read(pid_t pid, uint64_t address, void *to, size_t size);
/* How much there is of it from there on, at most size bytes; -EFAULT: nothing. */
ssize_t xp_target_memory_read_some(pid_t pid, uint64_t address, void *to, size_t size);

#endif
