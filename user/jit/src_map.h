/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of JIT code from a process's perf map, /tmp/perf-PID.map in its own root and with its own number of itself. The
 * runtime appends to it as it compiles, or writes it anew; it says nothing of the time, so code counts from when the
 * map was last looked at without it. The map is as little to be trusted as the process (target_file.h).
 */
#ifndef XPROF_JIT_SRC_MAP_H
#define XPROF_JIT_SRC_MAP_H

#include <stdint.h>
#include <sys/types.h>

#include "jit/bytes.h"
#include "jit/code.h"

/* A larger map is not read any further. */
#define XP_JIT_SRC_MAP_BYTES_MAX (256ull << 20)

struct xp_jit_src_map;

/* -ENOENT there is none (yet); -ENOMEM; those of xp_target_file_open(): it is refused. */
int xp_jit_src_map_open(struct xp_jit_src_map **map, pid_t pid, uint64_t start_time);
void xp_jit_src_map_free(struct xp_jit_src_map *map);
/* The program is over: another map that comes to be there is not its. */
void xp_jit_src_map_end(struct xp_jit_src_map *map);

/*
 * Takes what is new in the map, up to some MiB of it. The process may be gone: the file is still read. bytes: to
 * read the code's bytes with, or NULL. 1: there is more to be taken; 0; -ENOMEM, those of read(2).
 */
int xp_jit_src_map_refresh(struct xp_jit_src_map *map, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc);

#endif
