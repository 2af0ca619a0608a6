/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/cpu.h"

static void lists(void **state)
{
	bool cpus[8];

	(void)state;
	assert_int_equal(xp_cpu_list_parse("0-2,5,7", cpus, 8), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(cpus[i], i <= 2 || i == 5 || i == 7);
	assert_int_equal(xp_cpu_list_parse("3", cpus, 8), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(cpus[i], i == 3);
}

static void bad_lists(void **state)
{
	static const char *const texts[] = {
		"", "x", "-1", "1-", "1-x", "3-1", "1,", ",1", "1,,2", "1 2", "0x1", "1;2"
	};
	static const char *const numbers[] = { "8", "0-8", "1,99999999999999999999" };
	bool cpus[8];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_int_equal(xp_cpu_list_parse(texts[i], cpus, 8), -EINVAL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		assert_int_equal(xp_cpu_list_parse(numbers[i], cpus, 8), -ERANGE);
}

static void online(void **state)
{
	(void)state;
	assert_true(xp_cpu_online(0));
	assert_false(xp_cpu_online(1000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists),
		cmocka_unit_test(bad_lists),
		cmocka_unit_test(online),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
