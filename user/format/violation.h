/* SPDX-License-Identifier: BSD-2-Clause */
/* A violation of a file format, in a sentence. All format readers report one. */
#ifndef XPROF_FORMAT_VIOLATION_H
#define XPROF_FORMAT_VIOLATION_H

#include <stdarg.h>
#include <stdint.h>

struct xp_violation {
	uint64_t offset; /* offset of the record, field or line in the file */
	char text[256];	 /* a sentence without a full stop */
};

/* Fills in the violation. Returns -EBADMSG, which the reader returns. */
int xp_violate(struct xp_violation *violation, uint64_t offset, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int xp_violate_args(struct xp_violation *violation, uint64_t offset, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

#endif
