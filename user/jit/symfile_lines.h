/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The lines that a symfile of GDB's JIT interface has for its code (jit_symfile.h). Where the file is relocatable, its
 * relocations say which address, in a section that was put somewhere, each number of .debug_line stands for.
 */
#ifndef XPROF_JIT_SYMFILE_LINES_H
#define XPROF_JIT_SYMFILE_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "jit/dwarf_line.h"

#define XP_JIT_SYMFILE_RELOCATIONS_MAX (1u << 20)

/* bytes: a copy of the target's. None where there are none or they are broken. -ENOMEM. The caller frees. */
int xp_jit_symfile_lines(struct xp_dwarf_lines *lines, const uint8_t *bytes, size_t size);

#endif
