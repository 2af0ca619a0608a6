/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JIT code from the jitdump that a runtime writes itself (fmt_jitdump_reader.h). The runtime marks the file by mapping
 * a page of it executable, under the name jit-<its pid>.dump; it appends to it as it compiles, and times what it
 * appends by CLOCK_MONOTONIC or the TSC. The file is as little to be trusted as the process (target_file.h): it is read
 * piece by piece into memory of ours, what is malformed in it is skipped, and what its sizes say costs no memory.
 */
#ifndef XPROF_JIT_SRC_DUMP_H
#define XPROF_JIT_SRC_DUMP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "jit/code.h"
#include "target/memory.h"

/* What is behind is not read. */
#define XP_JIT_SRC_DUMP_BYTES_MAX (4ull << 30)

struct xp_jit_src_dump;

/* Is this the path of a jitdump? */
bool xp_jit_src_dump_is_marker(const char *path);

/*
 * path: of the marker, as the process sees it; NULL: it is looked for in what the process has mapped. -ENOENT there is
 * none (yet); -ENOMEM; those of xp_mappings_read() and xp_target_file_open(): it is refused.
 */
int xp_jit_src_dump_open(struct xp_jit_src_dump **dump, pid_t pid, uint64_t start_time, const char *path);
/* The same of an open file, which becomes the source's, of the process with this number of itself. -ENOMEM. */
int xp_jit_src_dump_new(struct xp_jit_src_dump **dump, int fd, pid_t inner_pid);
/* What to read the process's memory with; it outlives the source. */
void xp_jit_src_dump_read_with(struct xp_jit_src_dump *dump, struct xp_target_memory *memory);
void xp_jit_src_dump_free(struct xp_jit_src_dump *dump);

/*
 * Takes what is new in the file, up to some MiB of it. The process may be gone: the file is still read. 1: there is
 * more to be taken; 0; -EBADMSG what comes is no jitdump, and nothing will be taken any more; -ENOMEM, those of
 * read(2).
 */
int xp_jit_src_dump_refresh(struct xp_jit_src_dump *dump, struct xp_jit_code *code, const struct xp_clock *clock,
			    uint64_t now_tsc);
/* Records that were malformed or too large. */
uint64_t xp_jit_src_dump_skipped(const struct xp_jit_src_dump *dump);

#endif
