// SPDX-License-Identifier: BSD-2-Clause
#include "budget/throttle_work.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "base/why.h"

/* First retry delay for a process whose threads do not stop or that a debugger holds; it doubles with each failure. */
#define RETRY_NS 500000000ull
#define RETRY_SHIFT_MAX 7u
#define RETRY_WARN 3 /* consecutive failures that lead to a warning */

struct xp_throttle_member *xp_throttle_member(const struct xp_throttle *throttle, const struct xp_object *object)
{
	for (size_t i = 0; i < throttle->member_count; i++)
		if (throttle->members[i].object == object)
			return &throttle->members[i];
	return NULL;
}

/*
 * Returns whether the recording ends: then skip the remaining changes, and let the end restore the sleds. A process
 * that does not stop can take seconds, and there may be many.
 */
static bool is_stopping(const struct xp_throttle *throttle)
{
	return __atomic_load_n(&throttle->stopping, __ATOMIC_RELAXED);
}

static void note_change(struct xp_throttled *one, enum xp_budget_state state, uint64_t now)
{
	if (one->state == XP_BUDGET_RECORDED) {
		one->times++;
		one->forget = true;
	} else {
		one->out_ticks += now - one->since_tsc;
	}
	if (one->state == XP_BUDGET_COUNTED)
		one->counted_ticks += now - one->since_tsc;
	one->since_tsc = now;
	one->state = state;
}

/* The functions changed by this work, in the order of their ids; all that ever were, for a process that lacks some. */
static size_t list_functions(const struct xp_throttle *throttle, const struct xp_throttle_member *member, bool all)
{
	const struct xp_throttled *functions = &throttle->all[member->first];
	size_t count = 0;

	for (uint32_t id = 1; id <= member->object->table->function_count; id++)
		if (all ? functions[id - 1].changed : functions[id - 1].changes)
			throttle->ids[count++] = id;
	return count;
}

static void put_off(const struct xp_throttle *throttle, struct xp_throttle_place *place)
{
	place->failures++;
	place->retry_tsc = xp_clock_now_tsc() + xp_clock_ticks(throttle->options.clock,
							       RETRY_NS << XP_MIN(place->failures, RETRY_SHIFT_MAX));
}

/* Returns false if the process did not stop, so that nothing in it has changed. */
static bool patch_place(struct xp_throttle *throttle, const struct xp_throttle_member *member,
			struct xp_throttle_place *place)
{
	size_t count = list_functions(throttle, member, place->failures || place->behind);
	const struct xp_patch_place patched = { member->object, place->pid, .inherits = place->inherits };
	struct xp_patch *patch = throttle->options.patch;
	uint64_t before_ns, longest_ns;
	int err;

	if (!count)
		return true;
	before_ns = xp_patch_stopped_ns(patch, &longest_ns);
	err = xp_patch_functions(patch, &patched, throttle->ids, count);
	place->stopped_ns += xp_patch_stopped_ns(patch, &longest_ns) - before_ns;
	if (!err || err == -ESRCH) {
		place->failures = 0;
		place->behind = false;
		place->changed_tsc = xp_clock_now_tsc();
		return true;
	}
	put_off(throttle, place);
	throttle->failed |= place->failures >= RETRY_WARN;
	if (place->failures == RETRY_WARN)
		xp_warn("budget: cannot throttle or resume functions of process %d: %s; xprof keeps trying", place->pid,
			xp_why(err));
	xp_why_clear();
	return err != -EBUSY && err != -EAGAIN && err != -EPERM;
}

/* Returns whether to skip a process that failed until its retry is due. The retry makes all changes that it missed. */
static bool is_left_alone(const struct xp_throttle *throttle, const struct xp_throttle_place *place)
{
	return place->failures && (is_stopping(throttle) || place->retry_tsc > xp_clock_now_tsc());
}

/*
 * Returns false if the change was made in no process of the object. At the end of a recording, waits for the patches
 * that are due, but not for processes that failed to stop before.
 */
static bool patch_member(struct xp_throttle *throttle, struct xp_throttle_member *member)
{
	size_t taken = 0;

	for (size_t p = 0; p < member->place_count; p++)
		if (!is_left_alone(throttle, &member->places[p]))
			taken += patch_place(throttle, member, &member->places[p]);
	return taken || !member->place_count;
}

/* Sets in the object how the function's patched sleds are to be. They follow with this work, or when they are patched.
 */
static void set_excluded(const struct xp_throttled *one, enum xp_budget_state state)
{
	struct xp_function_budget *budget = &one->object->budget[one->function_id];
	uint32_t excluded = state == XP_BUDGET_RECORDED	 ? XP_EXCLUDED_NOT
			    : state == XP_BUDGET_COUNTED ? one->counter + 1
							 : XP_EXCLUDED_OUT;

	__atomic_store_n(&budget->excluded, (uint8_t)excluded, __ATOMIC_RELAXED);
	if (state == XP_BUDGET_RECORDED)
		__atomic_store_n(&budget->out_tsc, UINT64_MAX, __ATOMIC_RELAXED);
}

/*
 * Sets the time of the change after all processes have been changed: calls that were recorded before a process was
 * stopped, or by a thread that had just left the changed instruction, are older. finish_work() forgets calls without
 * exits in the log.
 */
static void set_out_tsc(const struct xp_throttled *one, uint64_t now_tsc)
{
	struct xp_function_budget *budget = &one->object->budget[one->function_id];

	if (one->state != XP_BUDGET_RECORDED && budget->out_tsc == UINT64_MAX)
		__atomic_store_n(&budget->out_tsc, now_tsc, __ATOMIC_RELAXED);
}

bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc)
{
	for (size_t m = 0; m < throttle->member_count; m++)
		for (size_t p = 0; p < throttle->members[m].place_count; p++) {
			const struct xp_throttle_place *place = &throttle->members[m].places[p];

			if ((place->failures || place->behind) && place->retry_tsc <= now_tsc)
				return true;
		}
	return false;
}

static void patch_everywhere(struct xp_throttle *throttle)
{
	for (size_t m = 0; m < throttle->member_count; m++) {
		struct xp_throttle_member *member = &throttle->members[m];

		if (patch_member(throttle, member))
			continue;
		/* The sleds are unchanged, so that the budget is to see the state before. */
		for (size_t i = 0; i < throttle->change_count; i++) {
			struct xp_throttled *one = &throttle->all[throttle->changes[i].function];

			if (!one->changes || one->object != member->object)
				continue;
			set_excluded(one, one->state);
			one->changes = false;
		}
	}
}

static void make_changes(struct xp_throttle *throttle)
{
	uint64_t now_tsc;

	for (size_t i = 0; i < throttle->change_count && !is_stopping(throttle); i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = &throttle->all[change->function];

		one->changes = true;
		set_excluded(one, change->state);
	}
	patch_everywhere(throttle);
	now_tsc = xp_clock_now_tsc();
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = &throttle->all[throttle->changes[i].function];

		if (one->changes)
			note_change(one, throttle->changes[i].state, now_tsc);
		one->changes = false;
		set_out_tsc(one, now_tsc);
	}
}

void *xp_throttle_work(void *arg)
{
	struct xp_throttle *throttle = arg;

	throttle->ids = calloc(throttle->budget.count + 1, sizeof(*throttle->ids));
	/* Out of memory: nothing is changed, and the budget sees that. */
	if (throttle->ids)
		make_changes(throttle);
	free(throttle->ids);
	throttle->done_tsc = xp_clock_now_tsc();
	__atomic_store_n(&throttle->done, true, __ATOMIC_RELEASE);
	return NULL;
}
