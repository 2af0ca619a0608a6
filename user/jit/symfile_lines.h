/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source lines in a symfile of GDB's JIT interface (jit/symfile.h), from its DWARF line tables. If the file is
 * relocatable, its relocations give the loaded addresses.
 *
 * libdw reads the tables, in a process without privileges (base/confined_reader.h): the file is a target's. The process
 * gets the bytes over a socket, reads one file after the other, and ends after some seconds; the next file starts
 * another one. Each program has a reader of its own, so its files cannot affect the lines of others. A file that ends
 * or occupies the reader has no lines.
 *
 * A symfile of one function takes 122 us of CPU time in all, of which some 50 are for its lines; one of 100 functions
 * takes 2.4 ms. With a parser of 480 lines in xprof itself it was 75 us and 2.2 ms.
 */
#ifndef XPROF_JIT_SYMFILE_LINES_H
#define XPROF_JIT_SYMFILE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/child.h"
#include "jit/code.h"

/* Of one file; the rest is ignored. */
#define XP_JIT_LINES_MAX (1u << 20)
#define XP_JIT_LINE_PATH_BYTES_MAX 12288 /* of one path, with its terminator */
#define XP_JIT_LINE_PATHS_BYTES_MAX (16u << 20)

struct xp_jit_lines {
	struct xp_jit_line *lines; /* in address order, one at each address */
	size_t count;
	char *paths; /* as complete as in the file */
	size_t path_bytes;
};

/* Zeroed: no process yet. */
struct xp_jit_line_reader {
	struct xp_child process; /* its descriptor is our end of the socket for files and answers */
	uint64_t end_ns;
	unsigned int failures; /* since the last answer */
};

/* bytes: a copy of the target's. Waits half a second at most. Any error gives no lines. The caller frees the lines. */
void xp_jit_lines_read(struct xp_jit_lines *lines, struct xp_jit_line_reader *reader, const uint8_t *bytes,
		       size_t size);
void xp_jit_lines_free(struct xp_jit_lines *lines);
/* Ends the process. */
void xp_jit_line_reader_stop(struct xp_jit_line_reader *reader);

/* The lines that begin in [start, start + size). */
const struct xp_jit_line *xp_jit_lines_of(const struct xp_jit_lines *lines, uint64_t start, uint64_t size,
					  size_t *count);

/*
 * The two ends of the socket, for tests. The reader writes an answer for the bytes, which it changes; the caller
 * receives one that may be hostile, until end_ns (xp_now_ns()). Both return whether they succeeded.
 */
bool xp_jit_lines_answer(uint8_t *bytes, size_t size, FILE *out);
bool xp_jit_lines_receive(struct xp_jit_lines *lines, int fd, uint64_t end_ns);

#endif
