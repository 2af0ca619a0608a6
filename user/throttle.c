// SPDX-License-Identifier: BSD-2-Clause
#include "throttle.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "util.h"

#define TICK_NS 100000000ull
/* A change costs double records of its group for as long as attaching and detaching take, and links at the end. */
#define GROUP_FUNCTIONS 4096
#define ALONE UINT32_MAX /* in place of a group's index: the function has probes of its own, or none */

struct group {
	uint32_t number; /* of its probes */
	bool alias;
};

struct member {
	struct xp_object *object;
	size_t first;	    /* index in the budget of id 1 */
	uint32_t *group_of; /* [function count + 1] by id: index in groups, or ALONE */
	struct group *groups;
	uint32_t group_count;
	pid_t *pids; /* that have probes; 0: all */
	size_t pid_count;
};

struct xp_throttle {
	struct xp_throttle_options options;
	struct xp_budget budget;
	struct member *members;
	size_t member_count;
	struct xp_throttled *all; /* [XP_THROTTLE_MAX] index: counter */
	size_t count;
	uint32_t next_group;
	uint64_t last_tick_tsc;
	uint64_t cpu_ns;   /* since the last tick that was not put off */
	double cpu_sum_ns; /* of all ticks, for xp_throttle_spent() */
	double tracing_sum_ns;

	/* The work that is under way, or done and not yet taken note of. */
	struct xp_budget_change changes[XP_THROTTLE_MAX];
	size_t change_count;
	bool working;
	pthread_t thread;
	bool done; /* atomic */
	uint64_t done_tsc;
};

int xp_throttle_new(struct xp_throttle **result, const struct xp_throttle_options *options)
{
	struct xp_throttle *throttle = calloc(1, sizeof(*throttle));

	if (!throttle)
		return -ENOMEM;
	throttle->all = calloc(XP_THROTTLE_MAX, sizeof(*throttle->all));
	if (!throttle->all) {
		free(throttle);
		return -ENOMEM;
	}
	throttle->options = *options;
	throttle->next_group = 1;
	xp_budget_init(&throttle->budget, options->share);
	*result = throttle;
	return 0;
}

void xp_throttle_free(struct xp_throttle *throttle)
{
	if (!throttle)
		return;
	for (size_t i = 0; i < throttle->member_count; i++) {
		free(throttle->members[i].group_of);
		free(throttle->members[i].groups);
		free(throttle->members[i].pids);
	}
	free(throttle->members);
	free(throttle->all);
	xp_budget_free(&throttle->budget);
	free(throttle);
}

/* ---- objects ---- */

static struct member *find_member(const struct xp_throttle *throttle, const struct xp_object *object)
{
	for (size_t i = 0; i < throttle->member_count; i++)
		if (throttle->members[i].object == object)
			return &throttle->members[i];
	return NULL;
}

static struct member *member_of_index(const struct xp_throttle *throttle, size_t index)
{
	for (size_t i = throttle->member_count; i-- > 0;)
		if (throttle->members[i].first <= index)
			return &throttle->members[i];
	return NULL;
}

static uint32_t id_of_index(const struct member *member, size_t index)
{
	return (uint32_t)(index - member->first) + 1;
}

static int allocate(struct member *member)
{
	size_t functions = member->object->table->function_count;

	member->group_count = (uint32_t)((functions + GROUP_FUNCTIONS - 1) / GROUP_FUNCTIONS);
	member->group_of = calloc(functions + 1, sizeof(*member->group_of));
	member->groups = calloc(member->group_count + 1, sizeof(*member->groups));
	if (!member->object->calls)
		member->object->calls = calloc(functions + 1, sizeof(*member->object->calls));
	if (!member->object->alias)
		member->object->alias = calloc(functions + 1, sizeof(*member->object->alias));
	return member->group_of && member->groups && member->object->calls && member->object->alias ? 0 : -ENOMEM;
}

