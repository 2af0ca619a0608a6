/* SPDX-License-Identifier: BSD-2-Clause */
#include "format/violation.h"

#include <errno.h>
#include <stdio.h>

int xp_violate_args(struct xp_violation *violation, uint64_t offset, const char *format, va_list args)
{
	violation->offset = offset;
	vsnprintf(violation->text, sizeof(violation->text), format, args);
	return -EBADMSG;
}

int xp_violate(struct xp_violation *violation, uint64_t offset, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	xp_violate_args(violation, offset, format, args);
	va_end(args);
	return -EBADMSG;
}
