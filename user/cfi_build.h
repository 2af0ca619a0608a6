/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the table of an ELF file (cfi_table.h) from its .eh_frame, and for code without an entry there from its
 * .debug_frame, which may be compressed, or in a separate file that is found as libdw finds it: by build id or by
 * .gnu_debuglink. libdw reads both.
 *
 * libdw trusts what it reads: a hostile file can make it crash or loop. So this runs in a process of its own
 * (cfi_tables.h).
 */
#ifndef XPROF_CFI_BUILD_H
#define XPROF_CFI_BUILD_H

/*
 * fd: the ELF file, open for reading; path: what to start the search of a separate file from, NULL: none. to_fd: an
 * empty file. -ENOENT: there are no tables for any of its code; -ENOEXEC, -EINVAL: no ELF file, or a malformed one;
 * -EFBIG: more than XP_CFI_ROWS_MAX; -ENOMEM; those of write(2).
 */
int xp_cfi_build(int fd, const char *path, int to_fd);

#endif
