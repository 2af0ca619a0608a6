/* SPDX-License-Identifier: BSD-2-Clause */
/* Demangles C++ (Itanium ABI) and Rust (legacy and v0) symbol names through libiberty. */
#ifndef XPROF_ELF_DEMANGLE_H
#define XPROF_ELF_DEMANGLE_H

/* Longer names are truncated and end in "...". */
#define XP_DEMANGLED_BYTES_MAX 8192

/*
 * Returns the demangled form of a symbol, which the caller frees, or NULL if it is not a mangled name (or out of
 * memory). A symbol from a hostile file may demangle to any bytes (see xp_clean_text()).
 */
char *xp_demangle(const char *symbol);

#endif
