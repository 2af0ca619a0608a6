// SPDX-License-Identifier: BSD-2-Clause
#include "base/why.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local struct {
	int err;
	char text[2 * PATH_MAX]; /* large enough for a path and a remedy */
} newest;

int xp_why_set(int err, const char *format, ...)
{
	char text[sizeof(newest.text)];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	newest.err = err;
	strcpy(newest.text, text);
	return err;
}

bool xp_why_has(int err)
{
	return err && newest.err == err;
}

const char *xp_why(int err)
{
	return xp_why_has(err) ? newest.text : strerror(-err);
}

void xp_why_clear(void)
{
	newest.err = 0;
}
