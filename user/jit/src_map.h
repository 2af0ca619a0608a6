/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Names of JIT code from a process's perf map: /tmp/perf-PID.map in the process's root, with its PID in its own
 * namespace. The runtime appends to the map as it compiles, or rewrites it. The map has no times, so code counts as
 * loaded since the last read of the map that did not contain the code. The map is as untrusted as the process
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
 * Opens the perf map of a process. Returns 0 or -errno: -ENOENT if there is no map (yet), -ENOMEM, or an error of
 * xp_target_file_open().
 */
int xp_jit_src_map_open(struct xp_jit_src_map **map, pid_t pid, uint64_t start_time);
void xp_jit_src_map_free(struct xp_jit_src_map *map);
/*
 * Call this when the program has ended. A map that appears at the path later belongs to another program and is not
 * read.
 */
void xp_jit_src_map_end(struct xp_jit_src_map *map);

/*
 * Adds the new data of the map to `code`, at most a few MiB per call. Also reads the map of a process that has exited.
 * bytes: reads the code bytes; NULL: do not read them. Returns 1 if the map has more data, 0, or -errno: -ENOMEM, or an
 * error of read(2).
 */
int xp_jit_src_map_refresh(struct xp_jit_src_map *map, struct xp_jit_code *code, struct xp_jit_bytes *bytes,
			   uint64_t now_tsc);

#endif
