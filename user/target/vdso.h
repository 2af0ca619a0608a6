/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The vDSO, an ELF file that the kernel maps into every process. It is read in xprof itself: all 64-bit processes of a
 * machine have the same one.
 */
#ifndef XPROF_VDSO_H
#define XPROF_VDSO_H

#include <stddef.h>

/* Where it is. -ENOENT: there is none; -ENOMEM; those of reading /proc/self/maps. */
int xp_vdso_find(const void **image, size_t *bytes);
/* A memfd with its bytes, which the caller closes. The same errors; those of memfd_create(2) and write(2). */
int xp_vdso_open(void);

#endif
