// SPDX-License-Identifier: BSD-2-Clause
#include "report/print_text.h"

#include <string.h>

#include "base/util.h"

#define HOT "1;31"
#define HOT_PERCENT 10.0
#define WARM_PERCENT 2.0

void xp_colour_start(FILE *out, bool coloured, const char *colour)
{
	if (coloured && colour)
		fprintf(out, "\033[%sm", colour);
}

void xp_colour_end(FILE *out, bool coloured, const char *colour)
{
	if (coloured && colour)
		fputs("\033[0m", out);
}

double xp_percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

void xp_put_share(FILE *out, bool coloured, double percent)
{
	const char *colour = percent >= HOT_PERCENT ? HOT : percent >= WARM_PERCENT ? XP_COLOUR_WARM : NULL;

	xp_colour_start(out, coloured, colour);
	xp_put(out, "%6.2f%%", percent);
	xp_colour_end(out, coloured, colour);
}

void xp_format_time(char *to, size_t size, double seconds)
{
	if (seconds >= 1)
		snprintf(to, size, "%.3f s", seconds);
	else if (seconds >= 1e-3)
		snprintf(to, size, "%.3f ms", seconds * 1e3);
	else if (seconds >= 1e-6)
		snprintf(to, size, "%.3f us", seconds * 1e6);
	else
		snprintf(to, size, "%.0f ns", seconds * 1e9);
}

void xp_format_short(char *to, size_t size, double seconds)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	size_t unit = 0;
	double number = seconds * 1e9;

	while (number >= 999.5 && unit + 1 < XP_ARRAY_SIZE(units)) {
		number /= 1e3;
		unit++;
	}
	snprintf(to, size, "%.*f %s", !unit || number >= 99.95 ? 0 : number >= 9.995 ? 1 : 2, number, units[unit]);
}

int xp_digits(uint64_t number)
{
	int count = 1;

	while (number /= 10)
		count++;
	return count;
}

static bool begins_character(char byte)
{
	return ((unsigned char)byte & 0xc0) != 0x80; /* in UTF-8 */
}

int xp_text_columns(const char *text)
{
	int columns = 0;

	for (; *text; text++)
		columns += begins_character(*text);
	return columns;
}

/* The text after its first characters. */
static const char *skip(const char *text, int characters)
{
	while (*text && (characters || !begins_character(*text)))
		characters -= begins_character(*text++);
	return text;
}

void xp_put_cut(FILE *out, const char *text, int columns)
{
	int length = xp_text_columns(text), head = (columns - 2) / 2;

	if (length > columns && columns > 2)
		xp_put(out, "%.*s..%s", (int)(skip(text, head) - text), text,
		       skip(text, length - (columns - 2 - head)));
	else
		xp_put(out, "%s", text);
}
