// SPDX-License-Identifier: BSD-2-Clause
#include "throttle_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* A process whose threads do not stop, or that is under a debugger, is tried again after twice this, then 4 times... */
#define RETRY_NS 500000000ull
#define RETRY_SHIFT_MAX 7u
#define RETRY_WARN 3 /* failures one after the other that are worth a word */

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
	for (size_t i = 0; i < throttle->count; i++)
		if (throttle->all[i].budget_index == budget_index)
			return &throttle->all[i];
	return NULL;
}

struct group_choice {
	const struct xp_throttle_member *member;
	uint32_t index;
};

static bool in_group(const void *arg, uint32_t function_id)
{
	const struct group_choice *choice = arg;

	return choice->member->group_of[function_id] == choice->index;
}

static bool is_function(const void *arg, uint32_t function_id)
{
	return *(const uint32_t *)arg == function_id;
}

static int attach_some(struct xp_throttle *throttle, const struct xp_object *object,
		       const struct xp_throttle_place *place, const struct xp_sled_choice *choice,
		       struct xp_sled_result *result)
{
	const struct xp_throttle_options *options = &throttle->options;

	return xp_sleds_attach_some(options->attach, options->programs, object, place->pid, options->all_args, choice,
				    result);
}

int xp_throttle_attach_group(struct xp_throttle *throttle, const struct xp_throttle_member *member, uint32_t index,
			     const struct xp_throttle_place *place, struct xp_sled_result *result)
{
	struct group_choice group = { member, index };
	struct xp_sled_choice choice = { .wanted = in_group,
					 .arg = &group,
					 .group = member->groups[index].number,
					 .alias = member->groups[index].alias,
					 .unpatched = place->mode == XP_SLEDS_PATCHED };

	return attach_some(throttle, member->object, place, &choice, result);
}

static int attach_recording(struct xp_throttle *throttle, const struct xp_throttled *one,
			    const struct xp_throttle_place *place)
{
	struct xp_sled_choice choice = { .wanted = is_function,
					 .arg = &one->function_id,
					 .group = one->group,
					 .alias = one->object->alias[one->function_id],
					 .unpatched = place->mode == XP_SLEDS_PATCHED };
	struct xp_sled_result result;

	return attach_some(throttle, one->object, place, &choice, &result);
}

static uint32_t counter_of(const struct xp_throttle *throttle, const struct xp_throttled *one)
{
	return (uint32_t)(one - throttle->all);
}

static int attach_counter(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	struct xp_sled_choice choice = { .wanted = is_function, .arg = &one->function_id, .group = one->group };
	const struct xp_throttle_options *options = &throttle->options;
	size_t sleds;

	return xp_sleds_attach_counters(options->attach, xp_programs_count_fd(options->programs), one->object, pid,
					counter_of(throttle, one) - one->function_id, &choice, &sleds);
}

int xp_throttle_attach_function(struct xp_throttle *throttle, const struct xp_throttled *one,
				enum xp_budget_state state, const struct xp_throttle_place *place)
{
	switch (state) {
	case XP_BUDGET_RECORDED:
		return attach_recording(throttle, one, place);
	case XP_BUDGET_COUNTED:
		return place->mode == XP_SLEDS_PATCHED ? 0 : attach_counter(throttle, one, place->pid);
	case XP_BUDGET_OUT:
		break;
	}
	return 0;
}

/* In all processes; one that is gone is no error. */
static int attach_everywhere(struct xp_throttle *throttle, const struct xp_throttle_member *member,
			     const struct xp_throttled *one, enum xp_budget_state state)
{
	int err = 0;

	for (size_t i = 0; i < member->place_count && !err; i++) {
		err = xp_throttle_attach_function(throttle, one, state, &member->places[i]);
		err = err == -ESRCH ? 0 : err;
	}
	return err;
}

uint64_t xp_throttle_read_counter(struct xp_throttle *throttle, struct xp_throttled *one)
{
	uint64_t before = one->counter;

	if (xp_programs_count(throttle->options.programs, counter_of(throttle, one), &one->counter))
		return 0;
	return one->counter - before;
}

static void drop_group(struct xp_throttle *throttle, uint32_t group)
{
	xp_attach_detach_groups(throttle->options.attach, &group, 1);
}

/*
 * Gives a group new probes for those that are still in it, and takes the old ones away. On an error the old ones stay:
 * then the functions that were to go are recorded on.
 */
