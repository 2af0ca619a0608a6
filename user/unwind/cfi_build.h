/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the table of a piece of an ELF file (cfi_table.h) from its .eh_frame, and for code without an entry there from
 * its .debug_frame, which may be compressed, or in a separate file that is found as libdw finds it: by build id or by
 * .gnu_debuglink. libelf and libdw take files, sections and entries apart; their programs run here (cfi_program.h).
 *
 * They trust what they read, and a hostile file can take all the time there is. So this runs in a process of its own
 * (cfi_tables.h).
 */
#ifndef XPROF_CFI_BUILD_H
#define XPROF_CFI_BUILD_H

#include <stdint.h>

/*
 * Of [start, end) of the file, its first 4 GiB at most; what it takes depends on the piece, not on the file, where that
 * has an .eh_frame_hdr. fd: the ELF file, open for reading, which is mapped: should it be cut meanwhile, that ends in
 * SIGBUS; path: what to start the search of a separate file from, NULL: none. to_fd: an
 * empty file. -ENOENT: nothing is known of the
 * piece, and the file has no entries; -ENOEXEC, -EINVAL: no ELF file, or a malformed one;
 * -EFBIG: more than XP_CFI_ROWS_MAX; -ENOMEM; those of write(2).
 */
int xp_cfi_build(int fd, const char *path, uint32_t start, uint32_t end, int to_fd);

#endif
