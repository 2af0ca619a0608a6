/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of JIT code from a process's perf map: /tmp/perf-PID.map in the process's root, with its PID in its own
 * namespace. The runtime appends to the map as it compiles, or rewrites it. The map has no times, so the start time of
 * code is the last read of the map that did not contain it. The map is as untrusted as the process
 * (target/untrusted_file.h).
 */
#ifndef XPROF_JIT_SRC_MAP_H
#define XPROF_JIT_SRC_MAP_H

#include <stdint.h>
#include <sys/types.h>

#include "jit/code_bytes.h"
#include "jit/code.h"

/* The rest of a larger map is not read. */
#define XP_JIT_SRC_MAP_BYTES_MAX (256ull << 20)

struct xp_jit_src_map;

/*
 * Returns 0 or -errno: -ENOENT if there is none (yet), -ENOMEM, or those of xp_target_file_open() if the file is
 * refused.
 */
int xp_jit_src_map_open(struct xp_jit_src_map **map, pid_t pid, uint64_t start_time);
void xp_jit_src_map_free(struct xp_jit_src_map *map);
/* The program has ended: a map that appears at the path later is not its own. */
void xp_jit_src_map_end(struct xp_jit_src_map *map);

/*
 * Takes the new data of the map, up to some MiB. The map is read even if the process is gone. bytes: to read the code's
 * bytes with, or NULL. Returns 1 if there is more, 0, or -errno: -ENOMEM, or those of read(2).
 */
int xp_jit_src_map_refresh(struct xp_jit_src_map *map, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc);

#endif
