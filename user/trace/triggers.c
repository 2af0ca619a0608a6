// SPDX-License-Identifier: BSD-2-Clause
#include "trace/triggers.h"

#include <errno.h>
#include <stdlib.h>

int xp_triggers_new(struct xp_triggers *triggers, size_t count, size_t limit, uint64_t minute_ticks)
{
	*triggers = (struct xp_triggers){
		.list = calloc(count, sizeof(*triggers->list)),
		.globs = calloc(count, sizeof(*triggers->globs)),
		.asked = calloc(limit, sizeof(*triggers->asked)),
		.count = count,
		.limit = limit,
		.minute_ticks = minute_ticks,
	};
	return triggers->list && triggers->globs && triggers->asked ? 0 : -ENOMEM;
}

void xp_triggers_free(struct xp_triggers *triggers)
{
	free(triggers->list);
	free(triggers->globs);
	free(triggers->asked);
}

bool xp_triggers_may_write(struct xp_triggers *triggers, uint64_t now_tsc)
{
	uint64_t *oldest = &triggers->asked[triggers->next];

	if (*oldest && now_tsc - *oldest < triggers->minute_ticks)
		return false;
	*oldest = now_tsc;
	triggers->next = (triggers->next + 1) % triggers->limit;
	return true;
}
