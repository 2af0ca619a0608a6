// SPDX-License-Identifier: BSD-2-Clause
#include "model/json_data.h"

#include <string.h>

#include "base/text.h"

#define PIECE_BYTES 256

/* In older JavaScript, these separators end a line. */
static size_t separator_bytes(const char *at)
{
	return memcmp(at, "\xe2\x80", 2) == 0 && (at[2] == '\xa8' || at[2] == '\xa9') ? 3 : 0;
}

static void put_clean(FILE *out, const char *text)
{
	for (const char *at = text; *at; at++) {
		if (*at == '"' || *at == '\\') {
			putc('\\', out);
			putc(*at, out);
		} else if (*at == '<' || *at == '>' || *at == '&') {
			fprintf(out, "\\u%04x", (unsigned int)*at);
		} else if (strnlen(at, 3) == 3 && separator_bytes(at)) {
			fputs(at[2] == '\xa8' ? "\\u2028" : "\\u2029", out);
			at += 2;
		} else {
			putc(*at, out);
		}
	}
}

void xp_json_text(FILE *out, const char *text)
{
	char piece[PIECE_BYTES + 1], clean[4 * PIECE_BYTES + 1];

	putc('"', out);
	for (size_t bytes; text && *text; text += bytes) {
		bytes = xp_text_fit(text, PIECE_BYTES);
		memcpy(piece, text, bytes);
		piece[bytes] = '\0';
		xp_clean_text(clean, sizeof(clean), piece);
		put_clean(out, clean);
	}
	putc('"', out);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_byte(struct xp_json_numbers *numbers, uint8_t byte)
{
	numbers->bits = numbers->bits << 8 | byte;
	if (++numbers->bytes < 3)
		return;
	for (int shift = 18; shift >= 0; shift -= 6)
		putc(digits[numbers->bits >> shift & 63], numbers->out);
	numbers->bits = numbers->bytes = 0;
}

void xp_json_number(struct xp_json_numbers *numbers, uint64_t value)
{
	for (; value > 127; value >>= 7)
		put_byte(numbers, (uint8_t)(value | 128));
	put_byte(numbers, (uint8_t)value);
}

void xp_json_signed(struct xp_json_numbers *numbers, int64_t value)
{
	xp_json_number(numbers, (uint64_t)value << 1 ^ (uint64_t)(value >> 63));
}

void xp_json_numbers_end(struct xp_json_numbers *numbers)
{
	unsigned int bytes = numbers->bytes;
	uint32_t bits = numbers->bits << 8 * (3 - bytes);

	if (!bytes)
		return;
	for (unsigned int i = 0; i < 4; i++)
		putc(i <= bytes ? digits[bits >> (18 - 6 * i) & 63] : '=', numbers->out);
	numbers->bits = numbers->bytes = 0;
}