static void set_costs(struct xp_throttle *throttle, const struct member *member)
{
	const struct xp_hit_cost *hit = &throttle->options.hit_cost;
	const struct xp_sled_table *table = member->object->table;
	struct xp_budget_function *functions = &throttle->budget.functions[member->first];

	for (size_t i = 0; i < table->function_count; i++) {
		functions[i].count_ns = (float)hit->entry_ns;
		functions[i].record_ns = (float)(2 * hit->entry_ns); /* a tail exit is emulated as an entry is */
	}
	for (size_t i = 0; i < table->sled_count; i++)
		if (table->sleds[i].kind == XP_SLED_EXIT)
			functions[table->sleds[i].function_id - 1].record_ns = (float)(hit->entry_ns + hit->exit_ns);
}

int xp_throttle_add_object(struct xp_throttle *throttle, struct xp_object *object, const uint64_t *calls,
			   uint64_t own_ns)
{
	size_t functions = object->table->function_count;
	struct member *members, *member;
	int err;

	if (find_member(throttle, object))
		return 0;
	members = reallocarray(throttle->members, throttle->member_count + 1, sizeof(*members));
	if (!members)
		return -ENOMEM;
	throttle->members = members;
	member = &members[throttle->member_count++];
	*member = (struct member){ .object = object };
	err = allocate(member);
	if (!err)
		err = xp_budget_add(&throttle->budget, functions, &member->first);
	if (err)
		return err;
	for (uint32_t i = 0; i < member->group_count; i++)
		member->groups[i].number = throttle->next_group++;
	for (size_t id = 1; id <= functions; id++)
		member->group_of[id] = (uint32_t)((id - 1) / GROUP_FUNCTIONS);
	set_costs(throttle, member);
	for (size_t id = 1; id <= functions && calls && own_ns; id++)
		xp_budget_seed(&throttle->budget, member->first + id - 1, (double)calls[id] / (double)own_ns);
	return 0;
}

struct group_choice {
	const struct member *member;
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

static int attach_group(struct xp_throttle *throttle, const struct member *member, uint32_t index, pid_t pid,
			struct xp_sled_result *result)
{
	struct group_choice group = { member, index };
	struct xp_sled_choice choice = { .wanted = in_group,
					 .arg = &group,
					 .group = member->groups[index].number,
					 .alias = member->groups[index].alias };

	return xp_sleds_attach_some(throttle->options.attach, throttle->options.programs, member->object, pid,
				    throttle->options.all_args, &choice, result);
}

/* ---- single functions ---- */

static int attach_recording(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	struct xp_sled_choice choice = { .wanted = is_function, .arg = &one->function_id, .group = one->group };
	struct xp_sled_result result;

	choice.alias = one->object->alias[one->function_id];
	return xp_sleds_attach_some(throttle->options.attach, throttle->options.programs, one->object, pid,
				    throttle->options.all_args, &choice, &result);
}

static int attach_counter(struct xp_throttle *throttle, const struct xp_throttled *one, pid_t pid)
{
	struct xp_sled_choice choice = { .wanted = is_function, .arg = &one->function_id, .group = one->group };
	uint32_t first = (uint32_t)(one - throttle->all) - one->function_id;
	size_t sleds;

	return xp_sleds_attach_counters(throttle->options.attach, xp_programs_count_fd(throttle->options.programs),
					one->object, pid, first, &choice, &sleds);
}

static int attach_state(struct xp_throttle *throttle, const struct xp_throttled *one, enum xp_budget_state state,
			pid_t pid)
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
static int attach_everywhere(struct xp_throttle *throttle, const struct member *member, const struct xp_throttled *one,
			     enum xp_budget_state state)
{
	int err = 0;

