/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patterns of function names, as users give them: --functions, --trigger, --callers. The names that xprof shows are
 * patterns, too. A pattern that matches no function is most likely mistyped, so the most similar names are kept for the
 * message.
 */
#ifndef XPROF_ELF_FUNCTION_PATTERNS_H
#define XPROF_ELF_FUNCTION_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a pattern matches the symbol, its demangled form, or the short name (xp_short_name()). A pattern is a glob; a
 * name with the characters of globs, such as "operator[]", matches itself. demangled: symbol or NULL if there is none.
 */
bool xp_function_matches(const char *pattern, const char *symbol, const char *demangled);

/* Records which patterns matched something. The patterns have no leading '!'. */
struct xp_pattern_uses;

/* The patterns are borrowed. Returns NULL if out of memory: then nothing is noted. */
struct xp_pattern_uses *xp_pattern_uses_new(const char *const *patterns, size_t count);
void xp_pattern_uses_free(struct xp_pattern_uses *uses);

/* Like xp_function_matches(), and records that the pattern matched. uses: NULL, or of these patterns. */
bool xp_pattern_uses_match(struct xp_pattern_uses *uses, const char *const *patterns, size_t index, const char *symbol,
			   const char *demangled);

/*
 * Returns -EDOM, with a sentence (why.h) and the most similar names in it, if a pattern matched no function. what: the
 * option with the patterns, such as "--functions". uses may be NULL.
 */
int xp_pattern_uses_check(const struct xp_pattern_uses *uses, const char *what);

#endif
