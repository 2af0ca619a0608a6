/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of C++ functions as people say them: without parameters, template arguments and the type of the result. */
#ifndef XPROF_SHORT_NAME_H
#define XPROF_SHORT_NAME_H

#include <stddef.h>

/*
 * "void std::sort<int*>(int*, int*)" becomes "std::sort". What does not look like a demangled C++ function stays as it
 * is. to: always terminated; a name that does not fit is cut.
 */
void xp_short_name(char *to, size_t to_size, const char *name);

#endif
