/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_SYM_VDSO_H
#define XPROF_SYM_VDSO_H

/*
 * Writes an ELF file (sym_elf.h) with the names of the vDSO (vdso.h) to fd, an empty regular file. -ENOENT: there is
 * none; -EINVAL, -ENOMEM; those of pwrite(2).
 */
int xp_sym_vdso_write(int fd);

#endif
