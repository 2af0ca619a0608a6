// SPDX-License-Identifier: BSD-2-Clause
#include "trace/triggers.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"

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

int xp_delays_add(struct xp_delays **delays, uint64_t end_tsc, uint64_t ticks)
{
	*delays = *delays ?: calloc(1, sizeof(**delays));
	if (!*delays)
		return -ENOMEM;
	(*delays)->newest[(*delays)->count++ % XP_DELAYS_MAX] = (struct xp_delay){ end_tsc, ticks };
	return 0;
}

uint64_t xp_delays_within(const struct xp_delays *delays, uint64_t begin_tsc, uint64_t end_tsc)
{
	uint64_t ticks = 0;

	for (uint32_t i = 0; delays && i < XP_MIN(delays->count, (uint32_t)XP_DELAYS_MAX); i++) {
		const struct xp_delay *delay = &delays->newest[i];
		uint64_t until_tsc = XP_MIN(delay->end_tsc, end_tsc);
		uint64_t from_tsc = XP_MAX(delay->end_tsc - XP_MIN(delay->ticks, delay->end_tsc), begin_tsc);

		ticks += until_tsc > from_tsc ? until_tsc - from_tsc : 0;
	}
	return XP_MIN(ticks, end_tsc - begin_tsc);
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
