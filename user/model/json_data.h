/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pieces of JSON that may stand within a <script> element of an HTML page: whatever a text contains, it ends neither
 * the string nor the element (HTML Standard, "Restrictions for contents of script elements").
 */
#ifndef XPROF_MODEL_JSON_DATA_H
#define XPROF_MODEL_JSON_DATA_H

#include <stdint.h>
#include <stdio.h>

/* Writes a string, quoted. NULL: "". Control characters and bytes that are not UTF-8 become '?'. */
void xp_json_text(FILE *out, const char *text);

/* Numbers in groups of 7 bits, the lowest first, as base64 within a string. All 0 but out: at its start. */
struct xp_json_numbers {
	FILE *out;
	uint32_t bits;
	unsigned int bytes; /* in bits */
};
void xp_json_number(struct xp_json_numbers *numbers, uint64_t value);
/* Zigzag: 0, -1, 1, -2, ... */
void xp_json_signed(struct xp_json_numbers *numbers, int64_t value);
/* Writes what is pending. */
void xp_json_numbers_end(struct xp_json_numbers *numbers);

#endif
