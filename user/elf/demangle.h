/* SPDX-License-Identifier: BSD-2-Clause */
/* C++ (Itanium ABI) and Rust (legacy and v0) symbol names for humans, through libiberty. */
#ifndef XPROF_DEMANGLE_H
#define XPROF_DEMANGLE_H

/* What is longer is cut and ends in "...". */
#define XP_DEMANGLED_BYTES_MAX 8192

/*
 * The demangled form of a symbol, which the caller frees; NULL when it is no mangled name (or memory is out).
 * The symbol may come from a hostile file; the result may then hold any byte (see xp_clean_text()).
 */
char *xp_demangle(const char *symbol);

#endif
