// SPDX-License-Identifier: BSD-2-Clause
#include "push/base64.h"

#include <stdint.h>
#include <stdlib.h>

char *xp_base64(const void *data, size_t bytes)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	char *text = malloc((bytes + 2) / 3 * 4 + 1), *to = text;
	const uint8_t *from = data;

	if (!text)
		return NULL;
	for (size_t i = 0; i < bytes; i += 3) {
		uint32_t group = (uint32_t)from[i] << 16;

		if (i + 1 < bytes)
			group |= (uint32_t)from[i + 1] << 8;
		if (i + 2 < bytes)
			group |= from[i + 2];
		*to++ = digits[group >> 18];
		*to++ = digits[group >> 12 & 63];
		*to++ = i + 1 < bytes ? digits[group >> 6 & 63] : '=';
		*to++ = i + 2 < bytes ? digits[group & 63] : '=';
	}
	*to = 0;
	return text;
}
