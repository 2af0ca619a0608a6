// SPDX-License-Identifier: BSD-2-Clause
#include "model/read_waits.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/u64_map.h"
#include "base/util.h"
#include "model/location_names.h"

const char *xp_waits_state(uint32_t state)
{
	return state == XP_WAIT_PREEMPTED ? "runnable" : xp_wait_state_text(state);
}

/*
 * Returns the state of a wait: XP_WAIT_PREEMPTED if it was runnable all the time. States with the same name have the
 * same value.
 */
static uint32_t known_state(const struct xp_wait_record *wait)
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

/* Returns the runnable part of the time that a wait represents. */
static uint64_t total_runnable_ns(const struct xp_wait_record *wait)
{
	uint64_t ns = xp_wait_record_ns(wait);

	return ns ? (uint64_t)((unsigned __int128)xp_wait_record_period(wait) * wait->runnable_ns / ns) : 0;
}

static uint32_t slot_of(const struct xp_model *model, uint64_t time_ns)
{
	return model->slot_ns ? (uint32_t)XP_MIN(time_ns / model->slot_ns, (uint64_t)UINT32_MAX) : 0;
}

int xp_waits_add(struct xp_model *model, const struct xp_model_sample *sample, const struct xp_wait_record *wait,
		 uint32_t variable)
{
	uint64_t end_ns = sample->time_ns, runnable_ns = XP_MIN(wait->runnable_ns, end_ns);
	const struct xp_model_wait new = {
		.thread = sample->thread,
		.stack = sample->stack,
		.cpu = sample->cpu,
		.state = known_state(wait),
		.flags = wait->flags & (XP_WAIT_LAST | XP_WAIT_HARDIRQ | XP_WAIT_SOFTIRQ),
		.waker_tid = wait->waker_tid > 0 ? (uint32_t)wait->waker_tid : 0,
		.waker_name = xp_model_text(model, wait->waker_comm),
		.lock = wait->state == XP_WAIT_LOCK ? wait->lock : 0,
		.variable = variable,
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

/* ---- locks ---- */

enum futex { FUTEX_UNKNOWN, FUTEX_LOCK, FUTEX_OTHER };

static enum futex futex_of_function(const char *name)
{
	static const struct {
		const char *part;
		enum futex futex;
	} known[] = {
		{ "pthread_cond", FUTEX_OTHER }, { "condition_variable", FUTEX_OTHER },
		{ "Condvar", FUTEX_OTHER },	 { "CondVar", FUTEX_OTHER },
		{ "pthread_mutex", FUTEX_LOCK }, { "pthread_rwlock", FUTEX_LOCK },
		{ "lll_lock", FUTEX_LOCK },	 { "mutex::", FUTEX_LOCK },
		{ "Mutex::", FUTEX_LOCK },	 { "RwLock::", FUTEX_LOCK },
	};
	const char *end = strchrnul(name, '('), *part; /* ignore locks among the arguments */

	for (size_t i = 0; i < XP_ARRAY_SIZE(known); i++) {
		part = strstr(name, known[i].part);
		if (part && part < end)
			return known[i].futex;
	}
	return FUTEX_UNKNOWN;
}

/* Uses the innermost known function: a condition variable locks its mutex again after its wait. */
static void find_futexes(const struct xp_model *model, uint8_t *of_stacks)
{
	for (size_t s = 1; s < model->stack_count; s++) {
		const struct xp_model_location *location = &model->locations[model->stacks[s].location];
		enum futex futex = FUTEX_UNKNOWN;

		for (uint32_t i = 0; !futex && i < location->frame_count; i++)
			futex =
			    futex_of_function(model->functions[model->frames[location->first_frame + i].function].name);
		of_stacks[s] = futex ? (uint8_t)futex : of_stacks[model->stacks[s].callers];
	}
}

static uint64_t address_key(const struct xp_model *model, const struct xp_model_wait *wait)
{
	return xp_hash_mix(wait->lock, model->threads[wait->thread].process);
}

int xp_waits_find_locks(struct xp_model *model)
{
	uint8_t *of_stacks = calloc(model->stack_count, sizeof(*of_stacks));
	struct xp_u64_map locks = { 0 };
	int err = of_stacks ? 0 : -ENOMEM;

	if (!err)
		find_futexes(model, of_stacks);
	for (size_t i = 0; !err && i < model->wait_count; i++) {
		const struct xp_model_wait *wait = &model->waits[i];

		if (wait->lock && of_stacks[wait->stack] == FUTEX_LOCK &&
		    !xp_u64_map_add(&locks, address_key(model, wait), 0))
			err = -ENOMEM;
	}
	for (size_t i = 0; !err && i < model->wait_count; i++) {
		struct xp_model_wait *wait = &model->waits[i];
		uint8_t futex = of_stacks[wait->stack];

		if (wait->state == XP_WAIT_LOCK && futex != FUTEX_LOCK &&
		    (futex == FUTEX_OTHER || !wait->lock || !xp_u64_map_find(&locks, address_key(model, wait))))
			wait->state = XP_WAIT_FUTEX;
	}
	xp_u64_map_free(&locks);
	free(of_stacks);
	return err;
}

const char *xp_waits_variable(const struct xp_model *model, const struct xp_model_wait *wait)
{
	const struct xp_model_function *function;

	if (wait->state != XP_WAIT_LOCK || wait->variable == XP_MODEL_NONE)
		return NULL;
	function = &model->functions[model->frames[model->locations[wait->variable].first_frame].function];
	return function->has_name ? function->shown : NULL;
}

/* ---- as samples ---- */

/*
 * Adds the samples of a wait. A weight is not a whole number: this rounds the number of waits down and adds the rest to
 * the next wait, so that the sum of all waits is correct.
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

/* Formats the frame of a waker; threads with the same name are one waker. NULL: unknown, or none. */
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
