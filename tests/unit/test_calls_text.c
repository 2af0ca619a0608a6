// SPDX-License-Identifier: BSD-2-Clause
#include "record/calls_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "elf/sled_table.h"

static void names_are_demangled(void **state)
{
	struct xp_function functions[] = { { .name = "_ZN5store3addEi" }, { .name = "main" }, { .name = NULL } };
	struct xp_sled_table table = { .functions = functions, .function_count = 3 };
	const struct xp_object object = { .table = &table };
	struct xp_short_text text;

	(void)state;
	assert_string_equal(xp_object_function_text(&text, &object, 1), "store::add");
	assert_string_equal(xp_object_function_text(&text, &object, 2), "main");
	assert_string_equal(xp_object_function_text(&text, &object, 3), "function 3");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names_are_demangled) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
