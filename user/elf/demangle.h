/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Demangles C++ (Itanium ABI) and Rust (legacy and v0) symbol names through libiberty, and shortens the names of C++
 * functions: without parameters, template arguments and return type.
 */
#ifndef XPROF_ELF_DEMANGLE_H
#define XPROF_ELF_DEMANGLE_H

#include <stddef.h>

/* Longer names are truncated and end in "...". */
#define XP_DEMANGLED_BYTES_MAX 8192

/*
 * Returns the demangled form of a symbol, which the caller frees, or NULL if the symbol is not mangled (or out of
 * memory). If libiberty does not know the mangling (C++20, C++23), returns only the function's name. A hostile symbol
 * may demangle to any bytes (see xp_clean_text()).
 */
char *xp_demangle(const char *symbol);

/*
 * Shortens a name: "void std::sort<int*>(int*, int*)" becomes "std::sort". A name that does not look like a demangled
 * C++ function is copied unchanged. to is always terminated; a name that does not fit is truncated.
 */
void xp_short_name(char *to, size_t to_size, const char *name);

#endif
