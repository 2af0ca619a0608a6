/* SPDX-License-Identifier: BSD-2-Clause */
/* Short names of C++ functions: without parameters, template arguments and return type. */
#ifndef XPROF_ELF_SHORT_NAME_H
#define XPROF_ELF_SHORT_NAME_H

#include <stddef.h>

/*
 * Shortens a name: "void std::sort<int*>(int*, int*)" becomes "std::sort". A name that does not look like a demangled
 * C++ function is copied unchanged. to is always terminated; a name that does not fit is truncated.
 */
void xp_short_name(char *to, size_t to_size, const char *name);

#endif
