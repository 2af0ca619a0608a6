/* SPDX-License-Identifier: BSD-2-Clause */
/* Base64 (RFC 4648, section 4), for JSON and HTTP. */
#ifndef XPROF_PUSH_BASE64_H
#define XPROF_PUSH_BASE64_H

#include <stddef.h>

/* Returns the text, which the caller frees; NULL: out of memory. */
char *xp_base64(const void *data, size_t bytes);

#endif
