/* SPDX-License-Identifier: BSD-2-Clause */
#include "kernel/perf_event.h"

#include <unistd.h>

bool xp_perf_event_lives(int fd, struct xp_perf_event_look *look)
{
	struct {
		uint64_t value, enabled_ns, lost;
	} now = { 0 };
	bool lives = read(fd, &now, sizeof(now)) >= (ssize_t)(2 * sizeof(uint64_t)) && now.enabled_ns > look->enabled_ns;

	if (lives)
		*look = (struct xp_perf_event_look){ now.enabled_ns, now.lost };
	return lives;
}
