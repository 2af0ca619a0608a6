/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The place where a dynamic linker reports changes to debuggers. glibc's and musl's linkers call the empty function
 * _dl_debug_state() before and after they change the list of loaded objects (SVR4's r_brk): after all objects are
 * mapped and before their constructors run.
 */
#ifndef XPROF_TARGET_LINK_MAP_H
#define XPROF_TARGET_LINK_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* True if a file of this name may be a dynamic linker and is worth checking. */
bool xp_link_map_is_linker(const char *path);

/*
 * Finds the file offset of _dl_debug_state in the dynamic linker. Returns 0 or -errno: -ENOENT if it has none;
 * otherwise the file is broken.
 */
int xp_link_map_offset(int fd, uint64_t *offset);

#endif