	for (size_t i = 0; i < member->pid_count && !err; i++) {
		err = attach_state(throttle, one, state, member->pids[i]);
		err = err == -ESRCH ? 0 : err;
	}
	return err;
}

/* Calls since it was last read. */
static uint64_t read_counter(struct xp_throttle *throttle, struct xp_throttled *one)
{
	uint64_t before = one->counter;

	if (xp_programs_count(throttle->options.programs, (uint32_t)(one - throttle->all), &one->counter))
		return 0;
	return one->counter - before;
}

static struct xp_throttled *find_one(const struct xp_throttle *throttle, size_t budget_index)
{
	for (size_t i = 0; i < throttle->count; i++)
		if (throttle->all[i].budget_index == budget_index)
			return &throttle->all[i];
	return NULL;
}

static struct xp_throttled *add_one(struct xp_throttle *throttle, const struct member *member, size_t budget_index)
{
	struct xp_throttled *one;

	if (throttle->count == XP_THROTTLE_MAX)
		return NULL;
	one = &throttle->all[throttle->count++];
	*one = (struct xp_throttled){
		.object = member->object,
		.function_id = id_of_index(member, budget_index),
		.budget_index = budget_index,
	};
	return one;
}

void xp_throttle_begin(struct xp_throttle *throttle)
{
	size_t count = xp_budget_tick(&throttle->budget, 0, 0, throttle->changes, XP_THROTTLE_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		const struct member *member = member_of_index(throttle, change->function);
		struct xp_throttled *one = add_one(throttle, member, change->function);

		if (!one)
			return;
		member->group_of[one->function_id] = ALONE;
		one->group = throttle->next_group++;
		one->state = change->state;
		one->since_tsc = xp_clock_now_tsc();
		one->times = 1;
		xp_budget_set(&throttle->budget, change->function, change->state, 0);
	}
}

static void wait_for_work(struct xp_throttle *throttle);

int xp_throttle_attach(struct xp_throttle *throttle, const struct xp_object *object, pid_t pid,
		       struct xp_sled_result *result)
{
	struct member *member;
	pid_t *pids;
	int err;

