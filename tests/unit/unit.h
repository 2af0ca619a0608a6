/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For unit tests: cmocka with its prerequisites, and main(), which runs each TEST(name) { ... } and each
 * TEST_WITH(name, set_up, tear_down) { ... } in the order of the file. A file may define unit_set_up() and
 * unit_tear_down(), which run before and after all its tests, and unit_why_not(), which returns a reason why its tests
 * cannot run here.
 */
#ifndef XPROF_TESTS_UNIT_H
#define XPROF_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

struct unit_test {
	int line;
	struct CMUnitTest test;
};

#define TEST_WITH(name, set_up, tear_down)                                                                             \
	static void name(void **state);                                                                                \
	static const struct unit_test unit_##name = { __LINE__,                                                        \
						      cmocka_unit_test_setup_teardown(name, set_up, tear_down) };      \
	static const struct unit_test *unit_at_##name __attribute__((used, section("unit_tests"))) = &unit_##name;     \
	static void name(void **state __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

int unit_set_up(void **state) __attribute__((weak));
int unit_tear_down(void **state) __attribute__((weak));
const char *unit_why_not(void) __attribute__((weak));

static inline void unit_skip(void **state __attribute__((unused)))
{
	skip();
}

/* Defined by the linker. */
extern const struct unit_test *__start_unit_tests[], *__stop_unit_tests[];

static int unit_by_line(const void *a, const void *b)
{
	return (*(const struct unit_test *const *)a)->line - (*(const struct unit_test *const *)b)->line;
}

int main(void)
{
	size_t count = (size_t)(__stop_unit_tests - __start_unit_tests);
	struct CMUnitTest *tests = calloc(count, sizeof(*tests));
	const char *why_not = unit_why_not ? unit_why_not() : NULL;
	int failed;

	if (why_not)
		print_message("%s\n", why_not);

	qsort(__start_unit_tests, count, sizeof(*__start_unit_tests), unit_by_line);
	for (size_t i = 0; tests && i < count; i++) {
		tests[i] = __start_unit_tests[i]->test;
		if (why_not)
			tests[i] = (struct CMUnitTest){ .name = tests[i].name, .test_func = unit_skip };
	}
	failed = tests ? _cmocka_run_group_tests("tests", tests, count, why_not ? NULL : unit_set_up,
						 why_not ? NULL : unit_tear_down)
		       : 1;
	free(tests);
	return failed;
}

#endif
