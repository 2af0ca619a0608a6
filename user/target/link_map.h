/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds the function by which a dynamic linker reports changes to debuggers. The linkers of glibc and musl call the
 * empty function _dl_debug_state() before and after they change the link map (SVR4's r_brk). The second call is after
 * all binaries are mapped and before their constructors run.
 */
#ifndef XPROF_TARGET_LINK_MAP_H
#define XPROF_TARGET_LINK_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* Returns true if the name of a file is one of a dynamic linker. */
bool xp_link_map_is_linker(const char *path);

/*
 * Finds the file offset of _dl_debug_state in the dynamic linker. Returns 0 or -errno: -ENOENT if the function does not
 * exist; otherwise the file is malformed.
 */
int xp_link_map_offset(int fd, uint64_t *offset);

#endif
