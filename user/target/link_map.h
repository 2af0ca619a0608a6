/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where a dynamic linker tells debuggers of changes: both glibc's and musl's call the empty function _dl_debug_state()
 * before and after they change the list of loaded objects (SVR4's r_brk), after all are mapped and before their
 * constructors run.
 */
#ifndef XPROF_LINK_MAP_H
#define XPROF_LINK_MAP_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a file of this name may be a dynamic linker: only then is it worth looking into. */
bool xp_link_map_is_linker(const char *path);

/* The file offset of _dl_debug_state in the dynamic linker. -ENOENT: it has none; others: the file is broken. */
int xp_link_map_offset(int fd, uint64_t *offset);

#endif
