/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads data that a process has written to a file through stdio but that is still in the buffer of its C library. V8
 * and CPython leave up to 4 KiB of their jitdumps in this buffer until they compile more code. Without this data, 426
 * of 475 samples in a loop of Node.js had no name. The process is not stopped, and the data is as untrusted as the
 * file.
 *
 * Source of the layout: glibc, libio/bits/types/struct_FILE.h. The layout of the members that are read here is part of
 * glibc's ABI and has not changed since glibc 2.1. Other C libraries have no such list, so xp_stdio_tail_find() finds
 * nothing.
 */
#ifndef XPROF_JIT_STDIO_TAIL_H
#define XPROF_JIT_STDIO_TAIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "target/memory.h"

/* A larger buffer is not accepted as a stdio buffer. */
#define XP_STDIO_TAIL_BYTES_MAX (64u << 10)

struct xp_stdio_tail {
	struct xp_target_memory *memory; /* reads the process, set by the caller; NULL: as in xp_target_memory_read() */
	pid_t pid;
	int fd;		 /* the descriptor of the file in the process */
	uint64_t stream; /* address of the FILE; 0: none */
};

/*
 * Finds the stream of a file in the process. file: xprof's descriptor of the same file. Returns 0 or -errno: -ENOENT if
 * the process has no stream for the file, -ENOMEM.
 */
int xp_stdio_tail_find(struct xp_stdio_tail *tail, pid_t pid, int file);
/*
 * Reads the buffered bytes, which belong after the current end of the file. Returns their number, 0 if there are none
 * or they cannot be read, or -EAGAIN if the process changed the buffer meanwhile.
 */
ssize_t xp_stdio_tail_read(const struct xp_stdio_tail *tail, uint8_t bytes[XP_STDIO_TAIL_BYTES_MAX]);

#endif
