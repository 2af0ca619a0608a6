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

static bool is_recent(const struct xp_triggers *triggers, const struct xp_trigger_log *log, uint64_t now_tsc)
{
	return log->asked_tsc && now_tsc - log->asked_tsc < triggers->minute_ticks;
}

enum xp_trigger_answer xp_triggers_ask(struct xp_triggers *triggers, int pid, bool is_only_process, uint64_t took_ticks,
				       uint64_t now_tsc)
{
	const size_t for_slower = triggers->limit < XP_TRIGGER_LIMIT_HALVED ? 0 : triggers->limit / 2;
	struct xp_trigger_log *oldest = &triggers->logs[triggers->next];
	size_t left = 0, own = 0;
	uint64_t slowest_ticks = 0;

	if (is_recent(triggers, oldest, now_tsc))
		return XP_TRIGGER_BEYOND_LIMIT;
	for (size_t i = 0; i < triggers->limit; i++) {
		const struct xp_trigger_log *log = &triggers->logs[i];
		bool counts = is_recent(triggers, log, now_tsc);

		left += !counts;
		own += counts && log->pid == pid;
		if (counts && log->took_ticks > slowest_ticks)
			slowest_ticks = log->took_ticks;
	}
	if (!is_only_process && own >= left)
		return XP_TRIGGER_BEYOND_SHARE;
	if (left <= for_slower && took_ticks <= slowest_ticks)
		return XP_TRIGGER_BEYOND_LIMIT;
	*oldest = (struct xp_trigger_log){ now_tsc, took_ticks, pid };
	triggers->next = (triggers->next + 1) % triggers->limit;
	return XP_TRIGGER_WRITES;
}
