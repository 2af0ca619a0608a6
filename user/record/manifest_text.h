/* SPDX-License-Identifier: BSD-2-Clause */
/* Texts of manifest.json. Targets choose many of them. */
#ifndef XPROF_RECORD_MANIFEST_TEXT_H
#define XPROF_RECORD_MANIFEST_TEXT_H

#include <jansson.h>

/* The text, cleaned (base/text.h). The caller owns the value; NULL: out of memory. */
json_t *xp_manifest_text(const char *text);

#endif
