/* SPDX-License-Identifier: BSD-2-Clause */
#include "perf_event.h"

#include <unistd.h>

bool xp_perf_event_lives(int fd, uint64_t *enabled_ns)
{
	struct {
		uint64_t value, enabled_ns;
	} now;
	bool lives = read(fd, &now, sizeof(now)) == sizeof(now) && now.enabled_ns > *enabled_ns;

	if (lives)
		*enabled_ns = now.enabled_ns;
	return lives;
}
