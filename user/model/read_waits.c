// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_waits.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/util.h"

struct counting {
	struct xp_model *model;
	double owed; /* the part of a wait that the counts so far leave out: a weight is no whole number */
};

const char *xp_waits_state(uint32_t state)
{
	return state == XP_WAIT_PREEMPTED ? "runnable" : xp_wait_state_text(state);
}

uint32_t xp_waits_known_state(const struct xp_wait_record *wait)
{
	static const uint32_t known[] = { XP_WAIT_SLEEP,   XP_WAIT_LOCK,   XP_WAIT_DISK,
					  XP_WAIT_STOPPED, XP_WAIT_TRACED, XP_WAIT_IDLE };

	if (!wait->blocked_ns)
		return XP_WAIT_PREEMPTED;
	for (size_t i = 0; i < XP_ARRAY_SIZE(known); i++)
		if (wait->state == known[i])
			return wait->state;
	return XP_WAIT_OTHER;
}

/* Rounded down, and the rest counts for the next wait, so that a sum of all is rounded to the nearest number. */
static uint64_t count_of(struct counting *counting, const struct xp_wait_record *wait)
{
	double exact = xp_wait_record_weight(wait) + counting->owed;
	uint64_t count = (uint64_t)exact;

	counting->owed = exact - (double)count;
	return count;
}

uint64_t xp_waits_runnable_ns(const struct xp_wait_record *wait)
{
	uint64_t ns = xp_wait_record_ns(wait);

	return ns ? (uint64_t)((unsigned __int128)xp_wait_record_period(wait) * wait->runnable_ns / ns) : 0;
}

static int add(void *arg, const struct xp_model_sample *sample, const struct xp_wait_record *wait)
{
	struct counting *counting = arg;
	struct xp_model_sample blocked = *sample, runnable = *sample;
	int err = 0;

	runnable.state = XP_WAIT_PREEMPTED;
	runnable.values[0] = 0;
	runnable.values[1] = xp_waits_runnable_ns(wait);
	blocked.state = xp_waits_known_state(wait);
	blocked.values[0] = count_of(counting, wait);
	blocked.values[1] = xp_wait_record_period(wait) - runnable.values[1];
	if (!wait->blocked_ns) {
		runnable.values[0] = blocked.values[0];
		return xp_model_sample(counting->model, &runnable);
	}
	err = xp_model_sample(counting->model, &blocked);
	return err || !wait->runnable_ns ? err : xp_model_sample(counting->model, &runnable);
}

int xp_waits_read(struct xp_model *model, const struct xp_model_source *source, bool *broken)
{
	struct counting counting = { .model = model, .owed = 0.5 };
	const struct xp_model_waits waits = { add, &counting };
	struct xp_model_source of_waits = *source;

	of_waits.waits = &waits;
	return xp_model_read_samples(model, &of_waits, broken);
}

const char *xp_waits_waker(char to[XP_WAKER_BYTES], uint32_t flags, const char *name, uint32_t tid)
{
	if (flags & XP_WAIT_LAST)
		snprintf(to, XP_WAKER_BYTES, "(not over)");
	else if (flags & XP_WAIT_HARDIRQ)
		snprintf(to, XP_WAKER_BYTES, "timer or interrupt");
	else if (flags & XP_WAIT_SOFTIRQ)
		snprintf(to, XP_WAKER_BYTES, "kernel, in %.40s (%" PRIu32 ")", name, tid);
	else if (tid)
		snprintf(to, XP_WAKER_BYTES, "%.40s (%" PRIu32 ")", name, tid);
	else
		snprintf(to, XP_WAKER_BYTES, "-");
	return to;
}
