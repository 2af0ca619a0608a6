/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "unit.h"

#include "base/cpu.h"

TEST(lists)
{
	bool cpus[8];

	assert_int_equal(xp_cpu_list_parse("0-2,5,7", cpus, 8), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(cpus[i], i <= 2 || i == 5 || i == 7);
	assert_int_equal(xp_cpu_list_parse("3", cpus, 8), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(cpus[i], i == 3);
}

TEST(bad_lists)
{
	static const char *const texts[] = {
		"", "x", "-1", "1-", "1-x", "3-1", "1,", ",1", "1,,2", "1 2", "0x1", "1;2"
	};
	static const char *const numbers[] = { "8", "0-8", "1,99999999999999999999" };
	bool cpus[8];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		assert_int_equal(xp_cpu_list_parse(texts[i], cpus, 8), -EINVAL);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		assert_int_equal(xp_cpu_list_parse(numbers[i], cpus, 8), -ERANGE);
}

TEST(online)
{
	assert_true(xp_cpu_online(0));
	assert_false(xp_cpu_online(1000000));
}
