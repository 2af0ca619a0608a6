/* SPDX-License-Identifier: BSD-2-Clause */
/* Work in a separate task. */
#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

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

TEST(test_result)
{
	pid_t caller = getpid();

	assert_int_equal(xp_shielded(be_another_task, &caller), 7);
	assert_int_equal(xp_shielded(die, &caller), -ECHILD);
	/* No task remains. */
	assert_int_equal(waitpid(-1, NULL, __WALL), -1);
	assert_int_equal(errno, ECHILD);
}