static int renew_group(struct xp_throttle *throttle, struct xp_throttle_member *member, uint32_t index)
{
	struct xp_throttle_group *group = &member->groups[index], before = *group;
	struct xp_sled_result result;
	int err = 0;

	group->number = throttle->next_group++;
	group->alias = !group->alias;
	for (size_t id = 1; id <= member->object->table->function_count; id++)
		if (member->group_of[id] == index)
			member->object->alias[id] = group->alias;
	for (size_t i = 0; i < member->place_count && !err; i++) {
		err = xp_throttle_attach_group(throttle, member, index, &member->places[i], &result);
		err = err == -ESRCH ? 0 : err;
	}
	drop_group(throttle, err ? group->number : before.number);
	if (err)
		*group = before;
	return err;
}

/* Takes this work's functions of a group out of it, or back into it. Whether there are any. */
static bool move_functions(const struct xp_throttle *throttle, struct xp_throttle_member *member, uint32_t from,
			   uint32_t to, uint32_t *moved, size_t *moved_count)
{
	size_t count = 0;

	for (size_t i = 0; i < throttle->change_count; i++) {
		size_t index = throttle->changes[i].function;
		uint32_t id = xp_throttle_id(member, index);

		if (xp_throttle_member_of(throttle, index) != member || member->group_of[id] != from)
			continue;
		member->group_of[id] = to;
		moved[count++] = id;
	}
	*moved_count = count;
	return count;
}

/* All of this work's at once, as each renewal costs the others double records. */
static int leave_groups(struct xp_throttle *throttle)
{
	uint32_t *moved = calloc(throttle->change_count + 1, sizeof(*moved));
	int err = moved ? 0 : -ENOMEM;

	for (size_t m = 0; m < throttle->member_count && !err; m++) {
		struct xp_throttle_member *member = &throttle->members[m];
		size_t count;

		for (uint32_t g = 0; g < member->group_count && !err && !member->stuck; g++) {
			if (move_functions(throttle, member, g, XP_THROTTLE_ALONE, moved, &count))
				err = renew_group(throttle, member, g);
			for (size_t i = 0; i < count && err; i++)
				member->group_of[moved[i]] = g;
		}
	}
	free(moved);
	return err;
}

/* What it is changed to is there before what it was goes, unless that is nothing. */
static int change_one(struct xp_throttle *throttle, struct xp_throttled *one, enum xp_budget_state state)
{
	const struct xp_throttle_member *member = xp_throttle_member(throttle, one->object);
	uint32_t before = one->group;
	int err;

	one->group = throttle->next_group++;
	err = attach_everywhere(throttle, member, one, state);
	if (err) {
		drop_group(throttle, one->group);
		one->group = before;
		return err;
	}
	/* Now it is recorded as well: what it is counted from here on does not count. */
	if (one->state == XP_BUDGET_COUNTED)
		one->counted += xp_throttle_read_counter(throttle, one);
	if (before)
		drop_group(throttle, before);
	return 0;
}

