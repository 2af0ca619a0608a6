/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Patterns of function names, as users write them: --functions, --trigger, --callers. A name that xprof prints is also
 * a pattern. A pattern that matches no function is probably mistyped, so the most similar names are kept for the
 * message.
 */
#ifndef XPROF_ELF_FUNCTION_PATTERNS_H
#define XPROF_ELF_FUNCTION_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Returns whether a pattern matches the symbol, its demangled form, or its short name (xp_short_name()). A pattern is a
 * glob; a name with glob characters, such as "operator[]", matches itself. demangled: equals symbol, or is NULL, if
 * there is no demangled form.
 */
bool xp_function_matches(const char *pattern, const char *symbol, const char *demangled);

/* Returns whether the glob before the ':' of a pattern matches the name or the path of a file. */
bool xp_pattern_object_matches(const char *glob, const char *path);

/* Records which patterns matched a function. The patterns have no leading '!'. */
struct xp_pattern_uses;

/* The caller keeps the patterns. Returns NULL if out of memory; the other functions accept that. */
struct xp_pattern_uses *xp_pattern_uses_new(const char *const *patterns, size_t count);
void xp_pattern_uses_free(struct xp_pattern_uses *uses);

/* Like xp_function_matches(), and records that the pattern matched. uses: made from the same patterns, or NULL. */
bool xp_pattern_uses_match(struct xp_pattern_uses *uses, const char *const *patterns, size_t index, const char *symbol,
			   const char *demangled);

/*
 * Returns -EDOM, with a sentence (why.h) that contains the most similar names, if a pattern matched nothing. option:
 * the one with the patterns, such as "--functions". what: "function" or "USDT probe". uses may be NULL.
 */
int xp_pattern_uses_check_of(const struct xp_pattern_uses *uses, const char *option, const char *what);
static inline int xp_pattern_uses_check(const struct xp_pattern_uses *uses, const char *option)
{
	return xp_pattern_uses_check_of(uses, option, "function");
}

#endif
