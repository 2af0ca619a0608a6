// SPDX-License-Identifier: BSD-2-Clause
/* The processes of a throttle: those that are attached, and their children, which inherit patched sleds. */
#include <errno.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/util.h"
#include "budget/throttle_work.h"

/* Longer than the error of the time in a fork event. */
#define TIME_MARGIN_NS 1000000u

static int add_place(struct xp_throttle_member *member, const struct xp_throttle_place *place)
{
	return XP_ARRAY_ADD(member->places, member->place_count, member->place_room, *place);
}

static uint64_t begin_of(const struct xp_throttle *throttle, pid_t pid)
{
	const struct xp_process *process = xp_processes_find(throttle->options.processes, pid);

	return process ? process->begin_tsc : 0;
}

int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       const struct xp_sled_result *result)
{
	const struct xp_throttle_place place = {
		.pid = pid,
		.begin_tsc = begin_of(throttle, pid),
		.inherits = result->inherited_from,
		.behind = result->inherited_from,
	};

	return add_place(xp_throttle_member(throttle, object), &place);
}

/* ---- children ---- */

static bool is_here(const struct xp_throttle *throttle, const struct xp_throttle_place *place)
{
	const struct xp_process *process = xp_processes_find(throttle->options.processes, place->pid);

	return process && process->live && process->begin_tsc == place->begin_tsc;
}

static void drop_ended_children(const struct xp_throttle *throttle, struct xp_throttle_member *member)
{
	XP_ARRAY_KEEP(member->places, member->place_count, i,
		      !member->places[i].inherits || is_here(throttle, &member->places[i]));
}

/* Returns whether a child was forked after the last change of its parent's sleds, and so has the same sleds. */
static bool is_up_to_date(const struct xp_throttle *throttle, const struct xp_throttle_member *member,
			  const struct xp_process *child)
{
	const uint64_t margin = xp_clock_ticks(throttle->options.clock, TIME_MARGIN_NS);

	for (size_t i = 0; i < member->place_count; i++) {
		const struct xp_throttle_place *place = &member->places[i];

		if (place->pid == child->attaching.parent && place->begin_tsc <= child->begin_tsc)
			return !place->behind && !place->failures && child->begin_tsc > place->changed_tsc + margin;
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
						    .begin_tsc = process->begin_tsc,
						    .inherits = true,
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
		XP_ARRAY_KEEP(member->places, member->place_count, p, member->places[p].pid != pid);
	}
}
