// SPDX-License-Identifier: BSD-2-Clause
#include "base/bus_error.h"

#include <errno.h>
#include <stddef.h>

static bool (*repairs[XP_BUS_KINDS])(const siginfo_t *info);

static void on_bus_error(int number, siginfo_t *info, void *context)
{
	int saved_errno = errno;
	bool repaired = false;

	(void)context;
	for (int kind = 0; kind < XP_BUS_KINDS && !repaired; kind++)
		repaired = repairs[kind] && repairs[kind](info);
	/* The access is repeated, and the second SIGBUS ends xprof. */
	if (!repaired)
		signal(number, SIG_DFL);
	errno = saved_errno;
}

int xp_bus_error_ask(enum xp_bus_error_kind kind, bool (*repair)(const siginfo_t *info))
{
	const struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };

	repairs[kind] = repair;
	return sigaction(SIGBUS, &action, NULL) ? -errno : 0;
}
