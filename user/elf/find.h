/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finds a few symbols of an ELF file by name. Searches the string tables for the names first, so a program with a
 * million symbols takes only a few milliseconds.
 */
#ifndef XPROF_ELF_FIND_H
#define XPROF_ELF_FIND_H

#include <stddef.h>
#include <stdint.h>

#include "elf/elf_file.h"

#define XP_ELF_FIND_MAX 4

/*
 * Sets values[i] to st_value of the symbol names[i] that the file defines, in .dynsym or else in .symtab; 0 if there is
 * none. count is at most XP_ELF_FIND_MAX. Returns the number of symbols found. A broken table counts as empty.
 */
size_t xp_elf_find(struct xp_elf_file *image, const char *const *names, uint64_t *values, size_t count);

#endif