static void note_change(struct xp_throttle *throttle, struct xp_throttled *one, enum xp_budget_state state)
{
	uint64_t now = xp_clock_now_tsc();

	xp_throttle_read_counter(throttle, one);
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

/* All of this work's, or with NULL until the next attempt those of a process that failed. */
static size_t list_functions(const struct xp_throttle *throttle, const struct xp_object *object, const bool *changed,
			     uint32_t *ids)
{
	size_t count = 0;

	for (size_t i = 0; i < throttle->count; i++)
		if (throttle->all[i].object == object && (!changed || changed[i]))
			ids[count++] = throttle->all[i].function_id;
	return count;
}

/* False: it did not stop, so nothing of it has changed. */
static bool patch_place(struct xp_throttle *throttle, const struct xp_object *object, struct xp_throttle_place *place,
			const bool *changed)
{
	uint32_t ids[XP_THROTTLE_MAX];
	size_t count = list_functions(throttle, object, place->failures ? NULL : changed, ids);
	char why[512];
	int err;

	if (!count)
		return true;
	err = xp_patch_functions(throttle->options.patch, object, place->pid, ids, count, why, sizeof(why));
	if (!err || err == -ESRCH) {
		place->failures = 0;
		return true;
	}
	place->failures++;
	place->retry_tsc = xp_clock_now_tsc() + xp_clock_ticks(throttle->options.clock,
							       RETRY_NS << XP_MIN(place->failures, RETRY_SHIFT_MAX));
	if (place->failures == RETRY_WARN)
		xp_warn("the budget cannot take functions of process %d out, nor put them back: %s; it goes on trying",
			place->pid, why);
	return err != -EBUSY && err != -EAGAIN && err != -EPERM;
}

/* One that has failed is left alone until it is time again; then it gets all that it has missed. */
static bool is_left_alone(const struct xp_throttle_place *place)
{
	return place->mode == XP_SLEDS_PATCHED && place->failures && place->retry_tsc > xp_clock_now_tsc();
}

/* Whether no process of the object can be changed for now. */
static bool is_stuck(const struct xp_throttle_member *member)
{
	size_t alone = 0;

	for (size_t p = 0; p < member->place_count; p++)
		alone += is_left_alone(&member->places[p]);
	return alone && alone == member->place_count;
}

/* False: no process of the object has taken it, those that are probed included. */
static bool patch_member(struct xp_throttle *throttle, struct xp_throttle_member *member, const bool *changed)
{
	bool taken = !member->place_count;

	for (size_t p = 0; p < member->place_count; p++) {
		struct xp_throttle_place *place = &member->places[p];

		if (place->mode != XP_SLEDS_PATCHED)
			taken = true;
		else if (!is_left_alone(place))
			taken |= patch_place(throttle, member->object, place, changed);
	}
	return taken;
}

void xp_throttle_set_taken(const struct xp_throttle *throttle, const struct xp_throttled *one,
			   enum xp_budget_state state)
{
	uint32_t taken = state == XP_BUDGET_RECORDED  ? XP_TAKEN_NOT
			 : state == XP_BUDGET_COUNTED ? counter_of(throttle, one) + 1
						      : XP_TAKEN_OUT;

	one->object->taken[one->function_id] = (uint8_t)taken;
	if (state == XP_BUDGET_RECORDED)
		__atomic_store_n(&one->object->out_tsc[one->function_id], UINT64_MAX, __ATOMIC_RELAXED);
}

bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc)
{
	for (size_t m = 0; m < throttle->member_count; m++)
		for (size_t p = 0; p < throttle->members[m].place_count; p++) {
			const struct xp_throttle_place *place = &throttle->members[m].places[p];

			if (place->failures && place->retry_tsc <= now_tsc)
				return true;
		}
	return false;
}

/* Its patched sleds are as they were: so the rest of it has to be, and the budget to know. */
static void undo_change(struct xp_throttle *throttle, struct xp_throttled *one, uint64_t out_tsc)
{
	int err;

	xp_throttle_set_taken(throttle, one, one->state);
	__atomic_store_n(&one->object->out_tsc[one->function_id], out_tsc, __ATOMIC_RELAXED);
	err = change_one(throttle, one, one->state);
	if (err)
		xp_debug("budget: cannot put the probes of a function back: %s", strerror(-err));
}

static void patch_everywhere(struct xp_throttle *throttle, bool *changed, const uint64_t *out_tsc)
{
	for (size_t m = 0; m < throttle->member_count; m++) {
		struct xp_throttle_member *member = &throttle->members[m];

		if (patch_member(throttle, member, changed))
			continue;
		for (size_t i = 0; i < throttle->count; i++)
			if (changed[i] && throttle->all[i].object == member->object) {
				undo_change(throttle, &throttle->all[i], out_tsc[i]);
				changed[i] = false;
			}
	}
}

void *xp_throttle_work(void *arg)
{
	struct xp_throttle *throttle = arg;
	bool changed[XP_THROTTLE_MAX] = { false };
	uint64_t out_tsc[XP_THROTTLE_MAX]; /* before */
	int err;

	for (size_t m = 0; m < throttle->member_count; m++)
		throttle->members[m].stuck = is_stuck(&throttle->members[m]);
	err = leave_groups(throttle);
	for (size_t i = 0; i < throttle->change_count && !err; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = xp_throttle_find(throttle, change->function);

		if (!one || xp_throttle_member(throttle, one->object)->stuck)
			continue;
		err = change_one(throttle, one, change->state);
		if (err)
			break;
		changed[counter_of(throttle, one)] = true;
		out_tsc[counter_of(throttle, one)] = one->object->out_tsc[one->function_id];
		xp_throttle_set_taken(throttle, one, change->state);
	}
	if (err)
		xp_debug("budget: cannot change the probes of some functions: %s", strerror(-err));
	patch_everywhere(throttle, changed, out_tsc);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = xp_throttle_find(throttle, throttle->changes[i].function);

		if (one && changed[counter_of(throttle, one)])
			note_change(throttle, one, throttle->changes[i].state);
	}
	throttle->done_tsc = xp_clock_now_tsc();
	__atomic_store_n(&throttle->done, true, __ATOMIC_RELEASE);
	return NULL;
}
