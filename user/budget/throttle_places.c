// SPDX-License-Identifier: BSD-2-Clause
/* The processes of a throttle: those that are attached, and their children, which inherit patched sleds. */
#include <errno.h>
#include <stdlib.h>

#include "base/util.h"
#include "budget/throttle_work.h"

/* More than the time error of the record of a fork. */
#define TIME_MARGIN_NS 1000000u

static int attach_groups(struct xp_throttle *throttle, const struct xp_throttle_member *member,
			 const struct xp_throttle_place *place, struct xp_sled_result *result)
{
	const struct xp_object *object = member->object;
	int err = 0;

	for (uint32_t i = 0; i < member->group_count && !err; i++) {
		struct xp_sled_result some;
		size_t patched;

		err = xp_throttle_attach_group(throttle, member, i, place, &some);
		/* Sleds patched in the file appear in each group. */
		patched = some.patched - object->patched_in_file;
		/* xp_patch_object() has counted sleds that cannot be patched as attached. */
		if (place->mode == XP_SLEDS_PATCHED)
			result->attached -= XP_MIN(result->attached, patched + some.unreadable);
		else
			result->attached += some.attached;
		result->unreadable += some.unreadable;
		result->patched += patched;
		result->patched_pid = result->patched_pid ?: some.patched_pid;
		result->begin_tsc = XP_MAX(result->begin_tsc, some.begin_tsc);
	}
	return err;
}

static int add_place(struct xp_throttle_member *member, const struct xp_throttle_place *place)
{
	struct xp_throttle_place *places = reallocarray(member->places, member->place_count + 1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	member->places = places;
	places[member->place_count++] = *place;
	return 0;
}

/* The probes on sleds that cannot be patched, in all processes, once for each object. */
static bool has_common_probes(const struct xp_throttle_member *member)
{
	for (size_t i = 0; i < member->place_count; i++)
		if (xp_throttle_is_common(&member->places[i]))
			return true;
	return false;
}

static uint64_t begin_of(const struct xp_throttle *throttle, pid_t pid)
{
	const struct xp_process *process = xp_processes_find(throttle->options.processes, pid);

	return process ? process->begin_tsc : 0;
}

static int attach_place(struct xp_throttle *throttle, struct xp_throttle_member *member,
			const struct xp_throttle_place *place, struct xp_sled_result *result)
{
	int err = add_place(member, place);

	if (!err)
		err = attach_groups(throttle, member, place, result);
	for (size_t i = 0; i < throttle->count && !err; i++)
		if (throttle->all[i].object == member->object)
			err = xp_throttle_attach_function(throttle, &throttle->all[i], throttle->all[i].state, place);
	return err;
}

int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       struct xp_sled_result *result)
{
	const bool patched = result->mode == XP_SLEDS_PATCHED;
	struct xp_throttle_place place = { .pid = pid, .mode = result->mode };
	struct xp_throttle_member *member;
	int err = 0;

	xp_throttle_wait(throttle);
	member = xp_throttle_member(throttle, object);
	if (patched && throttle->options.everywhere) {
		place.begin_tsc = begin_of(throttle, pid);
		place.inherits = place.behind = result->inherited_from;
		place.no_probes = true;
		err = add_place(member, &place);
		if (err || has_common_probes(member))
			return err;
		place = (struct xp_throttle_place){ .mode = XP_SLEDS_PATCHED };
	} else if (!patched) {
		*result = (struct xp_sled_result){ .patched = object->patched_in_file };
	}
	err = attach_place(throttle, member, &place, result);
	/* Functions that are out for now still belong to the recording. */
	for (size_t i = 0; i < object->selected_count && !patched; i++)
		result->attached +=
		    member->group_of[object->table->sleds[object->selected[i]].function_id] == XP_THROTTLE_ALONE;
	return err;
}

/* ---- children ---- */

static bool is_here(const struct xp_throttle *throttle, const struct xp_throttle_place *place)
{
	const struct xp_process *process = xp_processes_find(throttle->options.processes, place->pid);

	return process && process->live && process->begin_tsc == place->begin_tsc;
}

static void drop_ended_children(const struct xp_throttle *throttle, struct xp_throttle_member *member)
{
	size_t kept = 0;

	for (size_t i = 0; i < member->place_count; i++)
		if (!member->places[i].inherits || is_here(throttle, &member->places[i]))
			member->places[kept++] = member->places[i];
	member->place_count = kept;
}

/* Whether the sleds of a child are as its parent's are now: it was forked after these were last changed. */
static bool is_up_to_date(const struct xp_throttle *throttle, const struct xp_throttle_member *member,
			  const struct xp_process *child)
{
	const uint64_t margin = xp_clock_ticks(throttle->options.clock, TIME_MARGIN_NS);

	for (size_t i = 0; i < member->place_count; i++) {
		const struct xp_throttle_place *place = &member->places[i];

		if (place->pid == child->attaching.parent && place->mode == XP_SLEDS_PATCHED &&
		    place->begin_tsc <= child->begin_tsc)
			return !place->behind && !place->patches.failures &&
			       child->begin_tsc > place->changed_tsc + margin;
	}
	return false;
}

static bool has_place(const struct xp_throttle_member *member, const struct xp_process *process)
{
	for (size_t i = 0; i < member->place_count; i++)
		if (member->places[i].pid == process->pid && member->places[i].begin_tsc == process->begin_tsc)
			return true;
	return false;
}

static int add_child(const struct xp_throttle *throttle, const struct xp_process *process)
{
	int err = 0;

	for (size_t i = 0; i < process->functions.range_count && !err; i++) {
		const struct xp_range *range = &process->functions.ranges[i];
		struct xp_throttle_member *member = xp_throttle_member(throttle, range->object);

		if (member && range->sleds.mode == XP_SLEDS_PATCHED && !has_place(member, process))
			err = add_place(member, &(struct xp_throttle_place){
						    .pid = process->pid,
						    .mode = XP_SLEDS_PATCHED,
						    .begin_tsc = process->begin_tsc,
						    .inherits = true,
						    .no_probes = true,
						    .behind = !is_up_to_date(throttle, member, process),
						});
	}
	return err;
}

void xp_throttle_find_children(struct xp_throttle *throttle)
{
	const struct xp_process *process =
	    throttle->last_seen ? throttle->last_seen->next : throttle->options.processes->first;
	int err = 0;

	for (size_t m = 0; m < throttle->member_count; m++)
		drop_ended_children(throttle, &throttle->members[m]);
	for (; process && !err; process = process->next) {
		if (process->live && process->attaching.inherits_from)
			err = add_child(throttle, process);
		throttle->last_seen = process;
	}
	if (err)
		xp_debug("budget: no memory for a child: its functions stay as they are");
}

void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid)
{
	xp_throttle_wait(throttle);
	for (size_t i = 0; i < throttle->member_count; i++) {
		struct xp_throttle_member *member = &throttle->members[i];
		size_t kept = 0;

		for (size_t p = 0; p < member->place_count; p++)
			if (member->places[p].pid != pid)
				member->places[kept++] = member->places[p];
		member->place_count = kept;
	}
}
