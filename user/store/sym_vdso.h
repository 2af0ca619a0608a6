/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef XPROF_STORE_SYM_VDSO_H
#define XPROF_STORE_SYM_VDSO_H

/*
 * Writes an ELF file (symbol_file.h) with the names of the vDSO (vdso.h) to fd, an empty regular file. Returns 0 or
 * -errno: -ENOENT if there is no vDSO, -EINVAL, -ENOMEM, or an error of pwrite(2).
 */
int xp_sym_vdso_write(int fd);

#endif
