// SPDX-License-Identifier: BSD-2-Clause
#include "report/print_text.h"

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

static const char *const units[] = { "ns", "us", "ms", "s" };

/*
 * Converts a time to the largest unit in which the time is at least 1. A time of `limit` or more would be rounded to
 * 1000, so the function uses the next unit.
 */
static double in_unit(double seconds, double limit, size_t *unit)
{
	double number = seconds * 1e9;

	for (*unit = 0; number >= limit && *unit + 1 < XP_ARRAY_SIZE(units); ++*unit)
		number /= 1e3;
	return number;
}

static void format_decimals(char *to, size_t size, double seconds, int decimals, double limit)
{
	size_t unit;
	double number = in_unit(seconds, limit, &unit);

	snprintf(to, size, "%.*f %s", unit ? decimals : 0, number, units[unit]);
}

void xp_format_time(char *to, size_t size, double seconds)
{
	format_decimals(to, size, seconds, 3, 999.9995);
}

void xp_format_brief(char *to, size_t size, double seconds)
{
	format_decimals(to, size, seconds, 2, 999.995);
}

void xp_format_short(char *to, size_t size, double seconds)
{
	size_t unit;
	double number = in_unit(seconds, 999.5, &unit);

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

/* Returns the text after its first `characters` characters. */
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
