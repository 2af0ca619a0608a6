/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where single symbols of an ELF file are, by their names: both string tables are searched for the names first, so that
 * a program with a million symbols takes some milliseconds.
 */
#ifndef XPROF_ELF_FIND_H
#define XPROF_ELF_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "elf/file.h"

#define XP_ELF_FIND_MAX 4

/*
 * values[i]: st_value of the symbol names[i], which the file defines, in .dynsym or else in .symtab; 0: none. count is
 * at most XP_ELF_FIND_MAX. Returns how many were found. A broken table has no symbols.
 */
size_t xp_elf_find(struct xp_elf_image *image, const char *const *names, uint64_t *values, size_t count);

#endif
