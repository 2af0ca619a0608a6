/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Text that a target, a file or the environment chose, on its way to a person. xp_put() and xp_put_line() write every
 * line that may be shown on a terminal, and so do the messages of util.h. So callers need not check what a name
 * contains.
 *
 * These become '?' in such a line: control characters, which drive a terminal; newlines, which would forge a line;
 * bytes that are not UTF-8; invisible characters (Unicode's Default_Ignorable_Code_Point: bidirectional controls, zero
 * widths, tags, variation selectors); and line separators (U+2028, U+2029). They could make one name look like another
 * or reverse the rest of the line. The price is that Persian names and joined emoji lose a character. It is lost on the
 * screen, not in files.
 */
#ifndef XPROF_BASE_TEXT_H
#define XPROF_BASE_TEXT_H

#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * For files: control characters and bytes that are not UTF-8 become '?'. All other characters stay, because tools open
 * files by these names.
 */
void xp_clean_text(char *to, size_t to_size, const char *from);

/*
 * Returns the length of the longest prefix of a text that has at most bytes_max bytes and does not end inside a
 * character (UTF-8).
 */
size_t xp_text_fit(const char *text, size_t bytes_max);

/* The colon behind OBJECT in a pattern OBJECT:GLOB; NULL: it has none. The "::" in names is no such colon. */
const char *xp_text_object_end(const char *pattern);

/* Writes a piece of a line, cleaned after formatting. The line may have any length. */
void xp_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like xp_put(), with a newline. */
void xp_put_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* before is not cleaned. */
void xp_put_line_args(FILE *out, const char *before, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Function names can take 64 KiB. In a sentence, both ends of a long name are enough. */
#define XP_SHORT_TEXT_BYTES 256
struct xp_short_text {
	char text[XP_SHORT_TEXT_BYTES];
};
/* Returns to->text: a copy of text. The middle of a long text is replaced by "..". */
const char *xp_short_text(struct xp_short_text *to, const char *text);

/*
 * A path as one word of a shell command. bash, zsh, ksh and POSIX.1-2024's sh read it as exactly these bytes: it is
 * bare, in '...', or in $'...' if it contains characters that must not be shown. It is never an option, nor LLVM's
 * @FILE.
 */
struct xp_shell_path {
	char text[4 * (PATH_MAX + NAME_MAX) + sizeof("./$''")];
};
/* Returns to->text, or "PATH" if the path is too long for the kernel. */
const char *xp_shell_path(struct xp_shell_path *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
