// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_waits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/util.h"
#include "model/location_names.h"

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

/* Of the time that a wait stands for, the part in which the thread was runnable. */
static uint64_t total_runnable_ns(const struct xp_wait_record *wait)
{
	uint64_t ns = xp_wait_record_ns(wait);

	return ns ? (uint64_t)((unsigned __int128)xp_wait_record_period(wait) * wait->runnable_ns / ns) : 0;
}

static uint32_t slot_of(const struct xp_model *model, uint64_t time_ns)
{
	return model->slot_ns ? (uint32_t)XP_MIN(time_ns / model->slot_ns, (uint64_t)UINT32_MAX) : 0;
}

int xp_waits_add(struct xp_model *model, const struct xp_model_sample *sample, const struct xp_wait_record *wait)
{
	uint64_t end_ns = sample->time_ns, runnable_ns = XP_MIN(wait->runnable_ns, end_ns);
	const struct xp_model_wait new = {
		.thread = sample->thread,
		.stack = sample->stack,
		.cpu = sample->cpu,
		.state = xp_waits_known_state(wait),
		.flags = wait->flags & (XP_WAIT_LAST | XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ),
		.waker_tid = wait->waker_tid > 0 ? (uint32_t)wait->waker_tid : 0,
		.waker_name = xp_model_text(model, wait->waker_comm),
		.lock = wait->state == XP_WAIT_LOCK ? wait->lock : 0,
		.syscall = wait->syscall,
		.chance = wait->chance,
		.begin_ns = end_ns - runnable_ns - XP_MIN(wait->blocked_ns, end_ns - runnable_ns),
		.end_ns = end_ns,
		.runnable_ns = runnable_ns,
		.first_slot = slot_of(model, end_ns - runnable_ns - XP_MIN(wait->blocked_ns, end_ns - runnable_ns)),
		.last_slot = slot_of(model, end_ns),
		.recorded = 1,
		.count = xp_wait_record_weight(wait),
		.total_ns = XP_MIN(xp_wait_record_period(wait), (uint64_t)INT64_MAX),
		.total_runnable_ns = XP_MIN(total_runnable_ns(wait), (uint64_t)INT64_MAX),
	};

	return new.waker_name ? xp_model_wait(model, &new) : -ENOMEM;
}

/* ---- as samples ---- */

/*
 * The number of waits is rounded down, and the rest counts for the next ones, so that a sum of all is rounded to the
 * nearest number: a weight is no whole number.
 */
static int add_samples(struct xp_model *model, const struct xp_model_wait *wait, double *owed)
{
	uint64_t until_ns = xp_model_wait_blocked_until(wait);
	double exact = wait->count + *owed;
	struct xp_model_sample blocked = {
		.stack = wait->stack,
		.thread = wait->thread,
		.cpu = wait->cpu,
		.state = wait->state,
		.values = { (uint64_t)exact, wait->total_ns - wait->total_runnable_ns },
	};
	struct xp_model_sample runnable = blocked;
	int err;

	*owed = exact - (double)blocked.values[0];
	runnable.state = XP_WAIT_PREEMPTED;
	runnable.values[0] = wait->state == XP_WAIT_PREEMPTED ? blocked.values[0] : 0;
	runnable.values[1] = wait->total_runnable_ns;
	if (wait->state == XP_WAIT_PREEMPTED)
		return xp_model_sample_over(model, &runnable, until_ns, wait->end_ns);
	err = xp_model_sample_over(model, &blocked, wait->begin_ns, until_ns);
	return err || !runnable.values[1] ? err : xp_model_sample_over(model, &runnable, until_ns, wait->end_ns);
}

int xp_waits_as_samples(struct xp_model *model)
{
	double owed = 0.5;
	size_t unused;
	int err = 0;

	model->kind = XP_MODEL_WAITS;
	model->period_ns = 0;
	free(xp_model_take_samples(model, &unused));
	for (size_t i = 0; !err && i < model->wait_count; i++)
		err = add_samples(model, &model->waits[i], &owed);
	return err;
}

/* ---- wakers ---- */

/* Threads of one name are one waker. NULL: unknown, or none. */
static const char *waker_frame(char to[XP_WAKER_BYTES], const struct xp_model_wait *wait)
{
	if (wait->state == XP_WAIT_PREEMPTED || wait->flags & XP_WAIT_LAST)
		return NULL;
	if (wait->flags & XP_WAIT_HARDIRQ)
		return "woken by a timer or an interrupt";
	if (wait->flags & XP_WAIT_SOFTIRQ)
		return "woken by the kernel";
	snprintf(to, XP_WAKER_BYTES, "woken by %.40s", wait->waker_name);
	return wait->waker_tid ? to : NULL;
}

int xp_waits_add_wakers(struct xp_model *model)
{
	char text[XP_WAKER_BYTES];
	int err = 0;

	for (size_t i = 0; !err && i < model->wait_count; i++) {
		struct xp_model_wait *wait = &model->waits[i];
		const char *waker = waker_frame(text, wait);
		uint32_t location;

		if (!waker)
			continue;
		err = xp_model_location_named(model, waker, XP_CODE_WAKER, &location)
			  ?: xp_model_stack(model, wait->stack, location, &wait->stack);
		err = err == -E2BIG ? 0 : err; /* without it */
	}
	return err;
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
