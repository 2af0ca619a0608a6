/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Prints untrusted text to a terminal: names that a target, a file or the environment chose. xp_put() and xp_put_line()
 * write every line that may appear on a terminal, and so do the messages of util.h. So callers need not check names.
 *
 * The functions replace these characters by '?': control characters, which drive a terminal; newlines, which would
 * forge a line; bytes that are not UTF-8; invisible characters (Unicode's Default_Ignorable_Code_Point: bidirectional
 * controls, zero widths, tags, variation selectors); and line separators (U+2028, U+2029). Invisible characters could
 * make two names look equal or reverse the rest of the line. A drawback: Persian names and joined emoji lose a
 * character, on the screen but not in files.
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

/* Returns the colon after OBJECT in a pattern OBJECT:GLOB, or NULL if there is none. Ignores the "::" in C++ names. */
const char *xp_text_object_end(const char *pattern);

/* Writes a part of a line: formats it, then cleans the result. The line may have any length. */
void xp_put(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like xp_put(), with a newline. */
void xp_put_line(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* before is not cleaned. */
void xp_put_line_args(FILE *out, const char *before, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));

/* A function name can have 64 KiB. A message shows only the start and the end of a long name. */
#define XP_SHORT_TEXT_BYTES 256
struct xp_short_text {
	char text[XP_SHORT_TEXT_BYTES];
};
/* Returns to->text: a copy of text. The middle of a long text is replaced by "..". */
const char *xp_short_text(struct xp_short_text *to, const char *text);

/*
 * Quotes a path as one word of a shell command. bash, zsh, ksh and POSIX.1-2024's sh read the word as exactly the bytes
 * of the path. The word is bare, in '...', or in $'...' if it has characters that must not be shown. It cannot be
 * mistaken for an option or for LLVM's @FILE.
 */
struct xp_shell_path {
	char text[4 * (PATH_MAX + NAME_MAX) + sizeof("./$''")];
};
/* Returns to->text, or "PATH" if the path is too long for the kernel. */
const char *xp_shell_path(struct xp_shell_path *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
