// SPDX-License-Identifier: BSD-2-Clause
#include "base/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define STATUS_BYTES 4096

/* /proc/PID/status of xprof: shows the pending signals to all tasks of xprof. */
static int status_fd = -1;
static uint64_t ending_signals;
static uint64_t deadline_ns;

static uint64_t bit(int number)
{
	return 1ull << (number - 1);
}

void xp_interrupt_init(bool with_sigint)
{
	ending_signals = bit(SIGTERM) | bit(SIGHUP) | (with_sigint ? bit(SIGINT) : 0);
	deadline_ns = 0;
	if (status_fd < 0)
		status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
}

void xp_interrupt_set_deadline(uint64_t at_ns)
{
	__atomic_store_n(&deadline_ns, at_ns, __ATOMIC_RELAXED);
}

bool xp_interrupt_timed_out(void)
{
	uint64_t at_ns = __atomic_load_n(&deadline_ns, __ATOMIC_RELAXED);

	return at_ns && xp_now_ns() >= at_ns;
}

static uint64_t field(const char *text, const char *name)
{
	const char *line = strstr(text, name);

	return line ? strtoull(line + strlen(name), NULL, 16) : 0;
}

bool xp_interrupted(void)
{
	char text[STATUS_BYTES];
	ssize_t n;

	if (status_fd < 0)
		return false;
	if (xp_interrupt_timed_out())
		return true;
	/* The file of a process that is dead and reaped reads as empty or fails. */
	n = pread(status_fd, text, sizeof(text) - 1, 0);
	if (n <= 0)
		return true;
	text[n] = 0;
	if (strstr(text, "\nState:\tZ") || strstr(text, "\nState:\tX"))
		return true;
	return (field(text, "\nSigPnd:") | field(text, "\nShdPnd:")) & (ending_signals | bit(SIGKILL));
}
