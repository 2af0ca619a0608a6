/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_SYM_VDSO_H
#define XPROF_SYM_VDSO_H

/*
 * Writes an ELF file (sym_elf.h) with the names of the vDSO to fd, an empty regular file. It is read in xprof itself:
 * all 64-bit processes of a machine have the same one. -ENOENT: there is none; -EINVAL, -ENOMEM; those of pwrite(2).
 */
int xp_sym_vdso_write(int fd);

#endif
