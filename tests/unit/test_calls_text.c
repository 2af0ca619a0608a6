// SPDX-License-Identifier: BSD-2-Clause
#include "unit.h"

#include "record/calls_text.h"

#include <stdlib.h>

#include "elf/sled_table.h"

TEST(names_are_demangled)
{
	struct xp_function functions[] = { { .name = "_ZN5store3addEi" }, { .name = "main" }, { .name = NULL } };
	struct xp_sled_table table = { .functions = functions, .function_count = 3 };
	const struct xp_object object = { .table = &table };
	struct xp_short_text text;

	assert_string_equal(xp_object_function_text(&text, &object, 1), "store::add");
	assert_string_equal(xp_object_function_text(&text, &object, 2), "main");
	assert_string_equal(xp_object_function_text(&text, &object, 3), "function 3");
}
