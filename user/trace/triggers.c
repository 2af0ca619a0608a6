// SPDX-License-Identifier: BSD-2-Clause
#include "trace/triggers.h"

#include <errno.h>
#include <stdlib.h>

int xp_triggers_new(struct xp_triggers *triggers, size_t count, size_t limit, uint64_t minute_ticks)
{
	*triggers = (struct xp_triggers){
		.list = calloc(count, sizeof(*triggers->list)),
		.globs = calloc(count, sizeof(*triggers->globs)),
		.logs = calloc(limit, sizeof(*triggers->logs)),
		.count = count,
		.limit = limit,
		.minute_ticks = minute_ticks,
	};
	return triggers->list && triggers->globs && triggers->logs ? 0 : -ENOMEM;
}

void xp_triggers_free(struct xp_triggers *triggers)
{
	free(triggers->list);
	free(triggers->globs);
	free(triggers->logs);
}

enum xp_trigger_answer xp_triggers_ask(struct xp_triggers *triggers, int pid, bool is_only_process, uint64_t now_tsc)
{
	struct xp_trigger_log *oldest = &triggers->logs[triggers->next];
	size_t left = 0, own = 0;

	if (oldest->asked_tsc && now_tsc - oldest->asked_tsc < triggers->minute_ticks)
		return XP_TRIGGER_BEYOND_LIMIT;
	for (size_t i = 0; !is_only_process && i < triggers->limit; i++) {
		const struct xp_trigger_log *log = &triggers->logs[i];
		bool is_recent = log->asked_tsc && now_tsc - log->asked_tsc < triggers->minute_ticks;

		left += !is_recent;
		own += is_recent && log->pid == pid;
	}
	if (!is_only_process && own >= left)
		return XP_TRIGGER_BEYOND_SHARE;
	*oldest = (struct xp_trigger_log){ now_tsc, pid };
	triggers->next = (triggers->next + 1) % triggers->limit;
	return XP_TRIGGER_WRITES;
}
