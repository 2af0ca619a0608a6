/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The source lines in a symfile of GDB's JIT interface (jit/symfile.h). If the file is relocatable, its relocations
 * give the loaded address that each number of .debug_line stands for.
 */
#ifndef XPROF_JIT_SYMFILE_LINES_H
#define XPROF_JIT_SYMFILE_LINES_H

#include <stddef.h>
#include <stdint.h>

#include "jit/dwarf_line.h"

#define XP_JIT_SYMFILE_RELOCATIONS_MAX (1u << 20)

/* bytes: a copy of the target's. Missing or broken data gives no lines. The caller frees. Returns 0 or -ENOMEM. */
int xp_jit_symfile_lines(struct xp_dwarf_lines *lines, const uint8_t *bytes, size_t size);

#endif
