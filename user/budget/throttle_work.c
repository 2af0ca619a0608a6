// SPDX-License-Identifier: BSD-2-Clause
#include "budget/throttle_work.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "base/why.h"

/*
 * Base of the retry delay, for a process whose threads do not stop or that is under a debugger: twice this, then 4
 * times...
 */
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

struct xp_throttle_member *xp_throttle_member_of(const struct xp_throttle *throttle, size_t index)
{
	for (size_t i = throttle->member_count; i-- > 0;)
		if (throttle->members[i].first <= index)
			return &throttle->members[i];
	return NULL;
}

uint32_t xp_throttle_id(const struct xp_throttle_member *member, size_t index)
{
	return (uint32_t)(index - member->first) + 1;
}

struct xp_throttled *xp_throttle_find(const struct xp_throttle *throttle, size_t budget_index)
{
	const struct xp_throttle_member *member = xp_throttle_member_of(throttle, budget_index);
	uint32_t taken = member->taken[xp_throttle_id(member, budget_index)];

	return taken ? &throttle->all[taken - 1] : NULL;
}

/*
 * A process that does not stop takes seconds, and there may be many. The end of the recording restores sleds that are
 * not changed any more.
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

/*
 * The functions changed by this work, in the order of their ids; with changed NULL, all of them, for a process that
 * lacks earlier changes.
 */
static size_t list_functions(const struct xp_throttle_member *member, const bool *changed, uint32_t *ids)
{
	size_t count = 0;

	for (uint32_t id = 1; id <= member->object->table->function_count; id++)
		if (member->taken[id] && (!changed || changed[member->taken[id] - 1]))
			ids[count++] = id;
	return count;
}

static void put_off(const struct xp_throttle *throttle, struct xp_throttle_place *place)
{
	place->failures++;
	place->retry_tsc = xp_clock_now_tsc() + xp_clock_ticks(throttle->options.clock,
							       RETRY_NS << XP_MIN(place->failures, RETRY_SHIFT_MAX));
}

/* Returns false if the process did not stop, so that nothing in it has changed. */
static bool patch_place(struct xp_throttle *throttle, const struct xp_object *object, struct xp_throttle_place *place,
			const bool *changed)
{
	const struct xp_throttle_member *member = xp_throttle_member(throttle, object);
	uint32_t *ids = throttle->ids;
	const bool lacks = place->failures || place->behind;
	size_t count = list_functions(member, lacks ? NULL : changed, ids);
	const struct xp_patch_place patched = { object, place->pid, .inherits = place->inherits };
	struct xp_patch *patch = throttle->options.patch;
	uint64_t before_ns, longest_ns;
	int err;

	if (!count)
		return true;
	before_ns = xp_patch_stopped_ns(patch, &longest_ns);
	err = xp_patch_functions(patch, &patched, ids, count);
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

/* A process that failed is skipped until its retry is due. It then gets all changes that it missed. */
static bool is_left_alone(const struct xp_throttle *throttle, const struct xp_throttle_place *place)
{
	return place->failures && (is_stopping(throttle) || place->retry_tsc > xp_clock_now_tsc());
}

/*
 * Returns false if no process of the object has taken the change. The end of a recording waits for the patches that are
 * due, but not for processes that failed to stop before.
 */
static bool patch_member(struct xp_throttle *throttle, struct xp_throttle_member *member, const bool *changed)
{
	size_t taken = 0;

	for (size_t p = 0; p < member->place_count; p++)
		if (!is_left_alone(throttle, &member->places[p]))
			taken += patch_place(throttle, member->object, &member->places[p], changed);
	return taken || !member->place_count;
}

void xp_throttle_set_excluded(const struct xp_throttled *one, enum xp_budget_state state)
{
	struct xp_function_budget *budget = &one->object->budget[one->function_id];
	uint32_t excluded = state == XP_BUDGET_RECORDED	 ? XP_EXCLUDED_NOT
			    : state == XP_BUDGET_COUNTED ? one->counter + 1
							 : XP_EXCLUDED_OUT;

	budget->excluded = (uint8_t)excluded;
	if (state == XP_BUDGET_RECORDED)
		__atomic_store_n(&budget->out_tsc, UINT64_MAX, __ATOMIC_RELAXED);
}

/*
 * All processes have been changed. A process that was stopped last has recorded its calls up to now, as has a thread
 * that had just left the changed instruction. Calls without exits in the log are forgotten (finish_work()).
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

static void patch_everywhere(struct xp_throttle *throttle, bool *changed)
{
	for (size_t m = 0; m < throttle->member_count; m++) {
		struct xp_throttle_member *member = &throttle->members[m];

		if (patch_member(throttle, member, changed))
			continue;
		/* The sleds are unchanged, so that the budget is to see the state before. */
		for (size_t i = 0; i < throttle->count; i++) {
			if (!changed[i] || throttle->all[i].object != member->object)
				continue;
			xp_throttle_set_excluded(&throttle->all[i], throttle->all[i].state);
			changed[i] = false;
		}
	}
}

static void make_changes(struct xp_throttle *throttle, bool *changed)
{
	uint64_t now_tsc;

	for (size_t i = 0; i < throttle->change_count && !is_stopping(throttle); i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		const struct xp_throttled *one = xp_throttle_find(throttle, change->function);

		changed[one - throttle->all] = true;
		xp_throttle_set_excluded(one, change->state);
	}
	patch_everywhere(throttle, changed);
	now_tsc = xp_clock_now_tsc();
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = xp_throttle_find(throttle, throttle->changes[i].function);

		if (changed[one - throttle->all])
			note_change(one, throttle->changes[i].state, now_tsc);
		set_out_tsc(one, now_tsc);
	}
}

void *xp_throttle_work(void *arg)
{
	struct xp_throttle *throttle = arg;
	bool *changed = calloc(throttle->count + 1, sizeof(*changed));

	throttle->ids = calloc(throttle->count + 1, sizeof(*throttle->ids));
	/* Out of memory: nothing is changed, and the budget sees that. */
	if (changed && throttle->ids)
		make_changes(throttle, changed);
	free(changed);
	free(throttle->ids);
	throttle->done_tsc = xp_clock_now_tsc();
	__atomic_store_n(&throttle->done, true, __ATOMIC_RELEASE);
	return NULL;
}
