// SPDX-License-Identifier: BSD-2-Clause
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 2048 /* enough for most lines */

/* Default_Ignorable_Code_Point of Unicode 15's DerivedCoreProperties.txt, line separators, annotation marks. */
static const struct {
	uint32_t first, last;
} unseen[] = {
	{ 0xad, 0xad },	      { 0x34f, 0x34f },	    { 0x61c, 0x61c },	{ 0x115f, 0x1160 }, { 0x17b4, 0x17b5 },
	{ 0x180b, 0x180f },   { 0x200b, 0x200f },   { 0x2028, 0x202e }, { 0x2060, 0x206f }, { 0x3164, 0x3164 },
	{ 0xfe00, 0xfe0f },   { 0xfeff, 0xfeff },   { 0xffa0, 0xffa0 }, { 0xfff0, 0xfffb }, { 0x1bca0, 0x1bca3 },
	{ 0x1d173, 0x1d17a }, { 0xe0000, 0xe0fff },
};

/* Decodes a UTF-8 character of at most `left` bytes. Returns its length in bytes, or 0 if it is invalid. */
static size_t next_utf8(const unsigned char *at, size_t left, uint32_t *code)
{
	static const uint32_t lowest[] = { 0, 0x80, 0x800, 0x10000 };
	size_t more = *at < 0x80 ? 0 : (*at & 0xe0) == 0xc0 ? 1 : (*at & 0xf0) == 0xe0 ? 2 : 3;

	*code = more ? *at & (0x3f >> more) : *at;
	if (more >= left || (more == 3 && (*at & 0xf8) != 0xf0))
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if ((at[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (at[i] & 0x3f);
	}
	return *code < lowest[more] || *code > 0x10ffff || (*code >= 0xd800 && *code < 0xe000) ? 0 : more + 1;
}

static bool is_unseen(uint32_t code)
{
	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]) && unseen[i].first <= code; i++)
		if (code <= unseen[i].last)
			return true;
	return false;
}

/* to may equal from, because the result is never longer. */
static void clean(char *to, size_t to_size, const char *from, bool for_people)
{
	const unsigned char *s = (const unsigned char *)from;
	size_t used = 0;

	while (*s) {
		uint32_t code;
		size_t n = next_utf8(s, SIZE_MAX, &code); /* a NUL is not a continuation byte, so it ends the scan */
		/* C1 controls, U+0080 to U+009F, drive a terminal just like the ASCII controls. */
		bool bad = !n || code < 0x20 || (code >= 0x7f && code < 0xa0) || (for_people && is_unseen(code));

		n = n ? n : 1;
		if (used + (bad ? 1 : n) >= to_size)
			break;
		if (bad)
			to[used] = '?';
		else
			memmove(to + used, s, n);
		used += bad ? 1 : n;
		s += n;
	}
	to[used] = 0;
}

void xp_clean_text(char *to, size_t to_size, const char *from)
{
	clean(to, to_size, from, false);
}

const char *xp_text_object_end(const char *pattern)
{
	for (const char *colon = strchr(pattern, ':'); colon; colon = strchr(colon + strspn(colon, ":"), ':'))
		if (colon > pattern && colon[1] != ':')
			return colon;
	return NULL;
}

size_t xp_text_fit(const char *text, size_t bytes_max)
{
	size_t length = strnlen(text, bytes_max), start = length;

	if (length < bytes_max)
		return length;
	/*
	 * A UTF-8 character has at most three continuation bytes. With more than three, the text is not UTF-8: do not
	 * shorten it.
	 */
	while (start && length - start < 3 && (text[start] & 0xc0) == 0x80)
		start--;
	return (text[start] & 0xc0) == 0x80 ? length : start;
}

/* ---- lines ---- */

static __attribute__((format(printf, 4, 0))) void put(FILE *out, const char *before, const char *after,
						      const char *format, va_list args)
{
	char fixed[LINE_BYTES], *text = fixed, *larger = NULL;
	va_list again;
	int length;

	va_copy(again, args);
	length = vsnprintf(fixed, sizeof(fixed), format, args);
	if (length < 0)
		fixed[0] = 0;
	if (length >= (int)sizeof(fixed) && vasprintf(&larger, format, again) >= 0)
		text = larger;
	va_end(again);
	clean(text, strlen(text) + 1, text, true);
	fprintf(out, "%s%s%s", before, text, after);
	free(larger);
}

void xp_put(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put(out, "", "", format, args);
	va_end(args);
}

void xp_put_line(FILE *out, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	put(out, "", "\n", format, args);
	va_end(args);
}

void xp_put_line_args(FILE *out, const char *before, const char *format, va_list args)
{
	put(out, before, "\n", format, args);
}

const char *xp_short_text(struct xp_short_text *to, const char *text)
{
	size_t length = strlen(text), half = (sizeof(to->text) - sizeof("..")) / 2;

	if (length < sizeof(to->text)) {
		memcpy(to->text, text, length + 1);
		return to->text;
	}
	snprintf(to->text, sizeof(to->text), "%.*s..%s", (int)half, text, text + length - half);
	return to->text;
}

/* ---- commands ---- */

/* No shell treats these characters specially. */
static bool is_plain(char byte)
{
	return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
	       (byte && strchr("_@%+=:,./-", byte));
}

static bool all_plain(const char *text)
{
	while (is_plain(*text))
		text++;
	return !*text;
}

static bool can_be_shown(const char *text, size_t size)
{
	char shown[PATH_MAX + NAME_MAX];

	clean(shown, sizeof(shown), text, true);
	return size < sizeof(shown) && !strcmp(text, shown);
}

/* Writes three octal digits: with fewer, a digit that follows in the text would be read as part of the escape. */
static size_t escape(char *to, char byte)
{
	if (is_plain(byte)) {
		*to = byte;
		return 1;
	}
	return (size_t)sprintf(to, "\\%03o", (unsigned char)byte);
}

static size_t quote(char *to, char byte)
{
	static const char apostrophe[] = "'\\''";

	if (byte != '\'') {
		*to = byte;
		return 1;
	}
	memcpy(to, apostrophe, sizeof(apostrophe) - 1);
	return sizeof(apostrophe) - 1;
}

const char *xp_shell_path(struct xp_shell_path *to, const char *format, ...)
{
	char path[PATH_MAX + NAME_MAX], *end = to->text;
	size_t (*put_byte)(char *to, char byte);
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (length < 0 || (size_t)length >= sizeof(path))
		return strcpy(to->text, "PATH");
	if (*path == '-' || *path == '@')
		end = stpcpy(end, "./");
	if (*path && all_plain(path)) {
		strcpy(end, path);
		return to->text;
	}
	put_byte = can_be_shown(path, (size_t)length) ? quote : escape;
	end = stpcpy(end, put_byte == quote ? "'" : "$'");
	for (const char *at = path; *at; at++)
		end += put_byte(end, *at);
	strcpy(end, "'");
	return to->text;
}