	wait_for_work(throttle);
	member = find_member(throttle, object);
	pids = reallocarray(member->pids, member->pid_count + 1, sizeof(*pids));
	if (!pids)
		return -ENOMEM;
	member->pids = pids;
	pids[member->pid_count++] = pid;
	*result = (struct xp_sled_result){ 0 };
	err = 0;
	for (uint32_t i = 0; i < member->group_count && !err; i++) {
		struct xp_sled_result some;

		err = attach_group(throttle, member, i, pid, &some);
		result->attached += some.attached;
		result->unreadable += some.unreadable;
		/* Those of the file are in each of them. */
		result->patched += some.patched - (i ? object->patched_in_file : 0);
		result->begin_tsc = some.begin_tsc;
	}
	for (size_t i = 0; i < throttle->count && !err; i++)
		if (throttle->all[i].object == object)
			err = attach_state(throttle, &throttle->all[i], throttle->all[i].state, pid);
	/* Those that are out for now belong to the recording all the same. */
	for (size_t i = 0; i < object->selected_count; i++)
		result->attached += member->group_of[object->table->sleds[object->selected[i]].function_id] == ALONE;
	return err;
}

void xp_throttle_drop_process(struct xp_throttle *throttle, pid_t pid)
{
	wait_for_work(throttle);
	for (size_t i = 0; i < throttle->member_count; i++) {
		struct member *member = &throttle->members[i];
		size_t kept = 0;

		for (size_t p = 0; p < member->pid_count; p++)
			if (member->pids[p] != pid)
				member->pids[kept++] = member->pids[p];
		member->pid_count = kept;
	}
}

/* ---- changes ---- */

/*
 * Gives a group new probes for those that are still in it, and takes the old ones away. On an error the old ones stay:
 * then the functions that were to go are recorded on.
 */
static int renew_group(struct xp_throttle *throttle, struct member *member, uint32_t index)
{
	struct group *group = &member->groups[index], before = *group;
	struct xp_sled_result result;
	int err = 0;

	group->number = throttle->next_group++;
	group->alias = !group->alias;
	for (size_t id = 1; id <= member->object->table->function_count; id++)
		if (member->group_of[id] == index)
			member->object->alias[id] = group->alias;
	for (size_t i = 0; i < member->pid_count && !err; i++) {
		err = attach_group(throttle, member, index, member->pids[i], &result);
		err = err == -ESRCH ? 0 : err;
	}
	xp_attach_detach_groups(throttle->options.attach, err ? &group->number : &before.number, 1);
	if (err)
		*group = before;
	return err;
}

/* Takes this work's functions of a group out of it, or back into it. Whether there are any. */
static bool move_functions(const struct xp_throttle *throttle, struct member *member, uint32_t from, uint32_t to,
			   uint32_t *moved, size_t *moved_count)
{
	size_t count = 0;

	for (size_t i = 0; i < throttle->change_count; i++) {
		size_t index = throttle->changes[i].function;
		uint32_t id = id_of_index(member, index);

		if (member_of_index(throttle, index) != member || member->group_of[id] != from)
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
		struct member *member = &throttle->members[m];
		size_t count;

		for (uint32_t g = 0; g < member->group_count && !err; g++) {
			if (move_functions(throttle, member, g, ALONE, moved, &count))
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
	const struct member *member = find_member(throttle, one->object);
	uint32_t before = one->group;
	int err;

	one->group = throttle->next_group++;
	err = attach_everywhere(throttle, member, one, state);
	if (err) {
		xp_attach_detach_groups(throttle->options.attach, &one->group, 1);
		one->group = before;
		return err;
	}
	/* Now it is recorded as well: what it is counted from here on does not count. */
	if (one->state == XP_BUDGET_COUNTED)
		one->counted += read_counter(throttle, one);
	if (before)
		xp_attach_detach_groups(throttle->options.attach, &before, 1);
	return 0;
}

static void note_change(struct xp_throttle *throttle, struct xp_throttled *one, enum xp_budget_state state)
{
	uint64_t now = xp_clock_now_tsc();

	read_counter(throttle, one);
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

/* In a thread of its own, or in this one: nobody else touches what it does until it is done. */
static void *work(void *arg)
{
	struct xp_throttle *throttle = arg;
	int err = leave_groups(throttle);

	for (size_t i = 0; i < throttle->change_count && !err; i++) {
		const struct xp_budget_change *change = &throttle->changes[i];
		struct xp_throttled *one = find_one(throttle, change->function);
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

static void start_work(struct xp_throttle *throttle)
{
	sigset_t all, before;
	int err;

	for (size_t i = 0; i < throttle->change_count; i++) {
		size_t index = throttle->changes[i].function;

		if (!find_one(throttle, index) && !add_one(throttle, member_of_index(throttle, index), index))
			throttle->change_count = i; /* no more can be taken out */
	}
	throttle->done = false;
	throttle->working = true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&throttle->thread, NULL, work, throttle);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		throttle->working = false;
		work(throttle);
	}
}

static void wait_for_work(struct xp_throttle *throttle)
{
	if (throttle->working)
		pthread_join(throttle->thread, NULL);
	throttle->working = false;
}

/* The work is done, and the records from before have come. */
static void finish_work(struct xp_throttle *throttle)
{
	uint64_t now_ns = xp_clock_ns(throttle->options.clock, throttle->done_tsc);

	wait_for_work(throttle);
	for (size_t i = 0; i < throttle->change_count; i++) {
		struct xp_throttled *one = find_one(throttle, throttle->changes[i].function);

		/* As it has become: also when that was refused. */
		xp_budget_set(&throttle->budget, throttle->changes[i].function, one->state, now_ns);
		if (one->forget)
			xp_processes_forget(throttle->options.processes, one->object, one->function_id);
		one->forget = false;
		xp_debug("budget: %s of %s is %s",
			 one->object->table->functions[one->function_id - 1].name ?: "a function", one->object->path,
			 (const char *[]){ "recorded", "counted", "out" }[one->state]);
	}
	throttle->change_count = 0;
}

/* ---- the loop ---- */

static uint64_t cpu_since(struct xp_throttle *throttle)
{
	uint64_t sum = 0;

	for (struct xp_process *process = throttle->options.processes->first; process; process = process->next) {
		uint64_t now = process->live ? xp_target_cpu_ns(process->pid) : 0;

		if (now > process->cpu_ns && process->cpu_ns)
			sum += now - process->cpu_ns;
		process->cpu_ns = now ? now : process->cpu_ns;
	}
	return sum;
}

static void gather_calls(struct xp_throttle *throttle)
{
	for (size_t m = 0; m < throttle->member_count; m++) {
		struct member *member = &throttle->members[m];
		struct xp_budget_function *functions = &throttle->budget.functions[member->first];

		for (size_t id = 1; id <= member->object->table->function_count; id++) {
			functions[id - 1].calls += member->object->calls[id];
			throttle->tracing_sum_ns +=
			    (double)member->object->calls[id] * (double)functions[id - 1].record_ns;
			member->object->calls[id] = 0;
		}
	}
	for (size_t i = 0; i < throttle->count; i++) {
		struct xp_throttled *one = &throttle->all[i];
		uint64_t calls = one->state == XP_BUDGET_COUNTED ? read_counter(throttle, one) : 0;

		one->counted += calls;
		throttle->budget.functions[one->budget_index].calls += calls;
		throttle->tracing_sum_ns +=
		    (double)calls * (double)throttle->budget.functions[one->budget_index].count_ns;
	}
}

static void tick(struct xp_throttle *throttle, uint64_t now_tsc)
{
	throttle->cpu_ns = cpu_since(throttle);
	throttle->cpu_sum_ns += (double)throttle->cpu_ns;
	gather_calls(throttle);
	throttle->change_count = xp_budget_tick(&throttle->budget, xp_clock_ns(throttle->options.clock, now_tsc),
						throttle->cpu_ns, throttle->changes, XP_THROTTLE_MAX);
	if (throttle->change_count)
		start_work(throttle);
}

int xp_throttle_run(struct xp_throttle *throttle, uint64_t mark_tsc)
{
	if (throttle->change_count) {
		if (!__atomic_load_n(&throttle->done, __ATOMIC_ACQUIRE) || throttle->done_tsc >= mark_tsc)
			return 0;
		finish_work(throttle);
	}
	if (mark_tsc - throttle->last_tick_tsc < xp_clock_ticks(throttle->options.clock, TICK_NS))
		return 0;
	if (throttle->last_tick_tsc)
		tick(throttle, mark_tsc);
	else
		cpu_since(throttle); /* from here on */
	throttle->last_tick_tsc = mark_tsc;
	return 0;
}

void xp_throttle_end(struct xp_throttle *throttle)
{
	uint64_t now;

	wait_for_work(throttle);
	gather_calls(throttle);
	throttle->cpu_sum_ns += (double)cpu_since(throttle);
	now = xp_clock_now_tsc();
	for (size_t i = 0; i < throttle->count; i++) {
		struct xp_throttled *one = &throttle->all[i];

		if (one->state != XP_BUDGET_RECORDED)
			one->out_ticks += now - one->since_tsc;
		if (one->state == XP_BUDGET_COUNTED)
			one->counted_ticks += now - one->since_tsc;
		one->since_tsc = now;
	}
}

const struct xp_throttled *xp_throttle_list(const struct xp_throttle *throttle, size_t *count)
{
	*count = throttle->count;
	return throttle->all;
}

double xp_throttle_spent(const struct xp_throttle *throttle)
{
	return throttle->cpu_sum_ns > 0 ? XP_MIN(throttle->tracing_sum_ns / throttle->cpu_sum_ns, 1.0) : 0;
}
