/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Writes JSON into a <script> element of an HTML page: no text can end the string or the element (HTML Standard,
 * "Restrictions for contents of script elements").
 */
#ifndef XPROF_MODEL_JSON_DATA_H
#define XPROF_MODEL_JSON_DATA_H

#include <stdint.h>
#include <stdio.h>

/* Writes a quoted string. NULL: "". Control characters and bytes that are not UTF-8 become '?'. */
void xp_json_text(FILE *out, const char *text);

/* Writes numbers in groups of 7 bits, the lowest first, as base64 in a string. Initially all 0 except out. */
struct xp_json_numbers {
	FILE *out;
	uint32_t bits;
	unsigned int bytes; /* in bits */
};
void xp_json_number(struct xp_json_numbers *numbers, uint64_t value);
/* Zigzag: 0, -1, 1, -2, ... */
void xp_json_signed(struct xp_json_numbers *numbers, int64_t value);
/* Writes the remaining bits. */
void xp_json_numbers_end(struct xp_json_numbers *numbers);

#endif
