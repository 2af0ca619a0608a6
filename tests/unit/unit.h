/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For unit tests: cmocka, with what that needs, and main(), which runs each TEST(name) { ... } of the file, and each
 * TEST_WITH(name, set_up, tear_down) { ... }, in the order of the file.
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

#define TEST_WITH(name, set_up, tear_down) \
	static void name(void **state); \
	static const struct unit_test unit_##name = { \
		__LINE__, cmocka_unit_test_setup_teardown(name, set_up, tear_down) \
	}; \
	static const struct unit_test *unit_at_##name __attribute__((used, section("unit_tests"))) = &unit_##name; \
	static void name(void **state __attribute__((unused)))
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Of the linker. */
extern const struct unit_test *__start_unit_tests[], *__stop_unit_tests[];

static int unit_by_line(const void *a, const void *b)
{
	return (*(const struct unit_test *const *)a)->line - (*(const struct unit_test *const *)b)->line;
}

int main(void)
{
	size_t count = (size_t)(__stop_unit_tests - __start_unit_tests);
	struct CMUnitTest *tests = calloc(count, sizeof(*tests));
	int failed;

	qsort(__start_unit_tests, count, sizeof(*__start_unit_tests), unit_by_line);
	for (size_t i = 0; tests && i < count; i++)
		tests[i] = __start_unit_tests[i]->test;
	failed = tests ? _cmocka_run_group_tests("tests", tests, count, NULL, NULL) : 1;
	free(tests);
	return failed;
}

#endif
