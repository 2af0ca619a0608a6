/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JIT code from the jitdump that a runtime writes (format/jitdump_reader.h). The runtime marks the file by mapping one
 * of its pages executable, under the name jit-<its pid>.dump. It appends a record to the file when it compiles a
 * function, with the time (CLOCK_MONOTONIC or TSC). The file is as untrusted as the process (target/untrusted_file.h):
 * xprof reads it in pieces, skips malformed records, and does not allocate memory according to sizes in the file.
 */
#ifndef XPROF_JIT_SRC_DUMP_H
#define XPROF_JIT_SRC_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "jit/code.h"
#include "target/memory.h"

/* The rest of a larger file is not read. */
#define XP_JIT_SRC_DUMP_BYTES_MAX (4ull << 30)

struct xp_jit_src_dump;

/* Returns whether this is the path of a jitdump. */
bool xp_jit_src_dump_is_marker(const char *path);

/*
 * Opens the jitdump of a process. path: path of the marker, in the process's mount namespace; NULL: search the mappings
 * of the process. Returns 0 or -errno: -ENOENT if there is no jitdump (yet), -ENOMEM, or an error of xp_mappings_read()
 * or xp_target_file_open().
 */
int xp_jit_src_dump_open(struct xp_jit_src_dump **dump, pid_t pid, uint64_t start_time, const char *path);
/*
 * Like xp_jit_src_dump_open(), for an open file. Takes over fd. inner_pid: the PID of the process in its own namespace.
 * Returns 0 or -ENOMEM.
 */
int xp_jit_src_dump_new(struct xp_jit_src_dump **dump, int fd, pid_t inner_pid);
/* Sets how to read the memory of the process; memory must outlive the source. */
void xp_jit_src_dump_read_with(struct xp_jit_src_dump *dump, struct xp_target_memory *memory);
void xp_jit_src_dump_free(struct xp_jit_src_dump *dump);

/*
 * Adds the new data of the file to `code`, at most a few MiB per call. Also reads the file of a process that has
 * exited. Returns 1 if the file has more data, 0, or -errno: -EBADMSG if the data is not a jitdump (further calls then
 * read nothing), -ENOMEM, or an error of read(2).
 */
int xp_jit_src_dump_refresh(struct xp_jit_src_dump *dump, struct xp_jit_code *code, const struct xp_clock *clock,
			    uint64_t now_tsc);
/* Returns the number of malformed or oversized records. */
uint64_t xp_jit_src_dump_skipped(const struct xp_jit_src_dump *dump);

#endif
