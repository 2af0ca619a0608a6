// SPDX-License-Identifier: BSD-2-Clause
#include "budget/throttle_work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "target/memory_window.h"

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
			     const struct xp_throttle_place *place, struct xp_sled_result *result)
{
	const struct xp_throttle_options *options = &throttle->options;
	const struct group_choice group = { member, index };
	const struct xp_sled_choice choice = { .object = member->object,
					       .pid = place->pid,
					       .all_args = options->all_args,
					       .wanted = in_group,
					       .arg = &group,
					       .group = member->groups[index].number,
					       .alias = member->groups[index].alias,
					       .unpatched = place->mode == XP_SLEDS_PATCHED };

	/* To look for them takes as long as to attach many. */
	*result = (struct xp_sled_result){ .patched = member->object->patched_in_file };
	if (choice.unpatched && !member->any_beside)
		return 0;
	return xp_sleds_attach(options->attach, options->programs, &choice, result);
}

static int attach_recording(struct xp_throttle *throttle, const struct xp_throttled *one,
			    const struct xp_throttle_place *place)
{
	const struct xp_throttle_options *options = &throttle->options;
	const struct xp_throttle_member *member = xp_throttle_member(throttle, one->object);
	const struct xp_sled_choice choice = { .object = one->object,
					       .pid = place->pid,
					       .all_args = options->all_args,
					       .wanted = is_function,
					       .arg = &one->function_id,
					       .group = one->group,
					       .alias = one->object->budget[one->function_id].alias,
					       .unpatched = place->mode == XP_SLEDS_PATCHED };
	struct xp_sled_result result;

	if (choice.unpatched && !member->beside[one->function_id])
		return 0;
	return xp_sleds_attach(options->attach, options->programs, &choice, &result);
}

static size_t index_of(const struct xp_throttle *throttle, const struct xp_throttled *one)
{
	return (size_t)(one - throttle->all);
}

