/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The vDSO, an ELF file that the kernel maps into every process. xprof reads its own copy, because all 64-bit processes
 * of a machine have the same vDSO.
 */
#ifndef XPROF_TARGET_VDSO_H
#define XPROF_TARGET_VDSO_H

#include <stddef.h>

/* Finds the vDSO. Returns 0 or -errno: -ENOENT if there is none, -ENOMEM, or an error of reading /proc/self/maps. */
int xp_vdso_find(const void **image, size_t *bytes);
/*
 * Returns a memfd with the bytes of the vDSO, which the caller closes, or -errno: as above, or an error of
 * memfd_create(2) or write(2).
 */
int xp_vdso_open(void);

#endif
