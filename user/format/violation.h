/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a file breaks the rules of its format, in a sentence: what all readers of formats give. */
#ifndef XPROF_VIOLATION_H
#define XPROF_VIOLATION_H

#include <stdarg.h>
#include <stdint.h>

struct xp_violation {
	uint64_t offset; /* in the file, of the record, field or line */
	char text[192];	 /* a sentence without its full stop */
};

/* Fills it in. -EBADMSG, for the reader to return. */
int xp_violate(struct xp_violation *violation, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int xp_violate_args(struct xp_violation *violation, uint64_t offset, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
