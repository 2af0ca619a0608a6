// SPDX-License-Identifier: BSD-2-Clause
#include "throttle_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

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

int xp_throttle_attach_group(struct xp_throttle *throttle, const struct xp_throttle_member *member, uint32_t index,
			     pid_t pid, struct xp_sled_result *result)
{
	struct group_choice group = { member, index };
	struct xp_sled_choice choice = { .wanted = in_group,
					 .arg = &group,
					 .group = member->groups[index].number,
					 .alias = member->groups[index].alias };

	return throttle->options.way->record(throttle->options.way_arg, member->object, pid, &choice, result);
}

static int attach_recording(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	struct xp_sled_choice choice = { .wanted = is_function, .arg = &one->function_id, .group = one->group };
	struct xp_sled_result result;

	choice.alias = one->object->alias[one->function_id];
	return throttle->options.way->record(throttle->options.way_arg, one->object, pid, &choice, &result);
}

static int attach_counter(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	struct xp_sled_choice choice = { .wanted = is_function, .arg = &one->function_id, .group = one->group };
	uint32_t first = (uint32_t)(one - throttle->all) - one->function_id;

	return throttle->options.way->count(throttle->options.way_arg, one->object, pid, first, &choice);
}

int xp_throttle_attach_function(struct xp_throttle *throttle, const struct xp_throttled *one,
				enum xp_budget_state state, pid_t pid)
{
	switch (state) {
	case XP_BUDGET_RECORDED:
		return attach_recording(throttle, one, pid);
	case XP_BUDGET_COUNTED:
		return attach_counter(throttle, one, pid);
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

	for (size_t i = 0; i < member->pid_count && !err; i++) {
		err = xp_throttle_attach_function(throttle, one, state, member->pids[i]);
		err = err == -ESRCH ? 0 : err;
	}
	return err;
}

uint64_t xp_throttle_read_counter(struct xp_throttle *throttle, struct xp_throttled *one)
{
	uint64_t before = one->counter;

	if (xp_programs_count(throttle->options.programs, (uint32_t)(one - throttle->all), &one->counter))
		return 0;
	return one->counter - before;
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
	for (size_t i = 0; i < member->pid_count && !err; i++) {
		err = xp_throttle_attach_group(throttle, member, index, member->pids[i], &result);
		err = err == -ESRCH ? 0 : err;
	}
	throttle->options.way->drop(throttle->options.way_arg, err ? group->number : before.number);
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

		for (uint32_t g = 0; g < member->group_count && !err; g++) {
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
		throttle->options.way->drop(throttle->options.way_arg, one->group);
		one->group = before;
		return err;
	}
	/* Now it is recorded as well: what it is counted from here on does not count. */
	if (one->state == XP_BUDGET_COUNTED)
		one->counted += xp_throttle_read_counter(throttle, one);
	if (before)
		throttle->options.way->drop(throttle->options.way_arg, before);
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

void *xp_throttle_work(void *arg)
{
	struct xp_throttle *throttle = arg;
	int err = leave_groups(throttle);

	for (size_t i = 0; i < throttle->change_count && !err; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = xp_throttle_find(throttle, change->function);
		int its_err = one ? change_one(throttle, one, change->state) : 0;

		if (one && !its_err)
			note_change(throttle, one, change->state);
		err = its_err;
	}
	if (err)
		xp_debug("budget: cannot change the probes of some functions: %s", strerror(-err));
	throttle->done_tsc = xp_clock_now_tsc();
	__atomic_store_n(&throttle->done, true, __ATOMIC_RELEASE);
	return NULL;
}
