/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text that a target, a file or the environment chose, on its way to a person. xp_put() and xp_put_line() write all
 * lines that a terminal may show, and the messages of util.h end there too, so no caller has to think of what a name
 * holds.
 *
 * In such a line become '?': control characters, which drive a terminal; newlines, which would forge a line; bytes that
 * are no UTF-8; and the characters that are not seen (Unicode's Default_Ignorable_Code_Point: bidirectional controls,
 * zero widths, tags, variation selectors) or that break lines (U+2028, U+2029). With those a name could show as another
 * one or turn the rest of the line around. That Persian names and joined emoji lose a character is the price: it is
 * lost on the screen, not in files.
 */
#ifndef XPROF_TEXT_H
#define XPROF_TEXT_H

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/*
 * For files: control characters and bytes that are no UTF-8 become '?'. All else stays, for the names are also those by
 * which tools open files.
 */
void xp_clean_text(char *to, size_t to_size, const char *from);

/* A piece of a line, cleaned when it is formatted. A line of any length is written whole. */
void xp_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same and the line's end. */
void xp_put_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* before: is not cleaned. */
void xp_put_line_args(FILE *out, const char *before, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Bytes in double quotes, as C would have them: all but printable ASCII is escaped. */
void xp_put_quoted(FILE *out, const void *data, size_t bytes);

/* Names of functions may take 64 KiB. In a sentence both ends of a long one tell enough. */
#define XP_SHORT_TEXT_BYTES 256
struct xp_short_text {
	char text[XP_SHORT_TEXT_BYTES];
};
/* Returns to->text: a copy of text, its middle replaced by ".." when it is too long. */
const char *xp_short_text(struct xp_short_text *to, const char *text);

/*
 * A path as one word of a command to type. bash, zsh, ksh and POSIX.1-2024's sh read it as exactly these bytes: bare,
 * in
 * '...', or in $'...' when it holds what must not be on a screen. It is never an option, nor LLVM's @FILE.
 */
struct xp_shell_path {
	char text[4 * (PATH_MAX + NAME_MAX) + sizeof("./$''")];
};
/* Returns to->text; "PATH" for one that is too long for the kernel. */
const char *xp_shell_path(struct xp_shell_path *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
