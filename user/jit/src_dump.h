/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * JIT code from the jitdump that a runtime writes itself (format/jitdump_reader.h). The runtime marks the file by
 * mapping one of its pages executable, under the name jit-<its pid>.dump. It appends to the file as it compiles, with
 * times of CLOCK_MONOTONIC or the TSC. The file is as untrusted as the process (target/untrusted_file.h): it is read
 * piece by piece into our own memory, malformed records are skipped, and the sizes in it cost no memory.
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

/* Whether this is the path of a jitdump. */
bool xp_jit_src_dump_is_marker(const char *path);

/*
 * path: of the marker, as the process sees it; NULL: look for it in the mappings of the process. Returns 0 or -errno:
 * -ENOENT if there is none (yet), -ENOMEM, or the errors of xp_mappings_read() and xp_target_file_open() if the file is
 * refused.
 */
int xp_jit_src_dump_open(struct xp_jit_src_dump **dump, pid_t pid, uint64_t start_time, const char *path);
/*
 * Like xp_jit_src_dump_open(), for an open file, which the source takes over. inner_pid: the pid of the process in its
 * own namespace. Returns 0 or -ENOMEM.
 */
int xp_jit_src_dump_new(struct xp_jit_src_dump **dump, int fd, pid_t inner_pid);
/* Sets the means to read the process's memory; memory outlives the source. */
void xp_jit_src_dump_read_with(struct xp_jit_src_dump *dump, struct xp_target_memory *memory);
void xp_jit_src_dump_free(struct xp_jit_src_dump *dump);

/*
 * Takes the new data of the file, up to some MiB. The file is read even if the process is gone. Returns 1 if there is
 * more, 0, or -errno: -EBADMSG if the data is no jitdump (nothing more is taken then), -ENOMEM, or those of read(2).
 */
int xp_jit_src_dump_refresh(struct xp_jit_src_dump *dump, struct xp_jit_code *code, const struct xp_clock *clock,
			    uint64_t now_tsc);
/* Malformed or oversized records. */
uint64_t xp_jit_src_dump_skipped(const struct xp_jit_src_dump *dump);

#endif
