// SPDX-License-Identifier: BSD-2-Clause
#include <errno.h>

#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "elf/demangle.h"
#include "elf/function_patterns.h"

static bool matches(const char *pattern, const char *symbol)
{
	char *demangled = xp_demangle(symbol);
	bool result = xp_function_matches(pattern, symbol, demangled);

	free(demangled);
	return result;
}

TEST(test_names)
{
	static const char member[] = "_ZN4shop5Stock4takeEi", template[] = "_ZN4shop4packIiEET_S1_";

	assert_true(matches("main", "main"));
	assert_false(matches("mai", "main"));
	/* Short names, as in reports; complete names; mangled names. */
	assert_true(matches("shop::Stock::take", member));
	assert_true(matches("shop::Stock::take(int)", member));
	assert_true(matches(member, member));
	assert_true(matches("shop::*", member));
	assert_true(matches("shop::pack", template));
	assert_true(matches("shop::pa*", template));
	assert_true(matches("int shop::pack<int>(int)", template));
	assert_false(matches("Stock::take", member));
	assert_true(matches("shop::pack", "_ZN4shop4packITkSt8integraliEEvT_"));
	assert_true(matches("shop::pa*", "_ZN4shop4packITkSt8integraliEEvT_"));
	/* Names that are not suitable as globs. */
	assert_true(matches("shop::Map::operator[]", "_ZN4shop3MapixEi"));
	assert_true(matches("shop::Map::operator*", "_ZN4shop3MapmlEi"));
}

TEST(test_uses)
{
	static const char *const patterns[] = { "serve*", "!tkae", "operator" };
	static const char *const names[] = { "main", "take", "serve", "serve_all", "untake", "bake", "take" };
	struct xp_pattern_uses *uses = xp_pattern_uses_new(patterns, 2);

	assert_non_null(uses);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(xp_pattern_uses_match(uses, patterns, 0, names[i], NULL),
				 !strncmp(names[i], "serve", 5));
		assert_false(xp_pattern_uses_match(uses, patterns, 1, names[i], NULL));
	}
	assert_int_equal(xp_pattern_uses_check(uses, "--functions"), -EDOM);
	assert_string_equal(xp_why(-EDOM),
			    "--functions 'tkae' matches no function; the nearest names are take, bake, main");
	assert_true(xp_pattern_uses_match(uses, patterns, 1, "tkae", NULL));
	assert_int_equal(xp_pattern_uses_check(uses, "--functions"), 0);
	xp_pattern_uses_free(uses);
	assert_int_equal(xp_pattern_uses_check(NULL, "--functions"), 0);
	assert_true(xp_pattern_uses_match(NULL, patterns, 2, "operator", NULL));
}

/* A name that contains the pattern is closer than a name with few different characters, at any length. */
TEST(test_part)
{
	static const char *const patterns[] = { "*Serve*" };
	struct xp_pattern_uses *uses = xp_pattern_uses_new(patterns, 1);

	assert_int_equal(xp_pattern_uses_check(uses, "--callers"), -EDOM);
	assert_string_equal(xp_why(-EDOM), "--callers '*Serve*' matches no function");
	assert_false(xp_pattern_uses_match(uses, patterns, 0, "curve", NULL));
	assert_false(
	    xp_pattern_uses_match(uses, patterns, 0, "_ZN4shop14serve_requestsEi", "shop::serve_requests(int)"));
	assert_int_equal(xp_pattern_uses_check(uses, "--callers"), -EDOM);
	assert_string_equal(
	    xp_why(-EDOM),
	    "--callers '*Serve*' matches no function; the nearest names are shop::serve_requests, curve");
	xp_pattern_uses_free(uses);
}
