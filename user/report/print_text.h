/* SPDX-License-Identifier: BSD-2-Clause */
/* Prints parts of a line: colours, shares, times and names. */
#ifndef XPROF_REPORT_PRINT_TEXT_H
#define XPROF_REPORT_PRINT_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define XP_COLOUR_BOLD "1"
#define XP_COLOUR_WARM "33"

/* NULL: no colour. */
void xp_colour_start(FILE *out, bool coloured, const char *colour);
void xp_colour_end(FILE *out, bool coloured, const char *colour);

/* Returns 0 if whole is 0. */
double xp_percent(uint64_t part, uint64_t whole);
/* Prints a percentage such as "12.34%" in 7 columns, in a colour for large percentages. */
void xp_put_share(FILE *out, bool coloured, double percent);

/* Formats a time with three decimals, for columns: "1.234 ms". */
void xp_format_time(char *to, size_t size, double seconds);
/* Formats a time with two decimals, for sentences: "1.23 ms". */
void xp_format_brief(char *to, size_t size, double seconds);
/* Formats a time with three digits: "1.23 ms". */
void xp_format_short(char *to, size_t size, double seconds);

/* Returns the number of decimal digits. */
int xp_digits(uint64_t number);
/* Returns the number of characters in a UTF-8 string. */
int xp_text_columns(const char *text);
/*
 * Prints a text in at most `columns` columns. Omits the middle of a longer text, because its start and end are more
 * informative.
 */
void xp_put_cut(FILE *out, const char *text, int columns);

#endif