static int attach_counter(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	const struct xp_throttle_options *options = &throttle->options;
	const struct xp_sled_choice choice = {
		.object = one->object, .pid = pid, .wanted = is_function, .arg = &one->function_id, .group = one->group
	};
	size_t sleds;

	return xp_sleds_attach_counters(options->attach, xp_programs_count_fd(options->programs), &choice,
					one->counter - one->function_id, &sleds);
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

/*
 * The process is ending, or executing a program: its memory is then inaccessible. If it survives, it is attached again.
 */
static bool is_leaving(const struct xp_throttle_place *place, int err)
{
	struct xp_memory_window *memory;

	if (err == -ESRCH)
		return true;
	if (!place->pid || (err != -EACCES && err != -EPERM))
		return false;
	if (xp_memory_window_open(&memory, place->pid))
		return true;
	xp_memory_window_free(memory);
	return false;
}

/* After an error in one process, the rest of this work skips the object: see settle_probes(). */
static int note_probes(struct xp_throttle_member *member, struct xp_throttle_place *place, int err)
{
	place->probes_tried = true;
	if (!err || is_leaving(place, err))
		return 0;
	place->probes_error = err;
	member->stuck = true;
	return err;
}

/* In all processes. */
static int attach_everywhere(struct xp_throttle *throttle, struct xp_throttle_member *member,
			     const struct xp_throttled *one, enum xp_budget_state state)
{
	int err = 0;

	for (size_t i = 0; i < member->place_count && !err; i++) {
		struct xp_throttle_place *place = &member->places[i];

		if (!place->fixed && !place->no_probes)
			err = note_probes(member, place, xp_throttle_attach_function(throttle, one, state, place));
	}
	return err;
}

uint64_t xp_throttle_read_counter(struct xp_throttle *throttle, struct xp_throttled *one)
{
	struct xp_throttle_counter *counter;
	uint64_t before;

	if (one->counter == XP_NO_COUNTER)
		return 0;
	counter = &throttle->counters[one->counter];
	before = counter->value;
	if (xp_programs_count(throttle->options.programs, one->counter, &counter->value))
		return 0;
	return counter->value - before;
}

static void drop_group(struct xp_throttle *throttle, uint32_t group)
{
	xp_attach_detach_groups(throttle->options.attach, &group, 1);
}

/*
 * Gives a group new probes for the functions still in it, and detaches the old ones. On an error the old probes stay:
 * the functions that were to go are still recorded.
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
			member->functions[id].alias = group->alias;
	for (size_t i = 0; i < member->place_count && !err; i++) {
		struct xp_throttle_place *place = &member->places[i];

		if (!place->fixed && !place->no_probes)
			err = note_probes(member, place,
					  xp_throttle_attach_group(throttle, member, index, place, &result));
	}
	drop_group(throttle, err ? group->number : before.number);
	if (err)
		*group = before;
	return err;
}

/* Takes the changed functions out of a group. Returns whether there are any. */
static bool move_functions(const struct xp_throttle *throttle, struct xp_throttle_member *member, uint32_t index,
			   const bool *changed, bool *moved)
{
	bool any = false;

	for (size_t i = 0; i < throttle->count; i++) {
		const struct xp_throttled *one = &throttle->all[i];

		moved[i] = changed[i] && one->object == member->object && member->group_of[one->function_id] == index;
		if (moved[i])
			member->group_of[one->function_id] = XP_THROTTLE_ALONE;
		any |= moved[i];
	}
	return any;
}

/* These functions are recorded with their group, as before: drops their separate probes. */
static void stay_in_group(struct xp_throttle *throttle, struct xp_throttle_member *member, uint32_t index,
			  bool *changed, const bool *moved)
{
	for (size_t i = 0; i < throttle->count; i++) {
		struct xp_throttled *one = &throttle->all[i];

		if (!moved[i])
			continue;
		member->group_of[one->function_id] = index;
		drop_group(throttle, one->group);
		one->group = 0;
		changed[i] = false;
	}
}

/* Handles all changes of this work at once: each renewal costs duplicate records of the other functions. */
static void leave_groups(struct xp_throttle *throttle, bool *changed)
{
	bool *moved = throttle->scratch.moved;

	for (size_t m = 0; m < throttle->member_count; m++) {
		struct xp_throttle_member *member = &throttle->members[m];

		for (uint32_t g = 0; g < member->group_count; g++)
			if (move_functions(throttle, member, g, changed, moved) &&
			    (member->stuck || is_stopping(throttle) || renew_group(throttle, member, g)))
				stay_in_group(throttle, member, g, changed, moved);
	}
}

/* Attaches the new probes before it detaches the old ones, if there are any. */
static int change_one(struct xp_throttle *throttle, struct xp_throttled *one, enum xp_budget_state state)
{
	struct xp_throttle_member *member = xp_throttle_member(throttle, one->object);
	uint32_t before = one->group;
	int err;

	one->group = throttle->next_group++;
	err = attach_everywhere(throttle, member, one, state);
	if (err) {
		drop_group(throttle, one->group);
		one->group = before;
		return err;
	}
	/* From here on the function is recorded as well, so later counts are ignored. */
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

static void put_off(const struct xp_throttle *throttle, struct xp_throttle_retry *retry)
{
	retry->failures++;
	retry->tsc = xp_clock_now_tsc() +
		     xp_clock_ticks(throttle->options.clock, RETRY_NS << XP_MIN(retry->failures, RETRY_SHIFT_MAX));
}

static bool is_put_off(const struct xp_throttle_retry *retry)
{
	return retry->failures && retry->tsc > xp_clock_now_tsc();
}

/* Returns false if the process did not stop, so that nothing in it has changed. */
static bool patch_place(struct xp_throttle *throttle, const struct xp_object *object, struct xp_throttle_place *place,
			const bool *changed)
{
	const struct xp_throttle_member *member = xp_throttle_member(throttle, object);
	uint32_t *ids = throttle->scratch.ids;
	const bool lacks = place->patches.failures || place->behind;
	size_t count = list_functions(member, lacks ? NULL : changed, ids);
	const struct xp_patch_place patched = { object, place->pid, .inherits = place->inherits };
	struct xp_patch *patch = throttle->options.patch;
	uint64_t before_ns, longest_ns;
	char why[512];
	int err;

	if (!count)
		return true;
	before_ns = xp_patch_stopped_ns(patch, &longest_ns);
	err = xp_patch_functions(patch, &patched, ids, count, why, sizeof(why));
	place->stopped_ns += xp_patch_stopped_ns(patch, &longest_ns) - before_ns;
	if (!err || err == -ESRCH) {
		place->patches.failures = 0;
		place->behind = false;
		place->changed_tsc = xp_clock_now_tsc();
		return true;
	}
	put_off(throttle, &place->patches);
	throttle->failed |= place->patches.failures >= RETRY_WARN;
	if (place->patches.failures == RETRY_WARN)
		xp_warn("budget: cannot take out functions of process %d, or patch them again: %s; xprof keeps trying",
			place->pid, why);
	return err != -EBUSY && err != -EAGAIN && err != -EPERM;
}

/* A process that failed is skipped until its retry is due. It then gets all changes that it missed. */
static bool is_left_alone(const struct xp_throttle_place *place)
{
	return place->mode == XP_SLEDS_PATCHED ? is_put_off(&place->patches) : place->fixed;
}

/*
 * Whether no process of the object can be changed for now, or one would keep its probes while those of the others
 * change.
 */
static bool is_stuck(const struct xp_throttle_member *member)
{
	size_t alone = 0;

	for (size_t p = 0; p < member->place_count; p++) {
		if (!member->places[p].fixed && is_put_off(&member->places[p].probes))
			return true;
		alone += is_left_alone(&member->places[p]);
	}
	return alone && alone == member->place_count;
}

/* Removes its probes from all groups that may still change. */
static void fix_probes(struct xp_throttle *throttle, const struct xp_throttle_member *member,
		       struct xp_throttle_place *place)
{
	struct xp_attach *attach = throttle->options.attach;

	for (uint32_t g = 0; g < member->group_count; g++)
		xp_attach_keep(attach, member->groups[g].number, place->pid);
	for (size_t i = 0; i < throttle->count; i++)
		if (throttle->all[i].object == member->object)
			xp_attach_keep(attach, throttle->all[i].group, place->pid);
	place->fixed = true;
	throttle->failed = true;
	if (place->pid)
		xp_warn("budget: cannot change the probes of process %d, which stay as they are: %s", place->pid,
			strerror(-place->probes_error));
	else
		xp_warn("budget: cannot change the probes on %s, which stay as they are: %s", member->object->path,
			strerror(-place->probes_error));
}

/*
 * A failure in one process was undone in all processes of the program, so that no group is half renewed. It is retried;
 * in the end the others continue without that process.
 */
static void settle_probes(struct xp_throttle *throttle, struct xp_throttle_member *member)
{
	for (size_t p = 0; p < member->place_count; p++) {
		struct xp_throttle_place *place = &member->places[p];

		if (place->probes_error)
			put_off(throttle, &place->probes);
		else if (place->probes_tried)
			place->probes.failures = 0;
		if (place->probes_error && place->probes.failures == RETRY_WARN)
			fix_probes(throttle, member, place);
		place->probes_tried = false;
		place->probes_error = 0;
	}
}

/*
 * Returns false if no process of the object has taken the change, including those that are probed. The probes of
 * functions that go out are detached by now. So the end of a recording waits for the patches too, but not for processes
 * that failed to stop before.
 */
static bool patch_member(struct xp_throttle *throttle, struct xp_throttle_member *member, const bool *changed)
{
	size_t asked = 0, taken = 0;

	for (size_t p = 0; p < member->place_count; p++) {
		struct xp_throttle_place *place = &member->places[p];

		if (xp_throttle_is_common(place))
			continue;
		asked++;
		if (place->mode != XP_SLEDS_PATCHED)
			taken += !place->fixed;
		else if (!is_left_alone(place) && !(is_stopping(throttle) && place->patches.failures))
			taken += patch_place(throttle, member->object, place, changed);
	}
	return taken || !asked;
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

bool xp_throttle_is_behind(const struct xp_throttle *throttle, uint64_t now_tsc)
{
	for (size_t m = 0; m < throttle->member_count; m++)
		for (size_t p = 0; p < throttle->members[m].place_count; p++) {
			const struct xp_throttle_place *place = &throttle->members[m].places[p];

			if ((place->patches.failures || place->behind) && place->patches.tsc <= now_tsc)
				return true;
		}
	return false;
}

/* The patched sleds are unchanged: reverts the rest of the change, so that the budget sees the actual state. */
static void undo_change(struct xp_throttle *throttle, struct xp_throttled *one, uint64_t out_tsc)
{
	int err;

	xp_throttle_set_excluded(one, one->state);
	__atomic_store_n(&one->object->budget[one->function_id].out_tsc, out_tsc, __ATOMIC_RELAXED);
	err = is_stopping(throttle) ? 0 : change_one(throttle, one, one->state);
	if (err)
		xp_debug("budget: cannot undo the change of a function's probes: %s", strerror(-err));
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

/* Functions of an object that fails stay unchanged; the others continue. */
static void change_probes(struct xp_throttle *throttle, bool *changed)
{
	for (size_t i = 0; i < throttle->change_count; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = xp_throttle_find(throttle, change->function);
		int err;

		if (!one || xp_throttle_member(throttle, one->object)->stuck || is_stopping(throttle))
			continue;
		err = change_one(throttle, one, change->state);
		changed[index_of(throttle, one)] = !err;
		if (err)
			xp_debug("budget: cannot change the probes of a function: %s", strerror(-err));
	}
	leave_groups(throttle, changed);
}

static int begin_scratch(struct xp_throttle_scratch *scratch, size_t count)
{
	scratch->changed = calloc(count + 1, sizeof(*scratch->changed));
	scratch->moved = calloc(count + 1, sizeof(*scratch->moved));
	scratch->out_tsc = calloc(count + 1, sizeof(*scratch->out_tsc));
	scratch->ids = calloc(count + 1, sizeof(*scratch->ids));
	return scratch->changed && scratch->moved && scratch->out_tsc && scratch->ids ? 0 : -ENOMEM;
}

static void end_scratch(struct xp_throttle_scratch *scratch)
{
	free(scratch->changed);
	free(scratch->moved);
	free(scratch->out_tsc);
	free(scratch->ids);
	*scratch = (struct xp_throttle_scratch){ 0 };
}

static void make_changes(struct xp_throttle *throttle)
{
	bool *changed = throttle->scratch.changed;
	uint64_t *out_tsc = throttle->scratch.out_tsc;

	for (size_t m = 0; m < throttle->member_count; m++)
		throttle->members[m].stuck = is_stuck(&throttle->members[m]);
	change_probes(throttle, changed);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = xp_throttle_find(throttle, throttle->changes[i].function);

		if (!one || !changed[index_of(throttle, one)])
			continue;
		out_tsc[index_of(throttle, one)] = one->object->budget[one->function_id].out_tsc;
		xp_throttle_set_excluded(one, throttle->changes[i].state);
	}
	patch_everywhere(throttle, changed, out_tsc);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = xp_throttle_find(throttle, throttle->changes[i].function);

		if (one && changed[index_of(throttle, one)])
			note_change(throttle, one, throttle->changes[i].state);
	}
	for (size_t m = 0; m < throttle->member_count; m++)
		settle_probes(throttle, &throttle->members[m]);
}

void *xp_throttle_work(void *arg)
{
	struct xp_throttle *throttle = arg;

	/* Out of memory: nothing is changed, and the budget sees that. */
	if (!begin_scratch(&throttle->scratch, throttle->count))
		make_changes(throttle);
	end_scratch(&throttle->scratch);
	throttle->done_tsc = xp_clock_now_tsc();
	__atomic_store_n(&throttle->done, true, __ATOMIC_RELEASE);
	return NULL;
}
