/* SPDX-License-Identifier: BSD-2-Clause */
/* Work in a task of its own. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/shield.h"

static int be_another_task(void *caller)
{
	return getpid() == *(pid_t *)caller ? 0 : 7;
}

static int die(void *caller)
{
	kill(getpid() == *(pid_t *)caller ? 0 : getpid(), SIGKILL);
	return 0;
}

static void test_result(void **state)
{
	pid_t caller = getpid();

	(void)state;
	assert_int_equal(xp_shielded(be_another_task, &caller), 7);
	assert_int_equal(xp_shielded(die, &caller), -ECHILD);
	/* No task is left. */
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_result) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
