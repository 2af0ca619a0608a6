/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "process.h"

/* How often a process has fled is handed on to what it executes, and not to another one that gets its number. */
static void test_flees_of_a_process(void **state)
{
	struct xp_target_info info = { .start_time = 5 };
	struct xp_processes processes = { 0 };
	struct xp_process *process;

	(void)state;
	assert_int_equal(xp_processes_init(&processes), 0);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 1), 0);
	process->flees = 3;
	assert_int_equal(xp_process_end(process), 0);
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 2), 0);
	assert_int_equal(process->flees, 3);
	assert_int_equal(xp_process_end(process), 0);
	info.start_time++;
	assert_int_equal(xp_processes_add(&processes, &process, 7, &info, 3), 0);
	assert_int_equal(process->image, 3);
	assert_int_equal(process->flees, 0);
	xp_processes_free(&processes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flees_of_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
